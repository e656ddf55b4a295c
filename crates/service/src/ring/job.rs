//! Requests that this cell carries out for somebody: here, or by sending them to their owner.

use super::not_now::NotNow;
use base::SliceId;
use session::{ConnId, LogId, Ticket, WorkerId};

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

/// How long a request rests first that another cell has refused: as long as others rest.
const REST_NS_MIN: u64 = 2_000_000;
/// And at most, however often it was refused.
const REST_NS_MAX: u64 = 8_000_000;

/// The rest of a request that the cell which leads its range by the map does not lead yet, or leads
/// without a lease. A newer map ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rest {
    map_version: u64,
    ns: u64,
    pub(crate) until_ns: u64,
}

impl Rest {
    /// Twice the last one, if it was refused by the same map before.
    pub(crate) fn next(self, map_version: u64, now_ns: u64) -> Self {
        let last = if self.map_version == map_version { self.ns } else { 0 };
        let ns = (2 * last).clamp(REST_NS_MIN, REST_NS_MAX);
        Self { map_version, ns, until_ns: now_ns + ns }
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self, map_version: u64, now_ns: u64) -> bool {
        self.until_ns <= now_ns || self.map_version != map_version
    }
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
    /// The id with which it was sent first; 0 before. Those of one slice are sent in the order in
    /// which they have come.
    pub(crate) since: u64,
    /// When it was sent last, among all that its worker has sent.
    pub(crate) sent: u64,
    /// Whether it stays at a cell that leads its slice no more, until that answers: it must not be
    /// executed twice, and has no id.
    pub(crate) stays: bool,
    /// Its id, once it was sent and if it is to be sent again with the same; else 0.
    pub(crate) id: u64,
    /// How often its range had been lost when it was asked first.
    pub(crate) losses: u32,
    /// How often it was asked with that id.
    pub(crate) times: u16,
    /// Whether it may have been executed.
    pub(crate) is_in_doubt: bool,
    /// Why it was not executed when it was asked last.
    pub(crate) not_now: Option<NotNow>,
    /// Until when it is not asked again.
    pub(crate) rest: Rest,
    /// How old the answer of a copy may be, in milliseconds. 0: no copy may answer.
    pub(crate) age_ms: u16,
    /// Whether a copy was ever to answer it, and of which connection it is then.
    pub(crate) is_read: bool,
    pub(crate) conn: Option<ConnId>,
    /// When the primary is asked instead of a copy that has not answered.
    pub(crate) copy_due_ns: u64,
    /// Whether the cell that has it is asked as a copy.
    pub(crate) is_at_copy: bool,
}

impl Job {
    /// A job that was not sent yet.
    pub(crate) fn new(
        origin: Origin,
        (text, slice): (Vec<u8>, SliceId),
        repeat: Repeat,
        due_ns: u64,
    ) -> Self {
        Self {
            origin,
            text,
            slice,
            repeat,
            due_ns,
            since: 0,
            sent: 0,
            stays: false,
            id: 0,
            losses: 0,
            times: 0,
            is_in_doubt: false,
            not_now: None,
            rest: Rest::default(),
            age_ms: 0,
            is_read: false,
            conn: None,
            copy_due_ns: u64::MAX,
            is_at_copy: false,
        }
    }

    /// The same of this connection, which a copy may answer that is `age_ms` old at most.
    pub(crate) fn for_copies(self, age_ms: u16, conn: Option<ConnId>) -> Self {
        let is_read = age_ms > 0;
        Self { age_ms, is_read, conn: conn.filter(|_| is_read), ..self }
    }

    /// The same, which a copy is asked for until then.
    pub(crate) fn at_copy(self, copy_due_ns: u64) -> Self {
        Self { is_at_copy: true, copy_due_ns, ..self }
    }

    /// The same, which no copy may answer.
    pub(crate) fn for_primary(self) -> Self {
        Self { age_ms: 0, is_at_copy: false, copy_due_ns: u64::MAX, ..self }
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

    /// The same job, which was not executed now, and why.
    pub(crate) fn refused(self, why: NotNow) -> Self {
        Self { not_now: Some(why), ..self }
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

/// An error line.
pub(super) fn error(why: &str) -> Vec<u8> {
    format!("SERVER_ERROR {why}\r\n").into_bytes()
}

/// The error of a change that may have been made.
pub(super) fn in_doubt(why: &str) -> Vec<u8> {
    format!("SERVER_ERROR in doubt: {why}\r\n").into_bytes()
}
