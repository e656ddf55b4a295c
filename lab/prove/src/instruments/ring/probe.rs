//! Requests for the keys that a fault concerns: reads or writes, one after the other.
//!
//! Keys that are read hold their own name. Writes go to keys that were never written, so that each
//! acknowledged one can be read later.

use std::time::Duration;

use super::answered::{Answered, Ended};
use super::open_loop::Asks;
use measure::clock::mono_ns;

/// Time between two requests of a stream.
pub const PROBE_PACE: Duration = Duration::from_millis(5);
/// What is written.
const VALUE: &str = "probe";

/// One kind of requests, for keys of one place.
pub struct Stream {
    /// Whether it writes.
    pub writes: bool,
    /// The key of its next request; none where there are no requests.
    next_key: Option<Box<dyn FnMut() -> String + Send>>,
    /// What was seen of each request.
    pub seen: Vec<Answered>,
    /// The keys whose writes were acknowledged.
    pub written: Vec<String>,
}

impl Stream {
    /// Reads or writes of the keys that `next_key` names, one after the other. Keys that are read
    /// hold their own name.
    pub fn new(writes: bool, next_key: impl FnMut() -> String + Send + 'static) -> Self {
        let next_key: Box<dyn FnMut() -> String + Send> = Box::new(next_key);
        Self { writes, next_key: Some(next_key), seen: Vec::new(), written: Vec::new() }
    }

    /// A stream of no requests.
    pub fn empty() -> Self {
        Self { next_key: None, ..Self::new(false, String::new) }
    }
}

impl Asks for Stream {
    type Asked = String;

    fn next(&mut self) -> Option<(String, String)> {
        let key = self.next_key.as_mut()?();
        let request = match self.writes {
            true => format!("set {key} 0 0 {}\r\n{VALUE}\r\n", VALUE.len()),
            false => format!("get {key}\r\n"),
        };
        Some((key, request))
    }

    fn answered(&mut self, key: String, sent_ns: u64, reply: &[u8]) {
        let reply = String::from_utf8_lossy(reply);
        let ended = if reply.is_empty() {
            Ended::Closed
        } else if self.writes {
            match reply.trim_end() {
                "STORED" => Ended::Well,
                line => Ended::of_error(line),
            }
        } else if reply == read_reply(&key) {
            Ended::Well
        } else if reply == "END\r\n" {
            Ended::Lost
        } else {
            Ended::of_error(reply.trim_end())
        };
        if self.writes && ended == Ended::Well {
            self.written.push(key);
        }
        self.seen.push(Answered { sent_ns, done_ns: mono_ns(), ended });
    }
}

/// What a read of `key` is answered.
fn read_reply(key: &str) -> String {
    format!("VALUE {key} 0 {}\r\n{key}\r\nEND\r\n", key.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_judged_by_what_was_sent() {
        let cases = [
            (true, "STORED\r\n", Ended::Well),
            (true, "SERVER_ERROR in doubt: x\r\n", Ended::InDoubt),
            (false, "VALUE k 0 1\r\nk\r\nEND\r\n", Ended::Well),
            (false, "VALUE k 0 1\r\nj\r\nEND\r\n", Ended::Wrong),
            (false, "END\r\n", Ended::Lost),
            (false, "", Ended::Closed),
        ];
        for (writes, reply, expected) in cases {
            let mut stream = Stream::new(writes, || "k".to_owned());
            stream.answered("k".to_owned(), 0, reply.as_bytes());
            assert_eq!(stream.seen[0].ended, expected, "{reply:?}");
            let stored = usize::from(writes && expected == Ended::Well);
            assert_eq!(stream.written.len(), stored, "{reply:?}");
        }
    }
}
