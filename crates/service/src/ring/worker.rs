//! One worker of a ring's cell: what it executes, what it has at other cells, and its links.
//!
//! ```text
//! job -> this cell leads its slice, with a lease -> executed here; the reply may wait for a log
//!     -> another cell leads it                   -> asked on a link; the reply comes by its number
//!     -> neither                                 -> again a little later, until its deadline
//! ```
//!
//! Invariants: each job ends once: by a reply, or by an error at its deadline. A change is sent to
//! another cell once; if it is not known whether it was executed, its reply says so.

use super::cell::{Finding, RingCell};
use super::flush;
use super::job::{Asks, GatedReply, Gather, Job, Origin, error, in_doubt};
use super::link::{Kind, Link};
use super::peers::{Needs, Peers, Was};
use super::role::Role;
use super::routes::{Routes, Target};
use super::streams::Streams;
use super::target::{Subject, is_noreply, only_reads, subject, value_bytes};
use crate::cell::Cell;
use crate::service::Service;
use base::{Now, SliceId};
use effects::{LEVELS, Level};
use engine::KEY_BYTES_MAX;
use memcache::{Key, KeyScratch, Keys, Parsed, Request};
use peer::{Frame, Verdict};
use ring::CellId;
use session::{
    Conn, ConnId, Handler, LogId, Order, Outcome, Passed, Reply, Ticket, WAIT_NS_MAX, WorkerId,
};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Requests that a worker has at other cells, or that wait to be sent.
const JOBS_MAX: usize = 16 << 10;
/// Parts that a reply to another cell may have: more than the longest value.
const PARTS_MAX: usize = 1 << 16;
/// How long what cannot be done now rests.
const AGAIN_NS: u64 = 2_000_000;
/// How often it is looked whether other cells have not answered in time.
const OVERDUE_NS: u64 = 200_000_000;
/// An error of this cell comes so much before the general one of the session.
const EARLIER_NS: u64 = 50_000_000;

/// Bytes of a request without its value, nearly always.
const TEXT_BYTES: usize = 96;

/// Cells that may have forwarded a request.
const HOPS_MAX: u8 = 2;

/// Bytes of memory that are kept to compose replies in.
const COMPOSED_KEEP_BYTES: usize = 64 << 10;

/// The reply to what is no request.
const MALFORMED: &[u8] = b"SERVER_ERROR a cell sent a malformed request\r\n";

/// A request in canonical form.
enum Asked<'t> {
    Request(Request<'t>),
    /// Ends all items of the range that the slice is of.
    Flush(SliceId),
}

/// What came of a request that was executed here.
enum Executed {
    Done,
    Gate(LogId, u64),
    /// It cannot run now.
    NotNow,
}

/// One worker of a ring's cell.
pub(crate) struct RingWorker {
    pub(super) inner: Service,
    pub(super) ring: Arc<RingCell>,
    pub(super) worker: WorkerId,
    /// Held while a batch lasts.
    pub(super) routes: Option<Arc<Routes>>,
    /// The levels that the batch has used, one bit for each.
    pub(super) used: u8,
    pub(super) orders: VecDeque<Order>,
    pub(super) peers: Peers,
    /// What each link is for.
    pub(super) roles: HashMap<ConnId, Role>,
    /// Requests that are at other cells, by their numbers: what follows for several comes in that
    /// order.
    pub(super) asked: BTreeMap<u64, (CellId, Job)>,
    pub(super) next_id: u64,
    /// Requests that could not be sent or executed.
    pub(super) again: VecDeque<Job>,
    pub(super) gated: VecDeque<GatedReply>,
    pub(super) gathers: HashMap<u64, Gather>,
    pub(super) streams: Streams,
    /// Where a reply to another cell is composed; empty in between.
    composed: Reply,
    /// By lane, up to where others know of what was appended.
    known: Vec<u64>,
    pub(super) now: Now,
    pub(super) again_at_ns: u64,
    /// When the next requests at other cells may be overdue.
    overdue_at_ns: u64,
}

impl RingWorker {
    pub(crate) fn new(ring: Arc<RingCell>, worker: WorkerId) -> Self {
        let inner = Service::new(ring.cell.clone(), worker == WorkerId(0));
        let streams = Streams::new(ring.clone(), worker);
        let known = ring.log.lanes.logs().map(|_| 0).collect();
        Self {
            inner,
            ring,
            worker,
            routes: None,
            used: 0,
            orders: VecDeque::new(),
            peers: Peers::default(),
            roles: HashMap::new(),
            asked: BTreeMap::new(),
            next_id: 0,
            again: VecDeque::new(),
            gated: VecDeque::new(),
            gathers: HashMap::new(),
            streams,
            composed: Reply::new(),
            known,
            now: Now::default(),
            again_at_ns: 0,
            overdue_at_ns: u64::MAX,
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

    /// Whether this cell leads `slice` and may answer. If so, what is executed next is at its
    /// level.
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

    /// Whether what is executed now for `slice` comes after all that was asked for it before.
    #[inline]
    pub(super) fn leads_next(&mut self, slice: SliceId) -> bool {
        !self.is_kept(slice) && self.leads(slice)
    }

    pub(super) fn used(&self) -> impl Iterator<Item = Level> {
        let used = self.used;
        (0..LEVELS as u8).filter(move |at| used & 1 << at != 0).filter_map(Level::new)
    }

    /// Whether a reply that waits for a log may leave.
    pub(super) fn passed(&self, log: LogId, seq: u64) -> Passed {
        self.inner.gate(log, seq)
    }

    /// Sends `request` to its owner, or tries again a little later.
    pub(super) fn forward(
        &mut self,
        conn: &Conn,
        (request, slice): (&Request<'_>, SliceId),
        ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        if let Some(outcome) = self.is_full(1, conn, reply) {
            return outcome;
        }
        let noreply = is_noreply(request);
        let origin = if noreply { Origin::Nobody } else { Origin::Client(ticket) };
        let mut text = Vec::with_capacity(TEXT_BYTES + value_bytes(request));
        memcache::write(request, &mut text);
        let due_ns = self.due_ns();
        let only_reads = only_reads(request);
        self.dispatch(Job { origin, text, slice, only_reads, due_ns });
        if noreply { Outcome::Done } else { Outcome::Pending }
    }

    /// What to do where there is no place for that many more jobs.
    fn is_full(&self, jobs: usize, conn: &Conn, reply: &mut Reply) -> Option<Outcome> {
        let waiting = self.asked.len() + self.again.len() + self.gated.len();
        if waiting + jobs <= JOBS_MAX {
            return None;
        }
        if jobs <= JOBS_MAX && !conn.is_overdue() {
            return Some(Outcome::Park);
        }
        let line = format!(
            "SERVER_ERROR {jobs} keys for other cells, at most {JOBS_MAX} wait: ask for fewer\r\n"
        );
        reply.bytes_mut().extend_from_slice(line.as_bytes());
        Some(Outcome::Done)
    }

    pub(super) fn due_ns(&self) -> u64 {
        self.now.mono_ns + WAIT_NS_MAX - EARLIER_NS
    }

    /// Reads several keys, each from its owner.
    pub(super) fn gather(
        &mut self,
        conn: &Conn,
        (request, keys): (&Request<'_>, Keys<'_>),
        ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        if let Some(outcome) = self.is_full(keys.count(), conn, reply) {
            return outcome;
        }
        let number = self.next_id;
        self.next_id += 1;
        let jobs: Vec<_> = keys.flatten().map(|key| self.part(request, key)).collect();
        self.gathers.insert(number, Gather::new(ticket, Asks::Values, jobs.len()));
        for (index, (text, slice)) in jobs.into_iter().enumerate() {
            let origin = Origin::Part { gather: number, index };
            let (only_reads, due_ns) = (only_reads(request), self.due_ns());
            self.dispatch(Job { origin, text, slice, only_reads, due_ns });
        }
        Outcome::Pending
    }

    /// Ends all items, range by range.
    pub(super) fn flush(&mut self, ticket: Ticket, noreply: bool, reply: &mut Reply) -> Outcome {
        let number = self.next_id;
        self.next_id += 1;
        let map = self.ring.map();
        let starts = map.ranges.iter().filter_map(|range| range.slices().iter().next());
        let slices: Vec<_> = starts.collect();
        if slices.is_empty() && !noreply {
            reply.bytes_mut().extend_from_slice(b"SERVER_ERROR the ring has not formed\r\n");
            return Outcome::Done;
        }
        if !noreply {
            self.gathers.insert(number, Gather::new(ticket, Asks::Done, slices.len()));
        }
        for (index, slice) in slices.into_iter().enumerate() {
            let origin = match noreply {
                true => Origin::Nobody,
                false => Origin::Part { gather: number, index },
            };
            let text = flush::text(slice);
            // To flush twice ends what was written since: it is a change.
            let (only_reads, due_ns) = (false, self.due_ns());
            self.dispatch(Job { origin, text, slice, only_reads, due_ns });
        }
        if noreply { Outcome::Done } else { Outcome::Pending }
    }

    /// `request` for one of its keys.
    fn part(&self, request: &Request<'_>, key: Key<'_>) -> (Vec<u8>, SliceId) {
        let keys = Keys::one(key);
        let one = match *request {
            Request::Gat { exptime, with_cas, .. } => Request::Gat { exptime, keys, with_cas },
            Request::Get { with_cas, .. } => Request::Get { keys, with_cas },
            other => other,
        };
        let mut text = Vec::with_capacity(TEXT_BYTES);
        memcache::write(&one, &mut text);
        (text, SliceId::of(key.as_bytes()))
    }

    /// Whether all keys are led at one level, which is used then.
    pub(super) fn leads_all(&mut self, keys: Keys<'_>) -> bool {
        let mut level = None;
        for key in keys.flatten() {
            let (target, _) = self.route(SliceId::of(key.as_bytes()));
            if !matches!(target, Target::Here(_)) || level.is_some_and(|level| level != target) {
                return false;
            }
            level = Some(target);
        }
        let first = keys.flatten().next();
        let is_kept = keys.flatten().any(|key| self.is_kept(SliceId::of(key.as_bytes())));
        first.is_some_and(|key| !is_kept && self.leads(SliceId::of(key.as_bytes())))
    }

    /// What is done every few milliseconds, as long as there is something.
    pub(super) fn tend(&mut self, now: Now) {
        self.begin(now);
        self.again_at_ns = now.mono_ns + AGAIN_NS;
        let mut kept = HashSet::new();
        for _ in 0..self.again.len() {
            let Some(job) = self.again.pop_front() else { break };
            let (slice, count) = (job.slice, self.again.len());
            if kept.contains(&slice) && job.due_ns > now.mono_ns {
                self.again.push_back(job);
            } else {
                self.begin_job(job);
            }
            if self.again.len() > count {
                kept.insert(slice);
            }
        }
        self.end_overdue();
        self.finish_gated();
        self.streams.tend(now.mono_ns, &mut self.orders);
        if self.ring.lacks_space() {
            self.inner.tends_now(now);
        }
    }

    pub(super) fn has_to_tend(&self) -> bool {
        let has_jobs = !(self.again.is_empty() && self.gated.is_empty());
        has_jobs || self.streams.has_to_tend() || self.now.mono_ns >= self.deadline_ns()
    }

    /// When a request or a link may be overdue.
    fn deadline_ns(&self) -> u64 {
        self.overdue_at_ns.min(self.streams.silent_at_ns())
    }

    /// When there may be something to tend.
    pub(super) fn wakes_at_ns(&self) -> u64 {
        if self.has_to_tend() { self.again_at_ns } else { self.deadline_ns() }
    }

    /// Lets the workers of other lanes know that something was appended.
    pub(super) fn mail(&mut self) {
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

    /// Begins `job`, unless one about the same slice is kept for later: requests of one client keep
    /// their order.
    pub(super) fn dispatch(&mut self, job: Job) {
        if self.is_kept(job.slice) {
            return self.again.push_back(job);
        }
        self.begin_job(job);
    }

    /// Whether a job about `slice` is kept for later.
    #[inline]
    pub(super) fn is_kept(&self, slice: SliceId) -> bool {
        !self.again.is_empty() && self.again.iter().any(|job| job.slice == slice)
    }

    /// Executes `job`, sends it to its owner, or keeps it for a little later.
    fn begin_job(&mut self, job: Job) {
        if job.due_ns <= self.now.mono_ns {
            return self.gives_up(job);
        }
        match self.route(job.slice).0 {
            Target::Here(_) if self.leads(job.slice) => self.run(job),
            Target::Cell(cell) => self.ask(cell, job),
            Target::Here(_) | Target::Nowhere => self.again.push_back(job),
        }
    }

    fn run(&mut self, job: Job) {
        let mut reply = Reply::new();
        let executed = match self.read(&job.text) {
            Some((asked, _)) => self.execute(&asked, &mut reply),
            None => {
                reply.bytes_mut().extend_from_slice(MALFORMED);
                Executed::Done
            }
        };
        match executed {
            Executed::NotNow => self.again.push_back(job),
            Executed::Done => self.finish(job.origin, std::mem::take(reply.bytes_mut())),
            Executed::Gate(log, seq) => {
                let bytes = std::mem::take(reply.bytes_mut());
                let Job { origin, due_ns, .. } = job;
                self.gated.push_back(GatedReply { origin, log, seq, due_ns, bytes });
            }
        }
    }

    /// What `text`, a request of a cell, asks for, and the slice that it is about.
    fn read<'t>(&self, text: &'t [u8]) -> Option<(Asked<'t>, SliceId)> {
        if let Some(slice) = flush::slice_of(text) {
            return Some((Asked::Flush(slice), slice));
        }
        let limits = &self.cell().options().limits;
        let Parsed::Request { request, .. } = memcache::parse(text, limits) else { return None };
        let mut scratch: KeyScratch = [0; _];
        match subject(&request, &mut scratch) {
            Subject::Key(key) => {
                let slice = SliceId::of(key.as_bytes());
                Some((Asked::Request(request), slice))
            }
            _ => None,
        }
    }

    /// Lets the processor fetch what `text`, a request of a cell, is about: its second word is
    /// nearly always the key. Where it is not, something is fetched without effect.
    pub(super) fn look_ahead(&self, text: &[u8]) {
        let word = text.split(|byte| matches!(byte, b' ' | b'\r')).nth(1);
        if let Some(key) = word.filter(|word| (1..=KEY_BYTES_MAX).contains(&word.len())) {
            let engine = self.cell().engine();
            let _ = engine.look_ahead(engine.key(key));
        }
    }

    /// Executes what another cell or a client asks for, which this cell leads.
    fn execute(&mut self, asked: &Asked<'_>, reply: &mut Reply) -> Executed {
        let request = match asked {
            Asked::Flush(slice) => return self.flush_range(*slice, reply),
            Asked::Request(request) => request,
        };
        let id = ConnId { worker: self.worker, index: u32::MAX, generation: 0 };
        let mut conn = Conn::new(id);
        conn.authenticated = true;
        let ticket = Ticket { conn: id, request: 0 };
        // A request of one key waits for one log.
        let mut gate = None;
        for _ in 0..PARTS_MAX {
            match self.inner.call(self.now, &mut conn, request, ticket, reply) {
                Outcome::Done | Outcome::Close => {
                    return gate.map_or(Executed::Done, |(log, seq)| Executed::Gate(log, seq));
                }
                Outcome::Gate { log, seq } => return Executed::Gate(log, seq),
                Outcome::More => {}
                Outcome::Part { log, seq, parks: false } => gate = Some((log, seq)),
                Outcome::Park | Outcome::Part { .. } | Outcome::Pending => break,
            }
        }
        // What was read of it is dropped, and read again.
        self.inner.closed(id);
        reply.bytes_mut().clear();
        Executed::NotNow
    }

    /// Ends all items of the range that `slice` is of, which this cell leads.
    fn flush_range(&mut self, slice: SliceId, reply: &mut Reply) -> Executed {
        let map = self.ring.map();
        let Some(range) = map.range_of(slice) else { return Executed::NotNow };
        self.inner.worker.begin(self.now);
        if self.inner.worker.flush_slices(range.slices()).is_err() {
            return Executed::NotNow;
        }
        reply.bytes_mut().extend_from_slice(b"OK\r\n");
        match self.inner.worker.replies.as_mut().map(|replies| replies.outcome()) {
            Some(Outcome::Gate { log, seq }) => Executed::Gate(log, seq),
            _ => Executed::Done,
        }
    }

    fn ask(&mut self, cell: CellId, job: Job) {
        let version = self.version();
        let (now_ns, id) = (self.now.mono_ns, self.next_id);
        let Some(to) = self.address(cell) else { return self.again.push_back(job) };
        let Some((out, needs)) = self.peers.ask(cell, now_ns) else {
            return self.again.push_back(job);
        };
        let deadline_ms = (job.due_ns.saturating_sub(now_ns) / 1_000_000) as u16;
        let (hops, text) = (1, &job.text[..]);
        Frame::Request { id, deadline_ms, hops, map_version: version, text }.encode(out);
        self.next_id += 1;
        self.overdue_at_ns = self.overdue_at_ns.min(now_ns + OVERDUE_NS);
        self.asked.insert(id, (cell, job));
        match needs {
            Needs::Nothing => {}
            Needs::Connection => {
                let purpose = Role::Asks(cell).number();
                self.orders.push_back(Order::Connect { to, purpose });
            }
            Needs::Turn(conn) => self.orders.push_back(Order::Turn(conn)),
        }
    }

    /// Ends the requests that other cells have not answered in time, and the links that are of no
    /// use. Requests of clients have a deadline of their own.
    fn end_overdue(&mut self) {
        let now_ns = self.now.mono_ns;
        if now_ns < self.overdue_at_ns {
            return;
        }
        let overdue = self.asked.extract_if(.., |_, (_, job)| job.due_ns <= now_ns);
        let overdue: Vec<_> = overdue.map(|(_, asked)| asked).collect();
        let cells: Vec<_> = overdue.iter().map(|(cell, _)| *cell).collect();
        for (cell, job) in overdue {
            let why = format!("cell {cell} has not answered in time");
            let line = if job.only_reads { error(&why) } else { in_doubt(&why) };
            self.finish(job.origin, line);
        }
        self.end_useless_links(&cells);
        self.overdue_at_ns = match self.asked.is_empty() && !self.peers.is_opening() {
            true => u64::MAX,
            false => now_ns + OVERDUE_NS,
        };
    }

    /// Ends the links that are of no use any more. The cells with an `overdue` request are named.
    pub(super) fn end_useless_links(&mut self, overdue: &[CellId]) {
        let routes = self.routes.clone();
        let life_of = |cell| routes.as_ref()?.cells.get(&cell).map(|(_, life)| *life);
        for (cell, conn) in self.peers.useless(overdue, life_of, self.now.mono_ns) {
            self.orders.push_back(Order::Close(conn));
            self.lost(Role::Asks(cell), Some(conn));
        }
    }

    /// `job` was not executed in time.
    fn gives_up(&mut self, job: Job) {
        let (target, range) = self.route(job.slice);
        let range = range.map_or_else(|| "the ring".to_owned(), |range| format!("range {range}"));
        let reason = match target {
            Target::Here(_) => "this cell leads it, but its copies are silent".to_owned(),
            Target::Cell(cell) => format!("cell {cell} leads it and cannot be reached"),
            Target::Nowhere => "no cell leads it".to_owned(),
        };
        let line = format!("SERVER_ERROR {range} cannot be served: {reason}\r\n");
        self.finish(job.origin, line.into_bytes());
    }

    /// The reply to a request goes to whom it belongs.
    pub(super) fn finish(&mut self, origin: Origin, bytes: Vec<u8>) {
        match origin {
            Origin::Nobody => {}
            Origin::Client(ticket) => {
                self.orders.push_back(Order::Complete { ticket, bytes, last: true });
            }
            Origin::Part { gather, index } => {
                let Some(of) = self.gathers.get_mut(&gather) else { return };
                let Some(leaving) = of.take(index, bytes) else { return };
                if leaving.last {
                    self.gathers.remove(&gather);
                }
                let (ticket, bytes, last) = (leaving.ticket, leaving.bytes, leaving.last);
                self.orders.push_back(Order::Complete { ticket, bytes, last });
            }
        }
    }

    /// Finishes the replies of this worker whose logs have passed.
    pub(super) fn finish_gated(&mut self) {
        for _ in 0..self.gated.len() {
            let Some(reply) = self.gated.pop_front() else { break };
            match self.passed(reply.log, reply.seq) {
                Passed::Yes => self.finish(reply.origin, reply.bytes),
                Passed::No if reply.due_ns > self.now.mono_ns => self.gated.push_back(reply),
                _ => self.finish(reply.origin, in_doubt("a copy has not confirmed it in time")),
            }
        }
    }

    /// A link is gone, or could not be opened.
    pub(super) fn lost(&mut self, role: Role, conn: Option<ConnId>) {
        let now_ns = self.now.mono_ns;
        match role {
            Role::Asks(cell) => {
                let Some(was) = self.peers.closed(cell, conn, now_ns) else { return };
                let mine = self.asked.extract_if(.., |_, (of, _)| *of == cell);
                let jobs: Vec<_> = mine.map(|(_, (_, job))| job).collect();
                for job in jobs {
                    if job.only_reads || was == Was::Opening {
                        self.again.push_back(job);
                    } else {
                        let why = format!("the link to cell {cell} has broken");
                        self.finish(job.origin, in_doubt(&why));
                    }
                }
            }
            Role::Streams(cell, lane) => self.streams.closed((cell, lane), conn, now_ns),
            Role::Called => {}
        }
    }

    /// A link has a connection; its handshake begins. False if it is not wanted.
    pub(super) fn connected(&mut self, role: Role, conn: ConnId) -> bool {
        match role {
            Role::Asks(cell) => self.peers.connected(cell, conn),
            Role::Streams(cell, lane) => self.streams.connected((cell, lane), conn),
            Role::Called => false,
        }
    }

    /// The handshake of `link` is over. False if it is not wanted.
    pub(super) fn opened(&mut self, link: &Link, out: &mut Vec<u8>) -> bool {
        let now_ns = self.now.mono_ns;
        match link.kind {
            Kind::Asking => {
                let is_wanted = self.peers.opened((link.cell, link.incarnation), link.id(), now_ns);
                if is_wanted {
                    self.peers.send(link.cell, out);
                }
                is_wanted
            }
            Kind::StreamOut => self.streams.opened(link, now_ns, out),
            _ => true,
        }
    }

    /// Appends what is to be sent on `link`. False if the link is of no use any more.
    pub(super) fn sends(&mut self, link: &mut Link, out: &mut Vec<u8>) -> bool {
        match link.kind {
            Kind::Asking => {
                self.peers.send(link.cell, out);
                true
            }
            Kind::StreamOut => self.streams.sends(link, self.now.mono_ns, out),
            Kind::StreamIn(_) => self.streams.promises(link, out),
            _ => true,
        }
    }

    /// Takes a frame from `link`. False if it is to be given again later.
    pub(super) fn take_frame(
        &mut self,
        link: &mut Link,
        frame: &Frame<'_>,
        now: Now,
        out: &mut Reply,
    ) -> bool {
        self.begin(now);
        match (&mut link.kind, *frame) {
            (Kind::Answering, Frame::Request { id, deadline_ms, hops, text, .. }) => {
                let due_ns = now.mono_ns + u64::from(deadline_ms) * 1_000_000;
                self.answer(link, (id, hops, due_ns), text, out.bytes_mut());
            }
            (Kind::Asking, Frame::Reply { id, verdict, text, .. }) => {
                self.peers.hears(link.cell, now.mono_ns);
                self.answered(id, verdict, text);
            }
            (Kind::StreamOut, _) => self.streams.take_answer(link, frame, now.mono_ns),
            (Kind::StreamIn(_), _) => {
                self.inner.worker.begin(now);
                let worker = &mut self.inner.worker;
                return self.streams.take_entries(link, frame, worker, now, out.bytes_mut());
            }
            _ => link.end(),
        }
        true
    }

    /// Answers a request of another cell.
    fn answer(
        &mut self,
        link: &mut Link,
        (id, hops, due_ns): (u64, u8, u64),
        text: &[u8],
        out: &mut Vec<u8>,
    ) {
        let map_version = self.version();
        let mut refuse = |verdict| Frame::Reply { id, verdict, map_version, text: &[] }.encode(out);
        if hops > HOPS_MAX {
            return refuse(Verdict::TooManyHops);
        }
        let asked = match self.read(text) {
            Some((asked, slice)) if self.leads(slice) => asked,
            _ => return refuse(Verdict::NotOwner),
        };
        let mut reply = std::mem::take(&mut self.composed);
        match self.execute(&asked, &mut reply) {
            Executed::Done => self.reply_to_cell(id, Some(reply.bytes_mut()), out),
            Executed::Gate(log, seq) => {
                link.wait(id, (log, seq), due_ns, reply.bytes_mut().as_slice().to_vec());
            }
            Executed::NotNow => refuse(Verdict::NotOwner),
        }
        reply.clear(COMPOSED_KEEP_BYTES);
        self.composed = reply;
    }

    /// Appends the reply to request `id` of another cell: `text`, or that it is in doubt.
    pub(super) fn reply_to_cell(&self, id: u64, text: Option<&[u8]>, out: &mut Vec<u8>) {
        let map_version = self.ring.version();
        let (verdict, text) = match text {
            Some(text) => (Verdict::Done, text),
            None => (Verdict::InDoubt, &[][..]),
        };
        Frame::Reply { id, verdict, map_version, text }.encode(out);
    }

    /// Another cell has answered request `id`.
    fn answered(&mut self, id: u64, verdict: Verdict, text: &[u8]) {
        let Some((cell, job)) = self.asked.remove(&id) else { return };
        match verdict {
            Verdict::Done | Verdict::Refused => self.finish(job.origin, text.to_vec()),
            Verdict::NotOwner | Verdict::TooManyHops => self.again.push_back(job),
            Verdict::InDoubt => {
                let why = format!("the copies of cell {cell} have not confirmed it");
                self.finish(job.origin, in_doubt(&why));
            }
        }
    }

    /// Something is wrong with the link to `cell`.
    pub(super) fn notes(&self, cell: CellId, what: &dyn std::fmt::Display) {
        self.ring.find(Finding::Broken { cell, what: what.to_string() });
    }
}

const _: () = assert!(LEVELS <= u8::BITS as usize);
