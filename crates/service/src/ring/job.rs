//! Requests that this cell carries out for somebody: here, or by sending them to their owner.

use base::SliceId;
use session::{LogId, Ticket, WorkerId};

/// Who gets the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client of this worker.
    Client(Ticket),
    /// One key of a request with several.
    Part {
        /// The number of that request.
        gather: u64,
        /// Which key.
        index: usize,
    },
    /// Nobody: the client wants no reply.
    Nobody,
    /// Another worker of this cell, which has no links.
    Worker {
        /// The worker.
        worker: WorkerId,
        /// What it calls the job.
        number: u64,
    },
}

/// Whether a request may be sent again where it is not known what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Always: it changes nothing.
    Always,
    /// With the same id: the cell that has its change answers from that.
    ById,
    /// Never.
    Never,
}

/// One request with one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub(crate) origin: Origin,
    /// The request: a plain one as its client has written it, any other in canonical form.
    pub(crate) text: Vec<u8>,
    /// The slice of its key.
    pub(crate) slice: SliceId,
    pub(crate) repeat: Repeat,
    /// When it must end.
    pub(crate) due_ns: u64,
    /// Its id, once it was sent and if it is to be sent again with the same; else 0.
    pub(crate) id: u64,
    /// How often its range had been lost when it was asked first.
    pub(crate) losses: u32,
    /// How often it was asked with that id.
    pub(crate) times: u16,
    /// Whether it may have been executed.
    pub(crate) is_in_doubt: bool,
}

impl Job {
    /// A job that was not sent yet.
    pub(crate) fn new(
        origin: Origin,
        (text, slice): (Vec<u8>, SliceId),
        repeat: Repeat,
        due_ns: u64,
    ) -> Self {
        Self { origin, text, slice, repeat, due_ns, id: 0, losses: 0, times: 0, is_in_doubt: false }
    }

    /// It is asked with its id now, and its range was lost so often. Returns how often it was asked
    /// before.
    pub(crate) fn asks(&mut self, losses: u32) -> u16 {
        if self.times == 0 {
            self.losses = losses;
        }
        let before = self.times;
        self.times = before.saturating_add(1);
        before
    }

    /// How often it was asked before the last time.
    pub(crate) fn asked_before(&self) -> u16 {
        self.times.saturating_sub(1)
    }

    /// The same job, which gets another id. Nothing of it was executed.
    pub(crate) fn without_id(self) -> Self {
        Self { id: 0, times: 0, ..self }
    }

    /// The same job, which may have been executed. A read is in no doubt: it changes nothing.
    pub(crate) fn doubted(self) -> Self {
        Self { is_in_doubt: self.repeat != Repeat::Always, ..self }
    }
}

/// A reply that is composed, and waits for a log.
pub(crate) struct GatedReply {
    pub(crate) origin: Origin,
    pub(crate) log: LogId,
    pub(crate) seq: u64,
    pub(crate) due_ns: u64,
    pub(crate) bytes: Vec<u8>,
}

/// What a request in several parts asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Values: those of all parts are put together, in the order of the keys.
    Values,
    /// That all parts are done.
    Done,
}

/// A request in several parts: several keys, or several ranges.
pub(crate) struct Gather {
    ticket: Ticket,
    asks: Asks,
    parts: Vec<Option<Vec<u8>>>,
    /// The first part that has not left.
    next: usize,
}

/// What leaves of a request with several keys.
pub(crate) struct Leaving {
    pub(crate) ticket: Ticket,
    pub(crate) bytes: Vec<u8>,
    /// Whether that is all.
    pub(crate) last: bool,
}

const END: &[u8] = b"END\r\n";
const OK: &[u8] = b"OK\r\n";

impl Gather {
    pub(crate) fn new(ticket: Ticket, asks: Asks, parts: usize) -> Self {
        Self { ticket, asks, parts: vec![None; parts], next: 0 }
    }

    /// The request.
    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Takes the reply to the part at `index`. Returns what leaves now. A reply that is not what
    /// was asked for is an error: it takes the place of the end.
    pub(crate) fn take(&mut self, index: usize, reply: Vec<u8>) -> Option<Leaving> {
        let part = self.parts.get_mut(index).filter(|part| part.is_none())?;
        *part = Some(reply);
        let mut bytes = Vec::new();
        while let Some(part) = self.parts.get_mut(self.next).and_then(Option::take) {
            self.next += 1;
            let end = self.end();
            let Some(values) = part.strip_suffix(end) else {
                bytes.extend_from_slice(&part);
                // No other part leaves any more.
                self.parts.clear();
                return Some(Leaving { ticket: self.ticket, bytes, last: true });
            };
            bytes.extend_from_slice(values);
        }
        let last = self.next == self.parts.len();
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

/// An error line.
pub(super) fn error(why: &str) -> Vec<u8> {
    format!("SERVER_ERROR {why}\r\n").into_bytes()
}

/// The error of a change that may have been made.
pub(super) fn in_doubt(why: &str) -> Vec<u8> {
    format!("SERVER_ERROR in doubt: {why}\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::{ConnId, WorkerId};

    fn ticket() -> Ticket {
        let conn = ConnId { worker: WorkerId(0), index: 0, generation: 0 };
        Ticket { conn, request: 1 }
    }

    #[test]
    fn values_leave_in_the_order_of_the_keys_and_an_error_ends_them() {
        let mut gather = Gather::new(ticket(), Asks::Values, 3);
        let value = |key: &str| format!("VALUE {key} 0 1\r\nx\r\nEND\r\n").into_bytes();
        assert!(gather.take(1, value("b")).is_none());
        let leaving = gather.take(0, value("a")).expect("two leave");
        let both = b"VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\nx\r\n";
        assert_eq!((leaving.bytes.as_slice(), leaving.last), (&both[..], false));
        assert!(gather.take(1, value("b")).is_none(), "it came twice");
        let leaving = gather.take(2, END.to_vec()).expect("the end");
        assert_eq!((leaving.bytes.as_slice(), leaving.last), (END, true));

        let mut gather = Gather::new(ticket(), Asks::Values, 2);
        let leaving = gather.take(0, b"SERVER_ERROR x\r\n".to_vec()).expect("an error");
        assert_eq!((leaving.bytes.as_slice(), leaving.last), (&b"SERVER_ERROR x\r\n"[..], true));
        assert!(gather.take(1, value("b")).is_none());
    }

    #[test]
    fn a_request_for_all_is_done_when_every_part_is() {
        let mut gather = Gather::new(ticket(), Asks::Done, 2);
        assert!(gather.take(1, OK.to_vec()).is_none());
        let leaving = gather.take(0, OK.to_vec()).expect("the end");
        assert_eq!((leaving.bytes.as_slice(), leaving.last), (OK, true));
    }
}
