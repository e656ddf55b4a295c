//! Inputs of connections: requests, and what is nearly one.

use proptest::prelude::{Just, Strategy, any, prop_oneof};

/// Every command, and two names of none.
pub const COMMANDS: &[&str] = &[
    "get",
    "gets",
    "gat",
    "gats",
    "set",
    "add",
    "replace",
    "append",
    "prepend",
    "cas",
    "delete",
    "incr",
    "decr",
    "touch",
    "mg",
    "ms",
    "md",
    "ma",
    "me",
    "mn",
    "stats",
    "flush_all",
    "version",
    "verbosity",
    "quit",
    "cache_memlimit",
    "shutdown",
    "lru_crawler",
    "slabs",
    "lru",
    "watch",
    "refresh_certs",
    "nonsense",
    "",
];

/// Words that have a meaning somewhere, and words that have none.
pub fn word() -> impl Strategy<Value = Vec<u8>> {
    const KNOWN: &[&str] = &[
        "0",
        "1",
        "-1",
        "3",
        "11",
        "65",
        "4294967295",
        "4294967296",
        "noreply",
        "k",
        "key",
        "Zm9v",
        "b",
        "v",
        "q",
        "T30",
        "N",
        "C7",
        "Oopaque",
        "MA",
        "MZ",
        "S",
        "F1",
        "graceful",
        "all",
        "automove",
        "mode",
        "flat",
        "HTTP/1.1",
        "-0",
        "007",
        "s",
        "E8",
        "MD",
        "I",
        "x",
        "ratio",
        "window",
        "0.25",
        "1e9",
        "tune",
        "sleep",
        "temp_ttl",
        "metadump",
        "tocrawl",
        "reassign",
        "",
    ];
    prop_oneof![
        4 => proptest::sample::select(KNOWN).prop_map(|word| word.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
        1 => (240_usize..260).prop_map(|len| vec![b'k'; len]),
    ]
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let command = proptest::sample::select(COMMANDS);
    let words = proptest::collection::vec(word(), 0..26);
    let end = prop_oneof![Just(&b"\r\n"[..]), Just(&b"\n"[..])];
    (command, words, end).prop_map(|(command, words, end)| {
        let mut line = command.as_bytes().to_vec();
        for word in words {
            line.push(b' ');
            line.extend(word);
        }
        line.extend(end);
        line
    })
}

/// A line, often one that announces the value after it.
pub fn input() -> impl Strategy<Value = Vec<u8>> {
    let value = proptest::collection::vec(any::<u8>(), 0..70);
    let announced = (value.clone(), any::<bool>(), word()).prop_map(|(value, meta, last)| {
        let mut input = if meta {
            format!("ms key {} ", value.len())
        } else {
            format!("set key 0 0 {} ", value.len())
        }
        .into_bytes();
        input.extend(last);
        input.extend(b"\r\n");
        input.extend(&value);
        input.extend(b"\r\n");
        input
    });
    let any_value = (line(), value).prop_map(|(line, value)| [line, value].concat());
    prop_oneof![announced, any_value, line(), proptest::collection::vec(any::<u8>(), 0..300)]
}
