//! A handler, clients and servers for the conformance suite.

#![allow(dead_code, reason = "each suite uses a part of it")]

#[path = "../../../session/tests/support/answers.rs"]
pub mod answers;
pub mod client;
#[path = "../../../session/tests/support/fake.rs"]
pub mod fake;
pub mod handler;
pub mod kinds;
pub mod node;
#[path = "../../../session/tests/support/random.rs"]
pub mod random;

use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::MemoryBudget;
use drivers::{Address, Config, Driver, Listen, Server};
use rustix::process::{Resource, getrlimit, setrlimit};
use session::{Bounds, Resources};

use client::Client;
use handler::Shared;

/// All drivers: every promise is kept by each. Where io_uring is not allowed, its driver is left
/// out.
pub fn drivers() -> Vec<Driver> {
    let mut drivers = vec![Driver::Epoll, Driver::Signal, Driver::Uring, Driver::Threads];
    if let Err(cause) = drivers::probe_uring() {
        leave_out("the driver uring", &cause);
        drivers.retain(|driver| *driver != Driver::Uring);
    }
    drivers
}

/// Reports what this system does not allow to be tested, and why.
///
/// # Panics
/// Under CI, where everything must be tested.
pub fn leave_out(what: &str, why: &dyn Display) {
    let ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "false");
    assert!(!ci, "{what} cannot be tested: {why}");
    // Not by a macro: the test runner hides what a macro prints when the test passes.
    let said = format!("{what} is not tested: {why}\n");
    let _ = std::io::stderr().write_all(said.as_bytes());
}

/// Connections in a crowd.
pub const CROWD: usize = 5000;

/// Raises the limit on descriptors to the hard limit, and returns it.
pub fn raise_descriptors() -> u64 {
    let mut limits = getrlimit(Resource::Nofile);
    limits.current = limits.maximum;
    setrlimit(Resource::Nofile, limits).expect("the hard limit is always allowed");
    limits.current.unwrap_or(u64::MAX)
}

/// Raises the limit on descriptors to the hard limit. Returns whether both ends of a crowd fit
/// beside what is open already; if not, that is left out.
pub fn has_room_for_a_crowd() -> bool {
    const NEEDED: u64 = 2 * CROWD as u64 + 200;
    let most = raise_descriptors();
    if most < NEEDED {
        let why = format!("the hard limit is {most} open files: raise it to {NEEDED} (ulimit -Hn)");
        leave_out("a crowd of 5,000 connections", &why);
    }
    most >= NEEDED
}

/// Descriptors that this process has open, including the one that it counts with.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("this is Linux").count()
}

/// How long anything here may take before the test is judged to hang.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A server of the suite, with what its clients have stored.
pub struct Rig {
    pub server: Server,
    pub shared: Arc<Shared>,
    pub budget: Arc<MemoryBudget>,
}

impl Rig {
    /// One on a free port of the loopback, changed by `change`.
    pub fn new(driver: Driver, change: impl FnOnce(&mut Config)) -> Self {
        let budget = MemoryBudget::new(64 << 20);
        let resources = Resources { bounds: Bounds::default(), budget: budget.clone() };
        let mut config = Config::new(resources);
        config.driver = driver;
        config.workers = 2;
        config.listen = vec![Listen::Tcp("127.0.0.1:0".parse().expect("an address"))];
        change(&mut config);
        let shared = Arc::new(Shared::default());
        let all = shared.clone();
        let server = Server::start(config, move |slot| handler::handler(all.clone(), slot));
        Self { server: server.expect("the loopback has a free port"), shared, budget }
    }

    pub fn plain(driver: Driver) -> Self {
        Self::new(driver, |_| {})
    }

    pub fn connect(&self) -> Client {
        let Address::Tcp(address) = self.server.addresses()[0] else {
            panic!("this server has no port");
        };
        Client::tcp(address)
    }

    /// Waits until `open` connections are counted.
    pub fn wait_for_open(&self, open: u32) {
        eventually("connections are counted", || self.server.remote().open() == open);
    }
}

/// Waits until `condition` holds.
///
/// # Panics
/// When it does not in time.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "{what}: not in {PATIENCE:?}");
        std::thread::yield_now();
    }
}
