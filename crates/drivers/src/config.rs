//! What a server is told before it starts.

use std::net::SocketAddr;
use std::path::PathBuf;

use session::Resources;

/// How bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// A few equal workers, each serving many connections from its own epoll.
    Epoll,
    /// The same workers, each told by real-time signals instead.
    Signal,
    /// The same workers, for whom io_uring receives and sends; where [`probe_uring`] allows it.
    ///
    /// [`probe_uring`]: crate::probe_uring
    Uring,
    /// A thread for each client, with blocking calls.
    Threads,
}

/// Where clients are awaited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An IPv4 or IPv6 address; port 0 lets the system choose. An IPv6 address takes no IPv4.
    Tcp(SocketAddr),
    /// A socket file. One left over by a dead process is replaced; a living one is an error.
    Unix {
        /// Where the file is made.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

/// The most workers: beyond any machine, far below the width of a worker's number.
pub const WORKERS_MAX: u16 = 1024;

/// The most connections under [`Driver::Threads`]: each has a worker's number.
pub const THREADS_MAX: u32 = u16::MAX as u32 - 1;

/// The settings of a server.
#[derive(Clone)]
pub struct Config {
    /// How bytes are moved.
    pub driver: Driver,
    /// Where clients are awaited.
    pub listen: Vec<Listen>,
    /// How many workers all but [`Driver::Threads`] run.
    pub workers: u16,
    /// Connections the system completes before they are accepted.
    pub backlog: u32,
    /// Connections that may be open at once.
    pub connections_max: u32,
    /// Whether one more is told so and closed; otherwise it waits unaccepted.
    pub reject_at_limit: bool,
    /// Seconds of silence after which a client is closed; 0 for never.
    pub idle_timeout_s: u32,
    /// Seconds after which a client that takes nothing of its replies is closed; 0 for never.
    pub stall_timeout_s: u32,
    /// Bounds and budget of the connections.
    pub resources: Resources,
}

impl Config {
    /// memcached's defaults: four workers, 1,024 connections, no idle time-out; and no address.
    #[must_use]
    pub fn new(resources: Resources) -> Self {
        Self {
            driver: Driver::Epoll,
            listen: Vec::new(),
            workers: 4,
            backlog: 1024,
            connections_max: 1024,
            reject_at_limit: true,
            idle_timeout_s: 0,
            stall_timeout_s: 120,
            resources,
        }
    }
}
