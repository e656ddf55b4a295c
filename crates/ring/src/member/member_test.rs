//! What follows when heartbeats come, stay away, or come in one direction alone.

use super::choice::RETURN_NS;
use super::event::{Effect, Event, Heartbeat, Memory, Order, Outcome};
use super::leases::{BEAT_NS, DEAF_NS, FIRST_NS, LEASE_NS, LOST_NS, SHRINK_NS, SILENCE_NS};
use super::state::{Member, NAMED_NS};
use crate::ids::{CellId, Incarnation, RangeId};
use crate::map::{
    Addresses, Command, Division, Leaving, Map, Refusal, Stamp, Started, Verdict, Why,
};
use base::Now;
use std::collections::BTreeMap;
use std::sync::Arc;

const A: CellId = CellId(1);
const B: CellId = CellId(2);
const C: CellId = CellId(3);
/// Led by [`A`], copied by [`B`].
const FIRST: RangeId = RangeId(1);
const TICK_NS: u64 = 10_000_000;

/// Two cells, and [`C`] as their witness.
fn watched() -> Map {
    let mut map = formed(2);
    let started = map.cells[&A].started;
    map.apply(&Command::JoinWitness { token: 9, started });
    map
}

fn formed(cells: u64) -> Map {
    formed_with(cells, 2)
}

fn formed_with(cells: u64, copies: u8) -> Map {
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let addresses = Addresses { control: at, links: at, clients: at };
    let started = Started::new(Incarnation(1), addresses);
    let mut map = Map::new(7, cells as u32, copies);
    for token in 0..cells {
        map.apply(&Command::Join { token, started });
    }
    map
}

/// Members that hear each other, but for the links that are cut, and a coordinator at hand.
struct Cells {
    now_ns: u64,
    map: Map,
    members: BTreeMap<CellId, Member>,
    /// From, to.
    cut: Vec<(CellId, CellId)>,
    /// Who gets no map from the coordinator.
    forgotten: Vec<CellId>,
    /// Which life of a cell it is, where that is not the first one.
    lives: BTreeMap<CellId, u64>,
    /// What is proposed, and is not applied.
    held: Vec<(CellId, RangeId, Command)>,
    holds_proposals: bool,
    /// What is to be served again.
    unsealed: Vec<(CellId, Stamp)>,
    /// Nothing is evicted.
    keeps_all: bool,
    /// Proposals that were refused.
    refused: usize,
}

impl Cells {
    fn new(count: u64) -> Self {
        let mut cells = Self::begin(count, Vec::new());
        cells.run(4 * BEAT_NS);
        cells
    }

    fn begin(count: u64, cut: Vec<(CellId, CellId)>) -> Self {
        Self::with(formed(count), cut)
    }

    fn with(map: Map, cut: Vec<(CellId, CellId)>) -> Self {
        let shared = Arc::new(map.clone());
        let member = |id: &CellId| {
            (*id, Member::new(*id, shared.clone(), true, Now { mono_ns: 0, expiry_s: 1 }))
        };
        let members = map.cells.keys().map(member).collect();
        let (held, forgotten, lives) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self {
            now_ns: 0,
            map,
            members,
            cut,
            forgotten,
            lives,
            held,
            unsealed: Vec::new(),
            holds_proposals: false,
            keeps_all: false,
            refused: 0,
        }
    }

    fn now(&self) -> Now {
        Now { mono_ns: self.now_ns, expiry_s: 1 }
    }

    fn event(&mut self, to: CellId, event: Event) {
        let (now, mut effects) = (self.now(), Vec::new());
        self.members.get_mut(&to).expect("a cell").handle(event, now, &mut effects);
        for effect in effects {
            match effect {
                Effect::Beat { to: other, heartbeat } => self.beat(to, other, heartbeat),
                Effect::Propose { range, command } if self.holds_proposals => {
                    self.held.push((to, range, command));
                }
                Effect::Propose { range, command } => self.propose(to, range, command),
                Effect::Unseal { at } => self.unsealed.push((to, at)),
                // What a clock does with it has tests of its own.
                Effect::Take { .. } | Effect::Follow { .. } => {}
            }
        }
    }

    fn beat(&mut self, from: CellId, to: CellId, heartbeat: Heartbeat) {
        if !self.cut.contains(&(from, to)) && self.members.contains_key(&to) {
            let incarnation = Incarnation(self.lives.get(&from).copied().unwrap_or(1));
            // It has no effect but on what is known: no loop comes of it.
            self.event(to, Event::Heard { from, incarnation, heartbeat });
        }
    }

    fn propose(&mut self, by: CellId, range: RangeId, command: Command) {
        let verdict = self.map.apply(&command);
        self.refused += usize::from(matches!(verdict, Verdict::Refused(_)));
        if let Command::Unite { at, .. } | Command::Merge { at, .. } = command {
            assert_eq!(at.range, range, "a refusal would not be about that range");
        }
        let is_eligible = verdict != Verdict::Refused(Refusal::NotEligible);
        assert!(is_eligible, "{by} proposes {command:?}");
        self.event(by, Event::Proposed { range, outcome: Outcome::Decided(verdict) });
        if matches!(verdict, Verdict::Applied { .. }) {
            self.notify();
        }
    }

    /// All get the map.
    fn notify(&mut self) {
        let map = Arc::new(self.map.clone());
        let notified = self.members.keys().copied().filter(|it| !self.forgotten.contains(it));
        let notified: Vec<_> = notified.collect();
        notified.into_iter().for_each(|cell| self.event(cell, Event::Map(map.clone())));
    }

    /// Each of these cells holds so much: free, and used.
    fn hold(&mut self, of_cells: &[(CellId, [u64; 2])]) {
        for &(cell, [free_bytes, used_bytes]) in of_cells {
            let keeps_all = self.keeps_all;
            self.event(cell, Event::Memory(Memory { free_bytes, used_bytes, keeps_all }));
        }
        self.run(2 * BEAT_NS);
    }

    /// A cell ends.
    fn end(&mut self, cell: CellId) {
        self.cut_off(cell);
        self.members.remove(&cell);
    }

    /// One that has ended starts again, with nothing, and is heard from now on.
    fn start_again(&mut self, cell: CellId) {
        self.start_again_with(cell, false);
    }

    fn start_again_with(&mut self, cell: CellId, has_journal: bool) {
        self.cut.retain(|(from, to)| *from != cell && *to != cell);
        self.begin_life_with(cell, has_journal);
        self.hold(&[(cell, [100, 0])]);
    }

    fn begin_life(&mut self, cell: CellId) {
        self.begin_life_with(cell, false);
    }

    fn begin_life_with(&mut self, cell: CellId, has_journal: bool) {
        let life = self.lives.entry(cell).or_insert(1);
        *life += 1;
        let incarnation = Incarnation(*life);
        let started = Started { incarnation, has_journal, ..self.map.cells[&cell].started };
        let token = self.map.cells[&cell].token;
        self.map.apply(&Command::Join { token, started });
        let member = Member::new(cell, Arc::new(self.map.clone()), true, self.now());
        self.members.insert(cell, member);
        self.notify();
    }

    fn learner(&self, range: u32) -> Option<CellId> {
        self.map.range(RangeId(range)).expect("a range").learner
    }

    fn run(&mut self, time_ns: u64) {
        let end_ns = self.now_ns + time_ns;
        while self.now_ns < end_ns {
            self.now_ns += TICK_NS;
            let all: Vec<_> = self.members.keys().copied().collect();
            all.into_iter().for_each(|cell| {
                self.event(cell, Event::Tick);
                self.fetch(cell);
            });
        }
    }

    /// The member asks another for its map, if it wants to.
    fn fetch(&mut self, cell: CellId) {
        let now = self.now();
        let asked = self.members.get_mut(&cell).expect("a cell").asks_for_map(now);
        let Some(from) = asked.filter(|from| !self.cut.contains(&(cell, *from))) else { return };
        let map = self.members[&from].map().clone();
        if !self.cut.contains(&(from, cell)) {
            self.event(cell, Event::Map(map));
        }
    }

    fn cut_off(&mut self, cell: CellId) {
        let others: Vec<_> = self.members.keys().copied().filter(|it| *it != cell).collect();
        self.cut.extend(others.iter().flat_map(|other| [(cell, *other), (*other, cell)]));
    }

    fn primary(&self, range: RangeId) -> CellId {
        self.map.range(range).expect("a range").primary
    }

    fn may_answer(&self, cell: CellId, range: RangeId) -> bool {
        self.members[&cell].may_answer_until_ns(range, self.now()) > self.now_ns
    }
}

#[test]
fn cells_that_hear_each_other_lead_and_nothing_changes() {
    let mut cells = Cells::new(3);
    let before = cells.map.version;
    cells.run(20 * SILENCE_NS);
    assert_eq!(cells.map.version, before);
    for (cell, range) in [(A, 1), (B, 2), (C, 3)] {
        assert!(cells.may_answer(cell, RangeId(range)));
        assert!(!cells.may_answer(cell, RangeId(range % 3 + 1)), "another leads it");
    }
}

/// Of three copies two may be promoted within one lease: the second one has granted that lease too.
#[test]
fn who_follows_the_follower_holds_back_until_the_first_primary_has_stopped() {
    let mut cells = Cells::with(formed_with(3, 3), Vec::new());
    cells.run(4 * BEAT_NS);
    cells.cut.push((B, C));
    cells.run(2 * BEAT_NS);
    cells.forgotten.push(A);
    for cell in [B, C] {
        let at = cells.map.range(FIRST).expect("a range").stamp();
        cells.propose(cell, FIRST, Command::Promote { at, cell, why: crate::map::Why::Broken });
        assert_eq!(cells.primary(FIRST), cell);
    }
    let until_ns = cells.members[&A].may_answer_until_ns(FIRST, cells.now());
    assert!(until_ns > cells.now_ns, "it does not know");
    assert!(cells.members[&C].hold_until_ns(FIRST) >= until_ns);
}

/// A copy ends while it replaces a primary that still holds its lease, and starts again as the only
/// one that counts: a client that is answered "not found" by it may not find the item afterwards.
#[test]
fn who_begins_empty_says_so_only_when_the_primary_before_has_stopped() {
    let mut cells = Cells::new(3);
    cells.forgotten.push(A);
    let at = cells.map.range(FIRST).expect("a range").stamp();
    cells.propose(B, FIRST, Command::Promote { at, cell: B, why: crate::map::Why::Broken });
    cells.cut_off(A);
    cells.begin_life(B);
    let range = cells.map.range(FIRST).expect("a range");
    assert_eq!((range.primary, range.losses), (B, 1));
    assert!(cells.may_answer(A, FIRST), "it does not know");
    while cells.may_answer(A, FIRST) {
        assert!(!cells.may_answer(B, FIRST));
        cells.run(TICK_NS);
    }
    cells.run(SILENCE_NS);
    assert!(cells.may_answer(B, FIRST));
}

/// Of what was agreed, a cell that has just started may know nothing yet.
#[test]
fn who_has_known_no_range_begins_a_lost_one_no_sooner() {
    let mut cells = Cells::new(2);
    cells.end(A);
    cells.run(2 * SILENCE_NS);
    cells.end(B);
    let started = Started { incarnation: Incarnation(2), ..cells.map.cells[&B].started };
    cells.map.apply(&Command::Start { cell: B, started });
    let range = cells.map.range(FIRST).expect("a range");
    assert_eq!((range.primary, range.losses), (B, 1));
    let mut member = Member::new(B, Arc::new(Map::new(7, 2, 2)), true, cells.now());
    let map = Event::Map(Arc::new(cells.map.clone()));
    member.handle(map, cells.now(), &mut Vec::new());
    assert_eq!(member.may_answer_until_ns(FIRST, cells.now()), 0);
    let later = Now { mono_ns: cells.now_ns + SILENCE_NS, ..cells.now() };
    assert!(member.wakes_at_ns() <= later.mono_ns);
    assert_eq!(member.may_answer_until_ns(FIRST, later), u64::MAX);
}

#[test]
fn a_primary_that_is_cut_off_stops_before_its_copy_takes_over() {
    let mut cells = Cells::new(3);
    cells.cut_off(A);
    cells.holds_proposals = true;
    let start_ns = cells.now_ns;
    while cells.primary(FIRST) == A {
        cells.run(TICK_NS);
        if let Some(at) = cells.held.iter().position(|(by, ..)| *by == B) {
            let since_ns = cells.now_ns - start_ns;
            assert!(!cells.may_answer(A, FIRST), "its lease has ended before it is replaced");
            assert!((LEASE_NS..=SILENCE_NS + 2 * BEAT_NS).contains(&since_ns));
            cells.holds_proposals = false;
            let (by, range, command) = cells.held.remove(at);
            cells.propose(by, range, command);
        }
    }
    assert_eq!(cells.primary(FIRST), B);
    assert!(cells.may_answer(B, FIRST), "it is alone");
}

#[test]
fn a_link_that_is_dead_one_way_is_silence_for_both() {
    for cut in [(A, B), (B, A)] {
        let mut cells = Cells::new(3);
        cells.cut.push(cut);
        cells.run(4 * SILENCE_NS);
        let range = cells.map.range(FIRST).expect("a range").clone();
        assert!(!(range.primary == A && range.copies.contains(&B)), "{cut:?}: {range:?}");
    }
}

#[test]
fn a_primary_that_hears_nobody_is_replaced_by_its_copy() {
    let mut cells = Cells::new(3);
    cells.cut.extend([(B, A), (C, A)]);
    cells.run(3 * SILENCE_NS);
    assert_eq!(cells.primary(FIRST), B);
    assert!(!cells.may_answer(A, FIRST));
    cells.run(3 * SILENCE_NS);
    assert!(cells.may_answer(B, FIRST));
}

/// Its copy was heard last a heartbeat before the other cell was: it is not dropped for that.
#[test]
fn a_primary_that_hears_nobody_any_more_does_not_drop_the_copy_that_fell_silent_first() {
    let mut cells = Cells::new(3);
    cells.cut.push((B, A));
    cells.run(BEAT_NS);
    cells.cut.push((C, A));
    cells.run(SHRINK_NS);
    assert_eq!(cells.map.range(FIRST).expect("a range").copies, [B]);
    cells.run(3 * SILENCE_NS);
    assert_eq!(cells.primary(FIRST), B);
}

#[test]
fn the_last_of_three_cells_serves_alone() {
    let mut cells = Cells::new(3);
    for cell in [C, B] {
        cells.cut_off(cell);
        cells.members.remove(&cell);
        cells.run(2 * DEAF_NS);
    }
    assert!(cells.may_answer(A, FIRST));
}

#[test]
fn two_cells_that_find_a_link_broken_do_not_wait_but_hold_what_they_commit() {
    let mut cells = Cells::new(3);
    cells.cut_off(A);
    let start_ns = cells.now_ns;
    cells.event(B, Event::Broken(A));
    cells.run(BEAT_NS);
    assert_eq!(cells.primary(FIRST), A, "one alone may be wrong");
    let lease_ns = cells.members[&A].may_answer_until_ns(FIRST, cells.now());
    cells.event(C, Event::Broken(A));
    cells.run(2 * BEAT_NS);
    assert_eq!(cells.primary(FIRST), B);
    assert!(cells.now_ns - start_ns < SILENCE_NS);
    let hold_ns = cells.members[&B].hold_until_ns(FIRST);
    assert!(hold_ns >= lease_ns && lease_ns > start_ns, "{hold_ns} {lease_ns}");
}

#[test]
fn a_copy_that_is_silent_is_dropped_and_another_learns() {
    let mut cells = Cells::new(3);
    let start_ns = cells.now_ns;
    cells.cut_off(B);
    while cells.map.range(FIRST).expect("a range").copies.contains(&B) {
        cells.run(TICK_NS);
    }
    assert!(cells.now_ns - start_ns <= SHRINK_NS + 2 * BEAT_NS);
    cells.run(BEAT_NS);
    assert_eq!(cells.map.range(FIRST).expect("a range").learner, Some(C));
    // It counts first, then the map has it.
    let at = cells.map.range(FIRST).expect("a range").stamp();
    cells.event(A, Event::CaughtUp { at, cell: C });
    cells.run(BEAT_NS);
    assert_eq!(cells.map.range(FIRST).expect("a range").copies, [C]);
}

#[test]
fn cells_without_a_common_range_hear_each_other_in_turn_and_miss_each_other_later() {
    let (mut cells, gone) = (Cells::new(21), CellId(11));
    // Ten rounds instead of one, twice.
    let slack_ns = 2 * 9 * BEAT_NS;
    let hears = |cells: &Cells, of| cells.members[&A].hears(of, cells.now());
    cells.run(FIRST_NS + slack_ns);
    assert!((2..=21).all(|id| hears(&cells, CellId(id))));
    assert!((1..=21).all(|id| cells.may_answer(CellId(id), RangeId(id))));
    let since_ns = cells.now_ns;
    cells.end(gone);
    while hears(&cells, gone) {
        cells.run(TICK_NS);
    }
    let missed_ns = cells.now_ns - since_ns;
    assert!((slack_ns / 2..=slack_ns + SHRINK_NS + TICK_NS).contains(&missed_ns), "{missed_ns}");
    // Who shares a range with it has gone on without it long before.
    assert_ne!(cells.primary(RangeId(11)), gone);
    let is_lost = |cells: &Cells, cell| cells.members[&A].is_lost(cell, cells.now());
    cells.run(LOST_NS + 4 * BEAT_NS - missed_ns);
    assert!(!is_lost(&cells, gone), "it might have sent one elsewhere");
    cells.run(slack_ns);
    assert!(is_lost(&cells, gone) && !is_lost(&cells, CellId(10)));
}

#[test]
fn a_cell_that_begins_to_share_a_range_is_missed_as_soon_as_others() {
    // It was heard more than two seconds ago: a learner that is so silent is dropped.
    let (mut cells, spare) = (Cells::new(201), CellId(11));
    cells.run(FIRST_NS + 100 * BEAT_NS);
    let is_silent = |cells: &Cells| {
        assert!(cells.members[&A].hears(spare, cells.now()));
        cells.members[&A].silent_ns(spare, cells.now()) >= FIRST_NS
    };
    let silent_at = (0..500).find(|_| {
        cells.run(TICK_NS);
        is_silent(&cells)
    });
    assert!(silent_at.is_some(), "it is heard in turn");
    let at = cells.map.range(FIRST).expect("a range").stamp();
    cells.event(A, Event::Ordered(Order::Move { at, cell: spare, from: Some(B) }));
    cells.run(2 * BEAT_NS);
    assert_eq!(cells.learner(1), Some(spare));
    let at = cells.map.range(FIRST).expect("a range").stamp();
    cells.event(A, Event::CaughtUp { at, cell: spare });
    cells.run(2 * BEAT_NS);
    assert_eq!(cells.map.range(FIRST).expect("a range").copies, [spare], "its lease counts");
    let since_ns = cells.now_ns;
    cells.end(spare);
    while cells.map.range(FIRST).expect("a range").copies.contains(&spare) {
        cells.run(TICK_NS);
    }
    assert!(cells.now_ns - since_ns <= SHRINK_NS + 2 * BEAT_NS);
    // It is not chosen again because who shares no range is missed later.
    cells.run(2 * BEAT_NS);
    assert_ne!(cells.learner(1), Some(spare));
}

/// It says so every few seconds alone.
#[test]
fn a_cell_that_says_its_second_in_turn_is_not_behind_because_of_that() {
    let (map, from) = (Arc::new(formed(301)), CellId(150));
    let at = |ms: u64| Now {
        mono_ns: 2 * FIRST_NS + ms * 1_000_000,
        expiry_s: 1_000 + (ms / 1000) as u32,
    };
    let mut member = Member::new(A, map, true, at(0));
    hears_of(&mut member, at(0), (from, 1_000, 0));
    for ms in (0..7_000).step_by(50) {
        member.handle(Event::Tick, at(ms), &mut Vec::new());
        assert!(member.hears(from, at(ms)));
        assert_eq!(member.apart(at(ms)), [], "after {ms} ms");
    }
    hears_of(&mut member, at(7_000), (from, 1_003, 0));
    assert_eq!(member.apart(at(7_000)), [(from, -4)], "its clock is 4 s slow");
}

/// They have no part in anything then, so they would be the first to learn, and nobody else hears
/// each of them.
#[test]
fn cells_that_have_ended_together_do_not_learn_what_others_lack() {
    let mut cells = Cells::new(101);
    let ended: Vec<_> = (0..10).map(|at| CellId(11 + 2 * at)).collect();
    ended.iter().for_each(|cell| cells.end(*cell));
    cells.run(FIRST_NS);
    let lacks: Vec<_> = cells.map.ranges.iter().filter(|range| range.copies.is_empty()).collect();
    assert_eq!(lacks.len(), 20, "each has led one, and copied one");
    for range in lacks {
        let learner = range.learner.expect("another cell learns it");
        assert!(!ended.contains(&learner), "{range:?}");
    }
}

/// Its logs have places for not many more.
#[test]
fn a_primary_with_streams_to_many_cells_chooses_one_of_these() {
    let mut map = formed(10);
    for (range, copy) in map.ranges.iter_mut().zip(2..=8) {
        (range.primary, range.copies) = (A, vec![CellId(copy)]);
    }
    (map.ranges[7].primary, map.ranges[7].copies) = (A, vec![CellId(2)]);
    // A spare would be chosen otherwise.
    map.apply(&Command::Join { token: 99, started: map.cells[&A].started });
    let mut cells = Cells::with(map, Vec::new());
    cells.run(FIRST_NS);
    let at = cells.map.ranges[7].stamp();
    cells.propose(A, at.range, Command::Drop { at, cell: B, why: Why::Refuses });
    cells.run(BEAT_NS);
    let learner = cells.learner(8).expect("one learns it");
    assert!((2..=8).contains(&learner.0), "{learner}");
}

#[test]
fn one_that_does_not_answer_when_it_is_named_is_followed_soon() {
    let (mut cells, spare) = (Cells::new(101), CellId(50));
    cells.end(spare);
    let at = cells.map.range(FIRST).expect("a range").stamp();
    cells.event(A, Event::Ordered(Order::Move { at, cell: spare, from: Some(B) }));
    cells.run(2 * BEAT_NS);
    assert_eq!(cells.learner(1), Some(spare), "it is heard still");
    cells.run(NAMED_NS + 2 * BEAT_NS);
    assert_eq!(cells.learner(1), None);
}

/// To how many cells it sends heartbeats now, and forgets about that.
fn receivers(effects: &mut Vec<Effect>) -> usize {
    effects.drain(..).filter(|it| matches!(it, Effect::Beat { .. })).count()
}

#[test]
fn a_cell_that_does_not_know_the_time_asks_all_and_is_answered_by_all() {
    let (map, mut effects) = (Arc::new(formed(21)), Vec::new());
    let at = |beats: u64| Now { mono_ns: 4 * FIRST_NS + beats * BEAT_NS, expiry_s: 1_000 };
    let mut begun = Member::new(A, map.clone(), false, at(0));
    begun.handle(Event::Tick, at(0), &mut effects);
    assert_eq!(receivers(&mut effects), 20);
    // What these say may be old.
    let old = Heartbeat { sent_ns: 1, expiry_s: 1_000, ..Heartbeat::default() };
    for id in 2..=21 {
        let (from, incarnation) = (CellId(id), Incarnation(1));
        let heard = Event::Heard { from, incarnation, heartbeat: old.clone() };
        begun.handle(heard, at(0), &mut Vec::new());
    }
    begun.handle(Event::Tick, at(1), &mut effects);
    assert_eq!(receivers(&mut effects), 20);
    let mut knows = Member::new(A, map, true, at(0));
    for id in 2..=21 {
        hears_of(&mut knows, at(0), (CellId(id), if id == 15 { 0 } else { 1_000 }, 0));
    }
    knows.handle(Event::Tick, at(1), &mut effects);
    let to = |id| move |it: &Effect| matches!(it, Effect::Beat { to, .. } if *to == CellId(id));
    assert!([2, 15, 21].iter().all(|id| effects.iter().any(to(*id))));
    assert_eq!(receivers(&mut effects), 5, "two neighbours, that one, and two in turn");
    knows.handle(Event::Broken(CellId(9)), at(1), &mut effects);
    assert_eq!(receivers(&mut effects), 20, "what cells suspect, all know");
    let heartbeat = Heartbeat { sent_ns: at(1).mono_ns, expiry_s: 1_000, ..Heartbeat::default() };
    let heard = Event::Heard { from: CellId(9), incarnation: Incarnation(1), heartbeat };
    knows.handle(heard, at(1), &mut effects);
    assert_eq!(receivers(&mut effects), 20, "and that they do not any more");
}

#[test]
fn ranges_that_lack_a_copy_at_once_choose_different_cells() {
    let mut cells = Cells::new(5);
    cells.cut_off(C);
    cells.members.remove(&C);
    cells.run(2 * DEAF_NS);
    let learner = |range| cells.map.range(RangeId(range)).and_then(|range| range.learner);
    // Range 2 has lost its copy and range 3 its primary; all others have two parts.
    assert_eq!((learner(2), learner(3)), (Some(CellId(4)), Some(CellId(5))));
}

#[test]
fn of_cells_with_equal_parts_the_one_with_the_most_room_learns() {
    // C ends, of four cells: who of A, B, D has how much free, and who learns the ranges 2 and 3,
    // which B and D lead then. Each cell holds 80 in its two parts.
    let d = CellId(4);
    let cases = [
        ([100, 100, 100], [d, A]),
        ([40, 40, 40], [d, A]),
        ([40, 40, 0], [A, B]),
        ([0, 40, 40], [d, B]),
        // Both wait for C, and choose at the same time, by the same map.
        ([39, 0, 25], [A, A]),
        ([36, 0, 32], [d, A]),
    ];
    for (free, learners) in cases {
        let mut cells = Cells::new(4);
        let [of_a, of_b, of_d] = free.map(|free| [free, 80]);
        cells.hold(&[(A, of_a), (B, of_b), (d, of_d)]);
        cells.end(C);
        cells.run(2 * DEAF_NS);
        assert_eq!([2, 3].map(|range| cells.learner(range)), learners.map(Some), "{free:?}");
    }
}

#[test]
fn a_cell_that_has_just_ended_is_waited_for_where_nobody_else_has_room() {
    let ended = |free| {
        let mut cells = Cells::new(3);
        cells.hold(&[A, B, C].map(|cell| (cell, [free, 80])));
        cells.end(C);
        let start_ns = cells.now_ns;
        while cells.map.range(RangeId(2)).expect("a range").copies.contains(&C) {
            cells.run(TICK_NS);
        }
        (cells, start_ns)
    };
    // Without room for it, until C is back, and then that one.
    let (mut cells, _) = ended(39);
    cells.run(RETURN_NS / 2);
    assert_eq!(cells.learner(2), None);
    cells.start_again(C);
    assert_eq!(cells.learner(2), Some(C));

    // C does not come back: it is waited for so long, and no longer.
    let (mut cells, start_ns) = ended(39);
    while cells.learner(2).is_none() {
        cells.run(TICK_NS);
    }
    assert_eq!(cells.learner(2), Some(A));
    let waited_ns = cells.now_ns - start_ns;
    assert!((RETURN_NS - BEAT_NS..=RETURN_NS + BEAT_NS).contains(&waited_ns), "{waited_ns}");

    // Another cell has room for it.
    let (mut cells, start_ns) = ended(40);
    while cells.learner(2).is_none() {
        cells.run(TICK_NS);
    }
    assert!(cells.now_ns - start_ns < SHRINK_NS + 3 * BEAT_NS);
    assert_eq!(cells.learner(2), Some(A));

    // It comes back and ends once more before it has learned: it is not waited for again.
    let (mut cells, _) = ended(39);
    cells.start_again(C);
    assert_eq!(cells.learner(2), Some(C));
    cells.run(RETURN_NS);
    cells.end(C);
    cells.event(B, Event::Broken(C));
    cells.run(2 * BEAT_NS);
    assert_eq!(cells.learner(2), Some(A));
}

#[test]
fn where_nothing_is_evicted_nobody_learns_what_finds_no_room() {
    let mut cells = Cells::new(3);
    cells.keeps_all = true;
    cells.hold(&[A, B, C].map(|cell| (cell, [39, 80])));
    cells.end(C);
    cells.run(4 * RETURN_NS);
    assert_eq!(cells.learner(2), None, "clients would be refused while it tries");
    cells.start_again(C);
    assert_eq!(cells.learner(2), Some(C));
}

#[test]
fn while_an_admission_is_on_its_way_its_lease_is_needed() {
    let mut cells = Cells::new(3);
    cells.cut_off(B);
    cells.run(2 * SILENCE_NS);
    assert_eq!(cells.members[&A].may_answer_until_ns(FIRST, cells.now()), u64::MAX, "alone");
    cells.holds_proposals = true;
    let at = cells.map.range(FIRST).expect("a range").stamp();
    cells.event(A, Event::CaughtUp { at, cell: C });
    cells.run(TICK_NS);
    assert!(cells.held.iter().any(|(_, _, command)| matches!(command, Command::Admit { .. })));
    assert!(cells.members[&A].may_answer_until_ns(FIRST, cells.now()) < u64::MAX);
    cells.cut_off(C);
    cells.run(SILENCE_NS);
    assert!(!cells.may_answer(A, FIRST), "it may be a copy, and grants nothing");
}

#[test]
fn an_admission_that_was_decided_counts_until_the_own_map_shows_it() {
    let mut cells = Cells::new(3);
    cells.cut_off(B);
    cells.run(2 * SILENCE_NS);
    cells.holds_proposals = true;
    let at = cells.map.range(FIRST).expect("a range").stamp();
    cells.event(A, Event::CaughtUp { at, cell: C });
    cells.run(TICK_NS);
    let is_admit =
        |(_, _, command): &(CellId, RangeId, Command)| matches!(command, Command::Admit { .. });
    let (_, _, admit) = cells.held.remove(cells.held.iter().position(is_admit).expect("one"));
    // It is decided. Its outcome is not known, nor the map, but that its settlement is refused.
    assert!(matches!(cells.map.apply(&admit), Verdict::Applied { .. }));
    cells.event(A, Event::Proposed { range: FIRST, outcome: Outcome::Unknown });
    cells.cut_off(A);
    let refused = Outcome::Decided(Verdict::Refused(Refusal::Changed));
    cells.event(A, Event::Proposed { range: FIRST, outcome: refused });
    for _ in 0..100 {
        cells.run(2 * TICK_NS);
        // What it proposes now reaches nobody.
        for (by, range, _) in std::mem::take(&mut cells.held) {
            cells.event(by, Event::Proposed { range, outcome: Outcome::Unavailable });
        }
        let until_ns = cells.members[&A].may_answer_until_ns(FIRST, cells.now());
        assert!(until_ns < u64::MAX, "alone, though {C} is a copy");
    }
    assert!(!cells.may_answer(A, FIRST));

    // The ring is recovered here: what was decided and not seen is gone.
    let mut map = Map::clone(cells.members[&A].map());
    map.version = 1_000_200_000_013;
    cells.event(A, Event::Map(Arc::new(map)));
    cells.run(TICK_NS);
    assert!(cells.held.iter().any(|(by, range, _)| (*by, *range) == (A, FIRST)));
}

#[test]
fn a_cell_that_refuses_again_and_again_rests_longer_each_time() {
    let mut cells = Cells::new(3);
    let at = cells.map.range(FIRST).expect("a range").stamp();
    let mut rest_s = Vec::new();
    for _ in 0..7 {
        cells.event(A, Event::Refuses { at, cell: C });
        cells.event(A, Event::Refuses { at, cell: C });
        let began_ns = cells.now_ns;
        let rests = |cells: &Cells| cells.members[&A].rests_until_ns(FIRST, C);
        rest_s.push((rests(&cells) - began_ns) / 1_000_000_000);
        cells.now_ns = rests(&cells);
    }
    assert_eq!(rest_s, [5, 10, 20, 40, 80, 80, 80]);
    cells.now_ns += 80_000_000_000;
    cells.event(A, Event::Refuses { at, cell: C });
    assert_eq!(cells.members[&A].rests_until_ns(FIRST, C) - cells.now_ns, 5_000_000_000);
}

#[test]
fn an_unknown_outcome_is_settled_before_anything_else_is_proposed() {
    let mut cells = Cells::new(3);
    cells.cut_off(A);
    cells.holds_proposals = true;
    while !cells.held.iter().any(|(by, range, _)| (*by, *range) == (B, FIRST)) {
        cells.run(TICK_NS);
    }
    let first = cells.held.iter().position(|(by, range, _)| (*by, *range) == (B, FIRST));
    let (_, _, promote) = cells.held.remove(first.expect("it was looked for"));
    assert!(matches!(promote, Command::Promote { cell: B, .. }));
    cells.held.clear();
    cells.cut.clear();
    cells.event(B, Event::Proposed { range: FIRST, outcome: Outcome::Unknown });
    cells.run(4 * BEAT_NS);
    assert!(!cells.may_answer(A, FIRST), "no lease while it may be replaced");
    let of_b: Vec<_> = cells.held.iter().filter(|(by, ..)| *by == B).collect();
    let settles = |command: &Command| matches!(command, Command::Settle { .. });
    assert!(!of_b.is_empty() && of_b.iter().all(|(_, _, command)| settles(command)));
    let (_, _, settle) = *of_b[0];
    cells.holds_proposals = false;
    cells.propose(B, FIRST, settle);
    let late = cells.map.apply(&promote);
    assert!(matches!(late, Verdict::Refused(_)), "it can come no more");
    cells.run(4 * BEAT_NS);
    assert!(cells.may_answer(A, FIRST));
}

#[test]
fn a_cell_that_was_stopped_itself_blames_nobody() {
    let mut cells = Cells::new(3);
    let before = cells.map.version;
    cells.now_ns += 10 * SILENCE_NS;
    for cell in [A, B, C] {
        cells.event(cell, Event::Tick);
    }
    cells.run(SILENCE_NS);
    assert_eq!(cells.map.version, before);
    assert!(cells.may_answer(A, FIRST));
}

#[test]
fn a_cell_whose_clock_jumps_waits_for_the_lease_that_it_has_granted() {
    // From the latest event of the granter to the jump of its clock, and from that to the next one.
    for (before_ns, after_ns) in [(0, BEAT_NS), (BEAT_NS / 2, 1), (BEAT_NS - 1, 1)] {
        let mut cells = Cells::new(2);
        while cells.members[&B].wakes_at_ns() < cells.now_ns + BEAT_NS {
            cells.run(TICK_NS);
        }
        let heard_ns = cells.now_ns;
        cells.cut_off(A);
        cells.holds_proposals = true;
        let jump_ns = 3_600_000_000_000;
        cells.now_ns += before_ns + jump_ns + after_ns;
        cells.event(B, Event::Tick);
        while !cells.held.iter().any(|(by, range, _)| (*by, *range) == (B, FIRST)) {
            cells.now_ns += 1_000_000;
            cells.event(B, Event::Tick);
        }
        let silent_ns = cells.now_ns - jump_ns - heard_ns;
        assert!(silent_ns >= SILENCE_NS, "{before_ns} {after_ns}: {silent_ns}");
    }
}

#[test]
fn what_a_busy_machine_takes_is_no_stop() {
    let mut cells = Cells::new(3);
    let heard_ns = cells.members[&B].wakes_at_ns() - BEAT_NS;
    cells.cut_off(A);
    let late_ns = 15_000_000;
    while cells.primary(FIRST) == A {
        cells.now_ns = cells.members[&B].wakes_at_ns() + late_ns;
        assert!(cells.now_ns <= heard_ns + SILENCE_NS + late_ns, "it has excused A");
        [B, C].into_iter().for_each(|cell| cells.event(cell, Event::Tick));
    }
    assert_eq!(cells.primary(FIRST), B);
}

#[test]
fn a_member_that_is_woken_when_it_says_is_late_with_no_rule() {
    // Who acts, for whom it waits, and for how long.
    for (by, silent, silence_ns) in [(B, A, SILENCE_NS), (A, B, SHRINK_NS)] {
        let mut cells = Cells::new(3);
        let heard_ns = cells.members[&by].wakes_at_ns() - BEAT_NS;
        cells.cut_off(silent);
        cells.holds_proposals = true;
        let mut wakes = 0;
        while !cells.held.iter().any(|(it, range, _)| (*it, *range) == (by, FIRST)) {
            cells.now_ns = cells.members[&by].wakes_at_ns();
            assert!(cells.now_ns <= heard_ns + silence_ns, "{by} has missed its time");
            cells.event(by, Event::Tick);
            wakes += 1;
        }
        assert_eq!(cells.now_ns, heard_ns + silence_ns, "{by}");
        // With its heartbeats, and for each of two cells when it is silent for either time.
        assert!(wakes <= silence_ns / BEAT_NS + 4, "{by}: {wakes}");
    }
}

#[test]
fn cells_that_start_at_different_times_come_to_beat_at_one_time() {
    let mut cells = Cells::begin(3, Vec::new());
    let ids = [A, B, C];
    // Each begins at another time.
    for cell in ids {
        cells.now_ns += BEAT_NS / 3;
        cells.event(cell, Event::Tick);
    }
    let next = |cells: &Cells| ids.map(|cell| cells.members[&cell].wakes_at_ns());
    for _ in 0..6 {
        let times = next(&cells);
        let first = ids.into_iter().zip(times).min_by_key(|(_, at_ns)| *at_ns);
        let (cell, at_ns) = first.expect("there are three");
        assert!(at_ns - cells.now_ns <= BEAT_NS);
        cells.now_ns = at_ns;
        cells.event(cell, Event::Tick);
    }
    let at_ns = cells.now_ns;
    assert_eq!(next(&cells), [at_ns + BEAT_NS; 3], "all have sent theirs with that of one");
}

#[test]
fn a_cell_that_was_never_heard_is_missed_after_a_while() {
    let mut cells = Cells::begin(2, vec![(A, B), (B, A)]);
    let before = cells.map.clone();
    cells.run(FIRST_NS - SILENCE_NS);
    assert_eq!(cells.map, before, "it may not have started yet");
    assert!(!cells.may_answer(A, FIRST), "its copy grants nothing yet");
    cells.run(2 * SILENCE_NS);
    assert!(cells.map.range(FIRST).is_some_and(|range| !range.copies.contains(&B)));
    assert!(cells.may_answer(A, FIRST));
}

#[test]
fn only_a_range_whose_copies_are_all_absent_is_forgiven() {
    let forgives = |cells: &mut Cells, at| {
        cells.event(C, Event::Ordered(Order::Forgive { at }));
        let asked = Command::Forgive { at, cell: C };
        cells.held.iter().any(|(by, _, command)| (*by, *command) == (C, asked))
    };
    let mut cells = Cells::new(3);
    cells.holds_proposals = true;
    let at = cells.map.range(FIRST).expect("a range").stamp();
    cells.cut_off(A);
    cells.run(2 * LOST_NS);
    assert!(!forgives(&mut cells, at), "B is heard");
    // B does not hear C, so that its heartbeats count for nothing. But it lives.
    cells.cut.push((C, B));
    cells.run(2 * LOST_NS);
    assert!(!forgives(&mut cells, at), "B is heard one way");
    cells.cut.push((B, C));
    cells.run(LOST_NS - 10 * BEAT_NS);
    assert!(!forgives(&mut cells, at), "B was heard a moment ago");
    cells.run(20 * BEAT_NS);
    assert!(!forgives(&mut cells, Stamp { config: at.config + 1, ..at }), "it has changed");
    assert!(forgives(&mut cells, at));
    cells.holds_proposals = false;
    cells.propose(C, FIRST, Command::Forgive { at, cell: C });
    let range = cells.map.range(FIRST).expect("a range");
    assert_eq!((range.primary, range.copies.len(), range.losses), (C, 0, 1));
    assert!(cells.may_answer(C, FIRST));
}

/// The copy of a range has ended and started again with its journal; its primary runs, or not.
fn with_a_journal(primary_runs: bool) -> Cells {
    let mut cells = Cells::new(3);
    cells.holds_proposals = true;
    cells.end(B);
    if !primary_runs {
        cells.end(A);
    }
    cells.start_again_with(B, true);
    let range = cells.map.range(FIRST).expect("a range");
    assert_eq!((range.primary, &range.journals[..]), (A, &[B][..]));
    cells
}

#[test]
fn a_cell_whose_journal_counts_leads_where_the_primary_is_silent() {
    let mut cells = with_a_journal(false);
    cells.run(2 * SILENCE_NS);
    cells.holds_proposals = false;
    cells.held.clear();
    cells.run(FIRST_NS + 2 * SILENCE_NS);
    let range = cells.map.range(FIRST).expect("a range");
    assert!(range.primary == B && range.is_recovered && range.losses == 0, "{range:?}");
    assert!(cells.may_answer(B, FIRST));
}

#[test]
fn a_primary_goes_on_without_a_journal_once_it_leads_and_its_cell_learns_at_once() {
    let mut cells = with_a_journal(true);
    let drops = |cells: &Cells| {
        let of = |(by, range, it): &(CellId, RangeId, Command)| {
            let is = matches!(it, Command::Drop { cell: B, why: Why::Ended, .. });
            is && (*by, *range) == (A, FIRST)
        };
        cells.held.iter().any(of)
    };
    cells.run(2 * LOST_NS);
    assert!(!drops(&cells), "it has not said that it leads");
    let at = cells.map.range(FIRST).expect("a range").stamp();
    cells.event(A, Event::Ordered(Order::Forgive { at }));
    assert!(!cells.held.iter().any(|(_, _, it)| matches!(it, Command::Forgive { .. })));
    cells.event(A, Event::Refuses { at, cell: B });
    assert!(drops(&cells));
    cells.propose(A, FIRST, Command::Drop { at, cell: B, why: Why::Ended });
    assert_eq!(cells.members[&A].rests_until_ns(FIRST, B), 0, "it has refused nothing");
}

/// By its map it is still in the life before: what that says of it proves nothing.
#[test]
fn a_cell_proposes_nothing_before_the_map_knows_its_life() {
    for (life, proposes) in [(1, true), (2, false)] {
        let mut member =
            Member::new(A, Arc::new(formed(2)), true, Now::default()).of_life(Incarnation(life));
        let mut effects = Vec::new();
        let later = Now { mono_ns: FIRST_NS + 2 * SILENCE_NS, expiry_s: 0 };
        member.handle(Event::Tick, Now::default(), &mut effects);
        for ms in 0..later.mono_ns / 10_000_000 {
            let now = Now { mono_ns: ms * 10_000_000, expiry_s: 0 };
            member.handle(Event::Tick, now, &mut effects);
        }
        let has = effects.iter().any(|effect| matches!(effect, Effect::Propose { .. }));
        assert_eq!(has, proposes, "{life}");
    }
}

#[test]
fn a_range_that_waits_for_an_operator_is_forgiven_also_where_its_cells_run() {
    let mut map = formed(3);
    for cell in [A, B] {
        let mut started = map.cells[&cell].started;
        (started.incarnation, started.has_tier) = (Incarnation(2), true);
        map.apply(&Command::Start { cell, started });
    }
    let mut cells = Cells::with(map, Vec::new());
    cells.lives = [(A, 2), (B, 2)].into();
    cells.run(2 * LOST_NS);
    let range = cells.map.range(FIRST).expect("a range").clone();
    assert!(range.waits_for_operator && range.learner.is_none(), "{range:?}");
    cells.event(C, Event::Ordered(Order::Forgive { at: range.stamp() }));
    cells.run(2 * SILENCE_NS);
    let range = cells.map.range(FIRST).expect("a range");
    assert_eq!((range.primary, range.losses, range.waits_for_operator), (C, 1, false));
    assert!(cells.may_answer(C, FIRST));
}

#[test]
fn a_range_is_handed_over_once_its_primary_has_stopped_and_who_leads_it_then_waits_for_no_lease() {
    let mut cells = Cells::new(3);
    cells.run(SILENCE_NS);
    let at = cells.map.ranges[0].stamp();
    cells.event(
        C,
        Event::Ordered(Order::Move { at: Stamp { config: 9, ..at }, cell: B, from: None }),
    );
    cells.event(C, Event::Sealed { at });
    assert_eq!(cells.map.ranges[0].moves_to, None, "the range is another one");
    cells.event(C, Event::Ordered(Order::Move { at, cell: B, from: None }));
    assert_eq!(cells.map.ranges[0].moves_to, Some(B));
    cells.event(A, Event::Sealed { at });
    cells.run(BEAT_NS);
    assert_eq!(cells.primary(FIRST), A, "it was sealed by an earlier map");
    let at = cells.map.ranges[0].stamp();
    cells.event(A, Event::Sealed { at });
    let range = &cells.map.ranges[0];
    assert_eq!((range.primary, &range.copies[..], range.moves_to), (B, &[A][..], None));
    assert!(range.is_handed_over && range.epoch == at.epoch + 1);
    assert!(cells.members[&B].hold_until_ns(FIRST) <= cells.now_ns);
    assert!(cells.may_answer(B, FIRST) && !cells.may_answer(A, FIRST));
    // It is one of a promotion before that may still hold a lease.
    let range = &cells.map.ranges[1];
    let (at, cell) = (range.stamp(), C);
    assert_eq!((range.primary, &range.copies[..]), (B, &[C][..]));
    cells.propose(C, at.range, Command::Promote { at, cell, why: Why::Broken });
    let held_ns = cells.members[&C].hold_until_ns(at.range);
    assert!(held_ns > cells.now_ns);
}

/// The third cell has nothing of the first range.
#[test]
fn a_range_is_divided_once_its_primary_has_stopped_and_a_spare_takes_a_part_of_each() {
    let order = |cells: &mut Cells| {
        let range = &cells.map.ranges[0];
        let into = Division { slice: range.end / 2, cell: C };
        let at = range.stamp();
        cells.event(B, Event::Ordered(Order::Divide { at, into }));
    };
    let mut cells = Cells::new(3);
    cells.run(SILENCE_NS);
    order(&mut cells);
    cells.run(BEAT_NS);
    assert!(cells.map.ranges[0].divides.is_some() && cells.map.ranges.len() == 3, "it is served");
    let at = cells.map.ranges[0].stamp();
    cells.event(A, Event::Sealed { at });
    let upper = cells.map.ranges[1].clone();
    assert_eq!((cells.map.ranges.len(), upper.primary, upper.epoch), (4, A, at.epoch + 1));
    assert!(cells.may_answer(A, FIRST) && cells.may_answer(A, upper.id));
    assert!(cells.members[&B].hold_until_ns(upper.id) <= cells.now_ns, "nobody was replaced");
    // The spare learns both: it replaces the copy of the one, and the primary of the other.
    cells.run(BEAT_NS);
    for range in [0, 1] {
        assert_eq!(cells.map.ranges[range].learner, Some(C));
        let at = cells.map.ranges[range].stamp();
        cells.event(A, Event::CaughtUp { at, cell: C });
    }
    cells.run(BEAT_NS);
    assert_eq!((cells.map.ranges[0].primary, &cells.map.ranges[0].copies[..]), (A, &[C][..]));
    let at = cells.map.ranges[1].stamp();
    cells.event(A, Event::Sealed { at });
    assert_eq!((cells.map.ranges[1].primary, &cells.map.ranges[1].copies[..]), (C, &[B][..]));
    // One that is not heard ends the order before anything is divided.
    let mut cells = Cells::new(3);
    cells.run(SILENCE_NS);
    cells.cut = vec![(C, A), (A, C)];
    cells.run(SHRINK_NS / 2);
    order(&mut cells);
    assert!(cells.map.ranges[0].divides.is_some());
    cells.run(LOST_NS);
    assert!(cells.map.ranges[0].divides.is_none() && cells.map.ranges.len() == 3);
}

/// The third cell has nothing of the first range.
#[test]
fn who_is_to_lead_a_range_learns_it_first_and_the_order_ends_where_it_does_not() {
    let order = |cells: &mut Cells| {
        let at = cells.map.ranges[0].stamp();
        cells.event(B, Event::Ordered(Order::Move { at, cell: C, from: None }));
    };
    let mut cells = Cells::new(3);
    cells.run(SILENCE_NS);
    order(&mut cells);
    let range = cells.map.ranges[0].clone();
    assert_eq!((range.learner, range.moves_to, range.primary), (Some(C), Some(C), A));
    cells.event(A, Event::Sealed { at: range.stamp() });
    assert_eq!(cells.primary(FIRST), A, "it has nothing yet");
    cells.event(A, Event::CaughtUp { at: range.stamp(), cell: C });
    assert_eq!(cells.map.ranges[0].copies, [B, C]);
    let at = cells.map.ranges[0].stamp();
    cells.event(A, Event::Sealed { at });
    let range = &cells.map.ranges[0];
    assert_eq!((range.primary, &range.copies[..], range.moves_to), (C, &[B][..], None));
    assert!(cells.may_answer(C, FIRST) && !cells.may_answer(A, FIRST));
    // It is not heard.
    let mut cells = Cells::new(3);
    cells.run(SILENCE_NS);
    cells.cut = vec![(C, A), (A, C)];
    cells.run(SHRINK_NS / 2);
    order(&mut cells);
    assert_eq!(cells.map.ranges[0].moves_to, Some(C));
    cells.run(LOST_NS);
    let range = &cells.map.ranges[0];
    assert_eq!((range.primary, range.learner, range.moves_to), (A, None, None));
    // It has no room, and nothing may be evicted.
    let mut cells = Cells::new(3);
    cells.keeps_all = true;
    cells.hold(&[(A, [100, 100]), (B, [100, 100]), (C, [10, 100])]);
    order(&mut cells);
    cells.run(SILENCE_NS);
    let range = &cells.map.ranges[0];
    assert_eq!((range.primary, range.learner, range.moves_to), (A, None, None));
}

/// The third cell gets no map of a promotion, and the range is handed over to it at once.
#[test]
fn who_has_missed_a_promotion_waits_for_the_lease_of_before_also_after_a_hand_over() {
    let mut cells = Cells::with(formed_with(3, 3), Vec::new());
    cells.run(2 * SILENCE_NS);
    assert!(cells.members[&C].hold_until_ns(FIRST) <= cells.now_ns);
    let mut apply = |command: &dyn Fn(Stamp) -> Command| {
        let command = command(cells.map.ranges[0].stamp());
        assert!(matches!(cells.map.apply(&command), Verdict::Applied { .. }), "{command:?}");
    };
    apply(&|at| Command::Promote { at, cell: B, why: Why::Broken });
    // The one before is to be a copy again.
    apply(&|at| Command::Learn { at, cell: A });
    apply(&|at| Command::Admit { at, cell: A });
    apply(&|at| Command::Move { at, cell: C, from: None });
    apply(&|at| Command::HandOver { at, cell: C });
    assert_eq!((cells.primary(FIRST), cells.map.ranges[0].epoch), (C, 3));
    cells.notify();
    assert!(cells.members[&C].hold_until_ns(FIRST) > cells.now_ns);
}

#[test]
fn what_is_not_handed_over_for_certain_is_served_again_and_what_is_in_doubt_is_not() {
    for outcome in [Outcome::Unavailable, Outcome::Unknown] {
        let mut cells = Cells::new(3);
        let at = cells.map.ranges[0].stamp();
        cells.event(A, Event::Ordered(Order::Move { at, cell: B, from: None }));
        let at = cells.map.ranges[0].stamp();
        cells.holds_proposals = true;
        cells.event(A, Event::Sealed { at });
        let held = std::mem::take(&mut cells.held);
        assert_eq!(held, [(A, FIRST, Command::HandOver { at, cell: B })]);
        cells.event(A, Event::Proposed { range: FIRST, outcome });
        let is_certain = outcome == Outcome::Unavailable;
        assert_eq!(cells.unsealed.contains(&(A, at)), is_certain);
        // What was sent before it is served again, and comes late.
        cells.event(A, Event::Sealed { at });
        cells.run(BEAT_NS);
        // Only what is sealed after another change of the range counts.
        assert_eq!(cells.held, [(A, FIRST, Command::Settle { at })]);
    }
}

/// Where the map changes again and again, most heartbeats come a little before it.
#[test]
fn a_lease_that_comes_before_the_map_it_goes_by_counts_with_that_map() {
    let mut map = formed(2);
    let mut member = Member::new(A, Arc::new(map.clone()), true, Now::default());
    let now_ns = 10 * BEAT_NS;
    let now = Now { mono_ns: now_ns, expiry_s: 0 };
    let mut effects = Vec::new();
    member.handle(Event::Tick, now, &mut effects);
    assert!(member.may_answer_until_ns(FIRST, now) <= now_ns, "it has no lease");
    let at = map.ranges[1].stamp();
    map.apply(&Command::Settle { at });
    let heartbeat = Heartbeat {
        sent_ns: now_ns,
        echo_ns: now_ns,
        heard_ns: now_ns,
        map_version: map.version,
        ..Heartbeat::default()
    };
    let (from, incarnation) = (B, Incarnation(1));
    member.handle(Event::Heard { from, incarnation, heartbeat }, now, &mut effects);
    assert!(member.may_answer_until_ns(FIRST, now) <= now_ns, "the map may say otherwise");
    member.handle(Event::Map(Arc::new(map)), now, &mut effects);
    assert_eq!(member.may_answer_until_ns(FIRST, now), now_ns + LEASE_NS);
}

/// Who waits for a second that another cell is to say waits no longer than a message takes.
#[test]
fn a_cell_says_a_second_as_soon_as_it_has_begun_there() {
    let map = Arc::new(formed(2));
    let at = |mono_ns: u64, expiry_s: u32| Now { mono_ns, expiry_s };
    let mut member = Member::new(A, map, true, at(0, 1_000));
    let says = |member: &mut Member, event: Event, now: Now| {
        let mut effects = Vec::new();
        member.handle(event, now, &mut effects);
        let said = effects.into_iter().filter_map(|effect| match effect {
            Effect::Beat { heartbeat, .. } => Some(heartbeat.expiry_s),
            _ => None,
        });
        said.collect::<Vec<_>>()
    };
    let mut tick = |ns, second| says(&mut member, Event::Tick, at(ns, second));
    assert_eq!(tick(BEAT_NS, 1_000), [1_000]);
    assert_eq!(tick(BEAT_NS + 1, 1_000), [0_u32; 0]);
    assert_eq!(tick(BEAT_NS + 2, 1_001), [1_001]);
    assert_eq!(tick(BEAT_NS + 3, 1_001), [0_u32; 0]);
    let (from, incarnation) = (B, Incarnation(1));
    let heartbeat = Heartbeat { sent_ns: 1, expiry_s: 1_002, ..Heartbeat::default() };
    let heard = Event::Heard { from, incarnation, heartbeat };
    assert_eq!(says(&mut member, heard, at(BEAT_NS + 4, 1_001)), [1_002]);
}

#[test]
fn a_range_does_not_move_to_a_copy_that_is_silent() {
    let mut cells = Cells::new(3);
    let at = cells.map.ranges[0].stamp();
    cells.event(A, Event::Ordered(Order::Move { at, cell: B, from: None }));
    cells.end(B);
    let at = cells.map.ranges[0].stamp();
    cells.run(SHRINK_NS + 2 * TICK_NS);
    cells.event(A, Event::Sealed { at });
    let range = &cells.map.ranges[0];
    assert_eq!((range.primary, range.moves_to, range.is_handed_over), (A, None, false));
}

#[test]
fn a_witness_confirms_that_a_primary_is_broken_and_learns_nothing() {
    let mut cells = Cells::with(watched(), Vec::new());
    cells.run(4 * BEAT_NS);
    cells.cut = vec![(A, B), (B, A), (A, C), (C, A)];
    cells.event(B, Event::Broken(A));
    cells.event(C, Event::Broken(A));
    cells.run(2 * BEAT_NS);
    assert_eq!(cells.map.range(FIRST).unwrap().primary, B, "long before the silence is one");
    cells.run(FIRST_NS);
    for range in &cells.map.ranges {
        assert!(!range.has(C), "{range:?}");
        assert_eq!((range.primary, range.copies.len(), range.learner), (B, 0, None));
    }
}

#[test]
fn a_primary_that_the_coordinator_does_not_reach_goes_on_by_the_map_of_another_cell() {
    let mut cells = Cells::new(3);
    cells.forgotten = vec![A];
    let at = cells.map.range(RangeId(2)).unwrap().stamp();
    cells.propose(B, RangeId(2), Command::Settle { at });
    assert!(cells.members[&A].map().version < cells.map.version);
    let end_ns = cells.now_ns + 10 * SILENCE_NS;
    while cells.now_ns < end_ns {
        cells.run(TICK_NS);
        assert!(cells.may_answer(A, FIRST), "at {}", cells.now_ns);
    }
    assert_eq!(cells.members[&A].map().version, cells.map.version);
    assert_eq!(cells.primary(FIRST), A);
    // Cut off from all that have it, it does not get it, nor answers.
    cells.cut_off(A);
    cells.propose(B, RangeId(2), Command::Settle { at: cells.map.ranges[1].stamp() });
    cells.run(10 * SILENCE_NS);
    assert!(cells.members[&A].map().version < cells.map.version);
    assert!(!cells.may_answer(A, FIRST));
}

#[test]
fn what_an_earlier_life_has_sent_grants_no_lease() {
    let map = Arc::new(formed(3));
    let start_ns = 50_000_000_000;
    let at = |after_ns| Now { mono_ns: start_ns + after_ns, expiry_s: 0 };
    // Later than this life, and earlier, on the clock of the machine.
    for echo_ns in [start_ns + 900_000_000_000, start_ns - 1] {
        let mut member = Member::new(A, map.clone(), true, at(0));
        let heartbeat =
            Heartbeat { sent_ns: 1, echo_ns, heard_ns: echo_ns, ..Heartbeat::default() };
        let heard = Event::Heard { from: B, incarnation: Incarnation(1), heartbeat };
        member.handle(heard, at(1), &mut Vec::new());
        assert_eq!(member.may_answer_until_ns(FIRST, at(1)), 0, "{echo_ns}");
    }
}

/// One that was replaced does not know it where it and its copy are cut off together.
#[test]
fn a_copy_is_granted_time_only_by_a_primary_that_may_answer() {
    let at = |mono_ns| Now { mono_ns, expiry_s: 1_000 };
    let map = formed(3);
    let version = map.version;
    let mut member = Member::new(B, Arc::new(map), true, at(1));
    let mut hears = |sent_ns: u64, serves: bool, map_version: u64| {
        let own = Heartbeat { serves, map_version, ..Heartbeat::default() };
        let heartbeat = Heartbeat { sent_ns, echo_ns: sent_ns, heard_ns: sent_ns, ..own };
        let heard = Event::Heard { from: A, incarnation: Incarnation(1), heartbeat };
        member.handle(heard, at(sent_ns), &mut Vec::new());
        let granted = member.granted_by(A);
        assert_eq!(granted.map_version, version);
        granted.from_ns
    };
    assert_eq!(hears(BEAT_NS, false, version), 0);
    assert_eq!(hears(2 * BEAT_NS, true, version), 2 * BEAT_NS);
    assert_eq!(hears(3 * BEAT_NS, false, version), 2 * BEAT_NS, "that still counts");
    assert_eq!(hears(4 * BEAT_NS, true, version + 1), 2 * BEAT_NS, "by a map that it has not");
}

/// `member` hears another cell, which says this second of its own, and what it has shown.
fn hears_of(member: &mut Member, now: Now, (from, expiry_s, shown_s): (CellId, u32, u32)) {
    let sent_ns = now.mono_ns;
    let seconds = Heartbeat { expiry_s, shown_s, ..Heartbeat::default() };
    let heartbeat = Heartbeat { sent_ns, echo_ns: sent_ns, heard_ns: sent_ns, ..seconds };
    let heard = Event::Heard { from, incarnation: Incarnation(1), heartbeat };
    member.handle(heard, now, &mut Vec::new());
}

#[test]
fn a_cell_that_takes_over_shows_no_later_second_than_the_primary_before_may_still_show() {
    // The second that A has shown last, and the earliest moment at which B answers.
    let (taken_ns, heard_ns) = (2 * BEAT_NS, BEAT_NS);
    let over_ns = heard_ns + SILENCE_NS;
    for (shown_s, answers_ns) in [(1_001, taken_ns), (1_000, over_ns), (0, over_ns)] {
        let map = formed(3);
        let at = |mono_ns| Now { mono_ns, expiry_s: 1_001 };
        let start = Now { mono_ns: 1, expiry_s: 1_000 };
        let mut member = Member::new(B, Arc::new(map.clone()), true, start);
        hears_of(&mut member, at(heard_ns), (C, 1_001, 1_001));
        hears_of(&mut member, at(heard_ns), (A, 1_001, shown_s));
        assert_eq!(member.ceiling_s(), 1_001, "as all that may replace it have said");
        let mut taken = map;
        let stamp = taken.range(FIRST).expect("a range").stamp();
        taken.apply(&Command::Promote { at: stamp, cell: B, why: crate::map::Why::Broken });
        member.handle(Event::Map(Arc::new(taken)), at(taken_ns), &mut Vec::new());
        let answers = |member: &Member, now| member.may_answer_until_ns(FIRST, now) > now.mono_ns;
        assert_eq!(answers(&member, at(taken_ns)), answers_ns == taken_ns, "{shown_s}");
        assert_eq!(answers(&member, at(over_ns - 1)), answers_ns == taken_ns, "{shown_s}");
        assert!(answers(&member, at(answers_ns)), "{shown_s}");
        // The next second begins.
        let next = Now { mono_ns: over_ns - 1, expiry_s: 1_002 };
        hears_of(&mut member, next, (C, 1_002, 1_002));
        assert_eq!(member.ceiling_s(), 1_001, "A may show it until then");
        assert!(member.wakes_at_ns() <= over_ns);
        hears_of(&mut member, Now { mono_ns: over_ns, ..next }, (C, 1_002, 1_002));
        assert_eq!(member.ceiling_s(), 1_002);
    }
}

#[test]
fn a_cell_that_takes_over_answers_when_it_may_show_what_it_has_said() {
    // B leads the second range, of which C has the copy, and copies the first one.
    let map = formed(3);
    let at = |mono_ns, expiry_s| Now { mono_ns, expiry_s };
    let mut member = Member::new(B, Arc::new(map.clone()), true, at(1, 1_000));
    let hears = |member: &mut Member, now: Now, second| hears_of(member, now, (C, second, second));
    hears(&mut member, at(BEAT_NS, 1_000), 1_000);
    hears_of(&mut member, at(BEAT_NS, 1_000), (A, 1_001, 1_001));
    // It says 1001, which A may show then. C has not said it.
    member.handle(Event::Tick, at(3 * BEAT_NS, 1_001), &mut Vec::new());
    assert_eq!(member.ceiling_s(), 1_000);
    let mut taken = map;
    let stamp = taken.range(FIRST).expect("a range").stamp();
    taken.apply(&Command::Promote { at: stamp, cell: B, why: crate::map::Why::Silent });
    member.handle(Event::Map(Arc::new(taken)), at(3 * BEAT_NS, 1_001), &mut Vec::new());
    let until_ns = |member: &Member| member.may_answer_until_ns(FIRST, at(4 * BEAT_NS, 1_001));
    assert_eq!(until_ns(&member), 0, "it would show an earlier second");
    hears(&mut member, at(4 * BEAT_NS, 1_001), 1_001);
    assert_eq!((member.ceiling_s(), until_ns(&member)), (1_001, u64::MAX));
}

#[test]
fn a_primary_neither_shows_a_second_nor_answers_before_its_copy_has_said_it() {
    let mut member = Member::new(A, Arc::new(formed(3)), true, Now { mono_ns: 1, expiry_s: 1_000 });
    let mut sent_ns = 1;
    // The own second, the one of the copy, what is shown, and whether it answers.
    let cases = [
        (1_000, 1_000, 1_000, true),
        (1_001, 1_000, 1_000, true),
        (1_001, 1_001, 1_001, true),
        // The second of a copy that has learned again: it does not follow yet.
        (1_001, 1_000, 1_001, false),
        (1_001, 1_001, 1_001, true),
        // Its clock is wrong: it is not waited for.
        (1_001, 4_601, 1_001, true),
        (1_002, 4_601, 1_002, true),
    ];
    for (own_s, second, shown, answers) in cases {
        sent_ns += BEAT_NS;
        let now = Now { mono_ns: sent_ns, expiry_s: own_s };
        let heartbeat = Heartbeat {
            sent_ns,
            echo_ns: sent_ns,
            heard_ns: sent_ns,
            expiry_s: second,
            ..Heartbeat::default()
        };
        let heard = Event::Heard { from: B, incarnation: Incarnation(1), heartbeat };
        member.handle(heard, now, &mut Vec::new());
        assert_eq!(member.ceiling_s(), shown, "{own_s} {second}");
        assert_eq!(member.may_answer_until_ns(FIRST, now) > sent_ns, answers, "{own_s} {second}");
    }
}

/// It may lead what this cell leads by its own map, and may hold back there what it says.
#[test]
fn what_a_cell_with_a_newer_map_says_raises_no_second() {
    let map = formed(3);
    let start = Now { mono_ns: 1, expiry_s: 1_000 };
    let mut member = Member::new(A, Arc::new(map.clone()), true, start);
    let mut sent_ns = 1;
    for (newer, second, shown) in [(0, 1_000, 1_000), (1, 1_001, 1_000), (0, 1_001, 1_001)] {
        sent_ns += BEAT_NS;
        let now = Now { mono_ns: sent_ns, expiry_s: 1_001 };
        let heartbeat = Heartbeat {
            sent_ns,
            echo_ns: sent_ns,
            heard_ns: sent_ns,
            map_version: map.version + newer,
            expiry_s: second,
            ..Heartbeat::default()
        };
        let heard = Event::Heard { from: B, incarnation: Incarnation(1), heartbeat };
        member.handle(heard, now, &mut Vec::new());
        assert_eq!(member.ceiling_s(), shown, "{newer} {second}");
    }
}

impl Cells {
    /// What is sealed and learned comes to its end, until nothing is ordered any more.
    fn carry_out(&mut self) {
        for _ in 0..20 {
            let version = self.map.version;
            let all: Vec<_> = self.members.keys().copied().collect();
            all.into_iter().for_each(|cell| self.event(cell, Event::Ready(version)));
            self.run(2 * BEAT_NS);
            for range in self.map.ranges.clone() {
                let at = range.stamp();
                if let Some(cell) = range.learner {
                    self.event(range.primary, Event::CaughtUp { at, cell });
                } else if range.is_to_be_sealed() {
                    self.event(range.primary, Event::Sealed { at });
                }
            }
        }
        assert!(self.map.ranges.iter().all(|range| !range.is_ordered()), "{:#?}", self.map.ranges);
        assert_eq!(self.map.fault(), None);
    }

    fn leave(&mut self, cell: CellId, is_absorbed: bool, is_forced: bool) {
        let (how, life) = (Leaving { is_absorbed, is_forced }, Incarnation(1));
        self.propose(cell, FIRST, Command::Leave { cell, life, how });
        self.carry_out();
    }
}

#[test]
fn a_cell_that_leaves_is_replaced_everywhere_and_takes_its_place_again() {
    let mut cells = Cells::new(4);
    cells.run(SILENCE_NS);
    cells.leave(A, false, false);
    assert!(cells.map.ranges.iter().all(|range| !range.has(A) && range.copies.len() == 1));
    assert_eq!((cells.map.ranges[0].home, cells.primary(FIRST)), (Some(A), B));
    let (version, refused) = (cells.map.version, cells.refused);
    cells.run(2_000_000_000);
    assert_eq!(
        (cells.map.version, cells.refused),
        (version, refused),
        "it leaves: nothing is asked"
    );
    cells.end(A);
    cells.run(LOST_NS);
    cells.start_again(A);
    cells.run(SILENCE_NS);
    assert_eq!(cells.map.ranges[0].moves_to, None, "it is not heard for long");
    cells.run(1_000_000_000);
    assert_eq!(cells.map.ranges[0].moves_to, Some(A));
    cells.carry_out();
    assert_eq!((cells.map.ranges[0].home, cells.primary(FIRST)), (None, A));
    assert!(cells.map.ranges.iter().all(|range| range.copies.len() == 1));
}

#[test]
fn the_range_of_a_cell_that_is_absorbed_becomes_one_with_a_neighbour() {
    let mut cells = Cells::new(4);
    cells.run(SILENCE_NS);
    let end = cells.map.ranges[2].end;
    cells.leave(B, true, false);
    let ranges = &cells.map.ranges;
    assert!(ranges.iter().all(|range| !range.has(B) && range.copies.len() == 1), "{ranges:#?}");
    // Its copy leads the next range. Of two that become one the upper one may be absorbed, too.
    let joined = &ranges[1];
    assert_eq!((ranges.len(), joined.primary, joined.end), (3, C, end));
    assert!(!joined.is_absorbed && joined.home.is_none());
    // Two neighbours are absorbed at the same time.
    let mut cells = Cells::new(4);
    cells.run(SILENCE_NS);
    let (how, life) = (Leaving { is_absorbed: true, is_forced: false }, Incarnation(1));
    cells.propose(B, FIRST, Command::Leave { cell: B, life, how });
    cells.leave(C, true, false);
    let ranges = &cells.map.ranges;
    assert_eq!(ranges.len(), 2, "{ranges:#?}");
    assert!(ranges.iter().all(|range| !range.has(B) && !range.has(C) && !range.is_absorbed));
}

/// Nothing that is not absorbed is beside them.
#[test]
fn two_absorbed_ranges_do_not_change_places() {
    let mut map = formed(2);
    let (started, d) = (map.cells[&A].started, CellId(4));
    for token in [8, 9] {
        map.apply(&Command::Join { token, started });
    }
    for (range, primary, copy) in [(0, C, d), (1, d, C)] {
        let range = &mut map.ranges[range];
        (range.primary, range.copies, range.is_absorbed) = (primary, vec![copy], true);
    }
    let mut cells = Cells::with(map, Vec::new());
    cells.run(SILENCE_NS);
    cells.carry_out();
    assert_eq!((cells.map.ranges.len(), cells.primary(FIRST)), (1, d), "{:#?}", cells.map.ranges);
}

/// A third cell is there, and was not heard for a moment.
#[test]
fn a_copy_that_leaves_by_force_stays_until_it_is_known_that_nobody_can_replace_it() {
    let mut cells = Cells::new(3);
    cells.run(SILENCE_NS);
    cells.cut = vec![(C, A), (C, B)];
    cells.run(SHRINK_NS + TICK_NS);
    let (how, life) = (Leaving { is_absorbed: false, is_forced: true }, Incarnation(1));
    cells.propose(B, FIRST, Command::Leave { cell: B, life, how });
    cells.run(2 * BEAT_NS);
    assert_eq!(cells.map.ranges[0].copies, [B]);
    cells.cut.clear();
    cells.carry_out();
    assert_eq!(cells.map.ranges[0].copies, [C]);
}

/// The cell that leads the next range is copied by one that has two parts already.
#[test]
fn a_copy_that_leaves_is_replaced_by_a_spare() {
    let mut map = formed(3);
    let (started, spare) = (map.cells[&A].started, CellId(4));
    map.apply(&Command::Join { token: 9, started });
    let mut cells = Cells::with(map, Vec::new());
    cells.run(SILENCE_NS);
    for cell in [A, B, C] {
        let before = cells.map.clone();
        cells.leave(cell, false, false);
        let parts = |cell| cells.map.ranges.iter().filter(|range| range.has(cell)).count();
        let parts: Vec<_> = [A, B, C, spare].into_iter().map(parts).collect();
        assert!(parts.iter().all(|parts| *parts <= 2), "{cell}: {parts:?}");
        cells.map = before;
        cells = Cells::with(cells.map, Vec::new());
        cells.run(SILENCE_NS);
    }
}

/// Two of three cells that the map knows have ended, and are not known to be away for good.
#[test]
fn a_copy_that_leaves_by_force_is_dropped_where_more_are_missing_besides() {
    let mut map = formed_with(3, 3);
    let d = CellId(4);
    let started = map.cells[&A].started;
    map.apply(&Command::Join { token: 9, started });
    let mut cells = Cells::with(map, Vec::new());
    cells.run(SILENCE_NS);
    for cell in [C, d] {
        cells.end(cell);
    }
    cells.run(2 * LOST_NS);
    cells.carry_out();
    assert!(cells.map.ranges.iter().all(|range| range.in_sync().count() == 2));
    cells.leave(B, false, true);
    assert!(cells.map.ranges.iter().all(|range| !range.has(B)), "{:#?}", cells.map.ranges);
}

/// The only other cell that could be a copy has ended.
#[test]
fn a_copy_that_leaves_stays_one_where_nobody_can_replace_it_unless_it_is_forced() {
    for is_forced in [false, true] {
        let mut cells = Cells::new(3);
        cells.run(SILENCE_NS);
        cells.end(C);
        cells.run(2 * LOST_NS);
        cells.carry_out();
        cells.leave(A, false, is_forced);
        for range in &cells.map.ranges {
            let copies: &[CellId] = if is_forced { &[] } else { &[A] };
            assert_eq!((range.primary, &range.copies[..]), (B, copies), "{is_forced}");
        }
    }
}

/// What a union makes of the ranges, their copies must have begun with: one that has not would not
/// know what it has.
#[test]
fn two_ranges_are_not_to_become_one_before_their_copies_have_begun() {
    let mut cells = Cells::new(3);
    cells.run(SILENCE_NS);
    cells.carry_out();
    let at = |cells: &Cells, range: usize| cells.map.ranges[range].stamp();
    // Both are led by B, and copied by C.
    for (cell, from) in [(B, None), (C, Some(A))] {
        let at = at(&cells, 0);
        cells.event(A, Event::Ordered(Order::Move { at, cell, from }));
        cells.carry_out();
    }
    let unites = Order::Unite { at: at(&cells, 0), with: at(&cells, 1) };
    cells.event(C, Event::Ready(0));
    cells.run(2 * BEAT_NS);
    cells.event(B, Event::Ordered(unites));
    assert!(!cells.map.ranges[0].is_ordered(), "its copy has not begun");
    let version = cells.map.version;
    cells.event(C, Event::Ready(version));
    cells.run(2 * BEAT_NS);
    cells.event(C, Event::Ordered(unites));
    assert!(!cells.map.ranges[0].is_ordered(), "it does not lead them");
    cells.event(B, Event::Ordered(unites));
    assert!(cells.map.ranges[..2].iter().all(|range| range.is_ordered()));
    // One alone is sealed.
    let [lower, upper] = [at(&cells, 0), at(&cells, 1)];
    cells.event(B, Event::Sealed { at: lower });
    cells.run(BEAT_NS);
    assert_eq!(cells.map.ranges.len(), 3);
    // It is certain that it comes to nothing: both are served again.
    cells.holds_proposals = true;
    cells.event(B, Event::Sealed { at: upper });
    cells.event(B, Event::Proposed { range: lower.range, outcome: Outcome::Unavailable });
    assert_eq!(cells.unsealed, [(B, lower), (B, upper)]);
    cells.holds_proposals = false;
    cells.run(BEAT_NS);
    cells.carry_out();
    let merged = &cells.map.ranges[0];
    assert_eq!((cells.map.ranges.len(), merged.primary, &merged.copies[..]), (2, B, &[C][..]));
    assert!(merged.epoch > lower.epoch.max(upper.epoch));
    assert!(cells.may_answer(B, merged.id), "it waits for no lease");
}
