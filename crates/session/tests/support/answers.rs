//! A stream of requests whose replies may be replaced by errors, and what checks that each has one
//! reply, in the order of the requests. This file is part of the tests of sessions and of drivers.

use std::collections::VecDeque;

use super::random::Random;

/// Keys that are read. Nothing changes their values.
pub const KEYS: usize = 64;

/// Every this many keys, a value is long.
const LONG_EVERY: usize = 16;

/// Bytes of a long value.
const LONG_BYTES: usize = 20_000;

/// The key of number `at`.
pub fn key(at: usize) -> String {
    format!("k{at}")
}

/// The value of that key.
pub fn value(at: usize) -> Vec<u8> {
    let len = if at.is_multiple_of(LONG_EVERY) { LONG_BYTES } else { at };
    (0..len).map(|byte| b'a' + ((byte + at) % 26) as u8).collect()
}

/// What the reply to a request must be, unless an error takes its place.
enum Expected {
    /// The values of these keys, then the end. An error may also take the place of the rest.
    Values(VecDeque<usize>),
    Stored,
}

/// The replies that are still expected, and what has come of the next one.
#[derive(Default)]
pub struct Answers {
    expected: VecDeque<Expected>,
    received: Vec<u8>,
    /// How many replies were errors.
    pub errors: usize,
}

impl Answers {
    /// Requests that `random` chooses; each of their replies is expected.
    pub fn ask(&mut self, random: &mut Random, requests: usize) -> Vec<u8> {
        let mut script = Vec::new();
        for _ in 0..requests {
            let long = if random.below(40) == 0 { 5000 + random.below(60_000) } else { 0 };
            let bytes = random.below(30) + long;
            match random.below(8) {
                0 => {
                    let keys: VecDeque<_> = (0..5).map(|_| random.below(KEYS)).collect();
                    let names: Vec<_> = keys.iter().map(|at| key(*at)).collect();
                    script.extend(format!("get {}\r\n", names.join(" ")).bytes());
                    self.expected.push_back(Expected::Values(keys));
                }
                1 | 2 => {
                    script.extend(format!("set s 0 0 {bytes}\r\n").bytes());
                    script.extend(vec![b'v'; bytes]);
                    script.extend(b"\r\n");
                    self.expected.push_back(Expected::Stored);
                }
                3 => {
                    script.extend(format!("set s 0 0 {bytes} noreply\r\n").bytes());
                    script.extend(vec![b'v'; bytes]);
                    script.extend(b"\r\n");
                }
                _ => {
                    let at = random.below(KEYS);
                    script.extend(format!("get {}\r\n", key(at)).bytes());
                    self.expected.push_back(Expected::Values([at].into()));
                }
            }
        }
        script
    }

    /// Whether every reply has come.
    pub fn is_complete(&self) -> bool {
        self.expected.is_empty() && self.received.is_empty()
    }

    /// Bytes that have come.
    ///
    /// # Panics
    /// When they are not what the next replies begin with.
    pub fn take(&mut self, bytes: &[u8]) {
        self.received.extend(bytes);
        let mut used = 0;
        while let Some(count) = self.take_one(used) {
            used += count;
        }
        self.received.drain(..used);
    }

    /// Takes a value or a line that begins at `from`, if all of it has come.
    fn take_one(&mut self, from: usize) -> Option<usize> {
        let rest = &self.received[from..];
        let line = &rest[..rest.iter().position(|byte| *byte == b'\n')? + 1];
        let shown = String::from_utf8_lossy(line);
        let expected = self.expected.front_mut();
        let next = expected.unwrap_or_else(|| panic!("no reply is expected: {shown:?}"));
        let is_last = match next {
            _ if line.starts_with(b"SERVER_ERROR ") => {
                self.errors += 1;
                true
            }
            Expected::Stored => {
                assert_eq!(shown, "STORED\r\n");
                true
            }
            Expected::Values(keys) => match keys.front() {
                None => {
                    assert_eq!(shown, "END\r\n");
                    true
                }
                Some(at) => {
                    let value = value(*at);
                    assert_eq!(shown, format!("VALUE {} 0 {}\r\n", key(*at), value.len()));
                    let whole = line.len() + value.len() + 2;
                    let found = rest.get(line.len()..whole)?;
                    assert!(found.starts_with(&value), "the value of {}", key(*at));
                    keys.pop_front();
                    return Some(whole);
                }
            },
        };
        if is_last {
            self.expected.pop_front();
        }
        Some(line.len())
    }
}
