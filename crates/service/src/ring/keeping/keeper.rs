//! Keeps this cell as the map wants it: what it leads, what it copies, what it must drop.
//!
//! ```text
//! map --adopt--> seal what it copies no more --> lead what it leads now --> routes, levels, copies
//! time --tend--> drop items, exchange tails, walk for learners, end holds
//! ```
//!
//! It runs in one thread, and is the only one that changes what workers go by. What takes long it
//! does in steps.
//!
//! Invariants: a range that this cell begins to lead or to learn was sealed, and is empty unless it
//! was a copy in sync. A level loses a mark only after its leadership has ended or the map has
//! dropped the copy. What waits for a leadership that has ended is in doubt.

use super::emptying::Emptying;
use super::exchanging::{Exchanging, Step};
use super::hold::Hold;
use super::learning::{Learning, Progress};
use super::part::{Part, PartChange};
use crate::ring::cell::{Finding, RingCell};
use crate::ring::copies::{Copy, Exchange, LEARNER_LATE_NS, READINGS_BITS};
use crate::ring::jump::{COUNTER_JUMP, jump};
use crate::ring::routes::Routes;
use crate::ring::terms::Term;
use crate::worker::Worker;
use base::{Now, SliceId, SliceRange};
use effects::{Level, Mark};
use engine::Role;
use ring::{CellId, Map, Range, RangeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// By less than this the counters of a range rise besides, by chance, where it begins again at a
/// cell that has led or copied it: as those of a cell that starts.
const RANDOM_JUMP_MAX: u64 = 1 << 30;
/// A walk that no log takes anything of for this long is not tried again at once.
const STANDS_NS: u64 = 10_000_000;
/// How soon it is looked again at what waits.
const AGAIN_NS: u64 = 20_000_000;
/// How often it is looked whether copies acknowledge what they are sent. One that is late is found
/// after a tenth of a second more at most.
const LOOK_NS: u64 = 100_000_000;

/// With this number of copies or more, some may have what others lack when their primary ends.
const TAILS_COPIES_MIN: u8 = 3;

/// Keeps a cell as the map wants it.
pub struct Keeper {
    ring: Arc<RingCell>,
    worker: Worker,
    map: Arc<Map>,
    parts: BTreeMap<RangeId, Part>,
    emptying: Emptying,
    exchanging: Vec<Exchanging>,
    learning: BTreeMap<RangeId, Learning>,
    holds: Vec<Hold>,
    /// By range, until when nothing is committed of what this cell begins to lead.
    until_ns: BTreeMap<RangeId, u64>,
    /// By range that was lost, how often, and the first version in which this was seen.
    losses: BTreeMap<RangeId, (u32, u64)>,
    /// Ranges with a copy in sync that does not read the logs: they are not served.
    unread: BTreeSet<RangeId>,
    /// What this cell has begun to lead, and does not evict of yet: its copies are not sent it.
    begun: Vec<SliceRange>,
    /// Routes that workers may still go by.
    old_routes: Vec<Arc<Routes>>,
    /// By cell, the version of the map for which it is ready to learn.
    ready: BTreeMap<CellId, u64>,
    next_reading: u64,
    /// The map has changed since what was asked by lives that are over was dropped.
    ends_lives: bool,
    /// When the member hears again of learners that are ready: what it is sent may find no place.
    finds_at_ns: u64,
}

impl Keeper {
    /// The keeper of `ring`, which leads and copies nothing yet.
    #[must_use]
    pub fn new(ring: Arc<RingCell>, map: Arc<Map>, now: Now) -> Self {
        let mut worker = Worker::new(ring.cell.clone());
        worker.begin(now);
        let (engine, pin) = worker.engine();
        engine.set_role(pin, SliceRange::ALL, Role::Copy);
        worker.end();
        Self {
            ring,
            worker,
            map,
            parts: BTreeMap::new(),
            emptying: Emptying::default(),
            exchanging: Vec::new(),
            learning: BTreeMap::new(),
            holds: Vec::new(),
            until_ns: BTreeMap::new(),
            losses: BTreeMap::new(),
            unread: BTreeSet::new(),
            begun: Vec::new(),
            old_routes: Vec::new(),
            ready: BTreeMap::new(),
            next_reading: 1,
            ends_lives: false,
            finds_at_ns: 0,
        }
    }

    /// Goes by `map` from now on. `holds`: by range, until when nothing is committed of what this
    /// cell begins to lead.
    pub fn adopt(&mut self, map: Arc<Map>, holds: BTreeMap<RangeId, u64>, now: Now) {
        if map.version < self.map.version {
            return;
        }
        let old = std::mem::replace(&mut self.map, map.clone());
        self.ring.history.adopt(&map, now.expiry_s);
        self.until_ns = holds;
        self.ends_lives = true;
        if map.copies_wanted >= TAILS_COPIES_MIN {
            self.ring.origins.keep(self.ring.cell.budget());
        }
        self.worker.begin(now);
        for range in &map.ranges {
            let seen = self.losses.entry(range.id).or_default();
            if seen.0 != range.losses {
                *seen = (range.losses, map.version);
            }
            let losses = old.range(range.id).map(|old| old.losses);
            self.changes_part(range, losses == Some(range.losses), now);
        }
        for exchanging in &mut self.exchanging {
            let range = map.range(exchanging.range);
            exchanging.keep(|cell| range.is_some_and(|range| range.is_in_sync(cell)));
        }
        let me = self.ring.identity.cell;
        let copies = |range: &Range, cell| range.primary == cell && range.has(me);
        self.ring.origins.drop_kept(|cell| map.ranges.iter().any(|range| copies(range, cell)));
        self.begin_parts(now);
        self.publish();
        self.worker.end();
    }

    /// The map that it goes by.
    #[must_use]
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// `cell` is ready to learn what the map of `version` wants it to.
    pub fn hear_ready(&mut self, cell: CellId, version: u64) {
        self.ready.insert(cell, version);
    }

    /// The version of the map for which this cell is ready to learn: it holds nothing else.
    #[must_use]
    pub fn ready_version(&self) -> u64 {
        let is_ready = self.emptying.is_over() && self.parts.values().all(|part| part.is_begun());
        if is_ready { self.map.version } else { 0 }
    }

    /// Does a step of what takes long. Returns whether more is left.
    pub fn tend(&mut self, now: Now) -> bool {
        self.old_routes.retain(|routes| Arc::strong_count(routes) > 1);
        self.worker.begin(now);
        let is_emptying = !self.emptying.is_over();
        if is_emptying && self.old_routes.is_empty() {
            self.emptying.step(&mut self.worker, &self.ring.tags);
        }
        if self.ends_lives && self.old_routes.is_empty() {
            self.ring.tags.drop_lives(&self.map);
            self.ends_lives = false;
        }
        let is_exchanging = self.exchanging.iter().any(|it| it.is_quick(now));
        let (has_exchanged, has_appended) = self.exchange(now);
        // What has waited for tails, for its items to be dropped, for a level, or for a place to
        // read.
        let waits = self.parts.values().any(|part| !part.is_begun());
        if (waits && self.begin_parts(now)) || has_exchanged || !self.unread.is_empty() {
            self.publish();
        }
        let has_flushed = self.carry_out_flushes(now);
        let is_learning = self.learn(now);
        self.end_holds(now);
        self.find_late(now);
        if now.mono_ns >= self.finds_at_ns {
            self.finds_at_ns = now.mono_ns + LOOK_NS;
            self.find_ready();
        }
        self.worker.end();
        for (lane, _) in self.ring.log.lanes.logs() {
            if is_learning || has_flushed || has_appended {
                self.ring.mail_appended(lane.index());
            }
        }
        is_emptying || is_learning || is_exchanging
    }

    /// Ends what this cell was to `range`, where that has changed, and notes what it is to be.
    /// `lasts`: the range was not lost meanwhile.
    fn changes_part(&mut self, range: &Range, lasts: bool, now: Now) {
        let before = self.parts.get(&range.id).copied();
        let wanted = Part::wanted(range, self.ring.identity.cell);
        let change = Part::change(before, wanted, (range.primary, range.epoch), lasts);
        match change {
            PartChange::Nothing => return,
            PartChange::Joins => {
                self.parts.extend(wanted.map(|part| (range.id, part.begun())));
                return;
            }
            PartChange::Stays(_) | PartChange::BeginsEmpty => {}
        }
        if let Some(Part::Primary { term, .. }) = before {
            self.end_term(term, now);
        }
        self.ring.origins.seal(range.slices());
        if self.ring.exchanges.end(range.id) {
            self.jump(range, COUNTER_JUMP);
        }
        self.exchanging.retain(|it| it.range != range.id);
        if before.is_some() && change == PartChange::BeginsEmpty {
            let (engine, pin) = self.worker.engine();
            engine.set_role(pin, range.slices(), Role::Copy);
            self.emptying.begin(range.id, range.slices());
        }
        match wanted {
            Some(part) => self.parts.insert(range.id, part),
            None => self.parts.remove(&range.id),
        };
        let leads = range.primary == self.ring.identity.cell;
        if let PartChange::Stays(of) = change {
            self.begin_exchange(range, of, now);
        } else if leads && range.epoch > 1 {
            // Others have led it, and have given numbers that nobody knows any more.
            self.jump(range, self.ring.random() % RANDOM_JUMP_MAX);
        }
    }

    /// Lets the counters of a range rise, in its epoch.
    fn jump(&self, range: &Range, by: u64) {
        jump(&self.ring, range.slices(), range.epoch, by);
    }

    /// Begins to exchange with the other cells in sync of `range` what each has of the log of its
    /// earlier primary `of`.
    fn begin_exchange(&mut self, range: &Range, of: CellId, now: Now) {
        let me = self.ring.identity.cell;
        let (leads, id, slices) = (range.primary == me, range.id, range.slices());
        let is_other = |cell: &CellId| if leads { *cell != me } else { *cell == range.primary };
        let others: Vec<_> = range.in_sync().filter(is_other).collect();
        if others.is_empty() {
            if !leads {
                self.jump(range, COUNTER_JUMP);
            }
            return;
        }
        let tail = self.ring.origins.tail(of, slices);
        let exchange = Exchange::new((range.epoch, slices), &tail, &others, !leads);
        self.ring.exchanges.begin(id, exchange);
        self.exchanging.push(Exchanging::new((id, range.epoch), others, (tail, leads), now));
    }

    /// Takes the next step of each exchange. Returns whether routes or copies change by that, and
    /// whether something was appended.
    fn exchange(&mut self, now: Now) -> (bool, bool) {
        let Self { ring, worker, exchanging, .. } = self;
        let copies = ring.copies();
        let reads = |cell: &CellId| copies.iter().any(|copy| copy.cell == *cell);
        // A log had no place for a reader: it is tried again.
        let mut changes = exchanging.iter().any(|it| !it.others.iter().all(reads));
        let mut has_appended = false;
        exchanging.retain_mut(|it| match it.step((&ring.exchanges, &copies), worker, now) {
            Step::Waits => true,
            Step::Appended => {
                has_appended = true;
                true
            }
            Step::Drops(cells) => {
                let range = Some(it.range);
                let finds = |cell| ring.find(Finding::Refuses { cell, range });
                cells.into_iter().for_each(finds);
                true
            }
            Step::Over => {
                // What a copy that was dropped sends still is not applied to what is led from now.
                if it.leads() {
                    ring.exchanges.end(it.range);
                }
                changes = true;
                false
            }
        });
        (changes, has_appended)
    }

    /// Begins to lead and to copy what this cell is to, and what is empty where it must be. Returns
    /// whether anything was begun.
    fn begin_parts(&mut self, now: Now) -> bool {
        let map = self.map.clone();
        let mut has_begun = false;
        for range in &map.ranges {
            let Some(part) = self.parts.get(&range.id).copied() else { continue };
            let waits = self.exchanging.iter().any(|it| it.holds_back(range.id));
            if part.is_begun() || waits || self.emptying.has(range.id) {
                continue;
            }
            let is_begun = match part {
                Part::Primary { term, .. } => {
                    let until_ns = self.until_ns.get(&range.id).copied().unwrap_or(0);
                    self.begin_term(range, term, until_ns, now)
                }
                Part::Copy { primary, epoch, .. } => {
                    self.ring.origins.accept(range.slices(), (primary, 0), epoch);
                    true
                }
                Part::Learner { primary, epoch, since, .. } => {
                    self.ring.origins.accept(range.slices(), (primary, since), epoch);
                    true
                }
            };
            if is_begun {
                self.parts.insert(range.id, part.begun());
                has_begun = true;
            }
        }
        has_begun
    }

    /// Begins to lead `range`. False if there is no level for it, or a log has no place for a
    /// reader that holds back what is written.
    fn begin_term(&mut self, range: &Range, term: Term, until_ns: u64, now: Now) -> bool {
        let lanes = self.ring.log.lanes.clone();
        let hold = (until_ns > now.mono_ns).then(|| Hold::begin(term, until_ns, &lanes));
        let Ok(hold) = hold.transpose() else { return false };
        // The member says until when it may answer, and may have to wait until its copies know the
        // time.
        let Some(level) = self.ring.terms.begin(term, 0, now.mono_ns) else {
            hold.into_iter().for_each(|hold| hold.end(&lanes));
            return false;
        };
        self.jump(range, if range.epoch > 1 { COUNTER_JUMP } else { 0 });
        self.begun.push(range.slices());
        self.ring.log.set_doubt(level, false);
        self.ring.log.set_alone(level, true);
        self.holds.extend(hold);
        true
    }

    /// This cell leads no more: what waits for it is in doubt from now on.
    fn end_term(&mut self, term: Term, now: Now) {
        let Some(level) = self.ring.terms.end(term, now.mono_ns) else { return };
        self.ring.log.set_doubt(level, true);
        self.learning.remove(&term.range);
        for (lane, _) in self.ring.log.lanes.logs() {
            self.ring.release_level(lane, level);
        }
    }

    /// Makes copies, levels and routes as the map and the parts say.
    fn publish(&mut self) {
        self.adopt_learners();
        let learns = self.map.ranges.iter().any(|it| it.learner == Some(self.ring.identity.cell));
        self.ring.room.set_learns(learns);
        let old = self.ring.copies();
        let copies = self.copies_wanted(&old);
        self.set_levels(&copies);
        for copy in old.iter().filter(|copy| !copies.iter().any(|it| it.log == copy.log)) {
            copy.end(&self.ring.log);
        }
        self.ring.set_copies(copies);
        let (engine, pin) = self.worker.engine();
        self.begun.drain(..).for_each(|slices| engine.set_role(pin, slices, Role::Primary));
        self.stop_for_flushes();
        let identity = self.ring.identity;
        let serves = |range: &Range| !self.unread.contains(&range.id);
        let lost_at = |range: &Range| self.losses.get(&range.id).map_or(0, |(_, version)| *version);
        let routes = Routes::of(&self.map, identity.cell, &self.ring.terms, serves, lost_at);
        self.ring.set_map(self.map.clone());
        self.old_routes.push(self.ring.set_routes(routes));
        self.ring.mail_adopted();
        self.find_ready();
    }

    /// Lets each range that this cell leads answer until the next delayed flush is due that it has
    /// not carried out: what is answered from then on is executed after it.
    fn stop_for_flushes(&self) {
        for (range, level) in self.led() {
            let done = self.ring.flushed.of_all(range.slices());
            let second = self.map.flushes.stops_at_s(done).unwrap_or(u32::MAX);
            self.ring.terms.stop_at_s(level, second);
        }
    }

    /// Carries out the delayed flush that is due in each range that has not done so. A log without
    /// space does not take it: it is tried again. Returns whether anything was done.
    fn carry_out_flushes(&mut self, now: Now) -> bool {
        let Some(flush) = self.map.flushes.due_at(now.expiry_s) else { return false };
        let (ring, number) = (self.ring.clone(), flush.number);
        // After a failover some lanes may have it and others not: the copy had come further there.
        let lacks = |slice: &SliceId| ring.flushed.of(*slice) < number;
        let led = self.led().map(|(range, _)| range.slices());
        let open: Vec<_> = led.filter(|slices| slices.iter().any(|slice| lacks(&slice))).collect();
        for slices in &open {
            let (engine, _, sink) = self.worker.parts();
            let set = |slice| {
                // Some of the lane may have it: it had other lanes at the primary before.
                if lacks(&slice) {
                    engine.barrier(slice, engine.last_version(slice));
                    ring.flushed.set(slice, number);
                }
            };
            let at = (*slices, number);
            let _ = engine.flush_by(|| sink.barrier_where(at, lacks, set, &mut Vec::new()));
        }
        if !open.is_empty() {
            self.stop_for_flushes();
        }
        !open.is_empty()
    }

    /// Those that learn what this cell leads.
    fn adopt_learners(&mut self) {
        let map = self.map.clone();
        let led = |range: &&Range| range.primary == self.ring.identity.cell;
        let learners =
            map.ranges.iter().filter(led).filter_map(|range| {
                range.learner.map(|cell| (range.id, (cell, range.learner_since)))
            });
        let learners: BTreeMap<_, _> = learners.collect();
        self.learning.retain(|id, it| learners.get(id) == Some(&(it.cell, it.since)));
        for (id, (cell, since)) in learners {
            self.learning.entry(id).or_insert_with(|| Learning::new(cell, since));
        }
    }

    /// The ranges that this cell leads, and has begun to.
    fn led(&self) -> impl Iterator<Item = (&Range, Level)> {
        self.map.ranges.iter().filter_map(|range| {
            let Some(Part::Primary { term, is_begun: true }) = self.parts.get(&range.id) else {
                return None;
            };
            Some((range, self.ring.terms.level(*term)?))
        })
    }

    /// The copies that there should be. Those of `old` that are right stay.
    fn copies_wanted(&mut self, old: &[Arc<Copy>]) -> Vec<Arc<Copy>> {
        let mut wanted: BTreeMap<CellId, Vec<SliceRange>> = BTreeMap::new();
        for (range, _) in self.led() {
            let sent = self.learning.get(&range.id).filter(|it| it.is_sent()).map(|it| it.cell);
            for cell in range.copies.iter().copied().chain(sent) {
                wanted.entry(cell).or_default().push(range.slices());
            }
        }
        for cell in self.exchanging.iter().flat_map(|it| &it.others) {
            wanted.entry(*cell).or_default();
        }
        let of_all: Vec<_> = wanted.values().flatten().copied().collect();
        let is_shared = |slices: &SliceRange| of_all.iter().filter(|it| *it == slices).count() > 1;
        let mut copies = Vec::new();
        for (cell, slices) in wanted {
            let Some(of) = self.map.cells.get(&cell) else { continue };
            let (life, links) = (of.started.incarnation.0, of.started.addresses.links);
            let known = old.iter().find(|copy| copy.cell == cell && copy.incarnation == life);
            let copy = match known {
                Some(copy) => copy.clone(),
                None => {
                    let log = self.ring.identity.incarnation << READINGS_BITS | self.next_reading;
                    self.next_reading += 1;
                    match Copy::begin((cell, life, links), log, &self.ring.log.lanes) {
                        Ok(copy) => Arc::new(copy),
                        // Too many read the logs: its ranges are not served until it does.
                        Err(_) => continue,
                    }
                }
            };
            let has_others = slices.iter().any(is_shared);
            let is_in_sync = self.led().any(|(range, _)| range.copies.contains(&cell));
            copy.set_slices(slices, (has_others, is_in_sync));
            copies.push(copy);
        }
        let reads = |cell: &CellId| copies.iter().any(|copy| copy.cell == *cell);
        let unread = self.led().filter(|(range, _)| !range.copies.iter().all(reads));
        self.unread = unread.map(|(range, _)| range.id).collect();
        copies
    }

    /// Makes each level wait for the copies in sync, and for learners that count.
    fn set_levels(&self, copies: &[Arc<Copy>]) {
        let lanes = &self.ring.log.lanes;
        for (range, level) in self.led() {
            let is_alone = range.copies.is_empty();
            if is_alone {
                self.ring.log.set_alone(level, true);
            }
            let counted = self.learning.get(&range.id).filter(|it| it.is_counted());
            let cells: Vec<_> =
                range.copies.iter().copied().chain(counted.map(|it| it.cell)).collect();
            let term = Term { range: range.id, epoch: range.epoch };
            let hold = self.holds.iter().find(|hold| hold.term == term);
            for (lane, log) in lanes.logs() {
                let of = copies.iter().filter(|copy| cells.contains(&copy.cell));
                let readers = of.map(|copy| copy.readers[lane.index()].0);
                let held = hold.and_then(|hold| hold.readers.get(lane.index()).copied());
                let marks: Vec<_> =
                    readers.chain(held).map(|reader| (reader, Mark::Acknowledged)).collect();
                log.set_level(level, &marks);
            }
            if !is_alone {
                self.ring.log.set_alone(level, false);
            }
            lanes.logs().for_each(|(lane, _)| self.ring.release_level(lane, level));
        }
    }

    /// Continues with what others learn of this cell. Returns whether there is more to do.
    fn learn(&mut self, now: Now) -> bool {
        let (map, copies) = (self.map.clone(), self.ring.copies());
        let (mut publishes, mut is_learning) = (false, false);
        for range in &map.ranges {
            // Nothing is learned of what this cell does not lead yet.
            if self.parts.get(&range.id).is_none_or(|part| !part.is_begun()) {
                continue;
            }
            let Some(learning) = self.learning.get_mut(&range.id) else { continue };
            if matches!(learning.progress, Progress::Waiting) {
                let ready = self.ready.get(&learning.cell).copied().unwrap_or(0);
                if ready >= learning.since {
                    learning.progress = Progress::States(0);
                    publishes = true;
                }
                continue;
            }
            let Some(copy) = copies.iter().find(|copy| copy.cell == learning.cell) else {
                // A log had no place for its reader: it is tried again, and, after a while, another
                // cell, which may read the logs already.
                learning.notes(false, now);
                if learning.stands_ns(now) >= LEARNER_LATE_NS {
                    let (cell, range) = (learning.cell, Some(range.id));
                    self.ring.find(Finding::Refuses { cell, range });
                }
                publishes = true;
                continue;
            };
            if !matches!(learning.progress, Progress::Walking(_)) {
                learning.notes(true, now);
            }
            let others = range.copies.iter().map(|cell| copies.iter().find(|it| it.cell == *cell));
            let Some(others) = others.collect::<Option<Vec<_>>>() else { continue };
            let (with, by) = ((copy, &others[..]), (&*self.ring, &mut self.worker));
            publishes |= learning.step(range.slices(), with, by, now);
            is_learning |= !learning.is_ready() && learning.stands_ns(now) < STANDS_NS;
        }
        if publishes {
            self.publish();
        }
        is_learning
    }

    /// Lets the member know of learners that are ready.
    fn find_ready(&self) {
        for (range, _) in self.led() {
            if let Some(learning) = self.learning.get(&range.id).filter(|it| it.is_ready()) {
                let (at, cell) = (range.stamp(), learning.cell);
                self.ring.find(Finding::CaughtUp { at, cell });
            }
        }
    }

    /// Lets the member know of copies that hold up those who write, and of learners that have no
    /// memory for what they are to learn, and get none by eviction.
    fn find_late(&self, now: Now) {
        for copy in self.ring.copies().iter() {
            let learns = self.learning.values().any(|learning| learning.cell == copy.cell);
            if copy.is_late(&self.ring.log.lanes, learns, now.mono_ns) {
                self.ring.find(Finding::Refuses { cell: copy.cell, range: None });
            }
            let stands = |it: &(&RangeId, &Learning)| {
                it.1.cell == copy.cell && it.1.stands_ns(now) >= LEARNER_LATE_NS
            };
            for (id, _) in self.learning.iter().filter(stands) {
                if copy.says_full() {
                    self.ring.find(Finding::Refuses { cell: copy.cell, range: Some(*id) });
                }
            }
        }
    }

    /// Ends the holds that are over: what was written may be acknowledged.
    fn end_holds(&mut self, now: Now) {
        let over: Vec<_> = self.holds.extract_if(.., |hold| hold.until_ns <= now.mono_ns).collect();
        if over.is_empty() {
            return;
        }
        self.set_levels(&self.ring.copies());
        let lanes = self.ring.log.lanes.clone();
        over.into_iter().for_each(|hold| hold.end(&lanes));
    }

    /// When [`Keeper::tend`] has something to do without a message, in nanoseconds of the monotonic
    /// clock: at the end of a hold, and as long as something waits, a little later.
    #[must_use]
    pub fn wakes_at_ns(&self, now: Now) -> u64 {
        let hold_ns = self.holds.iter().map(|hold| hold.until_ns).min().unwrap_or(u64::MAX);
        let look_ns = match self.waits(now) {
            true => AGAIN_NS,
            false if self.ring.copies().is_empty() => return hold_ns,
            false => LOOK_NS,
        };
        hold_ns.min(now.mono_ns + look_ns)
    }

    /// Whether something waits for workers, for a place in the logs, or for a second.
    fn waits(&self, now: Now) -> bool {
        let is_begun = self.parts.values().all(Part::is_begun);
        let has_all = self.unread.is_empty() && self.emptying.is_over() && !self.ends_lives;
        let lacks_reader = |it: &Learning| it.is_sent() && !it.is_ready();
        let stops_soon =
            |level| self.ring.terms.stops_at_s(level) <= now.expiry_s.saturating_add(1);
        !is_begun
            || !self.exchanging.is_empty()
            || !has_all
            || !self.old_routes.is_empty()
            || self.learning.values().any(lacks_reader)
            || self.led().any(|(_, level)| stops_soon(level))
    }
}
