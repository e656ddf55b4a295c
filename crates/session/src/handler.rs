//! What executes requests, as the session sees it.
//!
//! A handler belongs to one worker and serves all its connections, one call at a time. The session
//! never looks into a request: it only applies the outcome.
//!
//! ```text
//! call -> Done           the reply is complete and may leave
//!      -> More           the reply so far may leave; call again with the same request
//!      -> Park           the request cannot run now; likewise, but later
//!      -> Gate(log, seq) the reply is complete and leaves when the log has passed seq
//!      -> Part(log, seq) the reply so far leaves when the log has passed seq; call again
//!      -> Pending        the reply, or its rest, comes by the ticket
//!      -> Close          what was written leaves, then the connection ends
//! ```

use std::net::SocketAddr;

use base::Now;
use memcache::{Key, Limits, Refusal, Request, Store};

use crate::completions::Completions;
use crate::ids::{Conn, ConnId, Ticket};
use crate::reply::Reply;

/// A log that replies wait for until it has passed a mark: acknowledgements of replicas, a journal,
/// a dirty read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogId(pub u32);

/// The result of a request: what its reply waits for, and what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its reply, possibly empty, is complete.
    Done,
    /// Its reply has reached the bound of a turn. What is written leaves, then the handler is
    /// called again with the same request and the progress it left in [`Conn::progress`]. While
    /// earlier replies wait, the handler is called again after they have left.
    More,
    /// It cannot run now: there is no memory, a log is full, an owner is unknown. What is written
    /// stands, as for [`Outcome::More`], and the handler is called again with the same request
    /// later. Only this connection waits. When [`Conn::is_overdue`], the handler must answer
    /// instead; if it parks even then, the connection is dropped.
    Park,
    /// Its reply is complete and may leave when `log` has passed `seq`.
    Gate {
        /// The log to wait for.
        log: LogId,
        /// The mark in it.
        seq: u64,
    },
    /// As [`Outcome::More`], or [`Outcome::Park`] if it `parks`; but what is written, and all that
    /// follows, leaves when `log` has passed `seq`. If that does not come in time, the connection
    /// ends: no error can take the place of a part.
    Part {
        /// The log to wait for.
        log: LogId,
        /// The mark in it.
        seq: u64,
        /// Whether it is called again later.
        parks: bool,
    },
    /// The rest of its reply comes later, by its ticket, in one part or in several.
    Pending,
    /// The same, and nothing that follows on this connection is executed before the reply is
    /// complete. After each time that parts of it have left, [`Handler::parts_sent`] is called once
    /// they are sent.
    PendingAlone,
    /// Its reply is complete, and the connection ends with it.
    Close,
}

/// Whether plain requests can be executed by [`Handler::get_now`] and [`Handler::store_now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// They cannot.
    No,
    /// They can, and no reply waits for a gate.
    Ungated,
    /// They can, and a reply may wait for a gate.
    Gated,
}

/// A plain `get` of one key, `set` or `add`, as its client has written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<'a> {
    /// Its key.
    pub key: Key<'a>,
    /// The whole request.
    pub text: &'a [u8],
    /// Whether it is a `get`.
    pub reads: bool,
    /// Whether its client wants no reply.
    pub noreply: bool,
}

/// The result of a plain request that is executed apart from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Its reply, possibly empty, is complete.
    Done,
    /// The handler has changed nothing and appended nothing. The request is executed by
    /// [`Handler::call`], in its place among the others.
    Declined,
    /// Its reply, which is not empty, may leave when `log` has passed `seq`.
    Gate {
        /// The log to wait for.
        log: LogId,
        /// The mark in it.
        seq: u64,
    },
}

/// Whether a mark of a log has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// Yes: what waited for it may leave.
    Yes,
    /// Not yet.
    No,
    /// It will never be known: the connection ends without the reply.
    InDoubt,
}

/// What a reply has waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waited {
    /// A mark of a log.
    Gate {
        /// The log.
        log: LogId,
        /// The mark in it.
        seq: u64,
    },
    /// The completion of a request.
    Ticket(Ticket),
}

/// Whether the replies of a batch may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchEnd {
    /// They may.
    Send,
    /// They may not: the right to answer was lost while the batch ran. The replies are dropped and
    /// their connections closed.
    Drop,
}

/// Why a request was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is malformed or beyond a limit; the refusal says which.
    Malformed,
    /// The budget has no memory to receive its value. The refusal names the key, as for a value
    /// that is too large.
    NoMemory,
    /// The budget has no memory for other input that must be kept. The connection ends after the
    /// answer.
    NoMemoryForInput,
}

/// How a handler receives a long value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueStart {
    /// With the request, as a whole.
    Whole,
    /// In pieces: [`Handler::take_piece`] follows, then [`Handler::finish_value`], or else
    /// [`Handler::drop_value`].
    Pieces,
    /// Not now. It is asked again a little later; when [`Conn::is_overdue`], the value is refused.
    Later,
    /// Not at all: there is no memory for it.
    Refused,
}

/// How much of a piece a handler has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// All of it.
    All,
    /// This number of bytes. It is given the rest a little later; when [`Conn::is_overdue`], the
    /// value is refused.
    Later(usize),
    /// There is no memory for the value: it is refused.
    Refused,
}

/// What a handler wants done by its own worker, without a mailbox and without a wake-up. An order
/// that is about a connection which is closed, or which belongs to another worker, has no effect. A
/// worker that ends carries out no more orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Open a connection: [`Serve::connected`](crate::Serve::connected) or
    /// [`Serve::unconnected`](crate::Serve::unconnected) follows, maybe at once. A worker has a
    /// bounded number of connections under way, and refuses those beyond it at once. The thread of
    /// a client, where each client has one, refuses all: it has no connection but that one.
    Connect {
        /// Where to.
        to: SocketAddr,
        /// What the handler calls it by. It may occur more than once.
        purpose: u64,
    },
    /// Give a connection a turn by [`Connection::resume`](crate::Connection::resume). Its output is
    /// part of the present batch. While the peer has not taken all earlier output, the turn comes
    /// when it has; a connection that waits or ends has none.
    Turn(ConnId),
    /// Deliver replies, or parts of them. What becomes free leaves with the present batch.
    Complete(Completions),
    /// Close a connection without waiting for its replies, those of the present batch included.
    Close(ConnId),
}

/// Executes the requests of all connections of one worker.
pub trait Handler {
    /// What other threads send it. [`Infallible`](std::convert::Infallible) if nothing.
    type Mail: Send + 'static;

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
    fn prompt(&self, _conn: &Conn) -> Prompt {
        Prompt::No
    }

    /// Answers `get` of one key of `conn`, with the same result as [`Handler::call`]. It is the
    /// most frequent request, so it has a path of its own. Called only where the handler
    /// [is prompt](Handler::prompt). `GATED`: its reply may wait for a gate. Where it may, this is
    /// first called for a run of requests as if it did not, and then [`Handler::confirm`].
    #[inline]
    fn get_now<const GATED: bool>(
        &mut self,
        _now: Now,
        _conn: &Conn,
        _key: Key<'_>,
        _reply: &mut Reply,
    ) -> Answer {
        Answer::Declined
    }

    /// Whether the replies may leave of the [`Handler::get_now`] that were called just now as if no
    /// reply waited. If not, they are dropped, and [`Handler::executes_again`] follows.
    fn confirm(&self) -> bool {
        true
    }

    /// That many [`Handler::get_now`] are called again, one by one.
    fn executes_again(&mut self, _gets: u32) {}

    /// Executes a plain `set` or `add`, likewise, but is called once.
    #[inline]
    fn store_now<const GATED: bool>(
        &mut self,
        _now: Now,
        _store: &Store<'_>,
        _reply: &mut Reply,
    ) -> Answer {
        Answer::Declined
    }

    /// Whether [`Handler::send_on`] takes any request.
    const SENDS_ON: bool = false;

    /// Has a plain request executed elsewhere, as it stands: its reply comes by `ticket`, unless
    /// its client wants none. `false` if it does not, and nothing has happened: the request is
    /// executed by [`Handler::call`].
    #[inline]
    fn send_on(&mut self, _now: Now, _conn: &Conn, _plain: &Plain<'_>, _ticket: Ticket) -> bool {
        false
    }

    /// Requests that are longer are offered to [`Handler::begin_value`] before they have arrived.
    #[inline]
    fn whole_bytes_max(&self) -> usize {
        usize::MAX
    }

    /// The line of `request` has arrived, which stores a value of `bytes` bytes. How is the value
    /// to be received? In `request` it is empty.
    fn begin_value(
        &mut self,
        _now: Now,
        _conn: &mut Conn,
        _request: &Request<'_>,
        _bytes: u64,
    ) -> ValueStart {
        ValueStart::Whole
    }

    /// Takes the next bytes of the value that `conn` has begun.
    fn take_piece(&mut self, _now: Now, _conn: &mut Conn, _piece: &[u8]) -> Taken {
        Taken::Refused
    }

    /// Executes `request`, whose value was taken in pieces and is empty here. After
    /// [`Outcome::Park`] it is called again; after any other outcome the value is done with.
    fn finish_value(
        &mut self,
        _now: Now,
        _conn: &mut Conn,
        _request: &Request<'_>,
        _ticket: Ticket,
        _reply: &mut Reply,
    ) -> Outcome {
        Outcome::Close
    }

    /// The value that `conn` has begun will not be finished.
    fn drop_value(&mut self, _conn: ConnId) {}

    /// Answers a request that is not executed. `refusal` is `None` only for
    /// [`Cause::NoMemoryForInput`]. The session discards the answer when the client wants none.
    fn refused(
        &mut self,
        now: Now,
        conn: &mut Conn,
        refusal: Option<&Refusal<'_>>,
        cause: Cause,
        reply: &mut Reply,
    );

    /// The budget refused `bytes` for input or output that must be kept: frees that much, if it
    /// can. Returns whether to ask the budget again.
    fn make_room(&mut self, _now: Now, _bytes: u64) -> bool {
        false
    }

    /// A reply has waited for [`WAIT_NS_MAX`](crate::WAIT_NS_MAX) and ends: writes the error line
    /// that takes its place, and names what it has waited for. It is called once for each reply
    /// that had bytes, and once for a ticket. For a ticket whose client wants no reply, it writes
    /// nothing. Later completions of the ticket have no effect.
    fn overdue(&mut self, now: Now, waited: &Waited, reply: &mut Reply);

    /// Whether `log` has passed `seq`.
    fn gate(&self, log: LogId, seq: u64) -> Passed;

    /// The client has been sent all that has come of the reply to `ticket`, which is
    /// [`Outcome::PendingAlone`] and not complete: more of it takes no memory beside that.
    fn parts_sent(&mut self, _now: Now, _ticket: Ticket) {}

    /// Mail from another thread, before the batch ends.
    fn deliver(&mut self, now: Now, mail: Self::Mail);

    /// `conn` is closed. Completions for it have no effect from now on, and a value that it has
    /// begun will not be finished.
    fn closed(&mut self, conn: ConnId);

    /// Takes the oldest order that is not carried out yet. The worker asks before every
    /// [`Handler::end_batch`] and before it sleeps, and asks again after it has carried one out. A
    /// batch in which only mail or a deadline was handled ends likewise. Two ends ask for no
    /// orders, and another end follows each: that of [`Handler::make_room`], and that of a part of
    /// a batch whose output is long.
    #[inline(always)]
    fn take_order(&mut self) -> Option<Order> {
        None
    }

    /// Those of an [`Order::Complete`] that was carried out: their memory may be used again.
    #[inline]
    fn take_back(&mut self, completions: Completions) {
        drop(completions);
    }

    /// Every request of a batch is executed. Returns whether their replies may be sent. `now` is
    /// the moment when the batch began; `fresh` reads the clock.
    fn end_batch(&mut self, now: Now, fresh: impl Fn() -> Now) -> BatchEnd;

    /// When [`Handler::end_batch`] is to be called even if nothing arrives: nanoseconds of the
    /// monotonic clock of [`Now`]. Read after every batch.
    fn wake_at_ns(&self) -> u64 {
        u64::MAX
    }
}
