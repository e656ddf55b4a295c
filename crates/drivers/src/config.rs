//! The settings of a server, as they are given at its start. Nothing changes them later.
//!
//! They are checked when the server starts, not here: what is out of range is an error of
//! [`Server::start`](crate::Server::start). Names end in their units; `_s` is seconds.

use std::net::SocketAddr;
use std::path::PathBuf;

use session::{Resources, WorkerId};

use crate::clock::Clock;

/// How bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// A few equal workers, each serving many connections from its own epoll.
    Epoll,
    /// The same workers, which learn of events from real-time signals.
    Signal,
    /// The same workers, whose io_uring receives and sends. It needs a system where [`probe_uring`]
    /// succeeds.
    ///
    /// [`probe_uring`]: crate::probe_uring
    Uring,
    /// A thread for each client, with blocking calls.
    Threads,
}

/// Where clients or other cells connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An IPv4 or IPv6 address, for clients. With port 0 the system chooses a port. An IPv6 address
    /// takes no IPv4 clients.
    Tcp(SocketAddr),
    /// A socket file. The file of a dead process is replaced; that of a running one is an error.
    Unix {
        /// Where the file is created.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// An address as that of [`Listen::Tcp`], for links: connections from other cells. They are
    /// not counted towards [`Config::connections_max`] and never closed as idle. With one of these,
    /// [`Driver::Threads`] serves all links by a worker of their own, worker 0.
    Links(SocketAddr),
}

/// The most workers: more than any machine has cores, and far fewer than a worker number can hold.
pub const WORKERS_MAX: u16 = 1024;

/// The most connections under [`Driver::Threads`]: each takes one worker number.
pub const THREADS_MAX: u32 = u16::MAX as u32 - 1;

/// The settings of a server.
///
/// ```
/// use base::MemoryBudget;
/// use drivers::{Config, Driver, Listen};
/// use session::{Bounds, Connection, Resources};
///
/// let budget = MemoryBudget::new(64 << 20);
/// let mut config = Config::new(Resources { bounds: Bounds::default(), budget });
/// config.driver = Driver::Epoll;
/// config.listen.push(Listen::Tcp("127.0.0.1:0".parse()?));
/// assert_eq!((config.workers, config.connections_max), (4, 1024));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone)]
pub struct Config {
    /// The clock that handlers are given the time of.
    pub clock: Clock,
    /// How bytes are moved.
    pub driver: Driver,
    /// Where clients and other cells connect.
    pub listen: Vec<Listen>,
    /// Workers. [`Driver::Threads`] ignores it.
    pub workers: u16,
    /// Connections that the system completes before they are accepted.
    pub backlog: u32,
    /// Clients that may be connected at once.
    pub connections_max: u32,
    /// Whether a client beyond that gets an error and is closed; otherwise it waits unaccepted.
    pub reject_at_limit: bool,
    /// Seconds of silence after which a client is closed; 0 means never.
    pub idle_timeout_s: u32,
    /// Seconds after which a client is closed that takes nothing of its replies, or sends nothing
    /// more of a request above 2 KiB; 0 means never.
    pub stall_timeout_s: u32,
    /// Bounds and budget of the connections.
    pub resources: Resources,
}

impl Config {
    /// memcached's defaults: four workers, 1,024 connections, no idle time-out; and no address.
    #[must_use]
    pub fn new(resources: Resources) -> Self {
        Self {
            clock: Clock::new(),
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

    /// Workers that serve many connections each.
    pub(crate) fn pool(&self) -> u16 {
        match self.driver {
            Driver::Epoll | Driver::Signal | Driver::Uring => self.workers,
            Driver::Threads => u16::from(self.has_links()),
        }
    }

    /// The worker that accepts clients.
    pub(crate) fn acceptor(&self) -> WorkerId {
        let after_links = self.driver == Driver::Threads && self.has_links();
        WorkerId(u16::from(after_links))
    }

    fn has_links(&self) -> bool {
        self.listen.iter().any(|at| matches!(at, Listen::Links(_)))
    }
}
