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
use super::job::{GatedReply, Gather, Job, Origin};
use super::link::{Kind, Link};
use super::peers::{Needs, Peers};
use super::routes::{Routes, Target};
use super::stream_in::{Entries, Reason, StreamIn, Taken};
use super::stream_out::StreamOut;
use super::target::{Subject, is_noreply, only_reads, subject};
use crate::cell::Cell;
use crate::service::Service;
use base::{Now, SliceId};
use effects::{LEVELS, Level};
use memcache::{Key, KeyScratch, Keys, Parsed, Request};
use peer::{Frame, Verdict};
use ring::CellId;
use session::{
    Conn, ConnId, Handler, LogId, Order, Outcome, Passed, Reply, Ticket, WAIT_NS_MAX, WorkerId,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Requests that a worker has at other cells, or that wait to be sent.
const JOBS_MAX: usize = 16 << 10;
/// How long what cannot be done now rests.
const AGAIN_NS: u64 = 2_000_000;
/// An error of this cell comes so much before the general one of the session.
const EARLIER_NS: u64 = 50_000_000;

/// Cells that may have forwarded a request.
const HOPS_MAX: u8 = 2;

/// What came of a request that was executed here.
enum Executed {
    Done,
    Gate(LogId, u64),
    /// It cannot run now.
    NotNow,
}

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

    pub(super) fn of(number: u64) -> Self {
        let cell = CellId(number as u32);
        match number >> 40 {
            0 => Self::Asks(cell),
            1 => Self::Streams(cell, (number >> 32) as u8),
            _ => Self::Called,
        }
    }
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
    /// By cell and lane.
    pub(super) streams: BTreeMap<(CellId, u8), StreamOut>,
    /// Streams of other cells that are to be given a turn.
    pub(super) stopped: Vec<ConnId>,
    /// By lane, up to where others know of what was appended.
    known: Vec<u64>,
    pub(super) now: Now,
    pub(super) again_at_ns: u64,
}

impl RingWorker {
    pub(crate) fn new(ring: Arc<RingCell>, worker: WorkerId) -> Self {
        let inner = Service::new(ring.cell.clone(), worker == WorkerId(0));
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

    pub(super) fn due_ns(&self) -> u64 {
        self.now.mono_ns + WAIT_NS_MAX - EARLIER_NS
    }

    /// Reads several keys, each from its owner.
    pub(super) fn gather(
        &mut self,
        request: &Request<'_>,
        keys: Keys<'_>,
        ticket: Ticket,
    ) -> Outcome {
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
        first.is_some_and(|key| self.leads(SliceId::of(key.as_bytes())))
    }

    /// What is done every few milliseconds, as long as there is something.
    pub(super) fn tend(&mut self, now: Now) {
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

    pub(super) fn has_to_tend(&self) -> bool {
        !(self.again.is_empty() && self.stopped.is_empty() && self.gated.is_empty())
            || self.streams.values().any(|stream| stream.opens_at_ns().is_some())
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

    /// Executes `job`, sends it to its owner, or keeps it for a little later.
    pub(super) fn dispatch(&mut self, job: Job) {
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
        match self.execute(&job.text, &mut reply) {
            Executed::NotNow => self.again.push_back(job),
            Executed::Done => self.finish(job.origin, std::mem::take(reply.bytes_mut())),
            Executed::Gate(log, seq) => {
                let bytes = std::mem::take(reply.bytes_mut());
                let Job { origin, due_ns, .. } = job;
                self.gated.push_back(GatedReply { origin, log, seq, due_ns, bytes });
            }
        }
    }

    /// Executes a request in canonical form, which this cell leads.
    fn execute(&mut self, text: &[u8], reply: &mut Reply) -> Executed {
        let limits = self.cell().options().limits;
        let Parsed::Request { request, .. } = memcache::parse(text, &limits) else {
            reply
                .bytes_mut()
                .extend_from_slice(b"SERVER_ERROR a cell sent a malformed request\r\n");
            return Executed::Done;
        };
        let id = ConnId { worker: self.worker, index: u32::MAX, generation: 0 };
        let mut conn = Conn::new(id);
        conn.authenticated = true;
        let ticket = Ticket { conn: id, request: 0 };
        match self.inner.call(self.now, &mut conn, &request, ticket, reply) {
            Outcome::Done | Outcome::Close => Executed::Done,
            Outcome::Gate { log, seq } => Executed::Gate(log, seq),
            // Nothing of it was executed: its reply is dropped.
            Outcome::More | Outcome::Park | Outcome::Part { .. } | Outcome::Pending => {
                reply.bytes_mut().clear();
                Executed::NotNow
            }
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
                self.peers.closed(cell, now_ns);
                let mine = self.asked.extract_if(.., |_, (of, _)| *of == cell);
                let jobs: Vec<_> = mine.map(|(_, (_, job))| job).collect();
                for job in jobs {
                    // Without a connection nothing was sent.
                    if job.only_reads || conn.is_none() {
                        self.again.push_back(job);
                    } else {
                        let why = format!("the link to cell {cell} has broken");
                        self.finish(job.origin, in_doubt(&why));
                    }
                }
            }
            Role::Streams(cell, lane) => {
                let stream = self.streams.get_mut(&(cell, lane));
                if let Some(stream) = stream.filter(|it| it.conn == conn || it.conn.is_none()) {
                    stream.closed(now_ns);
                }
            }
            Role::Called => {
                if let Some(conn) = conn {
                    self.stopped.retain(|it| *it != conn);
                }
            }
        }
    }

    /// The handshake of `link` is over. False if it is not wanted.
    pub(super) fn opened(&mut self, link: &Link, out: &mut Vec<u8>) -> bool {
        match link.kind {
            Kind::Asking => {
                self.peers.opened(link.cell, link.id());
                self.peers.send(link.cell, out);
                true
            }
            Kind::StreamOut => {
                let stream = self.streams.get_mut(&(link.cell, link.lane));
                let stream = stream.filter(|it| it.copy.incarnation == link.incarnation);
                stream.is_some_and(|stream| {
                    stream.conn = Some(link.id());
                    stream.ask(&self.ring, out);
                    true
                })
            }
            _ => true,
        }
    }

    /// Appends what is to be sent on `link`. False if the link is of no use any more.
    pub(super) fn sends(&mut self, link: &Link, out: &mut Vec<u8>) -> bool {
        match link.kind {
            Kind::Asking => {
                self.peers.send(link.cell, out);
                true
            }
            Kind::StreamOut => {
                let version = self.ring.version();
                let stream = self.streams.get_mut(&(link.cell, link.lane));
                let stream = stream.filter(|it| it.conn == Some(link.id()));
                stream.is_some_and(|stream| stream.send(&self.ring, version, out))
            }
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
                self.answered(id, verdict, text);
            }
            (Kind::StreamOut, Frame::StreamFrom { position, .. }) => {
                let stream = self.streams.get_mut(&(link.cell, link.lane));
                if !stream.is_some_and(|stream| stream.begin(position)) {
                    self.ring.find(Finding::Refuses { cell: link.cell });
                    link.end();
                }
            }
            (Kind::StreamOut, Frame::Acked { position, .. }) => {
                let stream = self.streams.get_mut(&(link.cell, link.lane));
                if !stream.is_some_and(|stream| stream.acknowledges(position, &self.ring)) {
                    link.end();
                }
            }
            (Kind::StreamOut, Frame::StreamEnd { .. }) => {
                self.ring.find(Finding::Refuses { cell: link.cell });
                link.end();
            }
            (Kind::StreamIn(stream), Frame::StreamOpen { lane, lanes, log_incarnation, end }) => {
                let log = log_incarnation;
                let opened = self.ring.origins.open(link.cell, (lane, lanes), log, end);
                let position = opened.as_ref().map_or(0, |(_, next)| *next);
                Frame::StreamFrom { lane, position }.encode(out.bytes_mut());
                let cell = link.cell;
                *stream = opened.map(|(origin, _)| StreamIn { cell, lane, origin });
                if stream.is_none() {
                    self.end_stream(lane, Reason::OldLog, out.bytes_mut());
                    link.end();
                }
            }
            (
                Kind::StreamIn(Some(stream)),
                Frame::Entries { map_version, first, count, records, .. },
            ) => {
                let entries = Entries { map_version, first, count, records };
                self.inner.worker.begin(now);
                let lane = stream.lane;
                match stream.take(&entries, &self.ring, &mut self.inner.worker, now) {
                    Taken::All(position) => {
                        Frame::Acked { lane, position, granted: 0 }.encode(out.bytes_mut());
                    }
                    Taken::Later => {
                        self.stopped.push(link.id());
                        return false;
                    }
                    Taken::Refused(reason) => {
                        self.end_stream(lane, reason, out.bytes_mut());
                        link.end();
                    }
                }
            }
            _ => link.end(),
        }
        true
    }

    fn end_stream(&self, lane: u8, reason: Reason, out: &mut Vec<u8>) {
        let map_version = self.ring.version();
        Frame::StreamEnd { lane, reason: reason as u8, map_version }.encode(out);
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
        let slice = self.slice_of(text);
        if !slice.is_some_and(|slice| self.leads(slice)) {
            return refuse(Verdict::NotOwner);
        }
        let mut reply = Reply::new();
        match self.execute(text, &mut reply) {
            Executed::Done => self.reply_to_cell(id, Some(reply.bytes_mut()), out),
            Executed::Gate(log, seq) => {
                link.wait(id, (log, seq), due_ns, std::mem::take(reply.bytes_mut()));
            }
            Executed::NotNow => refuse(Verdict::NotOwner),
        }
    }

    /// The slice of the key of a request in canonical form.
    fn slice_of(&self, text: &[u8]) -> Option<SliceId> {
        let limits = &self.cell().options().limits;
        let Parsed::Request { request, .. } = memcache::parse(text, limits) else { return None };
        let mut scratch: KeyScratch = [0; _];
        match subject(&request, &mut scratch) {
            Subject::Key(key) => Some(SliceId::of(key.as_bytes())),
            _ => None,
        }
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

    /// The streams of this worker are to the copies that there are now.
    pub(super) fn adopt_copies(&mut self) {
        let copies = self.ring.copies();
        let is_there = |stream: &StreamOut| {
            copies.iter().any(|copy| copy.log == stream.copy.log && copy.cell == stream.copy.cell)
        };
        for (_, stream) in self.streams.extract_if(.., |_, stream| !is_there(stream)) {
            self.orders.extend(stream.conn.map(Order::Close));
        }
        for copy in copies.iter() {
            for (lane, _) in self.ring.log.lanes.logs() {
                let key = (copy.cell, lane.index() as u8);
                if self.ring.worker_of(lane.index()) == self.worker {
                    let new = || StreamOut::new(copy.clone(), lane);
                    self.streams.entry(key).or_insert_with(new);
                }
            }
        }
    }

    /// Opens the streams that are due.
    pub(super) fn open_streams(&mut self) {
        let now_ns = self.now.mono_ns;
        for ((cell, lane), stream) in &mut self.streams {
            if stream.opens_at_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                stream.opening();
                let purpose = Role::Streams(*cell, *lane).number();
                self.orders.push_back(Order::Connect { to: stream.copy.links, purpose });
            }
        }
    }

    /// The next stream that has something to send.
    pub(super) fn next_turn(&mut self) -> Option<Order> {
        let ring = &self.ring;
        let mut streams = self.streams.values_mut();
        streams.find_map(|stream| stream.orders_turn(ring)).map(Order::Turn)
    }
}

/// The error of a change that may have been made.
fn in_doubt(why: &str) -> Vec<u8> {
    format!("SERVER_ERROR in doubt: {why}\r\n").into_bytes()
}

const _: () = assert!(LEVELS <= u8::BITS as usize);
