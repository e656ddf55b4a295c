//! Every request that is refused: with which line, and how much input belongs to it.

use memcache::{KeyToken, Limits, Parsed, Refusal, parse};

/// The longest value is short, so that a value that is too large is short too.
const LIMITS: Limits = Limits { value_bytes_max: 10, multiget_line_bytes_max: 4096 };

/// A refusal, with its line in place of its reason.
#[derive(Debug, PartialEq)]
struct Refused {
    line: String,
    consumed: usize,
    swallow: u64,
    close: bool,
    quiet: bool,
}

impl Refused {
    /// The error line `line` for `consumed` bytes of input, and nothing else.
    fn alone(line: &str, consumed: usize) -> Self {
        Self { line: line.into(), consumed, swallow: 0, close: false, quiet: false }
    }
}

fn refused(input: &[u8]) -> Refused {
    match parse(input, &LIMITS) {
        Parsed::Refused { refusal, consumed, swallow, close, quiet } => {
            let line = String::from_utf8(refusal.line().to_vec()).expect("refusals are ASCII");
            let line = line.trim_end().into();
            Refused { line, consumed, swallow, close, quiet }
        }
        other => panic!("{}: {other:?}", String::from_utf8_lossy(input)),
    }
}

const FORMAT: &str = "CLIENT_ERROR bad command line format";
const EXPTIME: &str = "CLIENT_ERROR invalid exptime argument";
const DELTA: &str = "CLIENT_ERROR invalid numeric delta argument";
const TOKEN: &str = "CLIENT_ERROR bad token in command line format";
const INVALID: &str = "CLIENT_ERROR invalid flag";
const DUPLICATE: &str = "CLIENT_ERROR duplicate flag";
const EITHER: &str = "CLIENT_ERROR invalid or duplicate flag";

fn long_key() -> String {
    "k".repeat(251)
}

/// Lines that are refused alone, whatever comes after them.
fn assert_lines(cases: &[(&str, &str, bool)]) {
    for (line, want, quiet) in cases {
        let line = line.replace("LONG", &long_key());
        for end in ["\r\n", "\n"] {
            let input = format!("{line}{end}get next\r\n").into_bytes();
            let want = Refused { quiet: *quiet, ..Refused::alone(want, line.len() + end.len()) };
            assert_eq!(refused(&input), want, "{line}");
        }
    }
}

#[test]
fn lines_without_a_value() {
    assert_lines(&[
        ("boguscommand slkdsldkfjsd", "ERROR", false),
        ("boguscommand noreply", "ERROR", true),
        ("GET k", "ERROR", false),
        ("Get k", "ERROR", false),
        (" get k", "ERROR", false),
        ("     ", "ERROR", false),
        ("getk", "ERROR", false),
        ("get\tk", "ERROR", false),
        ("mx k", "ERROR", false),
        ("stat", "ERROR", false),
        ("extstore max_sleep 1", "ERROR", false),
        ("get", FORMAT, false),
        ("get ", FORMAT, false),
        ("gets", FORMAT, false),
        ("gat", FORMAT, false),
        ("gat 1", FORMAT, false),
        ("gat x k", EXPTIME, false),
        ("gats 2147483648 k", EXPTIME, false),
        ("set k 0 0", FORMAT, false),
        ("set k 0 0 -1", FORMAT, false),
        ("set k 0 0 x", FORMAT, false),
        ("set k 0 0 4294967295", FORMAT, false),
        ("set k 0 0 2147483646", FORMAT, false),
        ("set k 0 0 x noreply", FORMAT, false),
        ("ms k", FORMAT, false),
        ("ms k S2", FORMAT, false),
        ("ms k -1", FORMAT, false),
        ("ms k 2 !", FORMAT, false),
        ("delete", FORMAT, false),
        ("delete LONG", FORMAT, false),
        ("delete LONG noreply", FORMAT, true),
        ("incr k", FORMAT, false),
        ("incr noreply", FORMAT, false),
        ("incr k -1", DELTA, false),
        ("incr k x noreply", DELTA, true),
        ("decr k 18446744073709551616", DELTA, false),
        ("incr LONG 1", FORMAT, false),
        ("touch k", FORMAT, false),
        ("touch k x", EXPTIME, false),
        ("touch k 2147483648", EXPTIME, false),
        ("touch LONG 1 noreply", FORMAT, true),
    ]);
}

#[test]
fn lines_of_operators() {
    assert_lines(&[
        ("flush_all x", EXPTIME, false),
        ("flush_all x noreply", EXPTIME, true),
        ("verbosity", FORMAT, false),
        ("verbosity noreply", FORMAT, true),
        ("verbosity -1", FORMAT, false),
        ("cache_memlimit", "ERROR", false),
        ("cache_memlimit x", "ERROR", false),
        ("cache_memlimit 7", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m", false),
        (
            "cache_memlimit 1000000001",
            "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
            false,
        ),
        ("shutdown now", "CLIENT_ERROR invalid shutdown mode", false),
        ("lru_crawler", "ERROR", false),
        ("lru_crawler metadump", "ERROR", false),
        ("lru_crawler metadump all more", "ERROR", false),
        ("lru_crawler enable noreply", "ERROR", true),
        ("lru_crawler sleep x", FORMAT, false),
        ("lru_crawler sleep 1000001", "CLIENT_ERROR sleep must be one second or less", false),
        ("lru_crawler tocrawl x", FORMAT, false),
        ("slabs", "ERROR", false),
        ("slabs reassign 1", "ERROR", false),
        ("slabs reassign 1 x", FORMAT, false),
        ("slabs automove", "ERROR", false),
        ("slabs automove 3", "ERROR", false),
        ("slabs automove x", FORMAT, false),
        ("slabs automove ratio x", "ERROR", false),
        ("slabs automove window x", FORMAT, false),
        ("slabs automove window 2", "CLIENT_ERROR automove window too low or too high", false),
        ("lru", "ERROR", false),
        ("lru mode", "ERROR", false),
        ("lru mode round", "ERROR", false),
        ("lru tune 1 2 3", "ERROR", false),
        ("lru tune 50 31 1.0 1.0", "ERROR hot and warm pcts must not exceed 80", false),
        ("lru tune 50 30 0 1.0", "ERROR hot/warm age factors must be greater than 0", false),
        ("lru temp_ttl x", "ERROR", false),
    ]);
}

#[test]
fn meta_lines() {
    assert_lines(&[
        ("mg", FORMAT, false),
        ("mg ", FORMAT, false),
        ("mg LONG", FORMAT, false),
        ("mg LONG v v", FORMAT, false),
        ("mg foo m o o o o o o o o o", INVALID, false),
        ("mg foo v 1", INVALID, false),
        ("mg foo _", INVALID, false),
        ("mg foo v k v", DUPLICATE, false),
        ("mg foo O1 O2", DUPLICATE, false),
        ("mg foo v v !", FORMAT, false),
        ("mg foo \u{e9}", FORMAT, false),
        ("mg foo {", FORMAT, false),
        ("mg foo T", TOKEN, false),
        ("mg foo Tx", TOKEN, false),
        ("mg foo T2147483648", TOKEN, false),
        ("mg foo N-", TOKEN, false),
        ("mg foo R 30", INVALID, false),
        ("mg foo C-1", TOKEN, false),
        ("mg foo Ex", TOKEN, false),
        ("mg foo Dx", "CLIENT_ERROR invalid numeric delta value", false),
        ("mg foo Jx", "CLIENT_ERROR invalid numeric initial value", false),
        ("mg foo Dx Tx", TOKEN, false),
        ("mg foo Fx", FORMAT, false),
        ("mg foo F4294967296", FORMAT, false),
        ("mg fo! b", "CLIENT_ERROR error decoding key", false),
        ("mg foo b", "CLIENT_ERROR error decoding key", false),
        ("mg foo O0123456789012345678901234567890x", "CLIENT_ERROR opaque token too long", false),
        (
            "mg foo a b c d e f g h i j k l m n o p q r s",
            "CLIENT_ERROR options flags are too long",
            false,
        ),
        ("mg foo a b c d e f g h i j k l m n o p q r", INVALID, false),
        ("mg foo b c f h k l O q s t u v C E I N R T", TOKEN, false),
        (
            "mg foo b c f h k l O q s t u v C1 E1 I N1 R1 T1 D1",
            "CLIENT_ERROR options flags are too long",
            false,
        ),
        ("md", FORMAT, false),
        ("md foo v v", DUPLICATE, false),
        ("ma", FORMAT, false),
        ("ma foo v v", EITHER, false),
        ("ma foo Nx", EITHER, false),
        ("ma foo Dx", EITHER, false),
        ("ma LONG", EITHER, false),
        ("ma foo !", FORMAT, false),
        ("ma foo MX", "CLIENT_ERROR invalid mode for ma M token", false),
        ("ma foo M", "CLIENT_ERROR invalid mode for ma M token", false),
        (
            "ma foo M+ O0123456789012345678901234567890x",
            "CLIENT_ERROR opaque token too long",
            false,
        ),
        ("me", FORMAT, false),
        ("me LONG", FORMAT, false),
        ("me foo b", FORMAT, false),
        ("me foo !", FORMAT, false),
    ]);
}

/// Lines that are refused together with the value that they announce.
#[test]
fn values_are_skipped_when_their_length_is_known() {
    let cases = [
        ("set LONG 0 0 3", FORMAT, false),
        ("set LONG 0 0 3 noreply", FORMAT, true),
        ("set k x 0 3", FORMAT, false),
        ("set k -1 0 3", FORMAT, false),
        ("set k 4294967296 0 3", FORMAT, false),
        ("set k 0 x 3", FORMAT, false),
        ("set k 0 9223372036854775808 3 noreply", FORMAT, true),
        ("cas k 0 0 3", FORMAT, false),
        ("cas k 0 0 3 noreply", FORMAT, true),
        ("cas k 0 0 3 -1", FORMAT, false),
        ("set k 0 0 11", "SERVER_ERROR object too large for cache", false),
        ("add k 0 0 11 noreply", "SERVER_ERROR object too large for cache", true),
        ("set k 0 0 2147483645", "SERVER_ERROR object too large for cache", false),
        ("ms k 11 q", "SERVER_ERROR object too large for cache", false),
        ("ms LONG 3", FORMAT, false),
        ("ms k 3 v v", DUPLICATE, false),
        ("ms k 3 w", INVALID, false),
        ("ms k 3 T", TOKEN, false),
        ("ms k 3 Fx", FORMAT, false),
        ("ms k 3 MZ", "CLIENT_ERROR invalid mode for ms M token", false),
        ("ms k 3 M", "CLIENT_ERROR invalid mode for ms M token", false),
        ("ms k 3 b", "CLIENT_ERROR error decoding key", false),
    ];
    for (line, want, quiet) in cases {
        let line = line.replace("LONG", &long_key());
        let place = if line.starts_with("ms") { 2 } else { 4 };
        let bytes: u64 =
            line.split(' ').nth(place).and_then(|word| word.parse().ok()).expect("a length");
        let input = format!("{line}\r\n").into_bytes();
        let want = Refused { swallow: bytes + 2, quiet, ..Refused::alone(want, input.len()) };
        assert_eq!(refused(&input), want, "{line}");
    }
}

#[test]
fn a_value_too_large_names_the_key_whose_item_must_be_deleted() {
    let unlink = |input: &[u8]| match parse(input, &LIMITS) {
        Parsed::Refused { refusal: Refusal::TooLarge { unlink }, .. } => {
            unlink.map(|key: KeyToken<'_>| key.key(&mut [0; 250]).as_bytes().to_vec())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(unlink(b"set k 0 0 11\r\n"), Some(b"k".to_vec()));
    assert_eq!(unlink(b"add k 0 0 11\r\n"), None);
    assert_eq!(unlink(b"append k 0 0 11\r\n"), None);
    assert_eq!(unlink(b"ms Zm9v 11 b\r\n"), Some(b"foo".to_vec()));
    assert_eq!(unlink(b"ms foo 11 MA\r\n"), None);
    assert_eq!(unlink(b"ms foo 11 MP\r\n"), None);
    assert_eq!(unlink(b"ms foo 11 MR\r\n"), Some(b"foo".to_vec()));
}

#[test]
fn a_value_ends_with_both_bytes() {
    for (input, consumed, quiet) in [
        (&b"set k 0 0 3\r\nabcdefg\r\n"[..], 18, false),
        (b"set k 0 0 3\r\nabc\n\r", 18, false),
        (b"set k 0 0 3 noreply\r\nabc..", 26, true),
        (b"add k 0 0 3\r\nabcd\r\n", 18, false),
        (b"ms k 3 q\r\nabcd\r\n", 15, false),
    ] {
        let want = Refused { quiet, ..Refused::alone("CLIENT_ERROR bad data chunk", consumed) };
        assert_eq!(refused(input), want, "{}", String::from_utf8_lossy(input));
    }
}

#[test]
fn lines_shorter_than_any_command_are_malformed() {
    for line in ["\r\n", "\n", "a\n", "mn\n", "a\r\n", " \n"] {
        assert_eq!(refused(line.as_bytes()), Refused::alone(FORMAT, line.len()), "{line:?}");
    }
}

#[test]
fn lines_that_are_too_long_close_the_connection() {
    let close = |line, consumed| Refused { close: true, ..Refused::alone(line, consumed) };
    let long = "x".repeat(2049);
    for input in [long.clone(), format!("{long}\r\n"), format!("delete {long}"), " ".repeat(3000)] {
        assert_eq!(refused(input.as_bytes()), close("", input.len()));
    }
    assert!(matches!(parse(&[b'x'; 2048], &LIMITS), Parsed::Incomplete { needed: 2049 }));
    for command in ["get", "gets", "gat 0", "gats 0"] {
        let keys = " key".repeat(1000);
        let line = format!("{command}{keys}");
        let whole = format!("{line}\r\n");
        assert!(matches!(
            parse(line.as_bytes(), &LIMITS),
            Parsed::Incomplete { needed } if needed == line.len() + 1
        ));
        assert!(matches!(parse(whole.as_bytes(), &LIMITS), Parsed::Request { .. }));
        let longer = format!("{line}{keys}");
        assert_eq!(refused(longer.as_bytes()), close("", longer.len()));
    }
    let mut binary = [7; 30];
    (binary[0], binary[1]) = (0x80, 0x0b);
    binary[12..16].copy_from_slice(b"opaq");
    let words = "the binary protocol is not spoken here";
    assert_eq!(refused(&binary), close(words, binary.len()));
    assert!(matches!(parse(&binary[..1], &LIMITS), Parsed::Incomplete { needed: 24 }));
    assert!(matches!(parse(&binary[..23], &LIMITS), Parsed::Incomplete { needed: 24 }));
    let Parsed::Refused { refusal, .. } = parse(&binary, &LIMITS) else { panic!("it is whole") };
    let mut answer = Vec::new();
    refusal.write(&mut answer);
    let header = b"\x81\x0b\0\0\0\0\0\x83\0\0\0\x26opaq\0\0\0\0\0\0\0\0";
    assert_eq!(answer, [&header[..], words.as_bytes()].concat());
    let http = b"GET / HTTP/1.1\r\nHost: x\r\n";
    assert_eq!(refused(http), close("", 16));
}
