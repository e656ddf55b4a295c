//! Starting and ending a server.
//!
//! A server either runs with all its threads or not at all: what fails at the start ends the
//! threads that were started before. It ends in two ways: [`Remote::drain`] lets clients finish,
//! [`Remote::stop`] does not.

use std::any::Any;
use std::sync::Arc;
use std::thread::JoinHandle;

use session::Serve;

use crate::config::{Config, Driver, THREADS_MAX, WORKERS_MAX};
use crate::epoll::Epoll;
use crate::error::StartError;
use crate::shared::{Remote, Shared, Slot};
use crate::signal::Signalled;
use crate::sockets::{Address, Listener};
use crate::uring::Uring;
use crate::{threads, workers};

/// A server that runs. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Listens, and starts the threads that serve. `factory` makes the handler of each worker,
    /// here or, under [`Driver::Threads`], each time a client comes.
    ///
    /// # Errors
    /// When a number is out of range, an address cannot be listened on, or the system refuses
    /// a thread or a descriptor. Nothing runs then.
    pub fn start<H, F>(config: Config, mut factory: F) -> Result<Self, StartError>
    where
        H: Serve + Send + 'static,
        F: FnMut(Slot<H::Mail>) -> H + Send + 'static,
    {
        check(&config)?;
        let open = |(number, at)| Listener::open(number, at, config.backlog);
        let listeners =
            config.listen.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>()?;
        let addresses = listeners.iter().map(|listener| listener.report().address).collect();
        let driver = config.driver;
        let shared = Shared::new(config);
        let threads = match driver {
            Driver::Epoll => workers::start::<Epoll, _, _>(&shared, listeners, &mut factory)?,
            Driver::Signal => workers::start::<Signalled, _, _>(&shared, listeners, &mut factory)?,
            Driver::Uring => workers::start::<Uring, _, _>(&shared, listeners, &mut factory)?,
            Driver::Threads => {
                let (links, clients) = listeners.into_iter().partition(Listener::is_for_links);
                let serving = start_links(&shared, links, &mut factory)?;
                let started = threads::start(&shared, clients, factory);
                workers::all_or_none(&shared, serving, started)?
            }
        };
        Ok(Self { shared, addresses, threads })
    }

    /// Where it listens, with the ports that the system chose, in the order of the configuration.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        self.addresses.clone()
    }

    /// Reaches it from any thread.
    #[must_use]
    pub fn remote(&self) -> Remote {
        Remote::new(self.shared.clone())
    }

    /// Waits until every thread has ended, after [`Remote::drain`] or [`Remote::stop`].
    ///
    /// # Panics
    /// When a handler has panicked, with its message.
    pub fn join(mut self) {
        if let Some(panic) = self.end() {
            std::panic::resume_unwind(panic);
        }
    }

    fn end(&mut self) -> Option<Box<dyn Any + Send>> {
        self.threads.drain(..).fold(None, |panic, thread| panic.or(thread.join().err()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.remote().stop();
        self.end();
    }
}

/// Starts the worker that serves links where each client has a thread, if there is a listener for
/// them.
fn start_links<H: Serve + Send + 'static>(
    shared: &Arc<Shared>,
    listeners: Vec<Listener>,
    factory: &mut impl FnMut(Slot<H::Mail>) -> H,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    if listeners.is_empty() {
        return Ok(Vec::new());
    }
    workers::start::<Epoll, _, _>(shared, listeners, factory)
}

fn check(config: &Config) -> Result<(), StartError> {
    if config.listen.is_empty() {
        return Err(StartError::NoAddress);
    }
    let connections_max = match config.driver {
        Driver::Epoll | Driver::Signal | Driver::Uring => u32::MAX,
        Driver::Threads => THREADS_MAX,
    };
    if !(1..=connections_max).contains(&config.connections_max) {
        let asked = config.connections_max;
        return Err(StartError::Connections { asked, max: connections_max });
    }
    if config.driver != Driver::Threads && !(1..=WORKERS_MAX).contains(&config.workers) {
        return Err(StartError::Workers { asked: config.workers, max: WORKERS_MAX });
    }
    Ok(())
}
