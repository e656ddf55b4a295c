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
//! was a copy in sync. What waits for a leadership that has ended is in doubt.

use super::awake::Awake;
use super::emptying::Emptying;
use super::epochs::Epochs;
use super::exchanging::{Exchanging, Step};
use super::flushes;
use super::learners::{Learners, Stepped};
use super::led::led;
use super::part::{Part, PartChange, Past};
use super::readers::Readers;
use super::sealing::Sealing;
use super::settling::Settling;
use super::turning::{Turn, Turning};
use crate::ring::cell::{Finding, RingCell};
use crate::ring::copies::Exchange;
use crate::ring::jump::{jump, jump_by};
use crate::ring::routes::{Parts, Routes};
use crate::ring::terms::Term;
use crate::worker::Worker;
use base::{Now, SliceRange};
use effects::Level;
use engine::Role;
use ring::{CellId, Map, Range, RangeId, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tier::Member;

/// By less than this the counters of a range rise besides, by chance, where it begins again at a
/// cell that has led or copied it: as those of a cell that starts.
const RANDOM_JUMP_MAX: u64 = 1 << 30;
/// How soon it is looked again at what waits.
const AGAIN_NS: u64 = 20_000_000;
/// How often it is looked whether copies acknowledge what they are sent. One that is late is found
/// after a tenth of a second more at most.
const LOOK_NS: u64 = 100_000_000;

/// With this number of copies or more, some may have what others lack when their primary ends.
const TAILS_COPIES_MIN: u8 = 3;

/// How long a keeper may rest before the next step of what goes on, so that clients come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Not at all: clients or other cells wait for what goes on, or nothing goes on.
    None,
    /// Shortly: it copies a range that has fewer copies than it may have.
    Short,
    /// It copies a range for a cell that is to have it, or frees what the cell has no more.
    Long,
}

/// Keeps a cell as the map wants it.
pub struct Keeper {
    ring: Arc<RingCell>,
    worker: Worker,
    map: Arc<Map>,
    parts: BTreeMap<RangeId, Part>,
    emptying: Emptying,
    exchanging: Vec<Exchanging>,
    learners: Learners,
    readers: Readers,
    sealing: Sealing,
    /// What this cell is to lead that was handed over to it.
    continues: BTreeSet<RangeId>,
    /// By range, until when nothing is committed of what this cell begins to lead.
    until_ns: BTreeMap<RangeId, u64>,
    /// By range: how often the ids of what was asked for were lost with it, and the version of the
    /// map in which this cell saw the last time.
    losses: BTreeMap<RangeId, (u32, u64)>,
    /// What this cell has begun to lead, and does not evict of yet: its copies are not sent it.
    begun: Vec<SliceRange>,
    /// Routes that workers may still go by.
    old_routes: Vec<Arc<Routes>>,
    /// Since when it has seen the epoch of each range.
    epochs: Epochs,
    /// The map has changed since what was asked by lives that are over was dropped.
    ends_lives: bool,
    rest: Rest,
    awake: Awake,
    /// When a place in the logs is looked for again, where one is missing.
    tries_at_ns: u64,
    /// The ranges that this cell has seen in a map.
    known: BTreeSet<RangeId>,
    /// Above a tier, what this cell may lead by what its journal has: it is not voided.
    kept: BTreeSet<RangeId>,
    /// Above a tier, the ranges that this cell has led or copied, and leads or copies on.
    turning: Turning,
    /// What it leads since, as long as something of that is not below.
    settling: Settling,
}

/// What a range, or a part of it, was to a cell before the map has changed.
struct Before {
    id: RangeId,
    slices: SliceRange,
    part: Option<Part>,
    /// Whether it was sealed, if it was to be.
    sealed: Option<bool>,
    /// How it has become what it is now.
    past: Past,
    losses: (u32, u64),
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
            learners: Learners::default(),
            readers: Readers::default(),
            sealing: Sealing::default(),
            continues: BTreeSet::new(),
            until_ns: BTreeMap::new(),
            losses: BTreeMap::new(),
            begun: Vec::new(),
            old_routes: Vec::new(),
            epochs: Epochs::default(),
            ends_lives: false,
            rest: Rest::None,
            awake: Awake::default(),
            tries_at_ns: 0,
            known: BTreeSet::new(),
            kept: BTreeSet::new(),
            turning: Turning::default(),
            settling: Settling::default(),
        }
    }

    /// Goes by `map` from now on. `holds`: by range, until when nothing is committed of what this
    /// cell begins to lead.
    pub fn adopt(&mut self, map: Arc<Map>, holds: BTreeMap<RangeId, u64>, now: Now) {
        if map.version < self.map.version {
            return;
        }
        self.ring.begins_with(map.version);
        self.ring.grants.keep(|cell| map.cells.contains_key(&cell));
        let old = std::mem::replace(&mut self.map, map.clone());
        self.epochs.adopt(&old, &map, now.mono_ns);
        self.ring.history.adopt(&map, now.expiry_s);
        self.until_ns = holds;
        self.ends_lives = true;
        if map.copies_wanted >= TAILS_COPIES_MIN {
            self.ring.origins.keep(self.ring.cell.budget());
        }
        self.worker.begin(now);
        let sealed = self.sealing.adopt(&map, now);
        let befores = |range: &Range| self.befores(&old, range, &sealed);
        let befores: Vec<_> = map.ranges.iter().map(befores).collect();
        for (range, befores) in map.ranges.iter().zip(befores) {
            let seen = befores.iter().map(|it| it.losses);
            let seen = seen.fold((0, 0), |(times, at), it| (it.0.max(times), it.1.max(at)));
            let times = range.times_forgotten();
            self.losses.insert(range.id, if seen.0 == times { seen } else { (times, map.version) });
            self.changes_part(range, &befores, now);
        }
        self.forgets(&map);
        for exchanging in &mut self.exchanging {
            let range = map.range(exchanging.range);
            exchanging.keep(|cell| range.is_some_and(|range| range.is_in_sync(cell)));
        }
        let me = self.ring.identity.cell;
        let copies = |range: &Range, cell| range.primary == cell && range.has(me);
        self.ring.origins.drop_kept(|cell| map.ranges.iter().any(|range| copies(range, cell)));
        let identity = &self.ring.identity;
        let is_known = map
            .cells
            .get(&identity.cell)
            .is_some_and(|cell| cell.started.incarnation.0 == identity.incarnation);
        if let Some(below) = self.ring.below().filter(|_| is_known) {
            below.set_owner(identity.ring, identity.cell.0);
        }
        self.begin_parts(now);
        let _ = self.sealing.begin(&led(&map, &self.parts, &self.ring.terms), now);
        self.publish();
        self.worker.end();
    }

    /// A range that was sealed with the stamp `at` is not handed over now: it is served again.
    pub fn unseal(&mut self, at: Stamp, now: Now) {
        let map = self.map.clone();
        if let Some(range) = map.range(at.range).filter(|_| self.sealing.give_up(at, now)) {
            self.leads_again(range);
            self.worker.begin(now);
            self.publish();
            self.worker.end();
        }
    }

    /// The map that it goes by.
    #[must_use]
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// `cell` is ready to learn what the map of `version` wants it to.
    pub fn hear_ready(&mut self, cell: CellId, version: u64) {
        self.learners.hear_ready(cell, version);
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
        // Routes that are replaced from here on were closed to what is sealed already.
        let has_old_routes = !self.old_routes.is_empty();
        let awake = self.awake.time(now);
        self.worker.begin(now);
        let mut is_emptying = !self.emptying.is_over();
        if is_emptying && self.old_routes.is_empty() {
            is_emptying = self.emptying.step(&mut self.worker, &self.ring);
        }
        is_emptying |= self.emptying.step_older(&mut self.worker);
        if self.ends_lives && self.old_routes.is_empty() {
            self.ring.tags.drop_lives(&self.map);
            self.ends_lives = false;
        }
        let is_exchanging = self.exchanging.iter().any(|it| it.is_quick(awake));
        let (has_exchanged, has_appended) = self.exchange(awake);
        // What has waited for tails, for its items to be dropped, for a level, or for a place to
        // read.
        let waits = self.parts.values().any(|part| !part.is_begun());
        let tries = self.readers.lack_places() && now.mono_ns >= self.tries_at_ns;
        if tries {
            self.tries_at_ns = now.mono_ns + AGAIN_NS;
        }
        if (waits && self.begin_parts(now)) || has_exchanged || tries {
            self.publish();
        }
        let (map, ring) = (self.map.clone(), self.ring.clone());
        let led = led(&map, &self.parts, &ring.terms);
        let seals = self.sealing.begin(&led, now);
        if seals {
            self.publish();
        }
        let with = (&self.readers, has_old_routes || seals);
        let is_sealing = self.sealing.step(&led, with, (&ring, &mut self.worker), now);
        let open = led.iter().copied().filter(|it| !self.sealing.has(it.range.id));
        let open: Vec<_> = open.collect();
        let has_flushed = flushes::carry_out(&open, (&map, &ring), &mut self.worker, now);
        let has_settled = self.settling.step(&ring, &mut self.worker, now);
        let Stepped { changes, goes_on: is_learning, walks, heals } =
            self.learners.step(&led, &ring, &mut self.worker, awake);
        if changes {
            self.publish();
        }
        self.readers.end_holds(&led, &self.learners, &ring, now);
        self.learners.find_late(&ring, awake);
        self.readers.find_unread(&ring, awake);
        self.learners.find_ready_again(&led, &ring, awake);
        self.worker.end();
        for (lane, _) in ring.log.lanes.logs() {
            if is_learning || has_flushed || has_appended || has_settled {
                ring.mail_appended(lane.index());
            }
        }
        // What is not begun may wait for its items to be dropped, and clients for that. So does a
        // primary that has this cell learn: it learns once it is empty.
        let learns = self.parts.values().any(|part| matches!(part, Part::Learner { .. }));
        let is_awaited = waits || is_exchanging || is_sealing || is_emptying && learns;
        self.rest = match walks || is_emptying {
            true if !is_awaited && heals => Rest::Short,
            true if !is_awaited => Rest::Long,
            _ => Rest::None,
        };
        is_emptying || is_learning || is_exchanging || is_sealing
    }

    /// How long it may rest before the next step of what goes on.
    #[must_use]
    pub fn rest(&self) -> Rest {
        self.rest
    }

    /// It is called again after `wait_ns` at the latest. Called later, it was stopped meanwhile,
    /// and others were not silent.
    pub fn sleeps(&mut self, now: Now, wait_ns: u64) {
        self.awake.waits(now, wait_ns);
    }

    /// What `range` was by the `old` map: itself, the range of which it was a part, or those that
    /// it was made of. `sealed`: the ranges that this cell was to seal, and whether they were.
    fn befores(&self, old: &Map, range: &Range, sealed: &BTreeMap<RangeId, bool>) -> Vec<Before> {
        let losses = old.overlapping(range).map(|it| it.losses).max();
        let lasts = losses == Some(range.losses);
        let before = |of: &Range| Before {
            id: of.id,
            slices: of.slices(),
            part: self.parts.get(&of.id).copied(),
            sealed: sealed.get(&of.id).copied(),
            past: Past { lasts, follows: range.follows(of) },
            losses: self.losses.get(&of.id).copied().unwrap_or_default(),
        };
        old.overlapping(range).map(before).collect()
    }

    /// Forgets what `map` has no more: ranges that have become a part of others.
    fn forgets(&mut self, map: &Map) {
        let is_known = |id: &RangeId| map.range(*id).is_some();
        self.parts.retain(|id, _| is_known(id));
        self.losses.retain(|id, _| is_known(id));
        self.turning.keep(is_known);
        self.continues.retain(is_known);
        self.known.retain(is_known);
        self.kept.retain(is_known);
    }

    /// Ends what this cell was to `range`, where that has changed, and notes what it is to be.
    fn changes_part(&mut self, range: &Range, befores: &[Before], now: Now) {
        let me = self.ring.identity.cell;
        let wanted = Part::wanted(range, me);
        let is_led_on = |it: &Before| {
            it.sealed.is_some() && it.part.zip(wanted).is_some_and(|(it, new)| it == new.begun())
        };
        if befores.iter().any(is_led_on) {
            return self.leads_again(range);
        }
        let change = self.change(range, befores, wanted);
        let had_part = befores.iter().any(|it| it.part.is_some());
        // What an earlier life has journaled of it.
        let is_first = self.known.insert(range.id) && self.ring.cell.tiered().is_some();
        let is_kept = range.journals.contains(&self.ring.identity.cell);
        let was_kept = befores.iter().any(|it| self.kept.contains(&it.id));
        self.kept.remove(&range.id);
        match change {
            PartChange::Nothing if is_kept && (is_first || was_kept) => {
                self.kept.insert(range.id);
                return;
            }
            PartChange::Nothing if is_first || was_kept => {
                self.emptying.begin(range.slices());
                return;
            }
            PartChange::Nothing => return,
            PartChange::Joins => {
                self.parts.extend(wanted.map(|part| (range.id, part.begun())));
                return;
            }
            PartChange::Stays(_) | PartChange::Continues | PartChange::BeginsEmpty => {}
        }
        self.continues.remove(&range.id);
        self.ring.origins.seal(range.slices());
        for before in befores {
            if let Some(Part::Primary { term, .. }) = before.part {
                self.end_term((term, before.slices), before.sealed == Some(true), now);
            }
            // Where that goes on as the lower half, it may have begun another one already.
            let goes_on = before.id != range.id && self.map.range(before.id).is_some();
            if !goes_on && self.ring.exchanges.end(before.id) {
                self.ring.jumps.note(before.slices);
            }
            self.exchanging.retain(|it| goes_on || it.range != before.id);
        }
        let leads = range.primary == self.ring.identity.cell;
        match change {
            PartChange::BeginsEmpty => self.begins_empty(range, had_part),
            _ => self.keeps_what_it_has(range, befores),
        }
        match wanted {
            Some(part) => self.parts.insert(range.id, part),
            None => self.parts.remove(&range.id),
        };
        if let PartChange::Stays(of) = change {
            self.begin_exchange(range, of, self.awake.at(now));
        } else if change == PartChange::Continues {
            self.continues.extend(leads.then_some(range.id));
        } else if leads && range.epoch > 1 {
            // Others have led it, and have given numbers that nobody knows any more.
            let by = self.ring.random() % RANDOM_JUMP_MAX;
            jump_by(&self.ring, range.slices(), range.epoch, by);
        }
    }

    /// What this cell has of `range`, if it `had_part`, is of no use. But one that leads it where
    /// the ring recovers it begins with its journal.
    fn begins_empty(&mut self, range: &Range, had_part: bool) {
        self.turning.end(range.id);
        let leads = range.primary == self.ring.identity.cell;
        match self.ring.below() {
            Some(below) if leads && range.is_recovered && !had_part => {
                recover(range, below, &self.ring);
            }
            below if had_part || below.is_some() => {
                let (engine, pin) = self.worker.engine();
                engine.set_role(pin, range.slices(), Role::Copy);
                self.emptying.begin(range.slices());
            }
            _ => {}
        }
    }

    /// This cell keeps what it has of `range`, which may be in other logs than what comes now.
    fn keeps_what_it_has(&mut self, range: &Range, befores: &[Before]) {
        let leads = range.primary == self.ring.identity.cell;
        let has_led = befores.iter().any(|it| matches!(it.part, Some(Part::Primary { .. })));
        // What it was to be before may not have begun.
        let is_open = |it: &Before| it.part.is_some_and(|part| !part.is_begun());
        let turns = has_led != leads || befores.iter().any(is_open);
        let turn = match (turns, leads) {
            (false, _) => Turn::Same,
            (true, true) => Turn::ToLead,
            (true, false) => Turn::ToCopy,
        };
        if self.ring.below().is_some() {
            self.turning.begin(range.id, turn);
            if has_led && !leads {
                self.emptying.begin_older(range.slices(), range.epoch);
            }
        }
    }

    /// What changes for this cell, which is `wanted` to be that to `range`.
    fn change(&self, range: &Range, befores: &[Before], wanted: Option<Part>) -> PartChange {
        let me = self.ring.identity.cell;
        let of = |it: &Before| match it.part {
            Some(Part::Primary { term: Term { epoch, .. }, .. }) if it.sealed == Some(true) => {
                Some(Part::Copy { primary: me, epoch, is_begun: true })
            }
            part => part,
        };
        let changes = befores.iter().map(|it| Part::change(of(it), wanted, range, it.past));
        let first = || Part::change(None, wanted, range, Past::default());
        changes.reduce(PartChange::of_both).unwrap_or_else(first)
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
                self.ring.jumps.note(slices);
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
        if let Some((tiered, below)) = self.ring.cell.tiered().zip(self.ring.below())
            && !below.is_owned()
        {
            tiered.press_for_floors();
            return false;
        }
        let map = self.map.clone();
        let mut has_begun = false;
        for range in &map.ranges {
            let Some(part) = self.parts.get(&range.id).copied() else { continue };
            let waits = self.exchanging.iter().any(|it| it.holds_back(range.id));
            if part.is_begun() || waits || self.emptying.has(range.slices()) {
                continue;
            }
            let is_begun = match part {
                _ if !self.turning.is_over(range.id, &self.ring) => {
                    if let Part::Copy { primary, .. } = part {
                        self.ring.origins.await_changes(range.slices(), primary);
                    }
                    false
                }
                Part::Primary { term, .. } => {
                    let until_ns = self.until_ns.get(&range.id).copied().unwrap_or(0);
                    self.begin_term(range, term, until_ns, now)
                }
                Part::Copy { primary, epoch, .. } => {
                    self.ring.origins.accept(range.slices(), (primary, 0), epoch);
                    self.turning.end(range.id);
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
        if self.readers.hold(term, until_ns, &lanes, now).is_err() {
            return false;
        }
        // The member says until when it may answer, and may have to wait until its copies know the
        // time.
        let Some(level) = self.ring.terms.begin(term, 0, now.mono_ns) else {
            self.readers.let_go(term, &lanes);
            return false;
        };
        let continues = range.epoch == 1 || self.continues.remove(&range.id);
        jump(&self.ring, range.slices(), range.epoch, !continues);
        self.lead_below(range, level);
        if self.turning.end(range.id) && !range.copies.is_empty() {
            self.settling.begin(term, range.slices());
        }
        self.begun.push(range.slices());
        self.ring.log.set_doubt(level, false);
        self.ring.log.set_alone(level, true);
        self.ring.find(Finding::Begins);
        true
    }

    /// This cell leads `range` still, which it has sealed, or was about to: it serves it again.
    fn leads_again(&mut self, range: &Range) {
        self.begun.push(range.slices());
        if let Some(Part::Primary { term, .. }) = self.parts.get(&range.id)
            && let Some(level) = self.ring.terms.level(*term)
        {
            self.lead_below(range, level);
        }
    }

    /// Has what this cell leads at `level` written back, where it is above a tier.
    fn lead_below(&self, range: &Range, level: Level) {
        let (Some(tiered), engine) = (self.ring.cell.tiered(), self.ring.cell.engine()) else {
            return;
        };
        if let Some(below) = tiered.member() {
            below.lead(range.slices(), level, |slice| engine.last_version(slice));
        }
        tiered.press();
        tiered.press_flusher();
    }

    /// This cell does not lead `slices` any more: what waits for it is in doubt from now on, unless
    /// it `is_sealed`.
    fn end_term(&mut self, (term, slices): (Term, SliceRange), is_sealed: bool, now: Now) {
        let Some(level) = self.ring.terms.end(term, is_sealed, now.mono_ns) else { return };
        let has_failed = self.ring.below().is_some_and(|below| below.has_failed());
        self.ring.log.set_doubt(level, !is_sealed || has_failed);
        if let Some(below) = self.ring.below() {
            below.leave(slices);
        }
        self.learners.end(term.range);
        for (lane, _) in self.ring.log.lanes.logs() {
            self.ring.release_level(lane, level);
        }
    }

    /// Makes copies, levels and routes as the map and the parts say, in this order: a level waits
    /// for a copy before it is sent anything; what is led is evicted once its copies are sent it;
    /// routes come last, because requests go by them.
    fn publish(&mut self) {
        let (map, ring) = (self.map.clone(), self.ring.clone());
        let me = ring.identity.cell;
        self.learners.adopt(&map, me);
        ring.room.set_cells(map.cells.len());
        ring.room.set_learns(map.ranges.iter().any(|range| range.learner == Some(me)));
        let led = led(&map, &self.parts, &ring.terms);
        let exchanged = self.exchanging.iter().flat_map(|it| it.others.iter().copied());
        let copies = self.readers.renew(&led, &self.learners, exchanged, (&map, &ring));
        self.readers.set_levels(&led, &self.learners, &copies, &ring);
        for copy in ring.copies().iter().filter(|old| !copies.iter().any(|it| it.log == old.log)) {
            copy.end(&ring.log);
        }
        ring.set_copies(copies);
        let (engine, pin) = self.worker.engine();
        self.begun.drain(..).for_each(|slices| engine.set_role(pin, slices, Role::Primary));
        flushes::stop(&led, &map, &ring);
        let is_open = |range: &Range| range.journals.is_empty() && !self.sealing.has(range.id);
        let serves = |range: &Range| self.readers.all_read(range.id) && is_open(range);
        let lost_at = |range: &Range| self.losses.get(&range.id).map_or(0, |(_, version)| *version);
        let copies = |range: &Range| {
            let part = self.parts.get(&range.id);
            let is_begun = matches!(part, Some(Part::Copy { is_begun: true, .. }));
            is_begun.then(|| self.epochs.answers_from_ns(range.id))
        };
        let (terms, grants) = (&ring.terms, &ring.grants);
        let of = Parts { terms, grants, serves: &serves, copies: &copies, lost_at: &lost_at };
        let routes = Routes::of(&map, me, &of);
        ring.set_map(map.clone());
        self.old_routes.push(ring.set_routes(routes));
        ring.mail_adopted();
        self.learners.find_ready(&led, &ring);
    }

    /// When [`Keeper::tend`] has something to do without a message, in nanoseconds of the monotonic
    /// clock: at the end of a hold, and as long as something waits, a little later.
    #[must_use]
    pub fn wakes_at_ns(&self, now: Now) -> u64 {
        let hold_ns = self.readers.holds_until_ns();
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
        let has_all = !self.readers.lack_places() && self.emptying.is_idle() && !self.ends_lives;
        let led = led(&self.map, &self.parts, &self.ring.terms);
        let stops_soon =
            |level| self.ring.terms.stops_at_s(level) <= now.expiry_s.saturating_add(1);
        !is_begun
            || !self.exchanging.is_empty()
            || !has_all
            || !self.old_routes.is_empty()
            || self.learners.go_on()
            || self.sealing.goes_on()
            || led.iter().any(|it| stops_soon(it.level) || !it.range.journals.is_empty())
    }
}

/// Has a range begin with what the journal has of it.
fn recover(range: &Range, below: Member<'_>, ring: &RingCell) {
    let engine = ring.cell.engine();
    for slice in range.slices().iter() {
        let state = below.state(slice);
        engine.advance(slice, state.last);
        engine.barrier(slice, state.barrier);
        ring.flushed.set(slice, state.flushed);
    }
}
