//! One worker: its parts, its mail, its clients' beginning and end, its housekeeping. Its loop is
//! in `turn.rs`.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::Timespec;
use rustix::io::Errno;
use session::{Context, Handler, Reply, Span, WorkerId};

use super::accept::Acceptor;
use super::client::{Client, Clients, KEY_SPECIAL, Key, key_of};
use super::source::Source;
use super::tick::Ticks;
use crate::clock::{CoarseClock, SECOND_NS};
use crate::counters::Counters;
use crate::info::ConnectionInfo;
use crate::listen::Accepted;
use crate::mailbox::{Contents, Message};
use crate::net::RECV_BYTES;
use crate::shared::{Phase, Shared, WorkerHandle};

/// A worker looks around at least this often, so that no wait is without an end.
const WAIT_NS_MAX: u64 = 60 * SECOND_NS;

/// How long a worker that was just busy waits before it works out how long it may sleep, and how
/// late its housekeeping may be while it is busy. Nothing in it is due more often than twice a
/// second.
pub(super) const SHORT_WAIT_NS: u64 = SECOND_NS / 10;

/// [`SHORT_WAIT_NS`] as the system takes it.
pub(super) const SHORT_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: SHORT_WAIT_NS as i64 };

pub(super) struct Worker<H, S> {
    pub(super) id: WorkerId,
    pub(super) shared: Arc<Shared>,
    pub(super) handle: Arc<WorkerHandle>,
    pub(super) source: S,
    /// What sessions work with; its output holds the replies of the present batch.
    pub(super) context: Context<H>,
    pub(super) clients: Clients,
    /// Where clients are received into.
    pub(super) buffer: Box<[u8]>,
    /// Whose the replies of the present batch are.
    pub(super) sends: Vec<(Key, Span)>,
    /// How many of these wait for the source to send them.
    pub(super) ended_sends: usize,
    /// Connections that have more to do without an event.
    pub(super) again: Vec<Key>,
    /// Connections with replies that wait for a log, among others.
    pub(super) waiting: Vec<Key>,
    pub(super) acceptor: Option<Acceptor>,
    pub(super) ticks: Ticks,
    pub(super) watch: CoarseClock,
    /// The moment of the batch in whole seconds.
    pub(super) now_s: u32,
    /// When to look after what is due by time or asked for by mail.
    pub(super) housekeep_at_ns: u64,
    /// The latest wait has ended with events, so the next one most likely will.
    pub(super) busy: bool,
    pub(super) draining: bool,
}

impl<H: Handler, S: Source> Worker<H, S> {
    pub(super) fn new(shared: &Arc<Shared>, id: WorkerId, handler: H) -> Result<Self, Errno> {
        let handle = shared.handle(id).expect("handles are set up before workers");
        let waker = handle.mailbox.descriptor().expect("a worker is woken by a descriptor");
        let source = S::new(waker, KEY_SPECIAL)?;
        let (now, resources) = (shared.clock.now(), shared.config.resources.clone());
        Ok(Self {
            id,
            shared: shared.clone(),
            handle,
            source,
            context: Context { handler, now, out: Reply::new(), resources },
            clients: Clients::new(id),
            buffer: vec![0; RECV_BYTES].into_boxed_slice(),
            sends: Vec::new(),
            ended_sends: 0,
            again: Vec::new(),
            waiting: Vec::new(),
            acceptor: None,
            ticks: Ticks::default(),
            watch: CoarseClock::new(shared.clock),
            now_s: 0,
            housekeep_at_ns: 0,
            busy: false,
            draining: false,
        })
    }

    /// How long to wait when there may be something to do: until it is due, or not at all when a
    /// client has more to do.
    #[cold]
    pub(super) fn rest(&self) -> Timespec {
        let timeout_ns = if self.again.is_empty() { self.wait_ns() } else { 0 };
        Timespec {
            tv_sec: (timeout_ns / SECOND_NS) as i64,
            tv_nsec: (timeout_ns % SECOND_NS) as i64,
        }
    }

    /// How long nothing needs to be done.
    fn wait_ns(&self) -> u64 {
        let mut at_ns = self.context.handler.wake_at_ns().min(self.tick_at_ns());
        if let Some(acceptor) = &self.acceptor {
            at_ns = at_ns.min(acceptor.retry_at_ns());
        }
        if self.draining {
            at_ns = at_ns.min(self.shared.drain_until_ns());
        }
        at_ns.saturating_sub(self.context.now.mono_ns).min(WAIT_NS_MAX)
    }

    pub(super) fn on_messages(&mut self) {
        let contents = self.handle.mailbox.take(Contents::default());
        for message in contents.messages {
            match message {
                Message::Complete { ticket, bytes } => {
                    let key = key_of(ticket.conn);
                    let client = self.clients.get(key);
                    if client.is_some_and(|client| client.session.complete(ticket, &bytes)) {
                        self.release(key);
                    }
                }
                Message::Close(conn) => self.close(key_of(conn)),
                Message::PauseRead { conn, on } => {
                    let key = key_of(conn);
                    if let Some(client) = self.clients.get(key) {
                        client.paused = on;
                        self.settle(key);
                    }
                }
                Message::Adopt(accepted) => self.adopt(accepted),
            }
        }
        if contents.release {
            for key in std::mem::take(&mut self.waiting) {
                if let Some(client) = self.clients.get(key) {
                    client.waiting = false;
                    self.release(key);
                }
            }
        }
        self.resume_accepting();
        self.housekeep_at_ns = 0;
    }

    /// Takes over a client.
    pub(super) fn adopt(&mut self, accepted: Accepted) {
        let id = self.clients.next_id();
        let Accepted { fd, peer, listener } = accepted;
        let info = Arc::new(ConnectionInfo::new(fd.as_raw_fd(), peer, listener, self.now_s));
        self.handle.counters.accepted.add(1);
        if self.source.watch(&fd, key_of(id)).is_err() {
            // The system has no memory for one more registration.
            self.handle.counters.closed.add(1);
            self.forget_one();
            return;
        }
        self.handle.pin(id.index as usize, info.clone());
        self.clients.insert(Client::new(fd, id, info));
        if S::COMPLETES {
            // Its first turn has it received from.
            let client = self.clients.get(key_of(id)).expect("it was just put there");
            client.readable = true;
            self.enqueue(key_of(id));
        }
    }

    /// Ends a connection now; what it did not send or take is lost.
    pub(super) fn close(&mut self, key: Key) {
        let Some(client) = self.clients.remove(key) else { return };
        let id = client.session.id();
        self.ticks.forget(&client);
        self.handle.unpin(id.index as usize);
        self.handle.counters.closed.add(1);
        self.source.retire(client.fd);
        self.context.handler.closed(id);
        self.forget_one();
    }

    fn forget_one(&self) {
        self.handle.load.fetch_sub(1, Ordering::Relaxed);
        self.shared.left();
    }

    /// What is done after the replies are sent: whenever no event has come or mail has, and every
    /// [`SHORT_WAIT_NS`] in any case.
    #[cold]
    pub(super) fn housekeep(&mut self) {
        self.housekeep_at_ns = self.context.now.mono_ns + SHORT_WAIT_NS;
        if self.context.now.mono_ns >= self.tick_at_ns() {
            self.tick();
        }
        if self.acceptor.as_ref().is_some_and(|it| self.context.now.mono_ns >= it.retry_at_ns()) {
            self.resume_accepting();
        }
        if self.shared.phase() != Phase::Running {
            self.drain();
            self.housekeep_at_ns = 0;
        }
    }

    /// What receiving from a client and having its session deal with that takes.
    #[inline]
    pub(super) fn parts(&mut self) -> Parts<'_, H, S> {
        let Self { source, clients, context, buffer, handle, .. } = self;
        Parts { source, clients, context, buffer, counters: &handle.counters }
    }
}

/// Parts of a worker, lent together.
pub(super) struct Parts<'w, H, S> {
    pub(super) source: &'w mut S,
    pub(super) clients: &'w mut Clients,
    pub(super) context: &'w mut Context<H>,
    pub(super) buffer: &'w mut [u8],
    pub(super) counters: &'w Counters,
}
