//! Requests in several parts: several keys, or several ranges. Their parts are jobs.
//!
//! ```text
//! parts   [ left ][ left ][ asked ][ has come ][ asked ][ - ][ - ][ - ]
//!                         ^ next                        ^ begun
//! ```
//!
//! What has come leaves in the order of the parts. No more parts are asked for ahead of that than
//! have room if each is as long as the longest, of this request or of late, and none while the
//! client has not been sent what has left.

use crate::ring::job::Repeat;
use base::SliceId;
use session::{ConnId, Ticket};
use std::collections::VecDeque;

/// Bytes of parts that are asked for, or have come before their turn, if each is as long as the
/// longest one so far.
const AHEAD_BYTES: usize = 256 << 10;
/// Parts that are asked for before any has come, at most.
pub(crate) const AHEAD_FIRST: usize = 128;
/// What a part is taken to have before any has come to the worker.
pub(crate) const PART_BYTES_FIRST: usize = 16 << 10;
/// Bytes that leave before no more is asked for until they are sent.
const UNSENT_BYTES_MAX: usize = 256 << 10;
/// The length of a part that is counted at least.
const PART_BYTES_MIN: usize = 256;

/// What a request in several parts asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Values: those of all parts are put together, in the order of the keys.
    Values,
    /// That all parts are done.
    Done,
}

/// A part that was not begun: its text, and the slice that it is about.
pub(crate) type What = (Vec<u8>, SliceId);

/// What all parts of a request are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartOf {
    /// Whether they may be sent again.
    pub(crate) repeat: Repeat,
    /// The connection that asks, if copies may answer them.
    pub(crate) conn: Option<ConnId>,
}

/// A request in several parts.
pub(crate) struct Gather {
    ticket: Ticket,
    asks: Asks,
    part: PartOf,
    /// What has come of the parts that were begun, from `next` on.
    begun: VecDeque<Option<Vec<u8>>>,
    /// The first part that has not left.
    next: usize,
    /// The parts that were not begun.
    waiting: VecDeque<What>,
    /// Bytes of the longest part that has come; 0 before the first.
    longest: usize,
    /// Bytes that parts are expected to have: those of the longest of late.
    expected: usize,
    /// Bytes of the parts that have come before their turn.
    held: usize,
    /// Bytes that have left since it was known last that all are sent.
    unsent: usize,
}

/// What leaves of a request in several parts.
pub(crate) struct Leaving {
    pub(crate) ticket: Ticket,
    pub(crate) bytes: Vec<u8>,
    /// Whether that is all.
    pub(crate) last: bool,
}

const END: &[u8] = b"END\r\n";
const OK: &[u8] = b"OK\r\n";

impl Gather {
    pub(crate) fn new(
        ticket: Ticket,
        asks: Asks,
        part: PartOf,
        parts: impl IntoIterator<Item = What>,
    ) -> Self {
        let waiting = parts.into_iter().collect();
        let (begun, next, longest, held, unsent) = (VecDeque::new(), 0, 0, 0, 0);
        let expected = PART_BYTES_FIRST;
        Self { ticket, asks, part, begun, next, waiting, longest, expected, held, unsent }
    }

    /// Parts are expected to have that many bytes.
    pub(crate) fn expect(&mut self, bytes: usize) {
        self.expected = bytes;
    }

    /// The request.
    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// What its parts are.
    pub(crate) fn part(&self) -> PartOf {
        self.part
    }

    /// The parts that were not begun.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a part may be begun now.
    pub(crate) fn may_begin(&self) -> bool {
        let have_room = |bytes: usize| (AHEAD_BYTES / bytes.max(PART_BYTES_MIN)).max(1);
        let ahead = match self.longest {
            0 => have_room(self.expected).min(AHEAD_FIRST),
            longest => have_room(longest),
        };
        !self.waits_for_client() && !self.waiting.is_empty() && self.begun.len() < ahead
    }

    /// Whether no part is begun before the client has been sent what has left.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.unsent >= UNSENT_BYTES_MAX && !self.waiting.is_empty()
    }

    /// The client has been sent all that has left.
    pub(crate) fn sent(&mut self) {
        self.unsent = 0;
    }

    /// Begins the next part, if it may be begun now. Returns its number, and what it is.
    pub(crate) fn begin(&mut self) -> Option<(usize, What)> {
        let what = self.may_begin().then(|| self.waiting.pop_front())??;
        self.begun.push_back(None);
        Some((self.next + self.begun.len() - 1, what))
    }

    /// Whether the part of this number leaves as soon as it comes.
    pub(crate) fn is_next(&self, part: usize) -> bool {
        part == self.next
    }

    /// Bytes of the parts that have come before their turn.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Takes the reply to a part. Returns what leaves now. A reply that is not what was asked for
    /// is an error: it takes the place of the end.
    pub(crate) fn take(&mut self, part: usize, reply: Vec<u8>) -> Option<Leaving> {
        let place = self.begun.get_mut(part.checked_sub(self.next)?);
        let place = place.filter(|place| place.is_none())?;
        self.longest = self.longest.max(reply.len());
        self.held += reply.len();
        *place = Some(reply);
        let mut bytes = Vec::new();
        while let Some(part) = self.begun.pop_front_if(|first| first.is_some()).flatten() {
            self.next += 1;
            self.held -= part.len();
            let end = self.end();
            let Some(values) = part.strip_suffix(end) else {
                bytes.extend_from_slice(&part);
                // No other part leaves any more.
                self.begun.clear();
                self.waiting.clear();
                self.held = 0;
                return Some(Leaving { ticket: self.ticket, bytes, last: true });
            };
            bytes.extend_from_slice(values);
        }
        let last = self.begun.is_empty() && self.waiting.is_empty();
        self.unsent += bytes.len();
        if last {
            bytes.extend_from_slice(self.end());
        }
        (last || !bytes.is_empty()).then_some(Leaving { ticket: self.ticket, bytes, last })
    }

    /// What each part ends with, and the whole.
    fn end(&self) -> &'static [u8] {
        match self.asks {
            Asks::Values => END,
            Asks::Done => OK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::{ConnId, WorkerId};

    fn begun(asks: Asks, parts: usize) -> Gather {
        let conn = ConnId { worker: WorkerId(0), index: 0, generation: 0 };
        let ticket = Ticket { conn, request: 1 };
        let parts = (0..parts).map(|_| (Vec::new(), SliceId::of(b"k")));
        let mut gather = {
            let part = PartOf { repeat: Repeat::Always, conn: None };
            Gather::new(ticket, asks, part, parts)
        };
        gather.expect(PART_BYTES_MIN);
        begin_all(&mut gather);
        gather
    }

    /// Begins what may be begun, and returns the numbers.
    fn begin_all(gather: &mut Gather) -> Vec<usize> {
        std::iter::from_fn(|| gather.begin().map(|(part, _)| part)).collect()
    }

    #[test]
    fn values_leave_in_the_order_of_the_keys_and_an_error_ends_them() {
        let mut gather = begun(Asks::Values, 3);
        let value = |key: &str| format!("VALUE {key} 0 1\r\nx\r\nEND\r\n").into_bytes();
        assert!(gather.take(1, value("b")).is_none());
        let leaving = gather.take(0, value("a")).expect("two leave");
        let both = b"VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\nx\r\n";
        assert_eq!((leaving.bytes.as_slice(), leaving.last), (&both[..], false));
        assert!(gather.take(1, value("b")).is_none(), "it came twice");
        let leaving = gather.take(2, END.to_vec()).expect("the end");
        assert_eq!((leaving.bytes.as_slice(), leaving.last), (END, true));

        let mut gather = begun(Asks::Values, 2);
        let leaving = gather.take(0, b"SERVER_ERROR x\r\n".to_vec()).expect("an error");
        assert_eq!((leaving.bytes.as_slice(), leaving.last), (&b"SERVER_ERROR x\r\n"[..], true));
        assert!(gather.take(1, value("b")).is_none());
    }

    #[test]
    fn a_request_for_all_is_done_when_every_part_is() {
        let mut gather = begun(Asks::Done, 2);
        assert!(gather.take(1, OK.to_vec()).is_none());
        let leaving = gather.take(0, OK.to_vec()).expect("the end");
        assert_eq!((leaving.bytes.as_slice(), leaving.last), (OK, true));
    }

    #[test]
    fn no_part_is_begun_while_much_is_not_sent() {
        let value = |bytes: usize| [vec![b'v'; bytes], END.to_vec()].concat();
        let mut gather = begun(Asks::Values, AHEAD_FIRST + 2);
        for part in 0..AHEAD_FIRST {
            let is_last = part == AHEAD_FIRST - 1;
            let bytes = if is_last { UNSENT_BYTES_MAX } else { 0 };
            assert!(gather.take(part, value(bytes)).is_some_and(|it| !it.last) == (bytes > 0));
        }
        assert!(gather.waits_for_client() && begin_all(&mut gather).is_empty());
        gather.sent();
        assert_eq!(begin_all(&mut gather), [AHEAD_FIRST]);
        gather.take(AHEAD_FIRST, value(UNSENT_BYTES_MAX)).expect("it leaves");
        assert!(begin_all(&mut gather).is_empty());
        gather.sent();
        assert_eq!(begin_all(&mut gather), [AHEAD_FIRST + 1]);
        let last = gather.take(AHEAD_FIRST + 1, value(UNSENT_BYTES_MAX)).expect("it leaves");
        assert!(last.last && !gather.waits_for_client(), "nothing is to be begun");
    }

    #[test]
    fn long_parts_are_asked_for_one_after_the_other() {
        let mut gather = begun(Asks::Values, 1_000);
        assert_eq!((gather.begun.len(), gather.waiting()), (AHEAD_FIRST, 1_000 - AHEAD_FIRST));
        let value = |bytes: usize| [vec![b'v'; bytes], END.to_vec()].concat();
        assert!(gather.take(5, value(AHEAD_BYTES)).is_none());
        for part in 0..5 {
            assert!(gather.take(part, value(10)).is_some() && begin_all(&mut gather).is_empty());
        }
        assert!(gather.waits_for_client(), "the long one has left");
        gather.sent();
        // Until no more are begun than have room.
        for part in 6..AHEAD_FIRST {
            let begins = begin_all(&mut gather);
            assert!(begins.is_empty(), "{part}: {begins:?}");
            gather.take(part, value(10));
        }
        assert_eq!(begin_all(&mut gather), [AHEAD_FIRST]);
        for part in AHEAD_FIRST..1_000 {
            let leaving = gather.take(part, value(10)).expect("it is the next");
            assert_eq!(leaving.last, part == 999);
            assert_eq!(begin_all(&mut gather).len(), usize::from(part < 999));
        }

        let mut gather = begun(Asks::Values, 10_000);
        gather.take(0, value(10)).expect("it leaves");
        assert_eq!(begin_all(&mut gather).len(), AHEAD_BYTES / PART_BYTES_MIN - AHEAD_FIRST + 1);
    }
}
