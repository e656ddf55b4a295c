//! What the workers of one server share, and what others may do with it.
//!
//! Each worker has a handle: its mailbox, its counters, the connections of its connections. Desks outlive
//! their workers as long as somebody looks at them. Locks here are taken when connections open
//! and close and when mail is posted, never per request.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard};
use std::time::Duration;

use base::Now;
use rustix::net::{Shutdown, shutdown};
use session::{ConnId, LogId, Ticket, WorkerId};

use crate::Config;
use crate::clock::{Clock, SECOND_NS};
use crate::counters::{Counters, Snapshot};
use crate::info::{ConnectionInfo, Report, State};
use crate::listen::Address;
use crate::mailbox::{Mailbox, Message, Waker};

/// How far a server is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    /// It serves.
    Running,
    /// It accepts nobody, and closes each connection between two requests.
    Draining,
    /// It closes everything.
    Stopping,
}

/// The public side of one worker.
pub(crate) struct WorkerHandle {
    pub(crate) mailbox: Mailbox,
    pub(crate) counters: Counters,
    /// Connections it has or is about to get.
    pub(crate) load: AtomicU32,
    /// The one connection of a worker that blocks on it, to be shut down when it is to wake.
    pub(crate) socket: OnceLock<(ConnId, Arc<OwnedFd>)>,
    connections: Mutex<Vec<Option<Arc<ConnectionInfo>>>>,
}

impl WorkerHandle {
    pub(crate) fn new(waker: Waker) -> Arc<Self> {
        Arc::new(Self {
            mailbox: Mailbox::new(waker),
            counters: Counters::default(),
            load: AtomicU32::new(0),
            socket: OnceLock::new(),
            connections: Mutex::default(),
        })
    }

    pub(crate) fn pin(&self, index: usize, info: Arc<ConnectionInfo>) {
        let mut connections = self.connections();
        if connections.len() <= index {
            connections.resize(index + 1, None);
        }
        connections[index] = Some(info);
    }

    pub(crate) fn unpin(&self, index: usize) {
        self.connections()[index] = None;
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Option<Arc<ConnectionInfo>>>> {
        self.connections.lock().expect("no holder of the connections panics")
    }
}

/// What all workers of a server share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// Connections that are open, over all workers.
    pub(crate) open: AtomicU32,
    /// Accepting has stopped and wants to know when a connection closes.
    pub(crate) accept_stopped: AtomicBool,
    phase: AtomicU8,
    drain_until_ns: AtomicU64,
    handles: RwLock<Vec<Option<Arc<WorkerHandle>>>>,
    /// What workers counted that are gone.
    retired: Mutex<Snapshot>,
    listeners: Mutex<Vec<(i32, Arc<Address>)>>,
}

impl Shared {
    pub(crate) fn new(config: Config) -> Arc<Self> {
        Arc::new(Self {
            config,
            clock: Clock::new(),
            open: AtomicU32::new(0),
            accept_stopped: AtomicBool::new(false),
            phase: AtomicU8::new(Phase::Running as u8),
            drain_until_ns: AtomicU64::new(u64::MAX),
            handles: RwLock::default(),
            retired: Mutex::default(),
            listeners: Mutex::default(),
        })
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Running,
            1 => Phase::Draining,
            _ => Phase::Stopping,
        }
    }

    /// When draining ends in any case.
    pub(crate) fn drain_until_ns(&self) -> u64 {
        self.drain_until_ns.load(Ordering::Relaxed)
    }

    /// Goes on to `phase` and tells every worker. A server never goes back.
    pub(crate) fn advance(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::Relaxed);
        for handle in self.handles().iter().flatten() {
            handle.mailbox.ring();
        }
    }

    pub(crate) fn drain(&self, limit: Duration) {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = self.clock.now().mono_ns.saturating_add(limit_ns);
        self.drain_until_ns.store(until_ns, Ordering::Relaxed);
        self.advance(Phase::Draining);
    }

    /// One connection fewer; whoever waits for room is told.
    pub(crate) fn left(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        if self.accept_stopped.load(Ordering::Relaxed)
            && let Some(handle) = self.handle(WorkerId(0))
        {
            handle.mailbox.ring();
        }
    }

    pub(crate) fn listens(&self, fd: i32, address: Arc<Address>) {
        self.listeners.lock().expect("no holder of the listeners panics").push((fd, address));
    }

    pub(crate) fn handle(&self, worker: WorkerId) -> Option<Arc<WorkerHandle>> {
        self.handles().get(usize::from(worker.0))?.clone()
    }

    /// Sets up `handle` as that of `worker`.
    pub(crate) fn slot(&self, worker: WorkerId, handle: Arc<WorkerHandle>) {
        let mut handles = self.handles.write().expect("no holder of the handles panics");
        let index = usize::from(worker.0);
        if handles.len() <= index {
            handles.resize(index + 1, None);
        }
        handles[index] = Some(handle);
    }

    /// Takes the handle of `worker` away and keeps what it counted.
    pub(crate) fn remove_worker(&self, worker: WorkerId) {
        let mut handles = self.handles.write().expect("no holder of the handles panics");
        let Some(handle) = handles[usize::from(worker.0)].take() else { return };
        // Under the same lock, so that no snapshot misses the counts or finds them twice.
        self.retired.lock().expect("no holder of the counts panics").add(&handle.counters);
    }

    fn handles(&self) -> RwLockReadGuard<'_, Vec<Option<Arc<WorkerHandle>>>> {
        self.handles.read().expect("no holder of the handles panics")
    }
}

/// What any thread, a handler included, may do with a server.
#[derive(Clone)]
pub struct Remote(pub(crate) Arc<Shared>);

impl Remote {
    /// Hands in the rest of a reply. `false` when its worker is gone or buried in mail; a
    /// connection that is gone drops it silently.
    pub fn complete(&self, ticket: Ticket, bytes: Vec<u8>) -> bool {
        self.post(ticket.conn.worker, Message::Complete { ticket, bytes })
    }

    /// A mark of `log` has passed: replies that wait for it may leave.
    pub fn release(&self, _log: LogId) {
        for handle in self.0.handles().iter().flatten() {
            handle.mailbox.release();
        }
    }

    /// Ends a connection without waiting for anything. `false` as for [`Remote::complete`].
    pub fn close(&self, conn: ConnId) -> bool {
        let Some(handle) = self.0.handle(conn.worker) else { return false };
        if let Some((_, socket)) = handle.socket.get().filter(|(id, _)| *id == conn) {
            // One that is broken already wakes its thread as well.
            let _ = shutdown(socket, Shutdown::Both);
        }
        handle.mailbox.post(Message::Close(conn))
    }

    /// Stops or resumes reading from a client. A read that is under way is not interrupted, which
    /// concerns [`Driver::Threads`](crate::Driver::Threads) and
    /// [`Driver::Uring`](crate::Driver::Uring).
    pub fn pause_read(&self, conn: ConnId, on: bool) -> bool {
        self.post(conn.worker, Message::PauseRead { conn, on })
    }

    /// The counters of all workers together.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let handles = self.0.handles();
        let mut sum = *self.0.retired.lock().expect("no holder of the counts panics");
        for handle in handles.iter().flatten() {
            sum.add(&handle.counters);
        }
        sum
    }

    /// Connections that are open now.
    #[must_use]
    pub fn open(&self) -> u32 {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Whether clients are accepted, as `accepting_conns` tells.
    #[must_use]
    pub fn is_accepting(&self) -> bool {
        self.0.phase() == Phase::Running && !self.0.accept_stopped.load(Ordering::Relaxed)
    }

    /// Every listener and every open connection.
    #[must_use]
    pub fn connections(&self) -> Vec<Report> {
        let now_s = seconds(self.now());
        let listeners = self.0.listeners.lock().expect("no holder of the listeners panics");
        let mut reports: Vec<Report> = listeners
            .iter()
            .map(|(fd, address)| Report {
                fd: *fd,
                address: (**address).clone(),
                listener: None,
                state: State::Listening,
                idle_s: 0,
            })
            .collect();
        for handle in self.0.handles().iter().flatten() {
            reports.extend(handle.connections().iter().flatten().map(|info| Report {
                fd: info.fd,
                address: info.peer.clone(),
                listener: Some(info.listener.clone()),
                state: info.state(),
                idle_s: info.idle_s(now_s),
            }));
        }
        reports.sort_by_key(|report| report.fd);
        reports
    }

    /// The present moment on the clock of the server.
    #[must_use]
    pub fn now(&self) -> Now {
        self.0.clock.now()
    }

    fn post(&self, worker: WorkerId, mail: Message) -> bool {
        self.0.handle(worker).is_some_and(|handle| handle.mailbox.post(mail))
    }
}

/// Whole seconds of the monotonic clock.
pub(crate) fn seconds(now: Now) -> u32 {
    (now.mono_ns / SECOND_NS) as u32
}
