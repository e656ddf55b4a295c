//! The open connections of a worker, with what every step on them needs: the source of events, the
//! context of the sessions, the counters, the second of the batch.
//!
//! It opens and closes connections and decides what comes next for one whose output is sent. It
//! never receives and never sends.
//!
//! Invariants: a key in `again` or in `waits` may be that of a closed connection and then matches
//! nothing. `stalled` is the number of connections with an outbox, `links` that of open links.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use base::Now;
use rustix::io::Errno;
use session::{BatchEnd, ConnId, Connection, Context, Flow, Passed, Serve, Waited, WorkerId};

use super::client::Client;
use super::clients::Clients;
use super::connects::{Connect, Connects};
use super::key::{KEY_SPECIAL, Key, key_of};
use super::source::Source;
use super::waits::{Gate, Waits};
use crate::clock::{Clock, seconds};
use crate::shared::{Shared, WorkerHandle};
use crate::sockets::{Accepted, ConnectionInfo, State, link_info};

/// Memory that the output buffer of a worker keeps from one batch to the next.
pub(super) const OUT_KEEP_BYTES: usize = 512 << 10;

pub(super) struct Connections<H: Serve, S> {
    pub(super) shared: Arc<Shared>,
    pub(super) handle: Arc<WorkerHandle>,
    pub(super) source: S,
    /// What sessions work with; its output holds the replies of the present batch.
    pub(super) context: Context<H>,
    pub(super) clients: Clients<H>,
    pub(super) clock: Clock,
    /// The moment of the batch in whole seconds.
    pub(super) now_s: u32,
    /// Connections that have more to do without an event.
    again: Vec<Key>,
    /// What connections wait for besides their clients.
    pub(super) waits: Waits,
    /// Connections that have got a part in the present batch and wait still, each once: replies of
    /// the batch may stand in their queues.
    queueing: Vec<Key>,
    /// Connections that have not taken all their replies.
    stalled: u32,
    /// Connections that are no clients.
    links: usize,
    /// Links that are under way.
    pub(super) connects: Connects,
}

impl<H: Serve, S: Source> Connections<H, S> {
    pub(super) fn new(shared: &Arc<Shared>, id: WorkerId, handler: H) -> Result<Self, Errno> {
        let handle = shared.worker(id).expect("handles are made before workers");
        let waker = handle.mailbox().descriptor().expect("a worker is woken by a descriptor");
        let source = S::new(waker, KEY_SPECIAL)?;
        let (now, resources) = (shared.clock().now(), shared.config().resources.clone());
        Ok(Self {
            shared: shared.clone(),
            handle,
            source,
            context: Context::new(handler, now, resources),
            clients: Clients::new(id),
            clock: shared.clock().clone(),
            now_s: 0,
            again: Vec::new(),
            waits: Waits::default(),
            queueing: Vec::new(),
            stalled: 0,
            links: 0,
            connects: Connects::default(),
        })
    }

    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        self.context.now.mono_ns
    }

    /// Begins a batch at `now`.
    #[inline]
    pub(super) fn set_now(&mut self, now: Now) {
        self.context.now = now;
        self.now_s = seconds(now);
    }

    /// Ends the batch; returns whether its replies may be sent. If not, the connections are closed
    /// in whose queues some of them stand.
    #[inline(always)]
    pub(super) fn end_batch(&mut self) -> BatchEnd {
        let clock = &self.clock;
        let end = self.context.handler.end_batch(self.context.now, || clock.now());
        if !self.queueing.is_empty() {
            self.end_queueing(end);
        }
        end
    }

    #[inline(never)]
    fn end_queueing(&mut self, end: BatchEnd) {
        let mut queueing = std::mem::take(&mut self.queueing);
        for key in queueing.drain(..) {
            let Some(client) = self.clients.get(key) else { continue };
            client.queueing = false;
            if end == BatchEnd::Drop {
                self.close(key);
            }
        }
        self.queueing = queueing;
    }

    /// Empties the output: everything in it is sent or kept elsewhere.
    #[inline(always)]
    pub(super) fn clear_output(&mut self) {
        self.context.out.clear(OUT_KEEP_BYTES);
    }

    /// Opens a connection for a client or a link that was accepted.
    pub(super) fn open(&mut self, accepted: Accepted) {
        let id = self.clients.next_id();
        let (listener, is_link) = (accepted.listener(), accepted.is_link());
        let (fd, info) = accepted.into_connection(self.now_s);
        self.count_opened(is_link);
        if self.source.watch(&fd, key_of(id)).is_err() {
            // The system has no memory for one more registration.
            return self.forget_one(is_link);
        }
        let connection = self.context.handler.accept(id, listener);
        self.insert(id, fd, connection, info, is_link);
    }

    /// Opens a link whose socket has connected. `None` when its handler does not want it any more,
    /// or the system has no memory for it.
    fn open_link(&mut self, connect: Connect) -> Option<Key> {
        let Connect { fd, to, purpose, .. } = connect;
        let id = self.clients.next_id();
        if self.source.watch(&fd, key_of(id)).is_err() {
            self.source.close(fd);
            self.refuse_link(purpose);
            return None;
        }
        let Some(connection) = self.context.handler.connected(id, purpose) else {
            self.source.close(fd);
            return None;
        };
        let info = link_info(&fd, to, self.now_s);
        self.handle.add_load();
        self.count_opened(true);
        self.insert(id, fd, connection, info, true);
        Some(key_of(id))
    }

    /// Starts to open a link.
    pub(super) fn connect(&mut self, to: SocketAddr, purpose: u64) {
        let now_ns = self.now_ns();
        if !self.connects.start(to, purpose, now_ns, &mut self.source) {
            self.refuse_link(purpose);
        }
    }

    /// Handles an event of a connection that is under way. Returns its key if it is open now.
    pub(super) fn end_connecting(&mut self, key: Key) -> Option<Key> {
        let (connect, is_open) = self.connects.take(key, &mut self.source)?;
        if is_open {
            return self.open_link(connect);
        }
        self.give_up(connect);
        None
    }

    /// Gives up the connections that were not opened before `now_ns`.
    pub(super) fn end_late_connects(&mut self, now_ns: u64) {
        while let Some(connect) = self.connects.take_late(now_ns, &mut self.source) {
            self.give_up(connect);
        }
    }

    fn give_up(&mut self, connect: Connect) {
        self.source.close(connect.fd);
        self.refuse_link(connect.purpose);
    }

    /// A link could not be opened.
    fn refuse_link(&mut self, purpose: u64) {
        self.handle.counters().links_failed.add(1);
        self.context.handler.unconnected(purpose);
    }

    fn insert(
        &mut self,
        id: ConnId,
        fd: OwnedFd,
        connection: H::Connection,
        info: Arc<ConnectionInfo>,
        is_link: bool,
    ) {
        assert_eq!(connection.is_client(), !is_link, "a listener for links accepts links alone");
        self.handle.show(id.index as usize, info.clone());
        let client = self.clients.insert(Client::new(fd, connection, info));
        if S::COMPLETES {
            // Its first turn makes the source receive from it.
            client.readable = true;
            self.enqueue(key_of(id));
        }
    }

    /// Closes a connection now; what it did not send or take is lost.
    pub(super) fn close(&mut self, key: Key) {
        let Some(client) = self.clients.remove(key) else { return };
        let (id, is_link) = (client.connection.id(), !client.connection.is_client());
        self.stalled -= u32::from(client.outbox.is_some());
        self.handle.hide(id.index as usize);
        self.source.close(client.fd);
        self.context.handler.closed(id);
        self.forget_one(is_link);
    }

    /// Closes every connection, those under way included.
    pub(super) fn close_all(&mut self) {
        self.end_late_connects(u64::MAX);
        for index in 0..self.clients.places() {
            if let Some(key) = self.clients.at(index).map(|client| client.key()) {
                self.close(key);
            }
        }
    }

    /// Closes every connection that waits for a completion: one was refused, and nobody knows
    /// whose.
    #[cold]
    pub(super) fn close_unanswered(&mut self) {
        for index in 0..self.clients.places() {
            let Some(client) = self.clients.at(index) else { continue };
            if client.connection.has_ticket() {
                let key = client.key();
                self.handle.counters().mailbox_kicks.add(1);
                self.close(key);
            }
        }
    }

    fn count_opened(&mut self, is_link: bool) {
        let counters = self.handle.counters();
        if is_link { &counters.links_opened } else { &counters.accepted }.add(1);
        self.links += usize::from(is_link);
    }

    /// One connection fewer, for the choice of a worker and for the limit of connections.
    fn forget_one(&mut self, is_link: bool) {
        let counters = self.handle.counters();
        if is_link { &counters.links_closed } else { &counters.closed }.add(1);
        self.links -= usize::from(is_link);
        self.handle.drop_load();
        if !is_link {
            self.shared.closed();
        }
    }

    /// Whether there is a client.
    pub(super) fn has_clients(&self) -> bool {
        self.clients.len() > self.links
    }

    /// The connection `id`, if it is one of this worker.
    pub(super) fn own(&mut self, id: ConnId) -> Option<&mut Client<H>> {
        self.clients.get(key_of(id)).filter(|client| client.connection.id() == id)
    }

    /// Decides what comes next for a connection, once its output is sent.
    pub(super) fn settle(&mut self, key: Key) {
        let Some(client) = self.clients.get(key) else { return };
        if client.unsent > 0 {
            return;
        }
        if client.outbox.is_some() {
            if !client.connection.is_client() && client.has_more_to_do() {
                self.enqueue(key);
            }
            return;
        }
        if client.is_over() {
            self.close(key);
        } else if client.has_more_to_do() {
            self.enqueue(key);
        } else if client.may_retry() {
            self.add_waiting(key);
        }
    }

    /// Gives a connection a turn without an event.
    pub(super) fn enqueue(&mut self, key: Key) {
        let Some(client) = self.clients.get(key) else { return };
        if !client.queued {
            client.queued = true;
            self.again.push(key);
        }
    }

    /// Makes the worker go round once more before it sleeps: the handler may have more orders.
    pub(super) fn look_again(&mut self) {
        // No connection has this key.
        self.again.push(KEY_SPECIAL);
    }

    /// Whether a connection has more to do without an event.
    #[inline]
    pub(super) fn has_queued(&self) -> bool {
        !self.again.is_empty()
    }

    /// The list of connections with more to do, which is empty then. Each is in it until its turn
    /// begins, so that it is not added twice.
    pub(super) fn take_queued(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.again)
    }

    /// Notes what a connection waits for: the gate and the deadline of its next reply, and another
    /// try of a request that is parked.
    pub(super) fn add_waiting(&mut self, key: Key) {
        let Self { clients, waits, queueing, .. } = self;
        let places = clients.places();
        let Some(client) = clients.get(key) else { return };
        client.info.set_state(State::Wait);
        if !client.queueing {
            client.queueing = true;
            queueing.push(key);
        }
        let gate = match client.connection.waits_for() {
            Some(Waited::Gate { log, seq }) => Some((log, seq)),
            Some(Waited::Ticket(_)) | None => None,
        };
        let is_new = gate != client.gate;
        client.gate = gate;
        let due_ns = client.connection.due_ns().filter(|_| !client.timed);
        client.timed |= due_ns.is_some();
        let parks =
            client.connection.flow() == Flow::Parked && client.outbox.is_none() && !client.parked;
        client.parked |= parks;
        if let Some(gate) = gate.filter(|_| is_new) {
            waits.add_gate(key, gate, places, |key, gate| waits_at(clients, key, gate));
        }
        if let Some(due_ns) = due_ns {
            waits.add_deadline(key, due_ns, places, |key| clients.look(key).is_some());
        }
        if parks {
            waits.park(key, places, |key| clients.look(key).is_some());
        }
    }

    /// Lets other threads see which logs the connections wait for. Those that raise a mark from now
    /// on wake this worker; marks that were raised before are seen by gates that are asked now.
    pub(super) fn announce_waits(&mut self) {
        self.handle.announce(self.waits.announce());
    }

    /// The worker is awake: it asks the gates again before it sleeps.
    #[inline(always)]
    pub(super) fn withdraw_waits(&mut self) {
        if self.waits.withdraw() {
            self.handle.withdraw();
        }
    }

    /// Takes a connection whose next reply waits for log number `at`, and whose gate has passed.
    pub(super) fn take_passed(&mut self, at: usize) -> Option<Key> {
        let Self { clients, waits, context, .. } = self;
        let passed = |(log, seq): Gate| context.handler.gate(log, seq) != Passed::No;
        let key = waits.take_passed(at, passed, |key, gate| waits_at(clients, key, gate))?;
        clients.get(key)?.gate = None;
        Some(key)
    }

    /// Takes a connection whose next reply has waited for too long.
    pub(super) fn take_overdue(&mut self) -> Option<Key> {
        let now_ns = self.now_ns();
        while let Some(key) = self.waits.take_due(now_ns) {
            let Some(client) = self.clients.get(key) else { continue };
            client.timed = false;
            match client.connection.due_ns() {
                Some(due_ns) if due_ns <= now_ns => return Some(key),
                // The reply that it was added for has left since.
                Some(_) => self.add_waiting(key),
                None => {}
            }
        }
        None
    }

    /// Takes the connection that is the next to be tried again, as [`Waits::take_parked`] says. A
    /// client that has not taken all its replies is parked again when it has.
    pub(super) fn take_parked(&mut self, oldest: bool) -> Option<Key> {
        while let Some(key) = self.waits.take_parked(oldest) {
            let Some(client) = self.clients.get(key) else { continue };
            client.parked = false;
            if client.may_retry() {
                return Some(key);
            }
        }
        None
    }

    /// Whether a connection has not taken all its replies.
    pub(super) fn has_stalled(&self) -> bool {
        self.stalled > 0
    }

    /// A connection has an outbox from now on.
    pub(super) fn add_stalled(&mut self, key: Key) {
        self.stalled += 1;
        let Some(client) = self.clients.get(key) else { return };
        client.info.set_state(State::Write);
        client.info.touch(self.now_s);
        self.watch_writable(key, true);
    }

    /// A connection has no outbox any more.
    pub(super) fn drop_stalled(&mut self) {
        self.stalled -= 1;
    }

    pub(super) fn watch_writable(&mut self, key: Key, on: bool) {
        let Some(client) = self.clients.get(key) else { return };
        if self.source.watch_writable(&client.fd, key, on).is_err() {
            return self.close(key);
        }
        if on && client.connection.is_client() {
            self.source.stop_receiving(key);
        }
    }
}

/// Whether the next reply of a connection waits for `gate`.
fn waits_at<H: Serve>(clients: &Clients<H>, key: Key, gate: Gate) -> bool {
    clients.look(key).is_some_and(|client| client.gate == Some(gate))
}
