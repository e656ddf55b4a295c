//! Replies, or parts of them, that have come by their tickets.
//!
//! ```text
//! bytes  [ STORED\r\n | STORED\r\n | VALUE a 0 3\r\n... | ... ]
//! parts    ^ ticket     ^ ticket     ^ ticket             in the order in which they came
//! ```
//!
//! All that comes in a batch stands in one buffer, so that a short reply costs no memory of its
//! own.

use crate::ids::Ticket;

/// Memory that is kept for what comes next.
const KEEP_BYTES: usize = 64 << 10;
const KEEP_PARTS: usize = 4 << 10;

/// Parts of replies, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    bytes: Vec<u8>,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    ticket: Ticket,
    /// Where it ends in the bytes. It begins where the one before it ends.
    end: usize,
    last: bool,
}

impl Completions {
    /// One reply, as a whole.
    #[must_use]
    pub fn one(ticket: Ticket, bytes: &[u8]) -> Self {
        let mut one = Self::default();
        one.push(ticket, bytes, true);
        one
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds a part of the reply to the request of `ticket`, the last one or not.
    #[inline]
    pub fn push(&mut self, ticket: Ticket, bytes: &[u8], last: bool) {
        self.bytes.extend_from_slice(bytes);
        self.parts.push(Part { ticket, end: self.bytes.len(), last });
    }

    /// Whose reply each is a part of, its bytes, and whether the reply is complete with it.
    pub fn iter(&self) -> impl Iterator<Item = (Ticket, &[u8], bool)> {
        let mut begin = 0;
        self.parts.iter().map(move |part| {
            let bytes = &self.bytes[begin..part.end];
            begin = part.end;
            (part.ticket, bytes, part.last)
        })
    }

    /// Removes all. Keeps a bounded part of their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEEP_BYTES);
        self.parts.clear();
        self.parts.shrink_to(KEEP_PARTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ConnId, WorkerId};

    #[test]
    fn parts_come_out_as_they_went_in_and_little_memory_is_kept() {
        let ticket = |request| {
            let conn = ConnId { worker: WorkerId(0), index: request / 3, generation: 0 };
            Ticket { conn, request }
        };
        let text = |request: u32| vec![request as u8; request as usize % 700];
        let mut completions = Completions::default();
        for round in [1_u32, 10_000, 2, 0] {
            assert!(completions.is_empty());
            (0..round).for_each(|it| completions.push(ticket(it), &text(it), it % 3 == 0));
            let parts: Vec<_> = completions.iter().collect();
            assert_eq!(parts.len() as u32, round);
            for (part, it) in parts.into_iter().zip(0..) {
                assert_eq!(part, (ticket(it), &text(it)[..], it % 3 == 0));
            }
            completions.clear();
            assert!(completions.bytes.capacity() <= KEEP_BYTES);
            assert!(completions.parts.capacity() <= KEEP_PARTS);
        }
        let one = Completions::one(ticket(5), b"END\r\n");
        assert!(one.iter().eq([(ticket(5), &b"END\r\n"[..], true)]));
    }
}
