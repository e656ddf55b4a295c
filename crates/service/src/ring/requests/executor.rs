//! Executes what this cell leads, for its clients and for other cells.
//!
//! Invariant: what is executed for a slice is executed at the level of its leadership. Its lease
//! has not ended, and the batch notes that level: its replies leave only if the lease lasts. A read
//! that rests on a fence needs no lease; its reply leaves when all copies have answered.

use super::flush;
use super::target::{Subject, subject};
use super::wanted::Wanted;
use crate::cell::Cell;
use crate::repeat::reply_again;
use crate::replies::NEVER;
use crate::ring::cell::RingCell;
use crate::ring::loads::Load;
use crate::ring::not_now::NotNow;
use crate::ring::retries::outcome;
use crate::ring::retries::tag_state;
use crate::ring::retries::{AskedBy, Asker, Changes, Known, RequestTag};
use crate::ring::routes::{Routes, Target};
use crate::ring::terms::OF_JOURNAL;
use crate::service::Service;
use base::{Now, SliceId, SliceRange};
use effects::{Level, Levels, Made, WorkerSink};
use engine::{ItemView, ReadSink};
use memcache::{Key, KeyScratch, Parsed, Request, Store};
use ring::{Consistency, Durability, Reads};
use session::{Answer, Conn, ConnId, Handler, LogId, Outcome, Passed, Reply, Ticket, WorkerId};
use std::sync::Arc;

/// Parts that a reply to another cell may have: more than the longest value.
const PARTS_MAX: usize = 1 << 16;

/// What the text of a request asks for.
pub(crate) enum Asked<'t> {
    Request(Request<'t>),
    /// Ends all items of these slices of one range, the first and the last of them.
    Flush(SliceId, SliceId),
}

/// Whether this cell leads what is asked for, and may execute it.
pub(crate) enum Leads {
    /// It may. What is executed next is executed as it is wanted.
    Yes,
    /// It may not, at least not now.
    No(NotNow),
    /// Nobody may: the error line says why.
    Refused(String),
}

/// What came of a request that was executed here.
pub(crate) enum Executed {
    Done,
    Gate(LogId, u64),
    /// It cannot run now.
    NotNow(NotNow),
    /// It was asked before, and it is not known any more what has come of it.
    Forgotten,
    /// It was asked before, and a later change of its slice was made since.
    Overtaken,
}

/// Executes the requests of one worker of a ring's cell.
pub(crate) struct Executor {
    pub(crate) inner: Service,
    pub(crate) ring: Arc<RingCell>,
    pub(crate) worker: WorkerId,
    /// Held while a batch lasts.
    pub(crate) routes: Option<Arc<Routes>>,
    /// The levels that the batch has used.
    used: Levels,
    /// Until when replies may leave that this cell has composed as a copy.
    reads_until_ns: u64,
    pub(crate) now: Now,
    /// The worker of another cell that has asked last. What it has asked for is there as long as
    /// its life is not over; after that nothing is executed for it.
    last_asker: Option<(Asker, Arc<AskedBy>)>,
    /// Where it counts what it executes.
    load: Arc<Load>,
}

impl Executor {
    pub(crate) fn new(ring: Arc<RingCell>, worker: WorkerId) -> Self {
        let inner = Service::of_worker(ring.cell.clone(), worker, worker == WorkerId(0));
        let load = ring.loads.of_worker(worker);
        Self {
            inner,
            ring,
            worker,
            routes: None,
            used: Levels::default(),
            reads_until_ns: u64::MAX,
            now: Now::default(),
            last_asker: None,
            load,
        }
    }

    pub(crate) fn cell(&self) -> &Cell {
        &self.ring.cell
    }

    /// Begins a batch at `now`, unless one has begun. Returns the moment of what is executed next.
    #[inline]
    pub(crate) fn begin(&mut self, now: Now) -> Now {
        self.now = self.ring.host.expiry.of_request(now);
        if self.routes.is_none() {
            self.takes_routes();
        }
        self.now
    }

    /// Goes by the routes of now in the rest of the batch.
    pub(crate) fn takes_routes(&mut self) {
        self.routes = Some(self.ring.routes());
    }

    /// Where requests for `slice` go.
    #[inline]
    pub(crate) fn route(&self, slice: SliceId) -> (Target, Option<ring::RangeId>) {
        let routes = self.routes.as_ref().expect("a batch has begun");
        routes.target(slice)
    }

    /// Whether `cell` copies `slice`, in sync.
    pub(crate) fn copies(&self, slice: SliceId, cell: ring::CellId) -> bool {
        self.routes.as_ref().is_some_and(|routes| routes.copies(slice).contains(&cell))
    }

    /// How often the range of `slice` was lost.
    pub(crate) fn losses(&self, slice: SliceId) -> u32 {
        self.routes.as_ref().map_or(0, |routes| routes.losses(slice))
    }

    /// Whether a cell that goes by the map of `version` may not know that the range of `slice` was
    /// lost.
    pub(crate) fn is_lost_since(&self, slice: SliceId, version: u64) -> bool {
        self.routes.as_ref().is_some_and(|routes| routes.is_lost_since(slice, version))
    }

    /// The version of the map that the batch goes by.
    pub(crate) fn version(&self) -> u64 {
        self.routes.as_ref().map_or(0, |routes| routes.version)
    }

    /// Where `cell` takes links.
    pub(crate) fn address(&self, cell: ring::CellId) -> Option<std::net::SocketAddr> {
        self.routes.as_ref()?.cells.get(&cell).map(|(address, _)| *address)
    }

    /// What replies mean, unless a request chooses otherwise.
    #[inline]
    pub(crate) fn consistency(&self) -> Consistency {
        self.routes.as_ref().map_or_else(Consistency::default, |routes| routes.consistency)
    }

    /// Whether this cell leads `slice` and may answer a plain request, which chooses nothing. If
    /// so, what is executed next is at its level.
    #[inline]
    pub(crate) fn leads(&mut self, slice: SliceId, changes: bool) -> bool {
        let (Target::Here(level, _), _) = self.route(slice) else { return false };
        let Consistency { durability, reads } = self.consistency();
        let is_special = match changes {
            true => durability == Durability::D2 && self.ring.log.is_alone(level),
            false => reads == Reads::Fence,
        };
        if is_special || self.is_stopped(level) || !self.uses_lease(level) {
            return false;
        }
        self.load.count(slice);
        self.is_next(level, durability, None);
        true
    }

    /// Whether this cell leads `slice` and may answer what is `wanted`.
    pub(crate) fn leads_as(&mut self, slice: SliceId, wanted: Wanted) -> Leads {
        let (Target::Here(level, epoch), range) = self.route(slice) else {
            return Leads::No(NotNow::NotLed);
        };
        if wanted.needs_copy && self.ring.log.is_alone(level) {
            let range = range.map_or_else(String::new, |range| format!("range {range} has "));
            let line = format!("SERVER_ERROR not replicated: {range}one copy left, d2 takes two");
            return Leads::Refused(line);
        }
        if self.is_stopped(level) {
            return Leads::No(NotNow::FlushDue);
        }
        // A fence needs no lease. But without any time, a cell must not answer by its second.
        let has_time = self.ring.terms.until_ns(level) > 0;
        if !has_time || !wanted.fences && !self.uses_lease(level) {
            return Leads::No(NotNow::NoLease);
        }
        self.load.count(slice);
        self.is_next(level, wanted.durability, wanted.fences.then_some((slice, epoch)));
        Leads::Yes
    }

    /// The same for what another cell, or a job, asks for.
    pub(crate) fn leads_asked(&mut self, slice: SliceId, asked: &Asked<'_>) -> Leads {
        let wanted = match asked {
            Asked::Request(request) => Wanted::of(request, self.consistency()),
            Asked::Flush(..) => Ok(Wanted::of_change(self.consistency())),
        };
        match wanted {
            Ok(wanted) => self.leads_as(slice, wanted),
            Err(unknown) => Leads::Refused(format!("CLIENT_ERROR {unknown}")),
        }
    }

    /// Whether a delayed flush is to be carried out before anything is answered at `level`.
    #[inline]
    fn is_stopped(&self, level: Level) -> bool {
        self.ring.terms.stops_at_s(level) <= self.now.expiry_s
    }

    /// Whether the lease of `level` has not ended. If so, the batch ends only with it.
    #[inline]
    fn uses_lease(&mut self, level: Level) -> bool {
        let lasts = self.ring.terms.until_ns(level) > self.now.mono_ns;
        if lasts {
            self.used.insert(level);
        }
        lasts
    }

    /// What is executed next is at this level. At d0 its reply waits for no copy, but above a tier
    /// for the journal of this cell.
    #[inline]
    fn is_next(
        &mut self,
        mut level: Level,
        mut durability: Durability,
        fences: Option<(SliceId, u32)>,
    ) {
        if durability == Durability::D0 && self.ring.below().is_some() {
            (level, durability) = (OF_JOURNAL, Durability::D1);
        }
        if let Some(replies) = &mut self.inner.worker.replies {
            (replies.level, replies.durability, replies.fences) = (level, durability, fences);
        }
    }

    /// Executes what a client asks for, which this cell leads.
    pub(crate) fn call(
        &mut self,
        conn: &mut Conn,
        request: &Request<'_>,
        ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        let mark = reply.mark();
        let outcome = self.inner.call(self.now, conn, request, ticket, reply);
        self.fences_no_more();
        if !matches!(outcome, Outcome::Gate { log: NEVER, .. }) {
            return outcome;
        }
        // No log has taken the fence of a read. It is read again, from its first key on.
        reply.rewind(mark);
        conn.progress = 0;
        if !conn.is_overdue() {
            return Outcome::Park;
        }
        self.inner.worker.log_is_full(reply.bytes_mut());
        Outcome::Done
    }

    /// What is executed next is no read that rests on a fence.
    fn fences_no_more(&mut self) {
        if let Some(replies) = &mut self.inner.worker.replies {
            replies.fences = None;
        }
    }

    /// The levels that must have passed all that the batch has shown to plain reads.
    pub(crate) fn awaited(&self) -> Levels {
        let mut levels = self.used;
        if self.consistency().durability == Durability::D0 {
            levels = Levels::default();
            if self.ring.below().is_some() {
                levels.insert(OF_JOURNAL);
            }
        }
        levels
    }

    /// What the batch has read as a copy may be shown until then.
    pub(super) fn reads_until_ns(&mut self, until_ns: u64) {
        self.reads_until_ns = self.reads_until_ns.min(until_ns);
    }

    /// Ends the batch. Returns whether its replies may leave: `fresh` is read only if they show
    /// something.
    pub(crate) fn may_answer(&mut self, fresh: impl Fn() -> Now) -> bool {
        self.routes = None;
        if self.used.is_empty() && self.reads_until_ns == u64::MAX {
            return true;
        }
        let fresh_ns = fresh().mono_ns;
        let may_answer = self.used.iter().all(|level| self.ring.terms.until_ns(level) > fresh_ns)
            && self.reads_until_ns > fresh_ns;
        (self.used, self.reads_until_ns) = (Levels::default(), u64::MAX);
        may_answer
    }

    /// Has items make way for `bytes` bytes that connections must keep. Returns whether some did.
    pub(crate) fn make_room(&mut self, bytes: u64) -> bool {
        self.inner.make_room(self.now, bytes)
    }

    /// Whether a reply that waits for a log may leave.
    pub(crate) fn passed(&self, log: LogId, seq: u64) -> Passed {
        self.inner.gate(log, seq)
    }

    /// What `text`, a request of a cell, asks for, and the slice that it is about.
    pub(crate) fn read<'t>(&self, text: &'t [u8]) -> Option<(Asked<'t>, SliceId)> {
        if let Some((first, last)) = flush::slices_of(text) {
            return Some((Asked::Flush(first, last), first));
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

    /// Lets the processor fetch what `texts`, requests of a cell, are about: the second word is
    /// nearly always the key. Where it is not, something is fetched without effect.
    pub(crate) fn look_ahead<'a>(&self, texts: impl Iterator<Item = &'a [u8]>) {
        let slices = self.ring.look_ahead(texts.filter_map(memcache::second_word));
        if let Some(replies) = &self.inner.worker.replies {
            replies.sink.look_ahead(slices);
        }
    }

    /// What this asker has asked for. Nearly always it is the one that has asked last.
    #[inline]
    pub(crate) fn asked_by(&mut self, asker: Asker) -> Arc<AskedBy> {
        match &self.last_asker {
            Some((last, asked_by)) if *last == asker => asked_by.clone(),
            _ => {
                let asked_by = self.ring.tags.asked_by(asker);
                self.last_asker = Some((asker, asked_by.clone()));
                asked_by
            }
        }
    }

    /// Whether this life of the asker is over.
    pub(crate) fn is_over(&self, asker: &Asker) -> bool {
        self.routes.as_ref().is_some_and(|routes| routes.is_over(asker.cell, asker.life))
    }

    /// Executes a change that this cell leads, unless it was executed before: then it is answered
    /// as it was. `in_order`: the cell that asks has those of a slice executed in their order.
    pub(crate) fn execute_once(
        &mut self,
        (asked, slice): (&Asked<'_>, SliceId),
        (tag, in_order): (&RequestTag, bool),
        reply: &mut Reply,
    ) -> Executed {
        let mut scratch: KeyScratch = [0; _];
        let (request, key) = match asked {
            Asked::Request(request) => (request, subject(request, &mut scratch)),
            Asked::Flush(..) => return self.execute(asked, reply),
        };
        let Subject::Key(key) = key else { return self.execute(asked, reply) };
        let asked_by = self.asked_by(tag.asker);
        let mut changes = asked_by.lock();
        changes.forget_before(tag.first);
        match changes.known(tag.id, tag.again) {
            Known::New if in_order && tag.again > 0 && changes.is_overtaken(tag.id, slice) => {
                return Executed::Overtaken;
            }
            Known::New => {}
            Known::Made(made) => return self.answer_again((request, slice), &made, reply),
            Known::Forgotten => return Executed::Forgotten,
        }
        let key = self.cell().engine().key(key.as_bytes()).id;
        self.sink().begin_tag(key, tag.encode());
        let executed = self.execute(asked, reply);
        let made = self.sink().end_tag();
        if let Some(made) = made {
            self.ring.tags.add(&mut changes, tag.id, (slice, outcome::Outcome::Made(made)));
        }
        match executed {
            Executed::NotNow(_) => {}
            // The first time nothing was sent before that could come later.
            _ if made.is_some() || tag.again == 0 => {}
            _ => return self.notes_nothing(&mut changes, tag, slice, reply),
        }
        executed
    }

    /// Executes the plain `get` of another cell, if this cell leads it: its reply is appended to
    /// `reply`. `None`, and nothing is appended, if it takes the general way.
    #[inline]
    pub(crate) fn get_plain(&mut self, key: Key<'_>, reply: &mut Reply) -> Option<Answer> {
        let hashed = self.cell().engine().key(key.as_bytes());
        if !self.leads(hashed.id.slice, false) {
            return None;
        }
        let answer = self.inner.get_hashed::<true>(self.now, (key, hashed), reply);
        (answer != Answer::Declined).then_some(answer)
    }

    /// Counts a use of the item of `key`, if this cell leads that. A copy has answered the read.
    pub(crate) fn count_use(&mut self, key: &[u8]) {
        let hashed = self.cell().engine().key(key);
        if matches!(self.route(hashed.id.slice).0, Target::Here(..)) {
            self.inner.worker.begin(self.now);
            let (engine, pin) = self.inner.worker.engine();
            engine.get(pin, &hashed, self.now, Unread);
        }
    }

    /// The same for a plain `set` or `add` that is asked for the first time.
    pub(crate) fn store_plain(
        &mut self,
        store: &Store<'_>,
        (tag, asked_by_map): (&RequestTag, u64),
        reply: &mut Reply,
    ) -> Option<Answer> {
        let slice = SliceId::of(store.key.as_bytes());
        if tag.again > 0 || self.is_over(&tag.asker) || !self.leads(slice, true) {
            return None;
        }
        if self.is_lost_since(slice, asked_by_map) {
            return None;
        }
        let asked_by = self.asked_by(tag.asker);
        let mut changes = asked_by.lock();
        changes.forget_before(tag.first);
        if changes.known(tag.id, tag.again) != Known::New {
            return None;
        }
        let key = self.cell().engine().key(store.key.as_bytes()).id;
        self.sink().begin_tag(key, tag.encode());
        let answer = self.inner.store_now::<true>(self.now, store, reply);
        if let Some(made) = self.sink().end_tag() {
            self.ring.tags.add(&mut changes, tag.id, (slice, outcome::Outcome::Made(made)));
        }
        (answer != Answer::Declined).then_some(answer)
    }

    /// Notes of a request that was asked again and is executed that it has made nothing: here, and
    /// at the copies. What was sent earlier is not executed any more.
    fn notes_nothing(
        &mut self,
        changes: &mut Changes,
        tag: &RequestTag,
        slice: SliceId,
        reply: &mut Reply,
    ) -> Executed {
        let sink = self.sink();
        let lane = sink.lanes().lane_of(slice);
        let entry = tag_state::nothing(tag, slice);
        let Ok(place) = sink.other(lane, tag_state::NOTHING_KIND, &entry, false) else {
            reply.bytes_mut().clear();
            return Executed::NotNow(NotNow::NoRoom);
        };
        self.ring.tags.add(changes, tag.id, (slice, outcome::Outcome::Nothing(tag.again)));
        // It stands after all that the reply shows.
        if let Some(replies) = &mut self.inner.worker.replies {
            replies.show(place);
        }
        self.gated()
    }

    fn sink(&mut self) -> &mut WorkerSink {
        let replies = self.inner.worker.replies.as_mut();
        &mut replies.expect("a cell of a ring keeps a log").sink
    }

    /// Replies to `request`, which has made this before, once all of its slice has passed.
    fn answer_again(
        &mut self,
        (request, slice): (&Request<'_>, SliceId),
        made: &Made,
        reply: &mut Reply,
    ) -> Executed {
        self.inner.worker.begin(self.now);
        if !reply_again(request, made, reply.bytes_mut()) {
            return Executed::Forgotten;
        }
        self.inner.worker.shows_slice(slice);
        self.gated()
    }

    /// What the reply waits for that is composed.
    fn gated(&mut self) -> Executed {
        match self.inner.worker.replies.as_mut().map(|replies| replies.outcome()) {
            Some(Outcome::Gate { log, seq }) => Executed::Gate(log, seq),
            _ => Executed::Done,
        }
    }

    /// Executes what another cell or a job asks for, which this cell leads.
    pub(crate) fn execute(&mut self, asked: &Asked<'_>, reply: &mut Reply) -> Executed {
        let executed = match asked {
            Asked::Flush(first, last) => self.flush_range((*first, *last), reply),
            Asked::Request(request) => self.execute_request(request, reply),
        };
        self.fences_no_more();
        executed
    }

    fn execute_request(&mut self, request: &Request<'_>, reply: &mut Reply) -> Executed {
        let id = ConnId { worker: self.worker, index: u32::MAX, generation: 0 };
        let mut conn = Conn::new(id);
        conn.authenticated = true;
        let ticket = Ticket { conn: id, request: 0 };
        self.inner.worker.take_waits_below();
        // A request of one key waits for one log.
        let mut gate = None;
        for _ in 0..PARTS_MAX {
            match self.inner.call(self.now, &mut conn, request, ticket, reply) {
                Outcome::Done | Outcome::Close => {
                    return gate.map_or(Executed::Done, |(log, seq)| Executed::Gate(log, seq));
                }
                Outcome::Gate { log: NEVER, .. } | Outcome::Part { log: NEVER, .. } => break,
                Outcome::Gate { log, seq } => return Executed::Gate(log, seq),
                Outcome::More => {}
                Outcome::Part { log, seq, parks: false } => gate = Some((log, seq)),
                Outcome::Park | Outcome::Part { .. } | Outcome::Pending | Outcome::PendingAlone => {
                    break;
                }
            }
        }
        // What was read of it is dropped, and read again.
        self.inner.closed(id);
        reply.bytes_mut().clear();
        Executed::NotNow(match self.inner.worker.take_waits_below() {
            true => NotNow::Below,
            false => NotNow::NoRoom,
        })
    }

    /// Why a request was not executed in time, as [`NotNow::describe`] says it; for one that waits
    /// for what lies below, also why that has not answered.
    pub(crate) fn describe(&self, why: NotNow, cell: Option<ring::CellId>) -> String {
        let obstacle = self.cell().tiered().filter(|_| why == NotNow::Below);
        let obstacle = obstacle.map(|tiered| format!(": {}", tiered.obstacle()));
        why.describe(cell) + &obstacle.unwrap_or_default()
    }

    /// Ends all items of these slices of a range, which this cell leads. Where it was divided
    /// since, a part of them may be led by another cell: nothing is ended then. Where it was made
    /// one with another, that one is asked for by itself: what it has stored since is not ended.
    fn flush_range(&mut self, (first, last): (SliceId, SliceId), reply: &mut Reply) -> Executed {
        let map = self.ring.map();
        let Some(range) = map.range_of(first) else {
            return Executed::NotNow(NotNow::NotLed);
        };
        if usize::from(range.end) <= last.index() {
            reply.bytes_mut().extend_from_slice(DIVIDED);
            return self.gated();
        }
        let slices = SliceRange::new(first.index()..last.index() + 1);
        self.inner.worker.begin(self.now);
        if self.inner.worker.flush_slices(slices).is_err() {
            return Executed::NotNow(NotNow::NoRoom);
        }
        reply.bytes_mut().extend_from_slice(b"OK\r\n");
        self.gated()
    }
}

/// A read of which only the use counts.
struct Unread;

impl ReadSink for Unread {
    fn open(&mut self, _view: &ItemView<'_>) -> Option<&mut Vec<u8>> {
        None
    }

    fn rewind(&mut self) {}
}

/// The reply to what was overtaken. The cell that has asked knows whether it is in doubt.
pub(crate) const OVERTAKEN: &str =
    "SERVER_ERROR a later change of its slice was made before it\r\n";

/// What a `flush_all` is answered that has missed a division.
const DIVIDED: &[u8] = b"SERVER_ERROR a range was divided meanwhile: send flush_all again\r\n";

#[cfg(test)]
#[path = "executor_test.rs"]
mod tests;
