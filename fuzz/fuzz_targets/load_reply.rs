//! Any bytes as the replies of a server: no panic, each value as long as its header says, few bytes
//! kept between two reads, and the same tokens however the bytes are split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use load::protocol::{LINE_BYTES_MAX, Parser, Protocol, Token};

/// A header of the binary protocol, with the extras and the longest key after it.
const FRAME_BYTES_MAX: usize = 24 + 255 + u16::MAX as usize;

/// A token that was seen. The parts of a value are joined; other tokens are kept as text.
#[derive(Debug, PartialEq)]
enum Seen {
    Value { key: Vec<u8>, value_bytes: u32 },
    Data { bytes: Vec<u8>, last: bool },
    Other(String),
    Malformed,
}

fuzz_target!(|input: &[u8]| {
    let Some(([which, step], replies)) = input.split_first_chunk() else {
        return;
    };
    let protocol = if which % 2 == 0 { Protocol::Text } else { Protocol::Binary };
    let whole = tokens(protocol, replies, replies.len());
    assert_eq!(whole, tokens(protocol, replies, usize::from(*step)));
    let mut announced = 0;
    for seen in whole {
        match seen {
            Seen::Value { value_bytes, .. } => announced = value_bytes as usize,
            Seen::Data { bytes, last } => {
                assert!(if last { bytes.len() == announced } else { bytes.len() < announced });
            }
            _ => {}
        }
    }
});

/// The tokens of `replies`, which arrive in pieces of `step` bytes.
fn tokens(protocol: Protocol, replies: &[u8], step: usize) -> Vec<Seen> {
    let (mut parser, mut seen) = (Parser::new(protocol), Vec::new());
    let (mut from, mut to) = (0, 0);
    while to < replies.len() {
        to = (to + step.max(1)).min(replies.len());
        let mut left = &replies[from..to];
        loop {
            let before = left.len();
            let token = parser.next(&mut left);
            assert!(left.len() <= before);
            match token {
                Token::Incomplete => {
                    assert_eq!(left.len(), before);
                    break;
                }
                Token::Malformed(_) => {
                    // How much of a value with a wrong end is passed on depends on the pieces.
                    seen.pop_if(|seen| matches!(seen, Seen::Data { last: false, .. }));
                    seen.push(Seen::Malformed);
                    return seen;
                }
                Token::Value { key, value_bytes } => {
                    seen.push(Seen::Value { key: key.to_vec(), value_bytes });
                }
                Token::Data { bytes, last } => join(&mut seen, bytes, last),
                token => seen.push(Seen::Other(format!("{token:?}"))),
            }
        }
        from = to - left.len();
        let left_max = if protocol == Protocol::Text { LINE_BYTES_MAX } else { FRAME_BYTES_MAX };
        assert!(left.len() <= left_max, "{} bytes left over", left.len());
    }
    seen
}

/// Appends a part of a value to the token before it, if that is the same value.
fn join(seen: &mut Vec<Seen>, more: &[u8], end: bool) {
    match seen.last_mut() {
        Some(Seen::Data { bytes, last }) if !*last => {
            bytes.extend_from_slice(more);
            *last = end;
        }
        _ => seen.push(Seen::Data { bytes: more.to_vec(), last: end }),
    }
}
