//! Any bytes as the input of a connection: no panic, nothing is consumed that was not sent, and the
//! result is the same however the bytes are split. What is written of a request is one, too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memcache::{LINE_BYTES_MAX, Limits, Parsed, Request, parse, write};

/// Small limits, so that short inputs can exceed them.
const LIMITS: Limits = Limits { value_bytes_max: 100, multiget_line_bytes_max: 3000 };

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    while !rest.is_empty() {
        let parsed = parse(rest, &LIMITS);
        let consumed = match parsed {
            Parsed::Incomplete { needed } => {
                assert!(needed > rest.len());
                return;
            }
            Parsed::Request { request, consumed } => {
                walk(request);
                assert_canonical(request);
                consumed
            }
            Parsed::Refused { close: true, .. } => return,
            Parsed::Refused { consumed, refusal, .. } => {
                assert!(refusal.line().ends_with(b"\r\n"));
                consumed
            }
        };
        assert!((1..=rest.len()).contains(&consumed));
        assert_eq!(parse(&rest[..consumed], &LIMITS), parsed);
        for len in prefixes(consumed) {
            match parse(&rest[..len], &LIMITS) {
                Parsed::Incomplete { needed } => assert!((len + 1..=consumed).contains(&needed)),
                other => assert!(len > LINE_BYTES_MAX, "{len} of {consumed}: {other:?}"),
            }
        }
        rest = &rest[consumed..];
    }
});

/// The lengths of the proper prefixes that are tried: all of a short request, and of a long one the
/// shortest and the longest.
fn prefixes(consumed: usize) -> impl Iterator<Item = usize> {
    const EDGE: usize = 64;
    (0..consumed).filter(move |len| *len < EDGE || consumed - len < EDGE)
}

/// The text of a request is a request, and its text is the same.
fn assert_canonical(request: Request<'_>) {
    let (mut text, mut again) = (Vec::new(), Vec::new());
    write(&request, &mut text);
    let Parsed::Request { request: parsed, consumed } = parse(&text, &LIMITS) else {
        panic!("{} is no request", text.escape_ascii());
    };
    write(&parsed, &mut again);
    assert_eq!((again, consumed), (text.clone(), text.len()));
    assert_eq!(std::mem::discriminant(&parsed), std::mem::discriminant(&request));
}

/// Reads the parts of a request that are split only when they are read.
fn walk(request: Request<'_>) {
    match request {
        Request::Get { keys, .. } | Request::Gat { keys, .. } => {
            assert!(!keys.is_empty());
            for key in keys.flatten() {
                assert!(!key.as_bytes().contains(&b' '));
            }
        }
        Request::Stats(args) | Request::Watch(args) => {
            assert!(args.into_iter().all(|word| !word.is_empty()));
        }
        Request::Store(store) => assert!(store.value.len() <= 100),
        _ => {}
    }
}
