//! What executes requests, as the session sees it.
//!
//! ```text
//! call -> Done           the reply is complete and may leave
//!      -> More           the reply so far may leave; call again with the same request
//!      -> Gate(log, seq) the reply is complete and leaves when the log has passed seq
//!      -> Pending        the reply, or its rest, comes by the ticket
//!      -> Close          what was written leaves, then the connection ends
//! ```

use base::Now;
use memcache::{Key, Limits, Refusal, Request, Store};

use crate::{Conn, ConnId, Reply, Ticket};

/// A log whose mark replies wait for: acknowledgements of replicas, a journal, a dirty read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogId(pub u32);

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its reply, possibly empty, is complete.
    Done,
    /// Its reply has reached the bound of a turn: what is written leaves, then the handler is
    /// called again with the same request and the progress it left in [`Conn::progress`]. While
    /// earlier replies wait, the handler is called again when they have left.
    More,
    /// Its reply is complete and may leave when `log` has passed `seq`.
    Gate {
        /// The log that is waited for.
        log: LogId,
        /// The mark in it.
        seq: u64,
    },
    /// The rest of its reply comes later, by its ticket.
    Pending,
    /// Its reply is complete, and the connection ends with it.
    Close,
}

/// Whether a mark of a log has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// Yes: what waited for it may leave.
    Yes,
    /// Not yet.
    No,
    /// It can never be known: the connection ends without the reply.
    InDoubt,
}

/// Whether the replies of a batch may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchEnd {
    /// They may.
    Send,
    /// The right to answer was lost while the batch ran: they are dropped, with their connections.
    Drop,
}

/// Why a request was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is malformed or beyond a limit; the refusal says which.
    Malformed,
    /// The budget has no room to receive its value; the refusal names the key, as for a value
    /// that is too large.
    NoMemory,
    /// The budget has no room for other input that must be kept; the connection ends after the
    /// answer.
    NoMemoryForInput,
}

/// Executes the requests of all connections of one worker.
pub trait Handler {
    /// The limits that the next request of `conn` is parsed with.
    fn limits(&self, conn: &Conn) -> &Limits;

    /// Executes `request` and appends its reply.
    fn call(
        &mut self,
        now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome;

    /// Whether the next requests of `conn` can be answered by [`Handler::get_now`] and
    /// [`Handler::store_now`].
    #[inline]
    fn is_prompt(&self, _conn: &Conn) -> bool {
        false
    }

    /// Answers `get` of one key, to the same end as [`Handler::call`] with [`Outcome::Done`]: so
    /// many requests are this one that it has a way of its own. Called only where the handler
    /// [is prompt](Handler::is_prompt).
    #[inline]
    fn get_now(&mut self, _now: Now, _key: Key<'_>, _reply: &mut Reply) {
        unreachable!("this handler is never prompt");
    }

    /// Executes a storage command, likewise.
    #[inline]
    fn store_now(&mut self, _now: Now, _store: &Store<'_>, _reply: &mut Reply) {
        unreachable!("this handler is never prompt");
    }

    /// Answers a request that is not executed. `refusal` is `None` only for
    /// [`Cause::NoMemoryForInput`]. The session drops the answer when the client wants none.
    fn refused(
        &mut self,
        now: Now,
        conn: &mut Conn,
        refusal: Option<&Refusal<'_>>,
        cause: Cause,
        reply: &mut Reply,
    );

    /// The budget refused `bytes` for input or output that must be kept: makes that much room, if
    /// it can.
    fn make_room(&mut self, _now: Now, _bytes: u64) -> bool {
        false
    }

    /// Whether `log` has passed `seq`.
    fn gate(&self, log: LogId, seq: u64) -> Passed;

    /// `conn` is gone; completions for it will be dropped.
    fn closed(&mut self, conn: ConnId);

    /// Every request that arrived together has been executed; their replies are sent next.
    fn end_batch(&mut self, now: Now) -> BatchEnd;

    /// When [`Handler::end_batch`] is to be called at the latest, even if nothing arrives, on the
    /// monotonic clock of [`Now`]. Asked after every batch.
    fn wake_at_ns(&self) -> u64 {
        u64::MAX
    }
}
