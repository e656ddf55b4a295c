//! What all workers of a cell and its keeper share about its ring.

use super::copies::Copy;
use super::copies::{Exchanges, Origins, Room};
use super::copy_reads::CopyReads;
use super::flushed::Flushed;
use super::granted::Grants;
use super::history::History;
use super::job::{Job, Origin};
use super::journal_waits::JournalWaits;
use super::jumps::Jumps;
use super::loads::Loads;
use super::retries::Tags;
use super::routes::{self, Parts, Routes};
use super::terms::{OF_JOURNAL, Term, Terms};
use crate::cell::Cell;
use crate::effect_log::EffectLog;
use crate::replies::{log_of, several_of, with_copy};
use base::{ExpiryClock, Now, SliceId};
use effects::{LaneId, Level, Levels, Place};
use engine::KEY_BYTES_MAX;
use peer::{Decoder, Identity, Local, Nonce, Purpose, Secret, Target};
use ring::{
    CellId, Change, Command, Granted, Incarnation, Learned, Leaving, Map, Memory, Order, Outcome,
    Outlook, RangeId, Stamp,
};
use session::{LogId, WorkerId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use tier::Member;

/// Bytes that are read from a log at once, but for the last value.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// Bytes of a frame besides the longest value in it: the entries before it, a key, a line, fields.
const FRAME_OVERHEAD_BYTES: u64 = READ_BYTES as u64 + (8 << 10);

/// What the workers of a ring's cell send each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mail {
    /// The map has changed, and this cell goes by it.
    Adopted,
    /// Something was appended to the log of a lane.
    Appended(u8),
    /// A worker without links has a job.
    Lent(Box<Job>),
    /// A job that this worker has lent is done.
    Returned {
        /// What the worker calls it.
        number: u64,
        /// The reply.
        reply: Vec<u8>,
    },
    /// What has come of a delayed flush that this worker has proposed, by its number.
    Flushed(u64, Outcome),
    /// A key was looked up below for which parked requests wait.
    Woken,
    /// The journal has more of what this cell copies.
    Journaled,
}

/// A delayed flush that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushing {
    /// The worker that waits for it.
    pub worker: WorkerId,
    /// Its number there.
    pub id: u64,
    /// The second in which it is due.
    pub due_s: u32,
    /// The second at which it is asked for.
    pub at_s: u32,
}

/// How far a cell is that leaves its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaveProgress {
    /// Ranges that it has a part in.
    pub parts: usize,
    /// Whether the map has it that it leaves.
    pub is_ordered: bool,
    /// Whether it does so even if ranges have fewer copies then.
    pub is_forced: bool,
    /// Whether another cell is heard that stays.
    pub is_possible: bool,
    /// Whether those that stay have room for what it holds, or a tier that has what is evicted.
    pub has_room: bool,
}

/// What a cell holds may take three quarters of the room that others have: it is not spread over
/// them evenly, and not all of a segment can be filled.
const ROOM_TAKEN: (u64, u64) = (3, 4);

/// Requests or entries that are looked at together before the first of them is executed: the
/// processor fetches what they are about at the same time.
pub(crate) const AHEAD: usize = 16;

/// What the workers find that concerns the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A learner has all of a range, and its acknowledgements count already.
    CaughtUp {
        /// The range, as it is in the map.
        at: Stamp,
        /// The learner.
        cell: CellId,
    },
    /// A cell is to be dropped: it takes no more changes, or cannot have them.
    Refuses {
        /// The cell.
        cell: CellId,
        /// From this range; `None`: from all ranges that this cell leads.
        range: Option<RangeId>,
    },
    /// A link is broken, for a reason that an operator should know.
    Broken {
        /// The other cell.
        cell: CellId,
        /// The reason.
        what: String,
    },
    /// A client asks for a delayed flush. [`RingCell::flushed`] takes what came of it.
    Flushes(Flushing),
    /// It begins to lead something, as soon as it may answer.
    Begins,
    /// An operator wants this cell to begin again: to leave, to end, and to start.
    Restarts {
        /// This cell.
        cell: CellId,
        /// Its life.
        life: Incarnation,
    },
    /// A range that is to become another is sealed: this cell does not serve it any more, and all
    /// copies have all of it. [`Keeper::unseal`](super::Keeper::unseal) has it served again.
    Sealed {
        /// The range, by the map.
        at: Stamp,
    },
    /// What an operator wants of a range.
    Ordered(Order),
    /// What an operator wants of a cell, or it of itself: that it leaves, stays, or is removed.
    Wants(Command),
    /// An operator says that the voters are lost for ever: this cell goes on without them.
    Recovers {
        /// The version of the map from which it goes on.
        version: u64,
    },
}

/// What reaches the rest of the process.
pub struct RingHost {
    /// Random bytes for one handshake, or for one random number.
    pub nonce: Box<dyn Fn() -> Nonce + Send + Sync>,
    /// Takes what the workers find.
    pub find: Box<dyn Fn(Finding) + Send + Sync>,
    /// The clock by which items expire.
    pub expiry: Arc<ExpiryClock>,
    /// Which reads of its clients copies may answer.
    pub copy_reads: CopyReads,
}

/// How workers are reached, once they run.
pub struct Reach {
    /// How many workers there are that have links. Those with higher numbers serve one client each,
    /// and worker 0 does for them what needs a link.
    pub workers: u16,
    /// Sends mail to one.
    pub post: Box<dyn Fn(WorkerId, Mail) + Send + Sync>,
    /// Replies that wait for this log may leave.
    pub release: Box<dyn Fn(LogId) + Send + Sync>,
}

/// Who this cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingIdentity {
    /// The ring.
    pub ring: u64,
    /// The cell.
    pub cell: CellId,
    /// Its life.
    pub incarnation: u64,
}

/// Why a cell cannot be one of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLog;

impl fmt::Display for NoLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a cell of a ring needs a log of its changes")
    }
}

impl std::error::Error for NoLog {}

/// A cell of a ring.
pub struct RingCell {
    pub(crate) cell: Arc<Cell>,
    pub(crate) log: Arc<EffectLog>,
    pub(crate) identity: RingIdentity,
    secret: Secret,
    pub(crate) host: RingHost,
    reach: OnceLock<Reach>,
    routes: RwLock<Arc<Routes>>,
    map: RwLock<Arc<Map>>,
    pub(crate) terms: Terms,
    pub(crate) grants: Grants,
    /// The version of the newest map that it has begun to go by.
    newest: AtomicU64,
    pub(crate) origins: Origins,
    pub(crate) exchanges: Exchanges,
    /// The changes for which other cells may ask again.
    pub(crate) tags: Tags,
    pub(crate) room: Arc<Room>,
    copies: RwLock<Arc<Vec<Arc<Copy>>>>,
    pub(crate) history: History,
    pub(crate) flushed: Flushed,
    pub(crate) jumps: Jumps,
    pub(crate) loads: Loads,
    /// By lane, whether its worker has mail about it already.
    mailed: Vec<AtomicBool>,
    pub(crate) journal_waits: JournalWaits,
    /// The next number of a job that is lent: no two have the same, also where a worker's is used
    /// again.
    numbers: AtomicU64,
}

impl RingCell {
    /// Makes `cell` one of a ring. It serves nothing before the first map.
    ///
    /// # Errors
    /// If it keeps no log of its changes.
    pub fn new(
        cell: Arc<Cell>,
        identity: RingIdentity,
        secret: Secret,
        host: RingHost,
    ) -> Result<Arc<Self>, NoLog> {
        let log = cell.effect_log().ok_or(NoLog)?;
        if let Some(below) = cell.member() {
            for (lane, log) in log.lanes.logs() {
                let marks: Vec<_> = below.waits_for(lane).into_iter().collect();
                log.set_level(OF_JOURNAL, &marks);
            }
        }
        let terms = Terms::new();
        let nothing = Map::new(identity.ring, u32::MAX, 1);
        let grants = Grants::default();
        let parts = Parts {
            terms: &terms,
            grants: &grants,
            serves: &|_| false,
            copies: &|_| None,
            lost_at: &|_| 0,
        };
        let routes = Routes::of(&nothing, identity.cell, &parts);
        let mailed = log.lanes.logs().map(|_| AtomicBool::new(false)).collect();
        Ok(Arc::new(Self {
            room: Room::new(cell.clone()),
            tags: Tags::new(cell.budget()),
            cell,
            log,
            identity,
            secret,
            host,
            reach: OnceLock::new(),
            routes: RwLock::new(Arc::new(routes)),
            map: RwLock::new(Arc::new(nothing)),
            terms,
            grants,
            newest: AtomicU64::new(0),
            origins: Origins::new(),
            exchanges: Exchanges::default(),
            copies: RwLock::default(),
            history: History::default(),
            flushed: Flushed::new(),
            jumps: Jumps::new(),
            loads: Loads::default(),
            mailed,
            journal_waits: JournalWaits::default(),
            numbers: AtomicU64::new(0),
        }))
    }

    /// Sets how its workers are reached. Only the first call counts.
    pub fn set_reach(self: &Arc<Self>, reach: Reach) {
        let _ = self.reach.set(reach);
        self.reach_from_below();
    }

    /// The tier, if there is one.
    #[inline]
    pub(crate) fn below(&self) -> Option<Member<'_>> {
        self.cell.member()
    }

    /// Has the tier reach the workers, if there is one.
    fn reach_from_below(self: &Arc<Self>) {
        let Some(tiered) = self.cell.tiered() else { return };
        let (waker, notified) = (Arc::downgrade(self), Arc::downgrade(self));
        let wake = move |worker| {
            if let Some(ring) = waker.upgrade() {
                ring.post(worker, Mail::Woken);
            }
        };
        tiered.set_reach_of_ring(Box::new(wake), move |lane, is_copied| {
            if let Some(ring) = notified.upgrade() {
                ring.journaled(lane, is_copied);
            }
        });
    }

    /// More is written, or durable, of a lane of what this cell leads, or of what it copies.
    fn journaled(&self, lane: LaneId, is_copied: bool) {
        if is_copied {
            let waiting = self.journal_waits.take();
            waiting.into_iter().for_each(|worker| self.post(worker, Mail::Journaled));
        } else {
            self.release(lane, self.terms.held());
            self.release_level(lane, OF_JOURNAL);
        }
    }

    /// Sends mail to a worker.
    pub(crate) fn post(&self, worker: WorkerId, mail: Mail) {
        if let Some(reach) = self.reach.get() {
            (reach.post)(worker, mail);
        }
    }

    /// Sets until when this cell may answer as the primary of `range` in `epoch`.
    pub fn extend(&self, range: RangeId, epoch: u32, until_ns: u64) {
        self.terms.extend(Term { range, epoch }, until_ns);
    }

    /// What `primary` has granted this cell, which copies its changes.
    pub fn granted(&self, primary: CellId, granted: Granted) {
        self.grants.set(primary, granted);
    }

    /// It begins to go by the map of this version. Only after that replies may leave which do not
    /// wait for a copy any more that the map has dropped.
    pub(crate) fn begins_with(&self, version: u64) {
        self.newest.store(version, Ordering::Release);
    }

    /// The version of the newest map that it has begun to go by.
    pub(crate) fn newest_version(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Whether the leases of a level last.
    #[must_use]
    pub fn has_lease(&self, level: Level, now: Now) -> bool {
        self.terms.until_ns(level) > now.mono_ns
    }

    /// Remembers a change of the map for reports. `at_s` is the second at which it came, 0 if it
    /// was before this start.
    pub fn record(&self, change: Change, at_s: u32) {
        self.history.record(change, at_s);
    }

    /// Remembers for reports what the cell sees of the others now.
    pub fn see(&self, outlook: Outlook) {
        self.history.past().outlook = Some(outlook);
    }

    /// Of ranges that this cell leads, so much was sent to the cells that learn them.
    pub(crate) fn see_learned(&self, learned: BTreeMap<RangeId, Learned>) {
        self.history.past().learned = learned;
    }

    /// What came of a delayed flush.
    pub fn flushed(&self, flush: Flushing, outcome: Outcome) {
        if let Some(reach) = self.reach.get() {
            (reach.post)(flush.worker, Mail::Flushed(flush.id, outcome));
        }
    }

    /// The version of the map that it goes by.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.routes().version
    }

    /// Whether each leadership that it keeps up is one of a range that it leads by its map.
    #[must_use]
    pub fn leads_by_map(&self) -> bool {
        let (map, me) = (self.map(), self.identity.cell);
        let led = map.ranges.iter().filter(|range| range.primary == me);
        self.terms.count() <= led.count()
    }

    /// Whether it leads `range` in its epoch, and has begun to.
    #[must_use]
    pub fn leads(&self, range: &ring::Range) -> bool {
        self.terms.level(Term { range: range.id, epoch: range.epoch }).is_some()
    }

    /// Whether it leads `range` and may answer for it now.
    #[must_use]
    pub fn may_answer(&self, range: &ring::Range, now: Now) -> bool {
        self.answers_in(range, now) == Some(range.epoch)
    }

    /// The epoch of `range`, the present one or an earlier, in which it may answer now.
    #[must_use]
    pub fn answers_in(&self, range: &ring::Range, now: Now) -> Option<u32> {
        let slice = range.slices().iter().next()?;
        let routes::Target::Here(level, epoch) = self.routes().target(slice).0 else { return None };
        let lasts = self.terms.until_ns(level) > now.mono_ns;
        (lasts && self.terms.stops_at_s(level) > now.expiry_s).then_some(epoch)
    }

    /// Asks that it leaves the ring, so that it can end. What comes of it, the map says.
    pub fn leave(&self) {
        let RingIdentity { cell, incarnation, .. } = self.identity;
        let is_absorbed = self.map().leaving(cell).is_some_and(|how| how.is_absorbed);
        let (how, life) = (Leaving { is_absorbed, is_forced: true }, Incarnation(incarnation));
        self.find(Finding::Wants(Command::Leave { cell, life, how }));
    }

    /// How far it is with that.
    #[must_use]
    pub fn leave_progress(&self) -> LeaveProgress {
        let (map, me) = (self.map(), self.identity.cell);
        let free = self.history.past().outlook.as_ref().map(|it| it.free_bytes.clone());
        let free = free.unwrap_or_default();
        let stays =
            |id: &CellId| map.cells.get(id).is_some_and(|it| !it.is_witness && it.leaves.is_none());
        let others = free.iter().filter(|(id, _)| **id != me && stays(id));
        let room: u64 = others.clone().map(|(_, bytes)| *bytes).sum();
        let own = map.ranges.iter().filter(|range| range.has(me));
        // Of the others all have a copy already.
        let is_to_be_copied = |range: &&ring::Range| others.clone().any(|(id, _)| !range.has(*id));
        let (parts, copied) = (own.clone().count(), own.filter(is_to_be_copied).count());
        let needed = self.memory().used_bytes / parts.max(1) as u64 * copied as u64;
        LeaveProgress {
            parts,
            is_ordered: map.leaving(me).is_some(),
            is_forced: map.leaving(me).is_some_and(|how| how.is_forced),
            is_possible: others.count() > 0,
            has_room: self.below().is_some() || needed * ROOM_TAKEN.1 <= room * ROOM_TAKEN.0,
        }
    }

    /// What it holds now.
    #[must_use]
    pub fn memory(&self) -> Memory {
        let engine = self.cell.engine();
        let held = engine.holdings();
        let used_bytes = held.primaries + held.copies;
        Memory { free_bytes: held.free, used_bytes, keeps_all: !engine.evicts() }
    }

    /// Lets the processor fetch what the first [`AHEAD`] of these keys are about. What is no key is
    /// passed over. Returns their slices.
    #[inline]
    pub(crate) fn look_ahead<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> impl Iterator<Item = SliceId> {
        let engine = self.cell.engine();
        let keys = keys.filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()));
        let mut ahead = [None; AHEAD];
        ahead.iter_mut().zip(keys).for_each(|(place, key)| *place = Some(engine.key(key)));
        engine.prefetch(ahead.into_iter().flatten());
        ahead.into_iter().flatten().map(|key| key.id.slice)
    }

    pub(crate) fn routes(&self) -> Arc<Routes> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the routes. Returns the old ones, which workers hold until their batch ends.
    pub(crate) fn set_routes(&self, routes: Routes) -> Arc<Routes> {
        let mut current = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, Arc::new(routes))
    }

    /// The map that it goes by.
    #[must_use]
    pub fn map(&self) -> Arc<Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_map(&self, map: Arc<Map>) {
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = map;
    }

    pub(crate) fn copies(&self) -> Arc<Vec<Arc<Copy>>> {
        self.copies.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_copies(&self, copies: Vec<Arc<Copy>>) {
        *self.copies.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(copies);
    }

    /// Whether space is to be made for copies, here or at another cell.
    pub(crate) fn lacks_space(&self) -> bool {
        let engine = self.cell.engine();
        engine.evicts_more() > 0 || engine.lacks_room_for_copies()
    }

    pub(crate) fn find(&self, finding: Finding) {
        (self.host.find)(finding);
    }

    /// Who this cell is, as a handshake says it.
    fn local(&self) -> Local {
        let RingIdentity { ring, cell, incarnation } = self.identity;
        let identity = Identity { ring, cell: cell.0, incarnation };
        let features = peer::COPIES_READ | peer::KEEPS_ORDER;
        Local { features, ..Local::new(identity) }
    }

    /// Begins a handshake with `cell`.
    pub(crate) fn connector(
        &self,
        cell: CellId,
        purpose: Purpose,
        out: &mut Vec<u8>,
    ) -> peer::Connector {
        let target = Target { cell: cell.0, purpose };
        peer::Connector::new(&self.secret, self.local(), target, (self.host.nonce)(), out)
    }

    /// Awaits a handshake.
    pub(crate) fn acceptor(&self) -> peer::Acceptor {
        peer::Acceptor::new(&self.secret, self.local(), (self.host.nonce)())
    }

    /// A random number.
    pub(crate) fn random(&self) -> u64 {
        let bytes = (self.host.nonce)();
        u64::from_le_bytes(*bytes.first_chunk().expect("invariant: it is longer"))
    }

    /// Decodes frames of requests and streams.
    pub(crate) fn decoder(&self) -> Decoder {
        let bytes = self.cell.options().limits.value_bytes_max + FRAME_OVERHEAD_BYTES;
        Decoder::new(bytes as usize)
    }

    /// The worker that sends the log of `lane` to copies.
    pub(crate) fn worker_of(&self, lane: usize) -> WorkerId {
        let workers = self.reach.get().map_or(1, |reach| usize::from(reach.workers.max(1)));
        WorkerId((lane % workers) as u16)
    }

    /// Whether `worker` has links.
    pub(crate) fn has_links(&self, worker: WorkerId) -> bool {
        self.reach.get().is_none_or(|reach| worker.0 < reach.workers)
    }

    /// A number that no job that was lent has, nor any delayed flush that was proposed.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Lends `job` of a worker without links to the one that has them. Returns its number.
    pub(crate) fn lend(&self, mut job: Job, worker: WorkerId) -> u64 {
        let number = self.next_number();
        job.origin = Origin::Worker { worker, number };
        if let Some(reach) = self.reach.get() {
            (reach.post)(WorkerId(0), Mail::Lent(Box::new(job)));
        }
        number
    }

    /// Returns a job to the worker that has lent it.
    pub(crate) fn give_back(&self, worker: WorkerId, number: u64, reply: Vec<u8>) {
        if let Some(reach) = self.reach.get() {
            (reach.post)(worker, Mail::Returned { number, reply });
        }
    }

    /// Lets the worker of `lane` know that something was appended to its log.
    pub(crate) fn mail_appended(&self, lane: usize) {
        if let Some(reach) = self.reach.get()
            && !self.mailed[lane].swap(true, Ordering::AcqRel)
        {
            (reach.post)(self.worker_of(lane), Mail::Appended(lane as u8));
        }
    }

    /// The worker of `lane` reads its mail.
    pub(crate) fn unmail(&self, lane: u8) {
        if let Some(mailed) = self.mailed.get(usize::from(lane)) {
            mailed.store(false, Ordering::Release);
        }
    }

    /// Lets all workers know that the map has changed.
    pub(crate) fn mail_adopted(&self) {
        if let Some(reach) = self.reach.get() {
            (0..reach.workers).for_each(|worker| (reach.post)(WorkerId(worker), Mail::Adopted));
        }
    }

    /// Replies may leave that wait for `levels` of `lane`.
    pub(crate) fn release(&self, lane: LaneId, levels: Levels) {
        for level in levels.iter() {
            self.release_level(lane, level);
        }
    }

    /// The same for one level.
    pub(crate) fn release_level(&self, lane: LaneId, level: Level) {
        if let Some(reach) = self.reach.get() {
            let log = log_of(level, Place { lane, position: 0 });
            (reach.release)(log);
            if self.log.wants_copies() {
                (reach.release)(with_copy(log));
            }
            if self.mailed.len() > 1 {
                (reach.release)(several_of(level));
            }
        }
    }
}
