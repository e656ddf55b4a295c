//! Identities: of a worker, of a connection, of one request on it; and what a handler may know and
//! keep about the connection it serves.
//!
//! The index of a closed connection is used again, with another generation. So a completion that
//! arrives late matches no connection, not the wrong one.

/// One of the threads that serve connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u16);

/// One connection, for as long as it is open and never again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    /// The worker that owns it.
    pub worker: WorkerId,
    /// Its index at that worker.
    pub index: u32,
    /// How many connections had that index before, wrapping.
    pub generation: u32,
}

/// One request of one connection: where a completion belongs that comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The connection of the request.
    pub conn: ConnId,
    /// The number of the request, among those of the connection that were given one, wrapping.
    pub request: u32,
}

/// Whether copies of a ring may answer the reads of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copies {
    /// Those that say so.
    #[default]
    IfAsked,
    /// Those too that choose nothing.
    ByDefault,
    /// None: it has changed something without waiting for copies.
    Never,
}

/// What lasts from one request of a connection to the next. The handler gets it with each request.
#[derive(Debug)]
pub struct Conn {
    id: ConnId,
    /// Whether the client has sent a valid password. Only the handler reads and sets it.
    pub authenticated: bool,
    /// Whether copies may answer its reads. Only the handler reads and sets it.
    pub copies: Copies,
    /// How far the present request is answered: how many of its keys, or the cursor of a walk. The
    /// handler sets it when it returns [`Outcome::More`](crate::Outcome::More) or
    /// [`Outcome::Park`](crate::Outcome::Park), and reads it when it is called again. The session
    /// sets it to 0 when the request is done.
    pub progress: u64,
    /// Whether the request that is being executed has been parked for too long.
    pub(crate) overdue: bool,
}

impl Conn {
    /// A connection that has sent nothing yet.
    #[must_use]
    pub fn new(id: ConnId) -> Self {
        let copies = Copies::IfAsked;
        Self { id, authenticated: false, copies, progress: 0, overdue: false }
    }

    /// Its id.
    #[inline]
    #[must_use]
    pub fn id(&self) -> ConnId {
        self.id
    }

    /// Whether the present request has been parked for [`WAIT_NS_MAX`](crate::WAIT_NS_MAX): it must
    /// be answered now, with an error if it still cannot run.
    #[inline]
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.overdue
    }
}
