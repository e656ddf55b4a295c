//! A request that is written as text and parsed again is the same request, and there is one text of
//! each.

mod common;

use common::{COMMANDS, input, word};
use memcache::{LINE_BYTES_MAX, Limits, Parsed, Request, parse, write};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

const LIMITS: Limits = Limits { value_bytes_max: 100, multiget_line_bytes_max: 4096 };

/// The request that `input` begins with.
fn request(input: &[u8]) -> Request<'_> {
    match parse(input, &LIMITS) {
        Parsed::Request { request, .. } => request,
        other => panic!("{} is {other:?}", String::from_utf8_lossy(input)),
    }
}

fn written(request: &Request<'_>) -> Vec<u8> {
    let mut out = b"before".to_vec();
    write(request, &mut out);
    out.split_off(6)
}

/// What a request says, without the spaces between its words.
fn meaning(request: &Request<'_>) -> String {
    match *request {
        Request::Get { keys, with_cas } => {
            format!("Get {with_cas} {:?}", keys.collect::<Vec<_>>())
        }
        Request::Gat { exptime, keys, with_cas } => {
            format!("Gat {exptime} {with_cas} {:?}", keys.collect::<Vec<_>>())
        }
        Request::Stats(words) => format!("Stats {:?}", words.collect::<Vec<_>>()),
        Request::Watch(words) => format!("Watch {:?}", words.collect::<Vec<_>>()),
        Request::MetaGet(args) | Request::MetaDelete(args) => {
            format!("{} {}", name_of(request), flags(&args))
        }
        Request::MetaArith { args, direction } => {
            format!("MetaArith {direction:?} {}", flags(&args))
        }
        Request::MetaSet { args, mode, value } => {
            format!("MetaSet {mode:?} {value:?} {}", flags(&args))
        }
        other => format!("{other:?}"),
    }
}

fn name_of(request: &Request<'_>) -> &'static str {
    if matches!(request, Request::MetaGet(_)) { "MetaGet" } else { "MetaDelete" }
}

/// All that can be read of a meta command's flags.
fn flags(args: &memcache::MetaArgs<'_>) -> String {
    let (key, of) = (args.key, &args.flags);
    let marks = [of.quiet(), of.wants_value(), of.no_bump(), of.invalidate(), of.remove_value()];
    let times = [of.ttl(), of.vivify(), of.recache()];
    let numbers = (of.cas(), of.cas_new(), of.delta(), of.initial(), of.client_flags());
    let returns: Vec<_> = of.returns().collect();
    format!("{key:?} {marks:?} {times:?} {numbers:?} {returns:?}")
}

#[test]
fn each_request_has_one_text() {
    let long = "k".repeat(250);
    let long_get = format!("get {long} {long}1 x\r\n");
    let same: [&str; 49] = [
        "get k\r\n",
        "gets k k2\tx k3\r\n",
        &long_get,
        "gat -1 k\r\n",
        "gats 2147483647 k k2\r\n",
        "set k 4294967295 -9223372036854775808 3\r\n\r\n\r\r\n",
        "add k 0 0 0 noreply\r\n\r\n",
        "replace k 1 2 3\r\nabc\r\n",
        "append k 0 0 1\r\na\r\n",
        "prepend k 0 0 1 noreply\r\na\r\n",
        "cas k 0 0 1 18446744073709551615\r\na\r\n",
        "cas noreply 0 0 1 7 noreply\r\na\r\n",
        "delete k\r\n",
        "delete k noreply\r\n",
        "delete noreply noreply\r\n",
        "delete noreply 0\r\n",
        "delete k\r\r\n",
        "incr k 1\r\n",
        "decr noreply 18446744073709551615 noreply\r\n",
        "touch k -1\r\n",
        "touch k 7 noreply\r\n",
        "mg k\r\n",
        "mg Zm9v s v b t Oabc k q\r\n",
        "mg k N30 R5 T-1 E9 vjunk\r\n",
        "ms k 3\r\nabc\r\n",
        "ms Zm9v 2 b MA I C5 F4294967295 T0 q\r\n\r\n\r\n",
        "md k q I x\r\n",
        "ma k MD N0 J13 D7 v\r\n",
        "ma k M+\r\n",
        "me k\r\n",
        "me Zm9v b\r\n",
        "mn\r\n",
        "stats\r\n",
        "stats cachedump 1 0\r\n",
        "watch fetchers mutations\r\n",
        "flush_all\r\n",
        "flush_all -5 noreply\r\n",
        "flush_all noreply\r\n",
        "version\r\n",
        "verbosity 1 noreply\r\n",
        "quit\r\n",
        "cache_memlimit 64\r\n",
        "shutdown graceful\r\n",
        "lru_crawler metadump all\r\n",
        "slabs reassign -1 2\r\n",
        "slabs automove freeratio 0.005 noreply\r\n",
        "lru tune 20 40 0.2 2\r\n",
        "refresh_certs noreply\r\n",
        "config get cluster\r\n",
    ];
    for text in same {
        let written = written(&request(text.as_bytes()));
        assert_eq!(String::from_utf8_lossy(&written), text);
    }
}

#[test]
fn what_means_the_same_has_the_same_text() {
    let shorter = [
        ("get   k  \n", "get k\r\n"),
        ("set  k 007 -0 01  \n?\r\n", "set k 7 0 1\r\n?\r\n"),
        ("delete k 0\r\n", "delete k\r\n"),
        ("delete noreply x y\r\n", "delete noreply 0\r\n"),
        ("incr k 5 of no use\r\n", "incr k 5\r\n"),
        ("mg k   s  v \r\n", "mg k s v\r\n"),
        ("me k s v\r\n", "me k\r\n"),
        ("  lru temp_ttl -7\r\n", "lru temp_ttl -1\r\n"),
        ("slabs automove ratio 8e-1\r\n", "slabs automove ratio 0.8\r\n"),
        ("flush_all 0 x\r\n", "flush_all 0\r\n"),
        ("shutdown\n", "shutdown\r\n"),
    ];
    for (text, want) in shorter {
        let written = written(&request(text.as_bytes()));
        assert_eq!(String::from_utf8_lossy(&written), want, "{text}");
        assert_eq!(meaning(&request(&written)), meaning(&request(text.as_bytes())), "{text}");
    }
}

/// A client can send lines of the longest length; written again they are not refused.
#[test]
fn the_longest_lines_are_taken_again() {
    for (start, bytes_max) in
        [("mg k v", 2048), ("stats ", 2048), ("get k ", 4096), ("gats 1 k ", 4096)]
    {
        for end in ["\n", "\r\n", "\r\r\n", "\r \n"] {
            // The line end may stand at `bytes_max` at most.
            let filler = "x".repeat(bytes_max + 1 - start.len() - end.len());
            let filler = filler.as_bytes().chunks(200).map(|part| String::from_utf8_lossy(part));
            let filler = filler.collect::<Vec<_>>().join(" ");
            let filler = if start == "mg k v" { filler.replace(' ', "x") } else { filler };
            let text = &format!("{start}{filler}")[..bytes_max + 1 - end.len()];
            let line = format!("{text}{end}").into_bytes();
            assert_eq!(line.len(), bytes_max + 1);
            let before = request(&line);
            let again = written(&before);
            assert!(again.len() <= line.len(), "{start} {end:?}");
            assert_eq!(meaning(&request(&again)), meaning(&before), "{start} {end:?}");
        }
    }
}

/// A line with few words, which are mostly those that its command needs.
fn short() -> impl Strategy<Value = Vec<u8>> {
    let command = proptest::sample::select(COMMANDS);
    let words = proptest::collection::vec(word(), 0..8);
    let value = proptest::collection::vec(any::<u8>(), 0..12);
    (command, words, value).prop_map(|(command, words, value)| {
        let length_at = match command {
            "set" | "add" | "replace" | "append" | "prepend" | "cas" => 3,
            "ms" => 1,
            _ => usize::MAX,
        };
        let mut line = command.as_bytes().to_vec();
        for (at, word) in words.iter().enumerate() {
            line.push(b' ');
            if at == length_at {
                line.extend(value.len().to_string().into_bytes());
            } else {
                line.extend(word);
            }
        }
        [&line, &b"\r\n"[..], &value, b"\r\n"].concat()
    })
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(8192))]

    #[test]
    fn what_is_written_means_what_was_sent(
        input in prop_oneof![input(), short()],
        more in word(),
    ) {
        if let Parsed::Request { request: sent, consumed } = parse(&input, &LIMITS) {
            let text = written(&sent);
            let longer = [&text[..], &more].concat();
            let Parsed::Request { request: again, consumed: all } = parse(&longer, &LIMITS) else {
                panic!("{text:?} is no request");
            };
            prop_assert_eq!(all, text.len());
            prop_assert_eq!(meaning(&again), meaning(&sent));
            prop_assert_eq!(written(&again), &text[..]);
            prop_assert!(text.len() <= consumed || text.len() < LINE_BYTES_MAX);
        }
    }
}
