//! The handler of a worker in a ring: executes what belongs to this cell, and sends the rest to its
//! owners.
//!
//! ```text
//! request -> its slice -> leads it, with a lease -> Service, at the level of the range
//!                      -> another cell leads it  -> a link; the reply comes by its ticket
//!                      -> nobody is known        -> again a little later, until its deadline
//! ```
//!
//! Invariants: what this cell executes for a range is sent only if its lease has not ended when the
//! batch ends. A change is sent to another cell once; if it is not known whether it was executed,
//! its reply says so.

use super::cell::{Mail, RingCell};
use super::job::{GatedReply, Gather, Job, Origin};
use super::kind::RingConnection;
use super::link::Link;
use super::peers::Peers;
use super::routes::{Routes, Target};
use super::stream_out::StreamOut;
use super::target::{Subject, is_noreply, only_reads, subject};
use crate::cell::Cell;
use crate::service::Service;
use base::{Now, SliceId};
use effects::{LEVELS, Level};
use memcache::{Key, KeyScratch, Keys, Limits, Refusal, Request, Store};
use peer::Purpose;
use ring::CellId;
use session::{
    Answer, BatchEnd, Cause, Conn, ConnId, Handler, LogId, Order, Outcome, Passed, Prompt, Reply,
    Serve, Session, Taken, Ticket, ValueStart, WAIT_NS_MAX, Waited, WorkerId,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Requests that a worker has at other cells, or that wait to be sent.
const JOBS_MAX: usize = 16 << 10;
/// How long what cannot be done now rests.
const AGAIN_NS: u64 = 2_000_000;
/// An error of this cell comes so much before the general one of the session.
const EARLIER_NS: u64 = 50_000_000;

/// What a connection to another cell is for, as the number of an order says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Requests to that cell.
    Asks(CellId),
    /// The log of a lane to that cell.
    Streams(CellId, u8),
    /// It has called.
    Called,
}

impl Role {
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Asks(cell) => u64::from(cell.0),
            Self::Streams(cell, lane) => 1 << 40 | u64::from(lane) << 32 | u64::from(cell.0),
            Self::Called => 2 << 40,
        }
    }

    fn of(number: u64) -> Self {
        let cell = CellId(number as u32);
        match number >> 40 {
            0 => Self::Asks(cell),
            1 => Self::Streams(cell, (number >> 32) as u8),
            _ => Self::Called,
        }
    }
}

/// Executes the requests of one worker of a ring's cell.
pub struct RingService {
    pub(super) inner: Service,
    pub(super) ring: Arc<RingCell>,
    pub(super) worker: WorkerId,
    /// The listener that other cells call.
    links_at: usize,
    /// Held while a batch lasts.
    routes: Option<Arc<Routes>>,
    /// The levels that the batch has used, one bit for each.
    used: u8,
    pub(super) orders: VecDeque<Order>,
    pub(super) peers: Peers,
    /// What each link is for.
    pub(super) roles: HashMap<ConnId, Role>,
    /// Requests that are at other cells, by their numbers.
    pub(super) asked: HashMap<u64, (CellId, Job)>,
    pub(super) next_id: u64,
    /// Requests that could not be sent or executed.
    pub(super) again: VecDeque<Job>,
    pub(super) gated: VecDeque<GatedReply>,
    pub(super) gathers: HashMap<u64, Gather>,
    /// By cell and lane.
    pub(super) streams: BTreeMap<(CellId, u8), StreamOut>,
    /// Streams of other cells that are to be given a turn.
    pub(super) stopped: Vec<ConnId>,
    /// By lane, up to where others know of what was appended.
    known: Vec<u64>,
    pub(super) now: Now,
    again_at_ns: u64,
}

impl RingService {
    /// A service for one worker. The listener number `links_at` is the one that other cells call.
    #[must_use]
    pub fn new(ring: Arc<RingCell>, worker: WorkerId, links_at: usize) -> Self {
        let inner = Service::new(ring.cell.clone(), worker == WorkerId(0));
        let known = ring.log.lanes.logs().map(|_| 0).collect();
        Self {
            inner,
            ring,
            worker,
            links_at,
            routes: None,
            used: 0,
            orders: VecDeque::new(),
            peers: Peers::default(),
            roles: HashMap::new(),
            asked: HashMap::new(),
            next_id: 0,
            again: VecDeque::new(),
            gated: VecDeque::new(),
            gathers: HashMap::new(),
            streams: BTreeMap::new(),
            stopped: Vec::new(),
            known,
            now: Now::default(),
            again_at_ns: 0,
        }
    }

    pub(super) fn cell(&self) -> &Cell {
        &self.ring.cell
    }

    /// Begins a batch, unless one has begun.
    #[inline]
    pub(super) fn begin(&mut self, now: Now) {
        self.now = now;
        if self.routes.is_none() {
            self.routes = Some(self.ring.routes());
        }
    }

    /// Where requests for `slice` go.
    #[inline]
    pub(super) fn route(&self, slice: SliceId) -> (Target, Option<ring::RangeId>) {
        let routes = self.routes.as_ref().expect("a batch has begun");
        routes.target(slice)
    }

    /// The version of the map that the batch goes by.
    pub(super) fn version(&self) -> u64 {
        self.routes.as_ref().map_or(0, |routes| routes.version)
    }

    /// Where `cell` takes links.
    pub(super) fn address(&self, cell: CellId) -> Option<std::net::SocketAddr> {
        self.routes.as_ref()?.cells.get(&cell).map(|(address, _)| *address)
    }

    /// Whether this cell leads `slice` and may answer. If so, what is executed next is at its level.
    #[inline]
    pub(super) fn leads(&mut self, slice: SliceId) -> bool {
        let (Target::Here(level), _) = self.route(slice) else { return false };
        if self.ring.terms.until_ns(level) <= self.now.mono_ns {
            return false;
        }
        self.used |= 1 << level.index();
        if let Some(replies) = &mut self.inner.worker.replies {
            replies.level = level;
        }
        true
    }

    fn used(&self) -> impl Iterator<Item = Level> {
        let used = self.used;
        (0..LEVELS as u8).filter(move |at| used & 1 << at != 0).filter_map(Level::new)
    }

    /// Whether a reply that waits for a log may leave.
    pub(super) fn passed(&self, log: LogId, seq: u64) -> Passed {
        self.inner.gate(log, seq)
    }

    /// Sends `request` to its owner, or tries again a little later.
    fn forward(
        &mut self,
        conn: &Conn,
        (request, slice): (&Request<'_>, SliceId),
        ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        if self.asked.len() + self.again.len() >= JOBS_MAX {
            if !conn.is_overdue() {
                return Outcome::Park;
            }
            let line = b"SERVER_ERROR too many requests wait for other cells\r\n";
            reply.bytes_mut().extend_from_slice(line);
            return Outcome::Done;
        }
        let noreply = is_noreply(request);
        let origin = if noreply { Origin::Nobody } else { Origin::Client(ticket) };
        let mut text = Vec::new();
        memcache::write(request, &mut text);
        let due_ns = self.due_ns();
        let only_reads = only_reads(request);
        self.dispatch(Job { origin, text, slice, only_reads, due_ns });
        if noreply { Outcome::Done } else { Outcome::Pending }
    }

    fn due_ns(&self) -> u64 {
        self.now.mono_ns + WAIT_NS_MAX - EARLIER_NS
    }

    /// Reads several keys, each from its owner.
    fn gather(&mut self, request: &Request<'_>, keys: Keys<'_>, ticket: Ticket) -> Outcome {
        let number = self.next_id;
        self.next_id += 1;
        let jobs: Vec<_> = keys.flatten().map(|key| self.part(request, key)).collect();
        self.gathers.insert(number, Gather::new(ticket, jobs.len()));
        for (index, (text, slice)) in jobs.into_iter().enumerate() {
            let origin = Origin::Part { gather: number, index };
            let (only_reads, due_ns) = (only_reads(request), self.due_ns());
            self.dispatch(Job { origin, text, slice, only_reads, due_ns });
        }
        Outcome::Pending
    }

    /// `request` for one of its keys.
    fn part(&self, request: &Request<'_>, key: Key<'_>) -> (Vec<u8>, SliceId) {
        let keys = Keys::one(key);
        let one = match *request {
            Request::Gat { exptime, with_cas, .. } => Request::Gat { exptime, keys, with_cas },
            Request::Get { with_cas, .. } => Request::Get { keys, with_cas },
            other => other,
        };
        let mut text = Vec::new();
        memcache::write(&one, &mut text);
        (text, SliceId::of(key.as_bytes()))
    }

    /// Whether all keys are led at one level, which is used then.
    fn leads_all(&mut self, keys: Keys<'_>) -> bool {
        let mut level = None;
        for key in keys.flatten() {
            let (target, _) = self.route(SliceId::of(key.as_bytes()));
            if !matches!(target, Target::Here(_)) || level.is_some_and(|level| level != target) {
                return false;
            }
            level = Some(target);
        }
        let first = keys.flatten().next();
        first.is_some_and(|key| self.leads(SliceId::of(key.as_bytes())))
    }

    /// What is done every few milliseconds, as long as there is something.
    fn tend(&mut self, now: Now) {
        self.begin(now);
        self.again_at_ns = now.mono_ns + AGAIN_NS;
        for conn in std::mem::take(&mut self.stopped) {
            self.orders.push_back(Order::Turn(conn));
        }
        for _ in 0..self.again.len() {
            let Some(job) = self.again.pop_front() else { break };
            self.dispatch(job);
        }
        self.finish_gated();
        self.open_streams();
    }

    fn has_to_tend(&self) -> bool {
        !(self.again.is_empty() && self.stopped.is_empty() && self.gated.is_empty())
            || self.streams.values().any(|stream| stream.opens_at_ns().is_some())
    }

    /// Lets the workers of other lanes know that something was appended.
    fn mail(&mut self) {
        let ring = &self.ring;
        for ((lane, log), known) in ring.log.lanes.logs().zip(&mut self.known) {
            let end = log.end();
            if end > *known {
                *known = end;
                if ring.worker_of(lane.index()) != self.worker {
                    ring.mail_appended(lane.index());
                }
            }
        }
    }
}

impl Serve for RingService {
    type Connection = RingConnection;

    fn accept(&mut self, id: ConnId, listener: usize) -> RingConnection {
        if listener != self.links_at {
            return RingConnection::Client(Session::new(id));
        }
        self.roles.insert(id, Role::Called);
        let link = Link::accepting(id, self.ring.acceptor(), self.ring.decoder());
        RingConnection::Link(Box::new(link))
    }

    fn connected(&mut self, id: ConnId, purpose: u64) -> Option<RingConnection> {
        let role = Role::of(purpose);
        let (cell, lane, purpose) = match role {
            Role::Asks(cell) => (cell, 0, Purpose::Requests),
            Role::Streams(cell, lane) => (cell, lane, Purpose::Stream),
            Role::Called => return None,
        };
        let mut hello = Vec::new();
        let connector = self.ring.connector(cell, purpose, &mut hello);
        let decoder = self.ring.decoder();
        self.roles.insert(id, role);
        let link = Link::connecting(id, (connector, purpose), (cell, lane), decoder, hello);
        Some(RingConnection::Link(Box::new(link)))
    }

    fn unconnected(&mut self, purpose: u64) {
        self.lost(Role::of(purpose), None);
    }
}

impl Handler for RingService {
    type Mail = Mail;

    fn limits(&self, conn: &Conn) -> &Limits {
        self.inner.limits(conn)
    }

    fn call(
        &mut self,
        now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        self.begin(now);
        if self.inner.distrusts(conn) {
            return self.inner.call(now, conn, request, ticket, reply);
        }
        let mut scratch: KeyScratch = [0; _];
        match subject(request, &mut scratch) {
            Subject::Cell => self.inner.call(now, conn, request, ticket, reply),
            Subject::Key(key) => {
                let slice = SliceId::of(key.as_bytes());
                if self.leads(slice) {
                    return self.inner.call(now, conn, request, ticket, reply);
                }
                self.forward(conn, (request, slice), ticket, reply)
            }
            Subject::Keys(keys) => {
                let is_whole = keys.into_iter().all(|key| key.is_ok());
                if !is_whole || self.leads_all(keys) {
                    return self.inner.call(now, conn, request, ticket, reply);
                }
                self.gather(request, keys, ticket)
            }
        }
    }

    #[inline]
    fn prompt(&self, conn: &Conn) -> Prompt {
        self.inner.prompt(conn)
    }

    #[inline]
    fn get_now<const GATED: bool>(&mut self, now: Now, key: Key<'_>, reply: &mut Reply) -> Answer {
        self.begin(now);
        if !self.leads(SliceId::of(key.as_bytes())) {
            return Answer::Declined;
        }
        self.inner.get_now::<GATED>(now, key, reply)
    }

    fn confirm(&self) -> bool {
        let replies = self.inner.worker.replies.as_ref();
        replies.is_none_or(|replies| self.used().all(|level| replies.is_settled_at(level)))
    }

    fn executes_again(&mut self, gets: u32) {
        self.inner.executes_again(gets);
    }

    #[inline]
    fn store_now<const GATED: bool>(
        &mut self,
        now: Now,
        store: &Store<'_>,
        reply: &mut Reply,
    ) -> Answer {
        self.begin(now);
        if !self.leads(SliceId::of(store.key.as_bytes())) {
            return Answer::Declined;
        }
        self.inner.store_now::<GATED>(now, store, reply)
    }

    fn whole_bytes_max(&self) -> usize {
        self.inner.whole_bytes_max()
    }

    fn begin_value(
        &mut self,
        _now: Now,
        _conn: &mut Conn,
        _request: &Request<'_>,
        _bytes: u64,
    ) -> ValueStart {
        ValueStart::Whole
    }

    fn take_piece(&mut self, now: Now, conn: &mut Conn, piece: &[u8]) -> Taken {
        self.inner.take_piece(now, conn, piece)
    }

    fn finish_value(
        &mut self,
        now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        self.inner.finish_value(now, conn, request, ticket, reply)
    }

    fn drop_value(&mut self, conn: ConnId) {
        self.inner.drop_value(conn);
    }

    fn refused(
        &mut self,
        now: Now,
        conn: &mut Conn,
        refusal: Option<&Refusal<'_>>,
        cause: Cause,
        reply: &mut Reply,
    ) {
        self.begin(now);
        let Some(Refusal::TooLarge { unlink: Some(token) }) = refusal else {
            return self.inner.refused(now, conn, refusal, cause, reply);
        };
        let mut scratch: KeyScratch = [0; _];
        let key = token.key(&mut scratch);
        let slice = SliceId::of(key.as_bytes());
        if self.leads(slice) {
            return self.inner.refused(now, conn, refusal, cause, reply);
        }
        // The old value goes, wherever it is.
        if !self.inner.distrusts(conn) {
            let mut text = Vec::new();
            memcache::write(&Request::Delete { key, noreply: true }, &mut text);
            let (origin, due_ns) = (Origin::Nobody, self.due_ns());
            self.dispatch(Job { origin, text, slice, only_reads: false, due_ns });
        }
        let stays = Refusal::TooLarge { unlink: None };
        self.inner.refused(now, conn, Some(&stays), cause, reply);
    }

    fn make_room(&mut self, now: Now, bytes: u64) -> bool {
        self.inner.make_room(now, bytes)
    }

    fn overdue(&mut self, now: Now, waited: &Waited, reply: &mut Reply) {
        let Waited::Ticket(ticket) = waited else {
            return self.inner.overdue(now, waited, reply);
        };
        let of = |(cell, job): &(CellId, Job)| {
            (job.origin == Origin::Client(*ticket)).then_some((*cell, job.only_reads))
        };
        let line = match self.asked.values().find_map(of) {
            Some((cell, true)) => format!("SERVER_ERROR cell {cell} has not answered in time\r\n"),
            Some((cell, false)) => {
                format!("SERVER_ERROR in doubt: cell {cell} has not answered in time\r\n")
            }
            None => "SERVER_ERROR in doubt: the owner has not answered in time\r\n".to_owned(),
        };
        self.asked.retain(|_, (_, job)| job.origin != Origin::Client(*ticket));
        reply.bytes_mut().extend_from_slice(line.as_bytes());
    }

    fn gate(&self, log: LogId, seq: u64) -> Passed {
        self.inner.gate(log, seq)
    }

    fn deliver(&mut self, now: Now, mail: Mail) {
        self.begin(now);
        match mail {
            Mail::Adopted => {
                self.routes = Some(self.ring.routes());
                self.adopt_copies();
                self.tend(now);
            }
            Mail::Appended(lane) => self.ring.unmail(lane),
        }
    }

    fn closed(&mut self, conn: ConnId) {
        if let Some(role) = self.roles.remove(&conn) {
            self.lost(role, Some(conn));
        }
        self.inner.closed(conn);
    }

    fn take_order(&mut self) -> Option<Order> {
        if let Some(order) = self.orders.pop_front() {
            return Some(order);
        }
        self.next_turn()
    }

    fn end_batch(&mut self, now: Now, fresh: impl Fn() -> Now) -> BatchEnd {
        if now.mono_ns >= self.again_at_ns && self.has_to_tend() {
            self.tend(now);
        }
        self.inner.end_batch(now, &fresh);
        self.mail();
        self.routes = None;
        if self.used == 0 {
            return BatchEnd::Send;
        }
        let fresh_ns = fresh().mono_ns;
        let may_answer = self.used().all(|level| self.ring.terms.until_ns(level) > fresh_ns);
        self.used = 0;
        if may_answer { BatchEnd::Send } else { BatchEnd::Drop }
    }

    fn wake_at_ns(&self) -> u64 {
        let at_ns = if self.has_to_tend() { self.again_at_ns } else { u64::MAX };
        self.inner.wake_at_ns().min(at_ns)
    }
}

const _: () = assert!(LEVELS <= u8::BITS as usize);
