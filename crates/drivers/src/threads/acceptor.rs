//! The thread at the acceptor: accepts clients, starts their threads, ends them.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar};
use std::thread::JoinHandle;

use base::Now;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use session::{ConnId, Handler, WorkerId};

use super::client::Client;
use crate::StartError;
use crate::accept::{ACCEPTS_MAX, AcceptError, RETRY_NS, classify, reject};
use crate::clock::SECOND_NS;
use crate::listen::{Accepted, Listener};
use crate::mailbox::{Contents, Waker};
use crate::server::Slot;
use crate::shared::{Phase, Remote, Shared, WorkerHandle};

/// The acceptor looks around at least this often, so that no wait is without an end.
const WAIT_NS_MAX: u64 = 60 * SECOND_NS;

/// Stack of a client's thread: parsing and executing recurse nowhere.
const STACK_BYTES: usize = 256 << 10;

/// A client that has a thread.
struct ClientThread {
    fd: Arc<OwnedFd>,
    thread: JoinHandle<()>,
}

struct Acceptor<H, F> {
    shared: Arc<Shared>,
    handle: Arc<WorkerHandle>,
    listeners: Vec<Listener>,
    factory: F,
    /// Serves nobody; woken when it asks for it.
    handler: H,
    now: Now,
    clients: HashMap<WorkerId, ClientThread>,
    /// Workers whose threads have come to their end.
    left: Receiver<WorkerId>,
    leaving: Sender<WorkerId>,
    /// Numbers of workers that are gone, to be used again.
    free: Vec<WorkerId>,
    next: u16,
    /// How many connections there were: each is the next generation of its worker.
    generation: u32,
    retry_at_ns: Option<u64>,
}

/// Starts the acceptor of `shared`, which starts everybody else.
pub(crate) fn start<H, F>(
    shared: &Arc<Shared>,
    listeners: Vec<Listener>,
    mut factory: F,
) -> Result<Vec<JoinHandle<()>>, StartError>
where
    H: Handler + Send + 'static,
    F: FnMut(Slot) -> H + Send + 'static,
{
    let waker = Waker::descriptor()
        .map_err(|cause| StartError::System { what: "an event descriptor", cause: cause.into() })?;
    let handle = WorkerHandle::new(waker);
    shared.slot(WorkerId(0), handle.clone());
    for listener in &listeners {
        shared.listens(listener.fd.as_raw_fd(), listener.address.clone());
    }
    let handler = factory(Slot { worker: WorkerId(0), remote: Remote(shared.clone()) });
    let (leaving, left) = channel();
    let acceptor = Acceptor {
        shared: shared.clone(),
        handle,
        listeners,
        factory,
        handler,
        now: shared.clock.now(),
        clients: HashMap::new(),
        left,
        leaving,
        free: Vec::new(),
        next: 1,
        generation: 0,
        retry_at_ns: None,
    };
    let thread =
        std::thread::Builder::new().name("acceptor".to_owned()).spawn(move || acceptor.run());
    thread
        .map(|thread| vec![thread])
        .map_err(|cause| StartError::System { what: "a thread", cause })
}

impl<H, F> Acceptor<H, F>
where
    H: Handler + Send + 'static,
    F: FnMut(Slot) -> H,
{
    fn run(mut self) {
        while self.shared.phase() == Phase::Running {
            self.wait();
            self.reap();
            let ready = self.retry_at_ns.is_none_or(|at_ns| self.now.mono_ns >= at_ns);
            if ready && self.shared.phase() == Phase::Running {
                self.resume_accepting();
                for index in 0..self.listeners.len() {
                    self.accept(index);
                }
            }
            self.end_batch();
        }
        self.listeners.clear();
        self.shut_down_all(Shutdown::Read);
        while self.shared.phase() == Phase::Draining
            && !self.clients.is_empty()
            && self.now.mono_ns < self.shared.drain_until_ns()
        {
            self.wait();
            self.reap();
            self.end_batch();
        }
        self.shared.advance(Phase::Stopping);
        self.shut_down_all(Shutdown::Both);
        for (_, client) in self.clients.drain() {
            client.thread.join().expect("a handler does not panic");
        }
    }

    /// Its verdict is about replies, and here are none.
    fn end_batch(&mut self) {
        let _ = self.handler.end_batch(self.now);
    }

    /// Waits for a client, for mail, or for a due time.
    fn wait(&mut self) {
        let mut at_ns = self.handler.wake_at_ns().min(self.retry_at_ns.unwrap_or(u64::MAX));
        if self.shared.phase() == Phase::Draining {
            at_ns = at_ns.min(self.shared.drain_until_ns());
        }
        let wait_ns = at_ns.saturating_sub(self.now.mono_ns).min(WAIT_NS_MAX);
        let timeout = Timespec {
            tv_sec: (wait_ns / SECOND_NS) as i64,
            tv_nsec: (wait_ns % SECOND_NS) as i64,
        };
        let waker =
            self.handle.mailbox.descriptor().expect("the acceptor is woken by a descriptor");
        let mut fds = vec![PollFd::new(waker, PollFlags::IN)];
        if self.retry_at_ns.is_none() {
            fds.extend(self.listeners.iter().map(|it| PollFd::new(&it.fd, PollFlags::IN)));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("poll at the acceptor is broken: {error}"),
        }
        // Clears the waker; it need not have woken.
        let _ = rustix::io::read(waker, &mut [0; 8][..]);
        self.handle.mailbox.take(Contents::default());
        self.now = self.shared.clock.now();
        self.handle.counters.wakeups.add(1);
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS_MAX {
            let config = &self.shared.config;
            let full = self.shared.open.load(Ordering::Relaxed) >= config.connections_max;
            if full && !config.reject_at_limit {
                return self.stop_accepting();
            }
            match self.listeners[index].accept(false) {
                Ok(accepted) if full => {
                    self.handle.counters.rejected.add(1);
                    reject(&accepted);
                }
                Ok(accepted) => self.slot(accepted),
                Err(error) => match classify(error) {
                    AcceptError::Retry => {}
                    AcceptError::Pause => return self.stop_accepting(),
                    AcceptError::NoneWaiting => return,
                },
            }
        }
    }

    fn slot(&mut self, accepted: Accepted) {
        let Some(worker) = self.number() else {
            // Every number belongs to a thread that runs or is about to be joined.
            self.handle.counters.rejected.add(1);
            return self.stop_accepting();
        };
        self.generation = self.generation.wrapping_add(1);
        let id = ConnId { worker, index: 0, generation: self.generation };
        let handle = WorkerHandle::new(Waker::Condition(Condvar::new()));
        self.shared.slot(worker, handle.clone());
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        let handler = (self.factory)(Slot { worker, remote: Remote(self.shared.clone()) });
        let client = Client::new(accepted, id, self.shared.clone(), handle, handler);
        let fd = client.fd.clone();
        let leaving = self.leaving.clone();
        let acceptor = self.handle.clone();
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = builder.name(format!("client-{}", worker.0)).spawn(move || {
            client.run();
            // The acceptor is there as long as its clients are.
            let _ = leaving.send(worker);
            acceptor.mailbox.ring();
        });
        match thread {
            Ok(thread) => drop(self.clients.insert(worker, ClientThread { fd, thread })),
            Err(_) => {
                // The system has no more threads: the client, dropped with its closure, finds its
                // connection closed, and the next ones wait.
                self.free.push(worker);
                self.handle.counters.rejected.add(1);
                self.stop_accepting();
            }
        }
    }

    /// A number for one more worker, if one is left.
    fn number(&mut self) -> Option<WorkerId> {
        if let Some(worker) = self.free.pop() {
            return Some(worker);
        }
        let worker = WorkerId(self.next);
        self.next = self.next.checked_add(1)?;
        Some(worker)
    }

    /// Joins the threads that have come to their end.
    fn reap(&mut self) {
        while let Ok(worker) = self.left.try_recv() {
            if let Some(client) = self.clients.remove(&worker) {
                client.thread.join().expect("a handler does not panic");
                self.free.push(worker);
                // There is room again.
                self.retry_at_ns = self.retry_at_ns.map(|_| self.now.mono_ns);
            }
        }
    }

    fn stop_accepting(&mut self) {
        self.retry_at_ns = Some(self.now.mono_ns + RETRY_NS);
        self.handle.counters.accept_stops.add(1);
        self.shared.accept_stopped.store(true, Ordering::Relaxed);
    }

    fn resume_accepting(&mut self) {
        if self.retry_at_ns.take().is_some() {
            self.shared.accept_stopped.store(false, Ordering::Relaxed);
        }
    }

    /// Wakes every client's thread.
    fn shut_down_all(&self, how: Shutdown) {
        for client in self.clients.values() {
            // It may be broken already, which wakes its thread as well.
            let _ = shutdown(&client.fd, how);
        }
    }
}
