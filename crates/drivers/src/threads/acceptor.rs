//! The thread that accepts clients, starts their threads, and joins them.
//!
//! Where no other thread serves links, it is worker 0, and its handler serves no client: it gets
//! mail, and its `end_batch` is called after that and at the moments of its `wake_at_ns`. Where one
//! does, that is worker 0, and this one is worker 1 and has no handler. Each client is a worker of
//! its own: it gets a worker number that is free, and a generation that no connection had before.
//!
//! Invariants: a worker number is free again only after its thread is joined. The thread of a
//! client never outlives this one.
//!
//! Times are nanoseconds of the monotonic clock.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar};
use std::thread::JoinHandle;

use base::Now;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use session::{ConnId, Order, Serve, WorkerId};

use super::client::Client;
use crate::clock::{SECOND_NS, timespec};
use crate::error::StartError;
use crate::shared::{
    ACCEPTS_MAX, Attempt, Message, ORDERS_MAX, Phase, RETRY_NS, Shared, Slot, Waker, WorkerHandle,
    attempt,
};
use crate::sockets::{Accepted, Listener};

/// The acceptor wakes up at least this often, so that no wait is without an end.
const WAIT_NS_MAX: u64 = 60 * SECOND_NS;

/// Stack of a client's thread: parsing and executing do not recurse.
const STACK_BYTES: usize = 256 << 10;

/// The thread of a client.
struct ClientThread {
    fd: Arc<OwnedFd>,
    thread: JoinHandle<()>,
}

struct Acceptor<H, F> {
    shared: Arc<Shared>,
    handle: Arc<WorkerHandle>,
    listeners: Vec<Listener>,
    factory: F,
    /// The handler of worker 0, if this is it.
    handler: Option<H>,
    now: Now,
    clients: HashMap<WorkerId, ClientThread>,
    /// Workers whose threads have ended, or end now.
    ended: Receiver<WorkerId>,
    /// Where the threads say so.
    ending: Sender<WorkerId>,
    /// Numbers of workers that are gone, to be used again.
    free: Vec<WorkerId>,
    next: u32,
    /// How many connections there were: each is the next generation of its worker.
    generation: u32,
    /// While accepting has stopped: when to try again.
    retry_at_ns: Option<u64>,
}

/// Starts the acceptor of `shared`, which starts all other threads.
pub(crate) fn start<H, F>(
    shared: &Arc<Shared>,
    listeners: Vec<Listener>,
    mut factory: F,
) -> Result<Vec<JoinHandle<()>>, StartError>
where
    H: Serve + Send + 'static,
    F: FnMut(Slot<H::Mail>) -> H + Send + 'static,
{
    let waker = Waker::descriptor()
        .map_err(|cause| StartError::System { what: "an event descriptor", cause: cause.into() })?;
    let handle = WorkerHandle::new(waker);
    let id = shared.config().acceptor();
    shared.add_worker(id, handle.clone());
    for listener in &listeners {
        shared.show(listener);
    }
    let handler = (id == WorkerId(0)).then(|| factory(Slot::new(id, shared)));
    let (ending, ended) = channel();
    let acceptor = Acceptor {
        shared: shared.clone(),
        handle,
        listeners,
        factory,
        handler,
        now: shared.clock().now(),
        clients: HashMap::new(),
        ended,
        ending,
        free: Vec::new(),
        next: u32::from(id.0) + 1,
        generation: 0,
        retry_at_ns: None,
    };
    let builder = std::thread::Builder::new().name("acceptor".to_owned());
    let thread = builder.spawn(move || acceptor.run());
    thread
        .map(|thread| vec![thread])
        .map_err(|cause| StartError::System { what: "a thread", cause })
}

impl<H, F> Acceptor<H, F>
where
    H: Serve + Send + 'static,
    F: FnMut(Slot<H::Mail>) -> H,
{
    fn run(mut self) {
        while self.shared.phase() == Phase::Running {
            self.wait();
            self.reap();
            let ready = self.retry_at_ns.is_none_or(|at_ns| self.now.mono_ns >= at_ns);
            if ready && self.shared.phase() == Phase::Running {
                if self.retry_at_ns.take().is_some() {
                    self.shared.set_accept_stopped(false);
                }
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

    /// Its result is about replies, and there are none here.
    fn end_batch(&mut self) {
        self.refuse_orders();
        let clock = self.shared.clock();
        if let Some(handler) = &mut self.handler {
            let _ = handler.end_batch(self.now, || clock.now());
        }
    }

    /// Takes what the handler has ordered; there is no connection that it could be about. Returns
    /// whether there was anything.
    fn refuse_orders(&mut self) -> bool {
        let Some(handler) = &mut self.handler else { return false };
        for count in 0..ORDERS_MAX {
            match handler.take_order() {
                Some(Order::Connect { purpose, .. }) => handler.unconnected(purpose),
                Some(_) => {}
                None => return count > 0,
            }
        }
        true
    }

    /// Waits for a client, for a wake-up, or until something is due.
    fn wait(&mut self) {
        let wake_at_ns = self.handler.as_ref().map_or(u64::MAX, H::wake_at_ns);
        let mut at_ns = wake_at_ns.min(self.retry_at_ns.unwrap_or(u64::MAX));
        if self.shared.phase() == Phase::Draining {
            at_ns = at_ns.min(self.shared.drain_until_ns());
        }
        if self.refuse_orders() {
            at_ns = 0;
        }
        let wait_ns = at_ns.saturating_sub(self.now.mono_ns).min(WAIT_NS_MAX);
        let timeout = timespec(wait_ns);
        let waker = self.handle.mailbox().descriptor().expect("it was made with a descriptor");
        let mut fds = vec![PollFd::new(waker, PollFlags::IN)];
        if self.retry_at_ns.is_none() {
            fds.extend(self.listeners.iter().map(|it| PollFd::new(it.fd(), PollFlags::IN)));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("poll of the acceptor is broken: {error}"),
        }
        // Resets the waker. An error means that it has not woken this thread.
        let _ = rustix::io::read(waker, &mut [0; 8][..]);
        self.now = self.shared.clock().now();
        for message in self.handle.mailbox().take().messages {
            // It has no connection that anything else could be for.
            if let (Message::Mail(mail), Some(handler)) = (message, &mut self.handler) {
                mail.deliver(handler, self.now);
            }
        }
        self.handle.counters().wakeups.add(1);
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS_MAX {
            if self.retry_at_ns.is_some() {
                return;
            }
            let listener = &self.listeners[index];
            match attempt(&self.shared, self.handle.counters(), false, || listener.accept(false)) {
                Attempt::Accepted(accepted) => self.serve(accepted),
                Attempt::Again => {}
                Attempt::Full | Attempt::Pause => return self.stop_accepting(),
                Attempt::NoneWaiting => return,
            }
        }
    }

    /// Starts a thread for a client.
    fn serve(&mut self, accepted: Accepted) {
        let Some(worker) = self.number() else {
            // Every number belongs to a thread that runs or is about to be joined.
            self.handle.counters().rejected.add(1);
            return self.stop_accepting();
        };
        self.generation = self.generation.wrapping_add(1);
        let id = ConnId { worker, index: 0, generation: self.generation };
        let handle = WorkerHandle::new(Waker::Condition(Condvar::new()));
        self.shared.add_worker(worker, handle.clone());
        self.shared.opened();
        let handler = (self.factory)(Slot::new(worker, &self.shared));
        let client = Client::new(accepted, id, self.shared.clone(), handle, handler);
        let fd = client.fd();
        let (ending, acceptor) = (self.ending.clone(), self.handle.clone());
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = builder.name(format!("client-{}", worker.0)).spawn(move || {
            client.run();
            // It cannot fail: the acceptor outlives its clients.
            let _ = ending.send(worker);
            acceptor.mailbox().wake();
        });
        match thread {
            Ok(thread) => drop(self.clients.insert(worker, ClientThread { fd, thread })),
            Err(_) => {
                // The system allows no more threads. The client is dropped with its closure, which
                // closes the connection, and the next clients wait.
                self.free.push(worker);
                self.handle.counters().rejected.add(1);
                self.stop_accepting();
            }
        }
    }

    /// A number for one more worker, if one is left.
    fn number(&mut self) -> Option<WorkerId> {
        if let Some(worker) = self.free.pop() {
            return Some(worker);
        }
        let worker = WorkerId(u16::try_from(self.next).ok()?);
        self.next += 1;
        Some(worker)
    }

    /// Joins the threads that have ended.
    fn reap(&mut self) {
        while let Ok(worker) = self.ended.try_recv() {
            if let Some(client) = self.clients.remove(&worker) {
                client.thread.join().expect("a handler does not panic");
                self.free.push(worker);
                // One connection more may be opened.
                self.retry_at_ns = self.retry_at_ns.map(|_| self.now.mono_ns);
            }
        }
    }

    fn stop_accepting(&mut self) {
        self.retry_at_ns = Some(self.now.mono_ns + RETRY_NS);
        self.shared.set_accept_stopped(true);
        self.handle.counters().accept_stops.add(1);
    }

    /// Wakes the thread of every client.
    fn shut_down_all(&self, how: Shutdown) {
        for client in self.clients.values() {
            // An error means that the connection is broken, which wakes its thread as well.
            let _ = shutdown(&client.fd, how);
        }
    }
}
