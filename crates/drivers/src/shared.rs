//! What the workers of one server share, and what others may do with it.
//!
//! Each worker has a desk: its mailbox, its counters, the cards of its connections. Desks outlive
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
use crate::card::{Card, Report, State};
use crate::clock::{Clock, SECOND_NS};
use crate::counters::{Counters, Snapshot};
use crate::listen::Address;
use crate::mail::{Bell, Mail, Mailbox};

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
pub(crate) struct Desk {
    pub(crate) mailbox: Mailbox,
    pub(crate) counters: Counters,
    /// Connections it has or is about to get.
    pub(crate) load: AtomicU32,
    /// The one connection of a worker that blocks on it, to be shut down when it is to wake.
    pub(crate) socket: OnceLock<(ConnId, Arc<OwnedFd>)>,
    cards: Mutex<Vec<Option<Arc<Card>>>>,
}

impl Desk {
    pub(crate) fn new(bell: Bell) -> Arc<Self> {
        Arc::new(Self {
            mailbox: Mailbox::new(bell),
            counters: Counters::default(),
            load: AtomicU32::new(0),
            socket: OnceLock::new(),
            cards: Mutex::default(),
        })
    }

    pub(crate) fn pin(&self, index: usize, card: Arc<Card>) {
        let mut cards = self.cards();
        if cards.len() <= index {
            cards.resize(index + 1, None);
        }
        cards[index] = Some(card);
    }

    pub(crate) fn unpin(&self, index: usize) {
        self.cards()[index] = None;
    }

    fn cards(&self) -> MutexGuard<'_, Vec<Option<Arc<Card>>>> {
        self.cards.lock().expect("no holder of the cards panics")
    }
}

/// What all workers of a server share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// Connections that are open, over all workers.
    pub(crate) open: AtomicU32,
    /// Accepting has stopped and wants to know when a connection closes.
    pub(crate) wants_room: AtomicBool,
    phase: AtomicU8,
    drain_until_ns: AtomicU64,
    desks: RwLock<Vec<Option<Arc<Desk>>>>,
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
            wants_room: AtomicBool::new(false),
            phase: AtomicU8::new(Phase::Running as u8),
            drain_until_ns: AtomicU64::new(u64::MAX),
            desks: RwLock::default(),
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
        for desk in self.desks().iter().flatten() {
            desk.mailbox.ring();
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
        if self.wants_room.load(Ordering::Relaxed)
            && let Some(desk) = self.desk(WorkerId(0))
        {
            desk.mailbox.ring();
        }
    }

    pub(crate) fn listens(&self, fd: i32, address: Arc<Address>) {
        self.listeners.lock().expect("no holder of the listeners panics").push((fd, address));
    }

    pub(crate) fn desk(&self, worker: WorkerId) -> Option<Arc<Desk>> {
        self.desks().get(usize::from(worker.0))?.clone()
    }

    /// Sets up `desk` as that of `worker`.
    pub(crate) fn seat(&self, worker: WorkerId, desk: Arc<Desk>) {
        let mut desks = self.desks.write().expect("no holder of the desks panics");
        let index = usize::from(worker.0);
        if desks.len() <= index {
            desks.resize(index + 1, None);
        }
        desks[index] = Some(desk);
    }

    /// Takes the desk of `worker` away and keeps what it counted.
    pub(crate) fn unseat(&self, worker: WorkerId) {
        let mut desks = self.desks.write().expect("no holder of the desks panics");
        let Some(desk) = desks[usize::from(worker.0)].take() else { return };
        // Under the same lock, so that no snapshot misses the counts or finds them twice.
        self.retired.lock().expect("no holder of the counts panics").add(&desk.counters);
    }

    fn desks(&self) -> RwLockReadGuard<'_, Vec<Option<Arc<Desk>>>> {
        self.desks.read().expect("no holder of the desks panics")
    }
}

/// What any thread, a handler included, may do with a server.
#[derive(Clone)]
pub struct Remote(pub(crate) Arc<Shared>);

impl Remote {
    /// Hands in the rest of a reply. `false` when its worker is gone or buried in mail; a
    /// connection that is gone drops it silently.
    pub fn complete(&self, ticket: Ticket, bytes: Vec<u8>) -> bool {
        self.post(ticket.conn.worker, Mail::Complete { ticket, bytes })
    }

    /// A mark of `log` has passed: replies that wait for it may leave.
    pub fn release(&self, _log: LogId) {
        for desk in self.0.desks().iter().flatten() {
            desk.mailbox.release();
        }
    }

    /// Ends a connection without waiting for anything. `false` as for [`Remote::complete`].
    pub fn close(&self, conn: ConnId) -> bool {
        let Some(desk) = self.0.desk(conn.worker) else { return false };
        if let Some((_, socket)) = desk.socket.get().filter(|(id, _)| *id == conn) {
            // One that is broken already wakes its thread as well.
            let _ = shutdown(socket, Shutdown::Both);
        }
        desk.mailbox.post(Mail::Close(conn))
    }

    /// Stops or resumes reading from a client. A read that is under way is not interrupted, which
    /// concerns [`Driver::Threads`](crate::Driver::Threads) and
    /// [`Driver::Uring`](crate::Driver::Uring).
    pub fn pause_read(&self, conn: ConnId, on: bool) -> bool {
        self.post(conn.worker, Mail::PauseRead { conn, on })
    }

    /// The counters of all workers together.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let desks = self.0.desks();
        let mut sum = *self.0.retired.lock().expect("no holder of the counts panics");
        for desk in desks.iter().flatten() {
            sum.add(&desk.counters);
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
        self.0.phase() == Phase::Running && !self.0.wants_room.load(Ordering::Relaxed)
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
        for desk in self.0.desks().iter().flatten() {
            reports.extend(desk.cards().iter().flatten().map(|card| Report {
                fd: card.fd,
                address: card.peer.clone(),
                listener: Some(card.listener.clone()),
                state: card.state(),
                idle_s: card.idle_s(now_s),
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

    fn post(&self, worker: WorkerId, mail: Mail) -> bool {
        self.0.desk(worker).is_some_and(|desk| desk.mailbox.post(mail))
    }
}

/// Whole seconds of the monotonic clock.
pub(crate) fn seconds(now: Now) -> u32 {
    (now.mono_ns / SECOND_NS) as u32
}
