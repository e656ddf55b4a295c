//! The thread at the door: accepts clients, starts their threads, ends them.

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
use crate::accept::{ACCEPTS_MAX, Failed, RETRY_NS, judge, turn_away};
use crate::clock::SECOND_NS;
use crate::listen::{Guest, Listener};
use crate::mail::{Bell, Delivery};
use crate::server::Seat;
use crate::shared::{Desk, Phase, Remote, Shared};

/// The door looks around at least this often, so that no wait is without an end.
const WAIT_NS_MAX: u64 = 60 * SECOND_NS;

/// Stack of a client's thread: parsing and executing recurse nowhere.
const STACK_BYTES: usize = 256 << 10;

/// A client that has a thread.
struct Seated {
    fd: Arc<OwnedFd>,
    thread: JoinHandle<()>,
}

struct Door<H, F> {
    shared: Arc<Shared>,
    desk: Arc<Desk>,
    listeners: Vec<Listener>,
    factory: F,
    /// Serves nobody; woken when it asks for it.
    handler: H,
    now: Now,
    seated: HashMap<WorkerId, Seated>,
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

/// Starts the door of `shared`, which starts everybody else.
pub(crate) fn start<H, F>(
    shared: &Arc<Shared>,
    listeners: Vec<Listener>,
    mut factory: F,
) -> Result<Vec<JoinHandle<()>>, StartError>
where
    H: Handler + Send + 'static,
    F: FnMut(Seat) -> H + Send + 'static,
{
    let bell = Bell::descriptor()
        .map_err(|cause| StartError::System { what: "an event descriptor", cause: cause.into() })?;
    let desk = Desk::new(bell);
    shared.seat(WorkerId(0), desk.clone());
    for listener in &listeners {
        shared.listens(listener.fd.as_raw_fd(), listener.address.clone());
    }
    let handler = factory(Seat { worker: WorkerId(0), remote: Remote(shared.clone()) });
    let (leaving, left) = channel();
    let door = Door {
        shared: shared.clone(),
        desk,
        listeners,
        factory,
        handler,
        now: shared.clock.now(),
        seated: HashMap::new(),
        left,
        leaving,
        free: Vec::new(),
        next: 1,
        generation: 0,
        retry_at_ns: None,
    };
    let thread = std::thread::Builder::new().name("door".to_owned()).spawn(move || door.run());
    thread
        .map(|thread| vec![thread])
        .map_err(|cause| StartError::System { what: "a thread", cause })
}

impl<H, F> Door<H, F>
where
    H: Handler + Send + 'static,
    F: FnMut(Seat) -> H,
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
        self.see_off(Shutdown::Read);
        while self.shared.phase() == Phase::Draining
            && !self.seated.is_empty()
            && self.now.mono_ns < self.shared.drain_until_ns()
        {
            self.wait();
            self.reap();
            self.end_batch();
        }
        self.shared.advance(Phase::Stopping);
        self.see_off(Shutdown::Both);
        for (_, client) in self.seated.drain() {
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
        let bell = self.desk.mailbox.descriptor().expect("the door is woken by a descriptor");
        let mut fds = vec![PollFd::new(bell, PollFlags::IN)];
        if self.retry_at_ns.is_none() {
            fds.extend(self.listeners.iter().map(|it| PollFd::new(&it.fd, PollFlags::IN)));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("poll at the door is broken: {error}"),
        }
        // Clears the bell; it need not have rung.
        let _ = rustix::io::read(bell, &mut [0; 8][..]);
        self.desk.mailbox.take(Delivery::default());
        self.now = self.shared.clock.now();
        self.desk.counters.wakeups.add(1);
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS_MAX {
            let config = &self.shared.config;
            let full = self.shared.open.load(Ordering::Relaxed) >= config.connections_max;
            if full && !config.reject_at_limit {
                return self.stop_accepting();
            }
            match self.listeners[index].accept(false) {
                Ok(guest) if full => {
                    self.desk.counters.rejected.add(1);
                    turn_away(&guest);
                }
                Ok(guest) => self.seat(guest),
                Err(error) => match judge(error) {
                    Failed::Again => {}
                    Failed::Pause => return self.stop_accepting(),
                    Failed::Nobody => return,
                },
            }
        }
    }

    fn seat(&mut self, guest: Guest) {
        let Some(worker) = self.number() else {
            // Every number belongs to a thread that runs or is about to be joined.
            self.desk.counters.rejected.add(1);
            return self.stop_accepting();
        };
        self.generation = self.generation.wrapping_add(1);
        let id = ConnId { worker, index: 0, generation: self.generation };
        let desk = Desk::new(Bell::Condition(Condvar::new()));
        self.shared.seat(worker, desk.clone());
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        let handler = (self.factory)(Seat { worker, remote: Remote(self.shared.clone()) });
        let client = Client::new(guest, id, self.shared.clone(), desk, handler);
        let fd = client.fd.clone();
        let leaving = self.leaving.clone();
        let door = self.desk.clone();
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = builder.name(format!("client-{}", worker.0)).spawn(move || {
            client.run();
            // The door is there as long as its clients are.
            let _ = leaving.send(worker);
            door.mailbox.ring();
        });
        match thread {
            Ok(thread) => drop(self.seated.insert(worker, Seated { fd, thread })),
            Err(_) => {
                // The system has no more threads: the client, dropped with its closure, finds its
                // connection closed, and the next ones wait.
                self.free.push(worker);
                self.desk.counters.rejected.add(1);
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
            if let Some(client) = self.seated.remove(&worker) {
                client.thread.join().expect("a handler does not panic");
                self.free.push(worker);
                // There is room again.
                self.retry_at_ns = self.retry_at_ns.map(|_| self.now.mono_ns);
            }
        }
    }

    fn stop_accepting(&mut self) {
        self.retry_at_ns = Some(self.now.mono_ns + RETRY_NS);
        self.desk.counters.accept_stops.add(1);
        self.shared.wants_room.store(true, Ordering::Relaxed);
    }

    fn resume_accepting(&mut self) {
        if self.retry_at_ns.take().is_some() {
            self.shared.wants_room.store(false, Ordering::Relaxed);
        }
    }

    /// Wakes every client's thread.
    fn see_off(&self, how: Shutdown) {
        for client in self.seated.values() {
            // It may be broken already, which wakes its thread as well.
            let _ = shutdown(&client.fd, how);
        }
    }
}
