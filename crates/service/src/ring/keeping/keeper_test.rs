//! When a keeper is to be woken, and what it does not do too early.

use super::keeper::{Keeper, Rest};
use crate::ring::cell::{Finding, RingCell};
use crate::ring::routes::Target;
use crate::ring::terms::{OF_JOURNAL, Term};
use crate::ring::testing::{
    Found, first_cell, first_cell_above_a_tier, first_cell_finding, formed, formed_with,
};
use crate::testing::NOW;
use crate::worker::Worker;
use base::{Now, SliceId, Version};
use effects::{Mark, WorkerSink};
use engine::Put;
use ring::{CellId, Command, Division, Incarnation, Learned, Map, RangeId, Stamp, Why};
use std::collections::BTreeMap;
use std::sync::Arc;

const MS: u64 = 1_000_000;

/// How many milliseconds the keeper of the first of N cells rests after each of `ms`.
fn rests(cells: u32, holds_until_ms: u64, ms: &[u64]) -> Vec<u64> {
    let ring = first_cell(|_| ());
    let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, cells, 2)), NOW);
    assert_eq!(keeper.wakes_at_ns(NOW), u64::MAX, "it has nothing to keep");
    let map = formed(cells);
    let ids = map.ranges.iter().map(|range| range.id);
    let holds: BTreeMap<_, _> = ids.map(|id| (id, holds_until_ms * MS)).collect();
    // A worker in the middle of a batch.
    let routes = ring.routes();
    keeper.adopt(map, holds, NOW);
    let mut rests = Vec::new();
    let mut routes = Some(routes);
    for at_ms in ms {
        let now = Now { mono_ns: at_ms * MS, ..NOW };
        assert!(!keeper.tend(now), "nothing takes long");
        rests.push(keeper.wakes_at_ns(now).saturating_sub(now.mono_ns) / MS);
        routes = None;
    }
    drop(routes);
    rests
}

#[test]
fn a_keeper_is_woken_when_something_waits_a_hold_ends_or_a_copy_may_be_late() {
    // A worker goes by the old routes; a hold ends; nothing waits.
    assert_eq!(rests(2, 150, &[10, 20, 100, 150, 200]), [20, 100, 50, 100, 100]);
    // Nobody copies what it leads.
    let alone = rests(1, 0, &[10, 20]);
    assert_eq!((alone[0], alone[1] > 1_000_000), (20, true), "{alone:?}");
}

/// A cell that leads two ranges, of which another cell is to learn both; it has a level for one.
#[test]
fn nothing_is_learned_of_a_range_that_its_primary_does_not_lead_yet() {
    let mut map = Map::clone(&formed(2));
    let learner = CellId(2);
    let at = |map: &Map, range: usize| map.ranges[range].stamp();
    let drops = Command::Drop { at: at(&map, 0), cell: learner, why: Why::Silent };
    let promotes = Command::Promote { at: at(&map, 1), cell: CellId(1), why: Why::Silent };
    map.apply(&drops);
    map.apply(&promotes);
    for range in 0..2 {
        map.apply(&Command::Learn { at: at(&map, range), cell: learner });
        assert_eq!(
            (map.ranges[range].primary, map.ranges[range].learner),
            (CellId(1), Some(learner))
        );
    }
    let (ring, found) = first_cell_finding(|finding| match finding {
        Finding::CaughtUp { at, .. } => Some(at.range),
        _ => None,
    });
    let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, 2, 2)), NOW);
    let other = |epoch| Term { range: RangeId(99), epoch };
    for epoch in 1..OF_JOURNAL.index() as u32 {
        ring.terms.begin(other(epoch), 0, NOW.mono_ns).expect("a level");
    }
    let (first, second) = (map.ranges[0].id, map.ranges[1].id);
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    keeper.hear_ready(learner, map.version);
    let mut learn = |now: Now| {
        keeper.tend(now);
        for copy in ring.copies().iter() {
            ring.log
                .lanes
                .logs()
                .for_each(|(lane, log)| copy.acknowledges(lane.index(), log.end()));
        }
        found.take()
    };
    let steps: Vec<_> = (0..200).flat_map(|_| learn(NOW)).collect();
    assert!(steps.contains(&first) && !steps.contains(&second), "{steps:?}");
    let later = Now { mono_ns: NOW.mono_ns + 20_000 * MS, ..NOW };
    ring.terms.end(other(1), false, NOW.mono_ns).expect("it was begun");
    assert!(!learn(later).contains(&second), "it leads it, and has sent nothing of it yet");
    assert!(ring.copies()[0].slices().contains(&map.ranges[1].slices()));
    let steps: Vec<_> = (0..200).flat_map(|_| learn(later)).collect();
    assert!(steps.contains(&second), "{steps:?}");
}

/// A learner without memory, which gets none by eviction: another cell is to learn instead.
#[test]
fn a_learner_that_has_said_that_it_is_full_and_takes_nothing_is_given_up() {
    let (mut map, learner) = (Map::clone(&formed(2)), CellId(2));
    let drops = Command::Drop { at: map.ranges[0].stamp(), cell: learner, why: Why::Silent };
    map.apply(&drops);
    map.apply(&Command::Learn { at: map.ranges[0].stamp(), cell: learner });
    let id = map.ranges[0].id;
    let (ring, found) = first_cell_finding(|finding| match finding {
        Finding::Refuses { cell, range } => Some((cell, range)),
        _ => None,
    });
    // More than a learner takes before it has said how much room it has.
    let mut worker = Worker::new(ring.cell.clone());
    worker.begin(NOW);
    for number in 0..1_000 {
        let key = format!("key{number}");
        let put = Put { value: &[7; 300], client_flags: 0, expiry_s: 0 };
        worker.set(&ring.cell.engine().key(key.as_bytes()), put, NOW);
    }
    worker.end();
    let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, 2, 2)), NOW);
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    keeper.hear_ready(learner, map.version);
    let mut refused = |ms: u64| {
        keeper.tend(Now { mono_ns: NOW.mono_ns + ms * MS, ..NOW });
        let copies = ring.copies();
        let logs = ring.log.lanes.logs();
        logs.for_each(|(lane, log)| copies[0].acknowledges(lane.index(), log.end()));
        found.take()
    };
    let before: Vec<_> = (0..4_000).step_by(20).flat_map(&mut refused).collect();
    assert_eq!(before, [], "it may still get room");
    let lane = ring.log.lanes.nowhere().lane;
    ring.copies()[0].sets_full(lane, true, &ring.log);
    let slice = map.ranges[0].slices().iter().next().expect("it has slices");
    assert!(!ring.log.is_full(slice), "clients are not refused for its sake");
    assert!(refused(4_200).contains(&(learner, Some(id))));
}

/// The first cell of a ring with three copies of each range, and the map of that.
fn one_of_three_copies() -> (Arc<RingCell>, Keeper, Map) {
    let ring = first_cell(|_| ());
    let keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, 3, 3)), NOW);
    (ring, keeper, Map::clone(&formed_with(3, 3)))
}

/// What a learner has learned is not in what it keeps for other copies: if its primary ended, a
/// copy that lacks some of it could not get it.
#[test]
fn a_learner_is_ready_when_the_other_copies_have_all_that_it_has_learned() {
    let (mut map, learner) = (Map::clone(&formed_with(3, 3)), CellId(3));
    let drops = Command::Drop { at: map.ranges[0].stamp(), cell: learner, why: Why::Silent };
    map.apply(&drops);
    map.apply(&Command::Learn { at: map.ranges[0].stamp(), cell: learner });
    let range = &map.ranges[0];
    assert_eq!((range.primary, &range.copies[..]), (CellId(1), &[CellId(2)][..]));
    let (ring, found) = first_cell_finding(|finding| match finding {
        Finding::CaughtUp { cell, .. } => Some(cell),
        _ => None,
    });
    let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, 3, 3)), NOW);
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    keeper.hear_ready(learner, map.version);
    let mut is_ready = |acknowledging: &[CellId]| {
        for _ in 0..300 {
            keeper.tend(NOW);
            for copy in ring.copies().iter().filter(|copy| acknowledging.contains(&copy.cell)) {
                let logs = ring.log.lanes.logs();
                logs.for_each(|(lane, log)| copy.acknowledges(lane.index(), log.end()));
            }
        }
        found.take().contains(&learner)
    };
    assert!(!is_ready(&[learner]), "the other one lacks something");
    assert!(is_ready(&[learner, CellId(2)]));
}

/// What is said of the first range of `map`, which the first cell leads, while `learner` learns it,
/// how long its keeper may rest meanwhile, and how many bytes there are.
fn teaches(map: &Map, learner: CellId) -> (Vec<Learned>, Vec<Rest>, u64) {
    let (id, slices, cells) = (map.ranges[0].id, map.ranges[0].slices(), map.cells.len() as u32);
    let ring = first_cell(|_| ());
    let mut worker = Worker::new(ring.cell.clone());
    worker.begin(NOW);
    let names = (0..20_000).map(|number| format!("key{number}"));
    let own: Vec<_> = names.filter(|name| slices.contains(SliceId::of(name.as_bytes()))).collect();
    for key in &own {
        let put = Put { value: &[7; 300], client_flags: 0, expiry_s: 0 };
        worker.set(&ring.cell.engine().key(key.as_bytes()), put, NOW);
    }
    worker.end();
    let all: usize = own.iter().map(|key| key.len() + 300).sum();
    let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, cells, 2)), NOW);
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    keeper.hear_ready(learner, map.version);
    let said = (0..60_000).step_by(100).map(|ms: u64| {
        keeper.tend(Now { mono_ns: NOW.mono_ns + ms * MS, ..NOW });
        for copy in ring.copies().iter() {
            for ((lane, log), (reader, _)) in ring.log.lanes.logs().zip(&copy.readers) {
                copy.acknowledges(lane.index(), log.end());
                log.pass(*reader, Mark::Acknowledged, log.end());
                log.grant_after(*reader, log.end(), 1 << 16);
            }
        }
        (ring.history.past().learned.get(&id).copied().unwrap_or_default(), keeper.rest())
    });
    let (said, rests) = said.unzip();
    (said, rests, all as u64)
}

/// How much was sent is said while it learns, and how much that will be follows from the slices.
#[test]
fn reports_show_how_much_a_learner_was_sent_and_about_how_much_there_is() {
    let (mut map, learner) = (Map::clone(&formed(2)), CellId(2));
    let drops = Command::Drop { at: map.ranges[0].stamp(), cell: learner, why: Why::Silent };
    map.apply(&drops);
    map.apply(&Command::Learn { at: map.ranges[0].stamp(), cell: learner });
    let (said, _, all) = teaches(&map, learner);
    assert!(said.is_sorted_by_key(|it| it.bytes), "{said:?}");
    let in_between = said.iter().filter(|it| it.bytes > 0 && it.bytes < all);
    let is_near = |about: u64| about.abs_diff(all) < all / 4;
    let estimates: Vec<_> = in_between.map(|it| it.about_bytes).collect();
    assert!(!estimates.is_empty() && estimates.iter().skip(2).all(|it| is_near(*it)), "{said:?}");
    let last = said.last().copied().unwrap_or_default();
    assert_eq!((last.bytes, last.about_bytes), (all, all));
    assert!(last.took_ns > 0);
}

/// A second failure would lose what has one copy.
#[test]
fn what_lacks_a_copy_is_copied_without_long_rests() {
    let mut map = Map::clone(&formed(3));
    let (copy, learner) = (CellId(2), CellId(3));
    let moves = Command::Move { at: map.ranges[0].stamp(), cell: learner, from: Some(copy) };
    map.apply(&moves);
    map.apply(&Command::Learn { at: map.ranges[0].stamp(), cell: learner });
    let (_, rests, _) = teaches(&map, learner);
    assert!(rests.contains(&Rest::Long) && !rests.contains(&Rest::Short));
    map.apply(&Command::Drop { at: map.ranges[0].stamp(), cell: copy, why: Why::Silent });
    let (_, rests, _) = teaches(&map, learner);
    assert!(rests.contains(&Rest::Short) && !rests.contains(&Rest::Long));
}

/// A copy has ended, and may lead by its journal as long as its primary has not gone on without it.
#[test]
fn nothing_is_served_and_no_change_is_acknowledged_while_a_journal_counts() {
    let (mut map, copy) = (Map::clone(&formed(2)), CellId(2));
    let (ring, found) = first_cell_finding(|finding| match finding {
        Finding::Refuses { cell, range } => Some((cell, range)),
        _ => None,
    });
    let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, 2, 2)), NOW);
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    let (id, epoch) = (map.ranges[0].id, map.ranges[0].epoch);
    let level = ring.terms.level(Term { range: id, epoch }).expect("it leads");
    let slice = map.ranges[0].slices().iter().next().expect("it has slices");
    let target = |ring: &RingCell| ring.routes().target(slice).0;
    assert_eq!(target(&ring), Target::Here(level, epoch));
    let lane = ring.log.lanes.lane_of(slice);
    let mut sink = WorkerSink::new(ring.log.lanes.clone());
    let waits = |sink: &mut WorkerSink| sink.other(lane, 9, b"x", false).expect("space").position;
    let before = waits(&mut sink);
    let has_passed = |position| {
        let (_, log) = ring.log.lanes.logs().nth(lane.index()).expect("a log");
        log.passed(level, position)
    };
    let mut started = map.cells[&copy].started;
    (started.incarnation, started.has_journal) = (Incarnation(2), true);
    map.apply(&Command::Start { cell: copy, started });
    assert_eq!(map.ranges[0].journals, [copy]);
    found.take();
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    keeper.tend(NOW);
    assert_eq!(target(&ring), Target::Nowhere);
    assert!(!has_passed(before) && !has_passed(waits(&mut sink)));
    assert!(found.take().contains(&(copy, Some(id))), "it can do without");
    let at = map.ranges[0].stamp();
    map.apply(&Command::Drop { at, cell: copy, why: Why::Ended });
    keeper.adopt(Arc::new(map), BTreeMap::new(), NOW);
    assert_eq!(target(&ring), Target::Here(level, epoch));
    assert!(has_passed(before) && has_passed(waits(&mut sink)));
}

/// It was not dropped from the range by any map that this cell has seen.
#[test]
fn what_a_journal_has_of_a_range_is_dropped_where_that_has_become_a_part_of_another() {
    let ring = first_cell_above_a_tier();
    let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, 4, 2)), NOW);
    let tiered = ring.cell.tiered().expect("it is above a tier");
    let mut map = Map::clone(&formed(4));
    for range in &mut map.ranges {
        (range.primary, range.copies) = (CellId(2), vec![CellId(3)]);
    }
    map.ranges[2].journals.push(CellId(1));
    let begins = |keeper: &mut Keeper, map: &Map| {
        keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
        let is_ready = |keeper: &Keeper| keeper.ready_version() == map.version;
        let (was_ready, mut steps) = (is_ready(keeper), 0..10_000);
        let ends = steps.any(|second| {
            let at = Now { mono_ns: NOW.mono_ns + second * 1_000 * MS, ..NOW };
            keeper.tend(at);
            tiered.sync(at);
            is_ready(keeper)
        });
        assert!(ends, "all that is to be dropped is");
        was_ready
    };
    assert!(!begins(&mut keeper, &map), "what it may have of others is dropped");
    map.version += 1;
    assert!(begins(&mut keeper, &map), "it keeps what counts");
    let upper = map.ranges.remove(2);
    (map.ranges[1].end, map.ranges[1].epoch) = (upper.end, 2);
    map.version += 1;
    assert!(!begins(&mut keeper, &map), "it is dropped now");
    map.version += 1;
    assert!(begins(&mut keeper, &map));
}

/// Where replies wait for no copy, clients may have numbers of the new primary that this cell has
/// not.
#[test]
fn who_stays_a_copy_of_a_new_primary_gives_none_of_its_numbers_again() {
    let (ring, mut keeper, mut map) = one_of_three_copies();
    let slice = map.ranges[1].slices().iter().next().expect("it has slices");
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    let before = ring.cell.engine().last_version(slice).counter();
    let promotes =
        Command::Promote { at: map.ranges[1].stamp(), cell: CellId(3), why: Why::Silent };
    map.apply(&promotes);
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    // Its tail has not come when it ends as well.
    let leads = Command::Promote { at: map.ranges[1].stamp(), cell: CellId(1), why: Why::Silent };
    map.apply(&leads);
    assert_eq!((map.ranges[1].primary, map.ranges[1].epoch), (CellId(1), 3));
    keeper.adopt(Arc::new(map), BTreeMap::new(), NOW);
    keeper.tend(NOW);
    let after = ring.cell.engine().last_version(slice).counter();
    assert!(after - before >= 2 << 20, "{before} {after}");
}

/// It has not seen the division alone, with which nothing is exchanged.
#[test]
fn who_leads_both_halves_of_a_range_has_the_tails_of_both_first() {
    let (ring, mut keeper, mut map) = one_of_three_copies();
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    let (id, at) = (map.ranges[1].id, map.ranges[1].stamp());
    let slice = map.ranges[1].start + 256;
    let into = Division { slice, cell: map.ranges[1].copies[0] };
    map.apply(&Command::Divide { at, into });
    map.apply(&Command::Split { at: map.ranges[1].stamp() });
    let halves = [map.ranges[1].id, map.ranges[2].id];
    assert!(halves[0] == id && map.ranges[2].start == slice, "{:?}", map.ranges);
    for range in halves {
        let at = map.range(range).expect("one half").stamp();
        map.apply(&Command::Promote { at, cell: CellId(1), why: Why::Silent });
        assert_eq!(map.range(range).expect("one half").primary, CellId(1));
    }
    keeper.adopt(Arc::new(map), BTreeMap::new(), NOW);
    let open = halves.map(|range| ring.exchanges.open(range));
    assert!(open.iter().all(|(asks, has)| !asks.is_empty() || !has.is_empty()), "{open:?}");
    assert_eq!(open[0], open[1]);
}

/// It has not read meanwhile what the copy has said.
#[test]
fn a_cell_that_was_stopped_blames_no_copy_for_that() {
    let blames = |was_stopped: bool| {
        let (ring, found) = first_cell_finding(|finding| match finding {
            Finding::Refuses { cell, .. } => Some(cell),
            _ => None,
        });
        let at = |ms: u64| Now { mono_ns: NOW.mono_ns + ms * MS, ..NOW };
        let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, 2, 2)), NOW);
        keeper.adopt(formed(2), BTreeMap::new(), NOW);
        (1..10).for_each(|ms| _ = keeper.tend(at(ms)));
        let mut sink = WorkerSink::new(ring.log.lanes.clone());
        for (lane, _) in ring.log.lanes.logs() {
            sink.other(lane, 9, b"not acknowledged", false).expect("space");
        }
        (10..20).for_each(|ms| _ = keeper.tend(at(ms)));
        if was_stopped {
            keeper.sleeps(at(20), 100 * MS);
        }
        keeper.tend(at(5_000));
        found.take()
    };
    assert_eq!(blames(true), []);
    assert_eq!(blames(false), [CellId(2)], "it has had five seconds");
}

/// Nine cells copy what one leads, and its logs have eight readers.
#[test]
fn a_learner_that_gets_no_place_in_the_logs_is_given_up() {
    let mut map = Map::clone(&formed(10));
    for at in 1..10 {
        // The other ranges are led by the first cell too, each with a copy of its own.
        let stamp = |map: &Map| map.ranges[at].stamp();
        let (primary, copy) = (map.ranges[at].primary, map.ranges[at].copies[0]);
        if copy != CellId(1) {
            map.apply(&Command::Drop { at: stamp(&map), cell: copy, why: Why::Silent });
            map.apply(&Command::Learn { at: stamp(&map), cell: CellId(1) });
            map.apply(&Command::Admit { at: stamp(&map), cell: CellId(1) });
        }
        map.apply(&Command::Promote { at: stamp(&map), cell: CellId(1), why: Why::Silent });
        map.apply(&Command::Learn { at: stamp(&map), cell: primary });
    }
    let (ring, found) = first_cell_finding(|finding| match finding {
        Finding::Refuses { cell, range } => Some((cell, range)),
        _ => None,
    });
    let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, 10, 2)), NOW);
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    let learners = map.ranges.iter().filter_map(|range| range.learner);
    learners.for_each(|cell| keeper.hear_ready(cell, map.version));
    let mut refused = |ms: u64| {
        (0..500).for_each(|_| {
            keeper.tend(Now { mono_ns: NOW.mono_ns + ms * MS, ..NOW });
            for copy in ring.copies().iter() {
                let logs = ring.log.lanes.logs();
                logs.for_each(|(lane, log)| copy.acknowledges(lane.index(), log.end()));
            }
        });
        found.take()
    };
    assert_eq!(refused(100), []);
    assert_eq!(ring.copies().len(), 8);
    let found = refused(2_000);
    let reads = |cell| ring.copies().iter().any(|copy| copy.cell == cell);
    assert!(!found.is_empty() && found.iter().all(|(cell, _)| !reads(*cell)), "{found:?}");
}

/// The same of copies in sync: the ninth range would be served by nobody, for as long as it has
/// that copy.
#[test]
fn a_copy_that_gets_no_place_in_the_logs_is_dropped() {
    let mut map = Map::clone(&formed(10));
    for (range, copy) in map.ranges.iter_mut().zip(2..=10) {
        (range.primary, range.copies) = (CellId(1), vec![CellId(copy)]);
    }
    let (ring, found) = first_cell_finding(|finding| match finding {
        Finding::Refuses { cell, range } => Some((cell, range)),
        _ => None,
    });
    let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, 10, 2)), NOW);
    keeper.adopt(Arc::new(map), BTreeMap::new(), NOW);
    let mut refused = |ms: u64| {
        keeper.tend(Now { mono_ns: NOW.mono_ns + ms * MS, ..NOW });
        found.take()
    };
    (0..15).for_each(|tenth| assert_eq!(refused(100 * tenth), []));
    assert_eq!(refused(1_500), [(CellId(10), Some(RangeId(9)))]);
    assert_eq!(ring.copies().iter().map(|copy| copy.log & 0xFF).max(), Some(8), "eight readings");
}

/// An operator gives a lost range to a cell that had copied it once. Others have led it since.
#[test]
fn a_range_that_begins_again_where_it_was_copied_gives_numbers_far_above_those_of_then() {
    let (ring, mut keeper, mut map) = one_of_three_copies();
    let slice = map.ranges[1].slices().iter().next().expect("it has slices");
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    let drops = Command::Drop { at: map.ranges[1].stamp(), cell: CellId(1), why: Why::Silent };
    map.apply(&drops);
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    let before = ring.cell.engine().last_version(slice).counter();
    let forgives = Command::Forgive { at: map.ranges[1].stamp(), cell: CellId(1) };
    map.apply(&forgives);
    assert_eq!((map.ranges[1].primary, map.ranges[1].losses), (CellId(1), 1));
    keeper.adopt(Arc::new(map), BTreeMap::new(), NOW);
    let after = ring.cell.engine().last_version(slice).counter();
    assert!(after - before >= 1 << 24, "{before} {after}");
}

/// A new primary drops a copy whose tail is late, and leads: what comes of that tail then would
/// undo what it has acknowledged.
#[test]
fn a_tail_that_comes_after_its_copy_was_dropped_is_not_taken() {
    let (ring, mut keeper, mut map) = one_of_three_copies();
    let range = map.ranges[1].clone();
    assert_eq!((range.primary, range.copies), (CellId(2), vec![CellId(3), CellId(1)]));
    let mut adopt = |map: &Map| {
        keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
        // Each step of the exchange is one of the keeper.
        for _ in 0..5 {
            keeper.tend(NOW);
        }
        ring.leads(&map.ranges[1])
    };
    assert!(!adopt(&map));
    let promotes =
        Command::Promote { at: map.ranges[1].stamp(), cell: CellId(1), why: Why::Silent };
    map.apply(&promotes);
    assert!(!adopt(&map), "it waits for the tail of the other copy");
    assert_eq!(ring.exchanges.open(range.id).0.len(), 1);
    let drops = Command::Drop { at: map.ranges[1].stamp(), cell: CellId(3), why: Why::Refuses };
    map.apply(&drops);
    assert!(adopt(&map), "nobody is left to wait for");
    assert!(ring.exchanges.open(range.id).0.is_empty(), "a tail would still be taken");
}

/// The first of two cells leads a range that is to move to the other one. Returns what it finds.
fn moving() -> (Arc<RingCell>, Found<Stamp>, Keeper, Map) {
    let (ring, found) = first_cell_finding(|finding| match finding {
        Finding::Sealed { at } => Some(at),
        _ => None,
    });
    let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, 2, 2)), NOW);
    let mut map = Map::clone(&formed(2));
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    keeper.tend(NOW);
    let (at, cell) = (map.ranges[0].stamp(), CellId(2));
    map.apply(&Command::Move { at, cell, from: None });
    assert_eq!(map.ranges[0].moves_to, Some(cell));
    (ring, found, keeper, map)
}

fn acknowledge_all(ring: &RingCell) {
    for copy in ring.copies().iter() {
        for ((lane, log), (reader, _)) in ring.log.lanes.logs().zip(&copy.readers) {
            copy.acknowledges(lane.index(), log.end());
            log.pass(*reader, Mark::Acknowledged, log.end());
        }
    }
}

/// Each step waits: for a worker in a batch, for a batch that has begun, for the copy.
#[test]
fn a_range_that_moves_is_sealed_when_nobody_changes_it_and_its_copy_has_all() {
    let (ring, found, mut keeper, map) = moving();
    let slice = map.ranges[0].slices().iter().next().expect("it has slices");
    let target = || ring.routes().target(slice).0;
    let tend = |keeper: &mut Keeper| (0..5).for_each(|_| _ = keeper.tend(NOW));
    let before = ring.routes();
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    assert_eq!(target(), Target::Nowhere);
    acknowledge_all(&ring);
    tend(&mut keeper);
    assert_eq!(found.take(), [], "a worker serves it");
    // One that evicts, whatever its routes are.
    let mut worker = Worker::new(ring.cell.clone());
    worker.begin(NOW);
    drop(before);
    tend(&mut keeper);
    assert_eq!(found.take(), [], "a batch has begun before it was a copy here");
    let put = Put { value: b"late", client_flags: 0, expiry_s: 0 };
    let key = (0..).map(|number| format!("key{number}"));
    let mut in_range =
        key.filter(|key| map.ranges[0].slices().contains(SliceId::of(key.as_bytes())));
    let key = in_range.next().expect("one of them");
    worker.set(&ring.cell.engine().key(key.as_bytes()), put, NOW);
    worker.end();
    tend(&mut keeper);
    assert_eq!(found.take(), [], "the copy lacks the last change");
    acknowledge_all(&ring);
    tend(&mut keeper);
    let at = map.ranges[0].stamp();
    assert_eq!((found.take(), target()), (vec![at], Target::Nowhere));
    // It is not handed over now, for certain, and is tried again after a rest.
    keeper.unseal(at, NOW);
    assert!(matches!(target(), Target::Here(..)));
    tend(&mut keeper);
    assert!(matches!(target(), Target::Here(..)));
    let later = Now { mono_ns: NOW.mono_ns + 1_000 * MS, ..NOW };
    (0..5).for_each(|_| _ = keeper.tend(later));
    assert!(matches!(target(), Target::Here(..)), "it was sealed so before");
    let mut map = map;
    map.apply(&Command::Settle { at });
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), later);
    acknowledge_all(&ring);
    (0..5).for_each(|_| _ = keeper.tend(later));
    let at = map.ranges[0].stamp();
    assert_eq!((found.take(), target()), (vec![at], Target::Nowhere));
    // Its copy is dropped: it does not move.
    map.apply(&Command::Drop { at, cell: CellId(2), why: Why::Silent });
    keeper.adopt(Arc::new(map), BTreeMap::new(), later);
    keeper.tend(later);
    assert!(matches!(target(), Target::Here(..)));
}

/// It keeps what it has, and its counters: so does who leads from then on.
#[test]
fn who_hands_a_range_over_copies_it_from_then_on_and_who_gets_it_back_goes_on_counting() {
    let (ring, found, mut keeper, mut map) = moving();
    let range = map.ranges[0].clone();
    let slice = range.slices().iter().next().expect("it has slices");
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    let level = ring.terms.level(Term { range: range.id, epoch: 1 }).expect("it has led it");
    for _ in 0..5 {
        acknowledge_all(&ring);
        keeper.tend(NOW);
    }
    let at = map.ranges[0].stamp();
    assert_eq!(found.take(), [at]);
    let before = ring.cell.engine().last_version(slice).counter();
    map.apply(&Command::HandOver { at, cell: CellId(2) });
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    assert!(!keeper.tend(NOW), "there is nothing to empty");
    assert!(!ring.log.is_in_doubt(level), "every reply about it has passed");
    let accepts = |epoch| ring.origins.accepts(slice, (CellId(2), 9), Some(Version::new(epoch, 9)));
    assert!(accepts(2) && !accepts(1));
    assert_eq!(keeper.ready_version(), map.version);
    for command in [
        |at| Command::Move { at, cell: CellId(1), from: None },
        |at| Command::HandOver { at, cell: CellId(1) },
    ] {
        map.apply(&command(map.ranges[0].stamp()));
    }
    assert_eq!((map.ranges[0].primary, map.ranges[0].epoch), (CellId(1), 3));
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    keeper.tend(NOW);
    assert!(ring.leads(&map.ranges[0]));
    let after = ring.cell.engine().last_version(slice);
    assert_eq!((after.epoch(), after.counter() - before), (3, 0));
}

/// Takes steps, and syncs the journal where `syncs`, until `is_done`. Returns whether it came to
/// that.
fn tends_until(
    (keeper, ring): (&mut Keeper, &RingCell),
    syncs: bool,
    is_done: impl Fn() -> bool,
) -> bool {
    for _ in 0..200 {
        acknowledge_all(ring);
        keeper.tend(NOW);
        ring.cell.tiered().into_iter().filter(|_| syncs).for_each(|tiered| tiered.sync(NOW));
        if is_done() {
            return true;
        }
    }
    false
}

/// What is led and what is copied goes to other segments, which a start reads in their order.
#[test]
fn above_a_tier_what_a_range_had_lies_in_the_journal_before_what_comes_once_it_has_moved() {
    let ring = first_cell_above_a_tier();
    let (tiered, below) = (ring.cell.tiered().expect("a tier"), ring.below().expect("a ring"));
    below.set_lease(|_| true);
    let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, 2, 2)), NOW);
    let mut map = Map::clone(&formed(2));
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    let range = map.ranges[0].clone();
    assert!(tends_until((&mut keeper, &ring), true, || ring.leads(&range)));
    ring.extend(range.id, 1, u64::MAX);
    let slice = range.slices().iter().next().expect("it has slices");
    let mut worker = Worker::new(ring.cell.clone());
    let mut keys = (0..).map(|number| format!("key{number}"));
    let key = keys.find(|key| range.slices().contains(SliceId::of(key.as_bytes())));
    let key = key.expect("one of them");
    let mut stores = || {
        worker.begin(NOW);
        let put = Put { value: b"dirty", client_flags: 0, expiry_s: 0 };
        worker.set(&ring.cell.engine().key(key.as_bytes()), put, NOW);
        worker.end();
        tiered.sync(NOW);
        acknowledge_all(&ring);
    };
    let items = || ring.cell.engine().counters().items;
    stores();
    tiered.tier().flush(NOW, true).expect("nothing fails");
    assert_eq!((tiered.tier().dirty(), items()), (0, 1), "it is written back as long as it leads");
    stores();
    assert_eq!((tiered.tier().dirty(), items()), (1, 1));
    // It is to move, and is sealed: nothing of it is written back.
    map.apply(&Command::Move { at: map.ranges[0].stamp(), cell: CellId(2), from: None });
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    tends_until((&mut keeper, &ring), true, || false);
    tiered.tier().flush(NOW, true).expect("nothing fails");
    assert_eq!(tiered.tier().dirty(), 1);
    // It is copied once the journal was cut: no segments are ready for that at first.
    while below.cut().is_some() {}
    map.apply(&Command::HandOver { at: map.ranges[0].stamp(), cell: CellId(2) });
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    let accepts = || ring.origins.accepts(slice, (CellId(2), 9), Some(Version::new(2, 9)));
    assert!(!tends_until((&mut keeper, &ring), false, accepts));
    assert!(tends_until((&mut keeper, &ring), true, accepts));
    // The new primary does not know what was in memory alone here.
    assert!(tends_until((&mut keeper, &ring), true, || items() == 0));
    assert_eq!(tiered.tier().dirty(), 1);
    // And the other way round.
    while below.cut().is_some() {}
    for command in [
        |at| Command::Move { at, cell: CellId(1), from: None },
        |at| Command::HandOver { at, cell: CellId(1) },
    ] {
        map.apply(&command(map.ranges[0].stamp()));
    }
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    let range = map.ranges[0].clone();
    let leads = || ring.leads(&range);
    assert!(!tends_until((&mut keeper, &ring), false, leads));
    assert!(tends_until((&mut keeper, &ring), true, leads));
    ring.extend(range.id, 3, u64::MAX);
    tiered.tier().flush(NOW, true).expect("nothing fails");
    assert_eq!(tiered.tier().dirty(), 0);
}

/// It has handed a range over, and copies it once its journal was cut; the range is divided before.
#[test]
fn a_cell_that_has_not_turned_yet_does_so_in_the_next_epoch() {
    let ring = first_cell_above_a_tier();
    let (tiered, below) = (ring.cell.tiered().expect("a tier"), ring.below().expect("a ring"));
    below.set_lease(|_| true);
    let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, 3, 2)), NOW);
    let mut map = Map::clone(&formed(3));
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    let range = map.ranges[0].clone();
    assert!(tends_until((&mut keeper, &ring), true, || ring.leads(&range)));
    ring.extend(range.id, 1, u64::MAX);
    map.apply(&Command::Move { at: map.ranges[0].stamp(), cell: CellId(2), from: None });
    keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    tends_until((&mut keeper, &ring), true, || false);
    while below.cut().is_some() {}
    let slice = range.end / 2;
    let into = Division { slice, cell: CellId(3) };
    for command in [
        &(|at| Command::HandOver { at, cell: CellId(2) }) as &dyn Fn(Stamp) -> Command,
        &|at| Command::Divide { at, into },
        &|at| Command::Split { at },
    ] {
        map.apply(&command(map.ranges[0].stamp()));
        keeper.adopt(Arc::new(map.clone()), BTreeMap::new(), NOW);
    }
    assert_eq!((map.ranges[1].start, map.ranges[1].epoch), (slice, 3));
    let accepts = |slice: u16| {
        let slice = SliceId::new(slice.into()).expect("there is one");
        ring.origins.accepts(slice, (CellId(2), 99), Some(Version::new(3, 9)))
    };
    let accepts_any = || accepts(range.start) || accepts(slice);
    assert!(!tends_until((&mut keeper, &ring), false, accepts_any));
    let awaits = SliceId::new(slice.into()).is_some_and(|it| ring.origins.awaits(it, CellId(2)));
    assert!(awaits, "what comes meanwhile is not refused");
    let accepts_both = || accepts(range.start) && accepts(slice);
    assert!(tends_until((&mut keeper, &ring), true, accepts_both));
    assert!(tiered.tier().report().failure.is_none());
}
