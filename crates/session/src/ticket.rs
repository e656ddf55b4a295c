//! Names: of a worker, of a connection, of one request on it; and what a handler may know and
//! remember about the connection it serves.
//!
//! Places of closed connections are used again. The generation tells their users apart, so a
//! completion that arrives late finds nobody instead of a stranger.

/// One of the threads that serve connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkerId(pub u16);

/// One connection, for as long as it is open and never again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnId {
    /// The worker that owns it.
    pub worker: WorkerId,
    /// Its place at that worker.
    pub index: u32,
    /// How many connections had that place before, wrapping.
    pub generation: u32,
}

/// One request of one connection: what a late completion is addressed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The connection that asked.
    pub conn: ConnId,
    /// The number of the request among those of that connection that were given one, wrapping.
    pub request: u32,
}

/// What lasts from one request of a connection to the next, lent to the handler with each.
#[derive(Debug)]
pub struct Conn {
    id: ConnId,
    /// Whether the client has shown a valid password. The session only keeps it.
    pub authenticated: bool,
    /// How many keys of the present request are answered already. The handler sets it when it
    /// answers [`Outcome::More`](crate::Outcome::More) and finds it again when called again; the
    /// session clears it when the request is done.
    pub progress: u32,
}

impl Conn {
    /// A connection that has sent nothing yet.
    #[must_use]
    pub fn new(id: ConnId) -> Self {
        Self { id, authenticated: false, progress: 0 }
    }

    /// Its name.
    #[inline]
    #[must_use]
    pub fn id(&self) -> ConnId {
        self.id
    }
}
