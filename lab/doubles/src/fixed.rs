//! A connection on which messages of one length are answered by messages of one length.
//!
//! The kernel's cost of moving bytes and nothing else: one `recv` and one `send` for all that a
//! readable event brings, no parser, no look at the bytes. Both ends of the floor use it, the null
//! server and the ping-pong. Invariants: `part_bytes` is less than a message; what is owed ends
//! with a whole message, so what is left of a cut one is found from the end of the ready bytes.

use std::os::fd::OwnedFd;

use measure::account::Account;
use rustix::io::Errno;

use crate::listener::{receive, send};

/// The messages of all connections: the length of one that comes, and copies of one that goes.
pub(crate) struct Messages {
    pub incoming_bytes: usize,
    pub outgoing_bytes: usize,
    /// Whole outgoing messages, so that a batch is one `send`.
    pub ready: Vec<u8>,
}

/// How far the messages of one connection are.
#[derive(Default)]
pub(crate) struct Progress {
    /// Bytes of an incoming message that is not whole.
    part_bytes: usize,
    /// Bytes of outgoing messages that are not sent.
    owed_bytes: usize,
}

/// What was moved: whole messages received, calls of `recv` that returned bytes, calls of `send`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moved {
    pub messages: u64,
    pub recvs: u64,
    pub sends: u64,
}

impl Messages {
    /// As much of `owed_bytes` as is ready, from where the last send stopped.
    fn batch(&self, owed_bytes: usize) -> &[u8] {
        let ready_bytes = self.ready.len();
        if owed_bytes <= ready_bytes {
            return &self.ready[ready_bytes - owed_bytes..];
        }
        let one = self.outgoing_bytes;
        &self.ready[(one - owed_bytes % one) % one..]
    }

    /// Receives what is there, and sends a message for each whole one.
    #[inline]
    pub fn turn(
        &self,
        socket: &OwnedFd,
        progress: &mut Progress,
        buffer: &mut [u8],
        moved: &mut Moved,
    ) -> Result<(), Errno> {
        loop {
            let received = receive(socket, buffer)?;
            let whole = progress.whole(received, self.incoming_bytes);
            moved.recvs += u64::from(received > 0);
            moved.messages += whole as u64;
            progress.owed_bytes += whole * self.outgoing_bytes;
            while progress.owed_bytes > 0 {
                let sent = send(socket, self.batch(progress.owed_bytes))?;
                if sent == 0 {
                    break;
                }
                moved.sends += 1;
                progress.owed_bytes -= sent;
            }
            if received < buffer.len() {
                return Ok(());
            }
        }
    }
}

impl Progress {
    /// A connection that begins with `owed_bytes` of whole messages to send.
    pub fn owing(owed_bytes: usize) -> Self {
        Self { part_bytes: 0, owed_bytes }
    }

    /// Counts whole messages of `message_bytes` when `bytes` more have come.
    fn whole(&mut self, bytes: usize, message_bytes: usize) -> usize {
        let total = self.part_bytes + bytes;
        self.part_bytes = total % message_bytes;
        total / message_bytes
    }
}

/// CPU time of the calling thread, in seconds.
pub(crate) fn cpu_s() -> f64 {
    Account::of_this_thread().cpu_ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_across_cuts() {
        let mut progress = Progress::default();
        let counts = [3, 4, 1, 14].map(|bytes| progress.whole(bytes, 7));
        assert_eq!((counts, progress.part_bytes), ([0, 1, 0, 2], 1));
    }

    #[test]
    fn a_rest_begins_where_the_last_send_stopped() {
        let ready = b"abcabc".to_vec();
        let messages = Messages { incoming_bytes: 1, outgoing_bytes: 3, ready };
        for (owed_bytes, batch) in [(3, &b"abc"[..]), (2, b"bc"), (6, b"abcabc"), (8, b"bcabc")] {
            assert_eq!(messages.batch(owed_bytes), batch, "{owed_bytes}");
        }
    }
}
