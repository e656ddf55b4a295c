//! A model of the coordinator: one map that commands change in one order, with late answers, lost
//! answers, commands that arrive long after their callers have given up, and late watchers.
//!
//! A call has one outcome. `Unavailable` is certain: its command never arrives. After `Unknown` it
//! may arrive at any time, or never. A cell that is cut off learns nothing, and its calls fail in
//! either way.

use crate::history::{DRIFT_PART, History};
use crate::scene::{CallId, Event, Life, Scene, cell_id, index_of};
use base::SliceId;
use ring::{CellId, Command, LEASE_NS, Map, Outcome, Range, RangeId, Verdict};
use service::Flushing;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long a call lasts at most.
const DEADLINE_NS: u64 = 2_000_000_000;
/// How late a command may be whose caller has given up.
const LATE_NS: u64 = 4_000_000_000;

/// How long a lease may last that a cell has granted at its end, by a clock that is slow.
const LEASES_NS: u64 = LEASE_NS + LEASE_NS / DRIFT_PART;

/// What is wrong with the coordinator: in how many of 1,000 calls, or how slow it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// A command is applied and its answer is lost.
    pub(crate) answer_lost: u64,
    /// A command is late: its caller has given up before.
    pub(crate) late: u64,
    /// A command is lost.
    pub(crate) lost: u64,
    /// What is added to the time of a commit.
    pub(crate) slow_ns: u64,
}

/// What a call is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum About {
    /// The start of a cell, which asks again.
    Start,
    Range(RangeId),
    /// A cell that is to leave, or to stay: who wants that asks again.
    Cell,
    Flush(Flushing),
}

/// The coordinator.
pub(crate) struct Coordinator {
    /// All maps that there have been, by their versions.
    maps: Vec<Arc<Map>>,
    /// What each open call is about.
    open: BTreeMap<CallId, (Life, About)>,
    next: CallId,
    pub(crate) weather: Weather,
    /// By cell, how many faults cut it off.
    pub(crate) cuts: Vec<u32>,
    /// When each life has ended.
    pub(crate) ends_ns: BTreeMap<Life, u64>,
    /// The slices of each key.
    keys: Vec<SliceId>,
    /// Commands on their way after which a cell may be the only one that has all, by who has
    /// proposed them.
    leaving_alone: BTreeMap<CallId, CellId>,
    /// When all items were ended the last time, or were to end.
    pub(crate) flushed_ns: u64,
    /// What was wrong with a map.
    pub(crate) fault: Option<String>,
    /// Ranges that were lost.
    pub(crate) losses: u64,
    /// Ranges that an operator has forgiven: the last that had one of them has lost its journal.
    pub(crate) forgiven: u64,
    /// Ranges that were handed over, and those of them to a cell that had learned for that; ranges
    /// that were divided, copies that were replaced, and ranges that were made of two.
    pub(crate) moves: [u64; 5],
    /// Primaries that were replaced.
    pub(crate) promotions: u64,
    /// Copies that were left when a primary was replaced, and those of them that were still in sync
    /// when the next cell had learned.
    pub(crate) left: [u64; 2],
    /// The former, by range.
    left_of: BTreeMap<RangeId, Vec<CellId>>,
}

impl Coordinator {
    /// The coordinator of `map`, where the keys are in these slices.
    pub(crate) fn new(map: Map, keys: Vec<SliceId>) -> Self {
        let cuts = vec![0; map.cells.len()];
        Self {
            maps: vec![Arc::new(map)],
            open: BTreeMap::new(),
            next: 0,
            weather: Weather::default(),
            cuts,
            ends_ns: BTreeMap::new(),
            leaving_alone: BTreeMap::new(),
            flushed_ns: 0,
            keys,
            fault: None,
            losses: 0,
            forgiven: 0,
            moves: [0; 5],
            promotions: 0,
            left: [0; 2],
            left_of: BTreeMap::new(),
        }
    }

    /// The newest map.
    pub(crate) fn map(&self) -> &Arc<Map> {
        self.maps.last().expect("invariant: there is a first map")
    }

    /// The slices of all keys.
    pub(crate) fn keys(&self) -> &[SliceId] {
        &self.keys
    }

    /// The map of `version`.
    pub(crate) fn map_of(&self, version: u64) -> Option<&Arc<Map>> {
        self.maps.iter().find(|map| map.version == version)
    }

    /// A cell proposes `command`.
    pub(crate) fn call(&mut self, from: Life, about: About, command: Command, scene: &mut Scene) {
        let call = self.next;
        self.next += 1;
        self.open.insert(call, (from, about));
        scene.note("propose", &[from.cell as u64 + 1, call]);
        scene.say(|| format!("  cell {} proposes {command:?}", from.cell + 1));
        let way_ns = scene.dice.duration(200_000, 20_000_000);
        let slow_ns = scene.dice.below(self.weather.slow_ns + 1);
        let late_ns = scene.dice.between(10_000_000, LATE_NS);
        let gives_up_ns = scene.dice.duration(20_000_000, DEADLINE_NS);
        let is_cut = self.cuts[from.cell] > 0;
        if is_cut && scene.dice.per_mille(500) || scene.dice.per_mille(self.weather.lost / 2) {
            return scene.after(gives_up_ns, Event::Answer(call, Outcome::Unavailable));
        }
        if is_cut && scene.dice.per_mille(500) || scene.dice.per_mille(self.weather.lost) {
            return scene.after(gives_up_ns, Event::Answer(call, Outcome::Unknown));
        }
        self.notes(call, from, &command);
        if is_cut || scene.dice.per_mille(self.weather.late) {
            scene.after(late_ns, Event::Propose(call, Box::new(command)));
            return scene
                .after(gives_up_ns.min(late_ns / 2), Event::Answer(call, Outcome::Unknown));
        }
        scene.after(way_ns + slow_ns, Event::Propose(call, Box::new(command)));
        scene.after(DEADLINE_NS, Event::Answer(call, Outcome::Unknown));
    }

    /// The same, but the command is late, and the caller has given up before it arrives.
    pub(crate) fn call_late(
        &mut self,
        from: Life,
        range: RangeId,
        command: Command,
        scene: &mut Scene,
    ) {
        let call = self.next;
        self.next += 1;
        self.open.insert(call, (from, About::Range(range)));
        scene.note("propose", &[from.cell as u64 + 1, call]);
        scene.say(|| format!("  cell {} proposes {command:?}, late", from.cell + 1));
        self.notes(call, from, &command);
        let late_ns = scene.dice.duration(1_000_000, LATE_NS / 4);
        let gives_up_ns = scene.dice.duration(500_000, 100_000_000);
        scene.after(late_ns, Event::Propose(call, Box::new(command)));
        scene.after(gives_up_ns.min(late_ns), Event::Answer(call, Outcome::Unknown));
    }

    fn notes(&mut self, call: CallId, from: Life, command: &Command) {
        if matches!(command, Command::Promote { .. } | Command::Drop { .. }) {
            self.leaving_alone.insert(call, cell_id(from.cell));
        }
    }

    /// Whether `cell` may soon be the only one that has all of a range: what it has proposed is on
    /// its way.
    pub(crate) fn may_leave_alone(&self, cell: CellId) -> bool {
        self.leaving_alone.values().any(|it| *it == cell)
    }

    /// A command arrives and is applied or refused.
    pub(crate) fn apply(
        &mut self,
        call: CallId,
        command: Command,
        history: &mut History,
        scene: &mut Scene,
    ) {
        self.leaving_alone.remove(&call);
        let before = self.map().clone();
        let mut map = Map::clone(&before);
        let verdict = map.apply(&command);
        scene.note("command", &[call, map.version]);
        scene.say(|| format!("  coordinator: {command:?} -> {verdict:?}"));
        if map != *before {
            self.check(&before, &map, history, scene);
            for cell in 0..self.cuts.len() {
                let delay_ns = scene.dice.duration(100_000, 20_000_000 + self.weather.slow_ns);
                scene.after(delay_ns, Event::MapComes(cell, map.version));
            }
            if let Command::Flush { at_s, .. } = command {
                self.flush(&before, &map, at_s, history, scene);
            }
            self.maps.push(Arc::new(map));
        }
        let is_lost = scene.dice.per_mille(self.weather.answer_lost);
        let is_cut = self.open.get(&call).is_some_and(|(life, _)| self.cuts[life.cell] > 0);
        if !is_lost && !is_cut {
            let way_ns = scene.dice.duration(100_000, 10_000_000);
            scene.after(way_ns, Event::Answer(call, Outcome::Decided(verdict)));
        } else if scene.dice.per_mille(500) {
            let way_ns = scene.dice.duration(100_000, 500_000_000);
            scene.after(way_ns, Event::Answer(call, Outcome::Unknown));
        }
        let is_refused = matches!(verdict, Verdict::Refused(_));
        debug_assert!(!is_refused || self.map().version == before.version);
    }

    /// The outcome of a call comes to its caller, who is not answered twice. Returns who has asked
    /// for a flush.
    pub(crate) fn answer(
        &mut self,
        call: CallId,
        outcome: Outcome,
        scene: &mut Scene,
    ) -> Option<(Life, Flushing)> {
        match self.open.remove(&call)? {
            (_, About::Start | About::Cell) => None,
            (life, About::Flush(flush)) => Some((life, flush)),
            (life, About::Range(range)) => {
                let event = ring::Event::Proposed { range, outcome };
                scene.after(0, Event::Member(life, Box::new(event)));
                None
            }
        }
    }

    /// Notes what is wrong with a change of the map, and which items it ends.
    fn check(&mut self, before: &Map, map: &Map, history: &mut History, scene: &mut Scene) {
        if let Some(fault) = map.fault() {
            self.fault.get_or_insert(format!("the map of version {}: {fault}", map.version));
        }
        for range in &map.ranges {
            for old in before.overlapping(range) {
                let falls = range.epoch < old.epoch || range.config < old.config;
                let moves = range.primary != old.primary && range.epoch <= old.epoch;
                if falls || moves {
                    self.fault.get_or_insert(format!("{old:?} became {range:?}"));
                }
            }
            let Some(old) = before.before(range) else { continue };
            // Of two that have become one each may have been lost before.
            let losses = before.overlapping(range).map(|old| old.losses).max().unwrap_or(0);
            let old = &Range { losses, ..old.clone() };
            self.promotions += u64::from(range.epoch > old.epoch);
            let is_handed_over = range.epoch > old.epoch && range.is_handed_over;
            let is_other = is_handed_over && range.primary != old.primary;
            let leaves = is_other && !range.is_in_sync(old.primary);
            let is_replaced = old.releases().is_some_and(|cell| !range.is_in_sync(cell));
            let is_new = range.id != old.id;
            let is_merged = range.epoch > old.epoch && !range.made_of.is_empty();
            let counts = [is_other, leaves, is_new, is_replaced, is_merged];
            self.moves.iter_mut().zip(counts).for_each(|(sum, it)| *sum += u64::from(it));
            self.count_left(old, range);
            if range != old {
                scene.say(|| show(range));
            }
            if range.losses > old.losses && old.waits_for_operator {
                self.forgiven += 1;
                let lost =
                    (0..self.keys.len()).filter(|key| old.slices().contains(self.keys[*key]));
                history.unknown.extend(lost);
            } else if range.losses > old.losses {
                self.losses += 1;
                self.lose(before, old, history, scene);
            }
        }
    }

    /// Counts the copies that stay in sync where a primary is replaced. One that has handed a range
    /// over stays itself.
    fn count_left(&mut self, old: &Range, range: &Range) {
        if range.epoch > old.epoch && range.is_handed_over {
            return;
        }
        if range.epoch > old.epoch {
            self.left[0] += range.copies.len() as u64;
            self.left_of.insert(range.id, range.copies.clone());
        } else if range.copies.len() > old.copies.len() {
            let left = self.left_of.remove(&range.id).unwrap_or_default();
            self.left[1] += left.iter().filter(|cell| old.is_in_sync(**cell)).count() as u64;
        }
    }

    /// All items are to end. A flush that was not due is replaced: it ends nothing, but where its
    /// second has begun already.
    fn flush(&mut self, before: &Map, map: &Map, at_s: u32, history: &mut History, scene: &Scene) {
        self.flushed_ns = scene.now_ns;
        let number_of = |map: &Map| map.flushes.latest().map_or(0, |flush| flush.number);
        if before.flushes.latest().is_some_and(|flush| flush.due_s > at_s) {
            history.forget_flush(number_of(before));
        }
        for key in 0..self.keys.len() {
            history.flush(number_of(map), key, scene.now_ns);
        }
    }

    /// A range begins again, empty: its items have ended between the end of its primary and now, or
    /// the end of the leases that this one has granted. Until then the primary before it may still
    /// answer from what there was, and the next one answers nothing.
    fn lose(&self, before: &Map, old: &Range, history: &mut History, scene: &Scene) {
        let life = before.cells.get(&old.primary).map(|cell| cell.started.incarnation.0);
        let life = Life { cell: index_of(old.primary), number: life.unwrap_or(0) };
        let asked_ns = self.ends_ns.get(&life).copied().unwrap_or(scene.now_ns);
        let lost = self.keys.iter().enumerate();
        for (key, _) in lost.filter(|(_, slice)| old.slices().contains(**slice)) {
            history.lose(key, asked_ns, scene.now_ns.max(asked_ns + LEASES_NS));
        }
    }

    /// Whether the newest map has this start of a cell.
    pub(crate) fn has_started(&self, life: Life) -> bool {
        let cell = self.map().cells.get(&cell_id(life.cell));
        cell.is_some_and(|cell| cell.started.incarnation.0 >= life.number)
    }
}

/// A range in one line.
fn show(range: &Range) -> String {
    let copies: Vec<_> = range.copies.iter().map(|cell| cell.0).collect();
    let learner = range.learner.map_or(0, |cell| cell.0);
    format!(
        "    range {}: epoch {}, config {}, primary {}, copies {copies:?}, learner {learner}",
        range.id, range.epoch, range.config, range.primary
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;
    use crate::history::{Answer, Ask, Entry};
    use crate::linear::{Found, search};
    use crate::machine::started;
    use crate::trace::Trace;
    use ring::Why;

    #[test]
    fn a_deposed_primary_answers_from_a_lost_range_only_while_its_lease_lasts() {
        const MS: u64 = 1_000_000;
        let (start_ns, end_ns) = (1000 * MS, 1010 * MS);
        let mut map = Map::new(7, 2, 2);
        for cell in 0..2 {
            map.apply(&Command::Join {
                token: cell as u64 + 1,
                started: started((cell, 1), false, false),
            });
        }
        let (range, cell) = (map.ranges[0].clone(), cell_id(1));
        let slice = range.slices().iter().next().expect("a range has slices");
        let mut coordinator = Coordinator::new(map, vec![slice]);
        let mut history = History::default();
        let mut scene = Scene::new(Dice::new(1, 0), Trace::new(false));
        scene.now_ns = start_ns;
        // The second cell has granted a lease, replaces the first one, ends, and starts again.
        let promote = Command::Promote { at: range.stamp(), cell, why: Why::Broken };
        coordinator.apply(0, promote, &mut history, &mut scene);
        coordinator.ends_ns.insert(Life { cell: 1, number: 1 }, end_ns);
        scene.now_ns = end_ns + MS;
        let start = Command::Start { cell, started: started((1, 2), false, false) };
        coordinator.apply(1, start, &mut history, &mut scene);
        assert_eq!(coordinator.losses, 1);
        let entry = |ask, answer, asked_ns, answered_ns| {
            let answered_ns = Some(answered_ns);
            let (session, age_ns) = (asked_ns as usize, 0);
            Entry { client: 0, key: 0, ask, asked_ns, answered_ns, answer, session, nth: 0, age_ns }
        };
        let set = entry(Ask::Set(1), Answer::Done, 0, MS);
        let read = |value, at_ns| entry(Ask::Get, Answer::Value(value), at_ns, at_ns + MS);
        let (value, late_ns) = (Some(1), end_ns + LEASES_NS + MS);
        for (reads, expected) in [
            (vec![read(value, end_ns + LEASE_NS)], true),
            (vec![read(value, end_ns + LEASE_NS), read(None, late_ns)], true),
            (vec![read(None, end_ns + 100 * MS), read(value, end_ns + LEASE_NS)], false),
            (vec![read(value, late_ns)], false),
        ] {
            let entries: Vec<_> =
                [set].into_iter().chain(history.of_key(0)).chain(reads.iter().copied()).collect();
            let found = search(&entries, &BTreeMap::new());
            assert_eq!(found == Found::Order, expected, "{reads:?}");
        }
    }
}
