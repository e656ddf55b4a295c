//! One place in the queue of a connection: a reply, or several that wait for the same.

use base::Now;

use crate::handler::{Handler, LogId, Waited};
use crate::ids::{ConnId, Ticket};
use crate::reply::Reply;

/// What a reply waits for besides its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Nothing,
    Gate { log: LogId, seq: u64 },
    Ticket,
}

/// A request that was executed, and how its reply waits.
#[derive(Clone, Copy)]
pub(crate) struct Executed {
    /// Its number.
    pub(crate) request: u32,
    /// Its length.
    pub(crate) request_bytes: usize,
    pub(crate) wait: Wait,
    /// When it ends in an error, if it still waits.
    pub(crate) due_ns: u64,
    /// A part of its reply stands before this one in the stream.
    pub(crate) begun: bool,
}

impl Executed {
    /// What waits for nothing but its turn.
    pub(crate) fn ready(due_ns: u64) -> Self {
        Self { request: 0, request_bytes: 0, wait: Wait::Nothing, due_ns, begun: false }
    }
}

/// One place in the queue.
pub(super) struct Entry {
    /// The number of its first request.
    pub(super) request: u32,
    pub(super) wait: Wait,
    pub(super) reply: Reply,
    /// Replies that it stands for, without those of clients that want none.
    pub(super) replies: u32,
    /// Requests that it counts for.
    pub(super) requests: usize,
    /// Bytes it counts for: its replies and the requests they answer.
    pub(super) charge: usize,
    pub(super) due_ns: u64,
    /// A part of its reply has left or stands before it.
    pub(super) begun: bool,
    /// A part of its reply has come by its ticket.
    pub(super) arrived: bool,
}

impl Entry {
    pub(super) fn new(executed: Executed, reply: Reply) -> Self {
        Self {
            request: executed.request,
            wait: executed.wait,
            reply,
            replies: 0,
            requests: 0,
            charge: 0,
            due_ns: executed.due_ns,
            begun: executed.begun,
            arrived: false,
        }
    }

    /// What it waits for, as the handler and the driver know it.
    pub(super) fn waited(&self, conn: ConnId) -> Option<Waited> {
        match self.wait {
            Wait::Nothing => None,
            Wait::Gate { log, seq } => Some(Waited::Gate { log, seq }),
            Wait::Ticket => Some(Waited::Ticket(Ticket { conn, request: self.request })),
        }
    }

    /// Replaces its replies by as many errors, which name what it has waited for.
    #[cold]
    pub(super) fn end_overdue<H: Handler>(&mut self, handler: &mut H, now: Now, waited: Waited) {
        self.reply.clear(usize::MAX);
        for _ in 0..self.replies {
            handler.overdue(now, &waited, &mut self.reply);
        }
    }
}
