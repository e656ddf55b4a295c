//! A handler, clients and servers for the conformance suite.

#![allow(dead_code, reason = "each suite uses a part of it")]

pub mod client;
pub mod handler;

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::MemoryBudget;
use drivers::{Address, Config, Driver, Listen, Server};
use session::{Bounds, Ground};

use client::Client;
use handler::{Kv, Store};

/// All drivers: every promise is kept by each. Where io_uring is not allowed, its driver is left
/// out aloud; with CI=true in the environment it is not.
pub fn drivers() -> Vec<Driver> {
    let mut drivers = vec![Driver::Epoll, Driver::Signal, Driver::Uring, Driver::Threads];
    if let Err(cause) = drivers::probe_uring()
        && std::env::var_os("CI").is_none_or(|ci| ci != "true")
    {
        eprintln!("the driver uring is not tested: {cause}");
        drivers.retain(|driver| *driver != Driver::Uring);
    }
    drivers
}

/// How long anything here may take before the test is judged to hang.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A server of the suite, with what its clients have stored.
pub struct Rig {
    pub server: Server,
    pub store: Arc<Store>,
    pub budget: Arc<MemoryBudget>,
}

impl Rig {
    /// One on a free port of the loopback, changed by `change`.
    pub fn new(driver: Driver, change: impl FnOnce(&mut Config)) -> Self {
        let budget = MemoryBudget::new(64 << 20);
        let ground = Ground { bounds: Bounds::default(), budget: budget.clone() };
        let mut config = Config::new(ground);
        config.driver = driver;
        config.workers = 2;
        config.listen = vec![Listen::Tcp("127.0.0.1:0".parse().expect("an address"))];
        change(&mut config);
        let store = Arc::new(Store::default());
        let shared = store.clone();
        let server = Server::start(config, move |seat| Kv::new(shared.clone(), seat));
        Self { server: server.expect("the loopback has a free port"), store, budget }
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

    /// Waits until what clients did has reached the counters.
    pub fn wait_for_open(&self, open: u32) {
        eventually("connections are counted", || self.server.remote().open() == open);
    }
}

/// Asks until `condition` holds.
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
