//! What each command does to the map, and what no order of commands can do.

use super::command::{Addresses, Command, Refusal, Started, Verdict, Why};
use super::division::Division;
use super::leaving::Leaving;
use super::range::Range;
use super::ring_map::{Map, ORDERED_MAX};
use crate::ids::{CellId, Incarnation, RangeId};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

fn started(incarnation: u64) -> Started {
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let addresses = Addresses { control: at, links: at, clients: at };
    Started::new(Incarnation(incarnation), addresses)
}

fn formed(cells: u32, copies: u8) -> Map {
    let mut map = Map::new(7, cells, copies);
    for token in 0..u64::from(cells) {
        let joined = map.apply(&Command::Join { token, started: started(1) });
        assert!(matches!(joined, Verdict::Applied { .. }));
    }
    map
}

fn is_applied(map: &mut Map, command: Command) -> bool {
    matches!(map.apply(&command), Verdict::Applied { .. })
}

/// Primary, copies and learner of a range, and its epoch.
fn parts(range: &Range) -> (u32, Vec<u32>, Option<u32>, u32) {
    let copies = range.copies.iter().map(|cell| cell.0).collect();
    (range.primary.0, copies, range.learner.map(|cell| cell.0), range.epoch)
}

#[test]
fn it_forms_when_all_are_present_and_covers_every_slice() {
    let mut map = Map::new(7, 3, 2);
    for token in [5, 6, 5] {
        map.apply(&Command::Join { token, started: started(1) });
        assert!(!map.has_formed(), "the same cell twice is one");
    }
    map.apply(&Command::Join { token: 8, started: started(1) });
    assert_eq!(map.fault(), None);
    let of: Vec<_> = map.ranges.iter().map(parts).collect();
    assert_eq!(of, [(1, vec![2], None, 1), (2, vec![3], None, 1), (3, vec![1], None, 1)]);
    let alone = formed(1, 2);
    assert_eq!(parts(&alone.ranges[0]), (1, vec![], None, 1));
    assert_eq!(alone.fault(), None);
}

#[test]
fn the_ranges_of_a_new_ring_are_whole_runs_of_slices_while_there_are_enough() {
    for cells in [1, 2, 3, 5, 7, 64] {
        let map = formed(cells, 2);
        let run = base::RUN_SLICES as u16;
        assert!(map.ranges.iter().all(|range| range.start % run == 0), "{cells}");
        let lengths = map.ranges.iter().map(|range| range.slices().numbers().len());
        let (least, most) = (lengths.clone().min(), lengths.max());
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= run.into()));
    }
    assert_eq!(formed(100, 2).fault(), None);
}

#[test]
fn a_cell_that_has_its_journal_leads_again_what_it_led_alone_and_nothing_is_lost() {
    let start = |cell: u32, life, has_journal| Command::Start {
        cell: CellId(cell),
        started: Started { has_journal, ..started(life) },
    };
    // One after the other starts again: the last of a range has all of it.
    for order in [[1, 2], [2, 1]] {
        let mut map = formed(2, 2);
        for cell in order {
            assert!(is_applied(&mut map, start(cell, 2, true)));
        }
        for range in &map.ranges {
            assert_eq!(range.losses, 0);
            assert_eq!(range.is_recovered, range.primary == CellId(order[1]), "{range:?}");
            assert_eq!(range.times_forgotten(), 1, "nobody knows who has asked");
            assert_eq!((range.primary, range.copies.len()), (CellId(order[1]), 0));
            assert_eq!(range.journals, [CellId(order[0])], "it is waited for");
        }
        let (at, cell) = (map.ranges[0].stamp(), CellId(order[0]));
        assert!(!is_applied(&mut map, Command::Learn { at, cell }), "its journal counts");
        assert!(is_applied(&mut map, Command::Drop { at, cell, why: Why::Ended }));
        let at = map.ranges[0].stamp();
        assert!(is_applied(&mut map, Command::Learn { at, cell: CellId(order[0]) }));
        let at = map.ranges[0].stamp();
        assert!(is_applied(&mut map, Command::Admit { at, cell: CellId(order[0]) }));
        let (at, cell) = (map.ranges[0].stamp(), CellId(order[0]));
        assert!(is_applied(&mut map, Command::Promote { at, cell, why: Why::Silent }));
        assert!(!map.ranges[0].is_recovered, "it has copied it");
        assert_eq!(map.ranges[0].times_forgotten(), 1, "it has copied that, too");
        // Without its journal it begins empty.
        let at = map.ranges[0].epoch;
        assert!(is_applied(&mut map, start(order[1], 3, true)));
        assert!(is_applied(&mut map, start(order[0], 3, false)));
        let range = &map.ranges[0];
        assert_eq!((range.losses, range.is_recovered, range.epoch), (1, false, at + 1));
        assert_eq!(range.times_forgotten(), 2);
    }
}

/// Two cells that had a range lose power, and the disk of one is lost.
#[test]
fn of_two_cells_that_end_together_the_one_that_has_its_journal_leads_in_any_order_of_starts() {
    let start = |cell: u32, has_journal| Command::Start {
        cell: CellId(cell),
        started: Started { has_journal, ..started(2) },
    };
    for (range, has, lacks) in [(0, 1, 2), (0, 2, 1), (1, 1, 2), (1, 2, 1)] {
        for order in [[has, lacks], [lacks, has]] {
            let mut map = formed(2, 2);
            for cell in order {
                assert!(is_applied(&mut map, start(cell, cell == has)));
            }
            let range = &map.ranges[range];
            assert_eq!((range.primary, range.losses), (CellId(has), 0), "{order:?}");
            assert!(range.is_recovered && range.copies.is_empty() && range.journals.is_empty());
        }
    }
    // The other one never returns.
    for range in [0, 1] {
        let mut map = formed(2, 2);
        assert!(is_applied(&mut map, start(1, true)));
        let (at, cell) = (map.ranges[range].stamp(), CellId(1));
        assert_eq!(
            (map.ranges[range].primary, &map.ranges[range].journals[..]),
            (CellId(2), &[cell][..])
        );
        assert!(is_applied(&mut map, Command::Promote { at, cell, why: Why::Silent }));
        assert_eq!((map.ranges[range].primary, map.ranges[range].is_recovered), (cell, true));
    }
    // Neither has its journal: what lies below may be older.
    let lost = |cell: u32, life| Command::Start {
        cell: CellId(cell),
        started: Started { has_tier: true, ..started(life) },
    };
    for order in [[1, 2], [2, 1]] {
        let mut map = formed(3, 2);
        order.iter().for_each(|cell| assert!(is_applied(&mut map, lost(*cell, 2))));
        let waits =
            |map: &Map| map.ranges.iter().map(|it| it.waits_for_operator).collect::<Vec<_>>();
        assert_eq!(waits(&map), [true, false, false], "the others have a third cell");
        assert_eq!((map.ranges[0].losses, map.ranges[0].epoch), (0, 1 + u32::from(order[0] == 1)));
        // It has a journal again, and that has nothing.
        let primary = map.ranges[0].primary;
        let started = Started { has_journal: true, has_tier: true, ..started(3) };
        assert!(is_applied(&mut map, Command::Start { cell: primary, started }));
        let (at, cell) = (map.ranges[0].stamp(), CellId(3));
        assert!(waits(&map)[0] && !is_applied(&mut map, Command::Learn { at, cell }));
        assert!(is_applied(&mut map, Command::Forgive { at, cell }));
        let range = &map.ranges[0];
        assert_eq!((range.primary, range.losses, waits(&map)[0]), (cell, 1, false));
    }
    // It has gone on alone in between: it may have acknowledged what the journal lacks.
    let mut map = formed(2, 2);
    assert!(is_applied(&mut map, start(2, true)));
    let (at, cell) = (map.ranges[0].stamp(), CellId(2));
    assert!(is_applied(&mut map, Command::Drop { at, cell, why: Why::Ended }));
    let at = map.ranges[0].stamp();
    assert!(!is_applied(&mut map, Command::Promote { at, cell, why: Why::Silent }));
    assert!(is_applied(&mut map, start(1, false)));
    assert_eq!((map.ranges[0].primary, map.ranges[0].losses), (CellId(1), 1));
}

#[test]
fn a_witness_has_no_part_in_any_range() {
    let mut map = Map::new(7, 2, 2);
    let join = |token| Command::Join { token, started: started(1) };
    let watch = |token| Command::JoinWitness { token, started: started(1) };
    assert!(is_applied(&mut map, join(1)));
    assert!(is_applied(&mut map, watch(2)) && is_applied(&mut map, watch(2)));
    assert!(!map.has_formed(), "a witness is none of the cells that are wanted");
    let witness = CellId(2);
    assert!(map.cells[&witness].is_witness && map.cells.len() == 2);
    for (token, command) in [(1, watch(1)), (2, join(2))] {
        let refused = map.apply(&command);
        assert_eq!(refused, Verdict::Refused(Refusal::NotEligible), "{token} is the other kind");
    }
    assert!(is_applied(&mut map, join(3)));
    let of: Vec<_> = map.ranges.iter().map(parts).collect();
    assert_eq!(of, [(1, vec![3], None, 1), (3, vec![1], None, 1)]);
    assert_eq!(map.fault(), None);
    let at = map.ranges[0].stamp();
    assert!(is_applied(&mut map, Command::Drop { at, cell: CellId(3), why: Why::Silent }));
    let at = map.ranges[0].stamp();
    for command in [Command::Learn { at, cell: witness }, Command::Forgive { at, cell: witness }] {
        assert_eq!(map.apply(&command), Verdict::Refused(Refusal::NotEligible), "{command:?}");
    }
    assert!(is_applied(&mut map, Command::Start { cell: witness, started: started(2) }));
    assert_eq!(parts(&map.ranges[0]).0, 1, "its start concerns no range");
}

#[test]
fn a_copy_is_promoted_and_the_old_primary_learns_again() {
    let mut map = formed(3, 2);
    let seen = map.ranges[0].stamp();
    assert!(
        !is_applied(&mut map, Command::Promote { at: seen, cell: CellId(3), why: Why::Silent }),
        "no copy"
    );
    assert!(is_applied(&mut map, Command::Promote { at: seen, cell: CellId(2), why: Why::Silent }));
    assert_eq!(parts(&map.ranges[0]), (2, vec![], None, 2));
    // The old primary wanted to go on without the copy at the same time.
    let late = map.apply(&Command::Drop { at: seen, cell: CellId(2), why: Why::Silent });
    assert_eq!(late, Verdict::Refused(Refusal::Changed));
    for (command, learner) in [
        (Command::Learn { at: map.ranges[0].stamp(), cell: CellId(1) }, Some(1)),
        (Command::Admit { at: bumped(&map), cell: CellId(1) }, None),
    ] {
        assert!(is_applied(&mut map, command));
        assert_eq!(parts(&map.ranges[0]).2, learner);
    }
    assert_eq!(parts(&map.ranges[0]), (2, vec![1], None, 2));
}

#[test]
fn a_range_is_handed_over_to_a_copy_in_sync_and_its_primary_stays_one() {
    let mut map = formed(3, 2);
    let stamp = |map: &Map| map.ranges[0].stamp();
    let refused = |map: &mut Map, command: &dyn Fn(super::Stamp) -> Command| {
        let at = stamp(map);
        match map.apply(&command(at)) {
            Verdict::Refused(why) => Some(why),
            Verdict::Applied { .. } => None,
        }
    };
    let moves = |cell: u32| move |at| Command::Move { at, cell: CellId(cell), from: None };
    let hands = |cell: u32| move |at| Command::HandOver { at, cell: CellId(cell) };
    assert_eq!(refused(&mut map, &moves(1)), Some(Refusal::NotEligible), "it leads it");
    assert_eq!(refused(&mut map, &moves(9)), Some(Refusal::NoCell));
    assert_eq!(refused(&mut map, &hands(2)), Some(Refusal::NotEligible), "nobody wants that");
    assert_eq!(refused(&mut map, &moves(2)), None);
    assert_eq!(refused(&mut map, &moves(2)), Some(Refusal::Busy));
    assert_eq!(refused(&mut map, &hands(3)), Some(Refusal::NotEligible));
    assert_eq!(refused(&mut map, &hands(2)), None);
    assert_eq!(parts(&map.ranges[0]), (2, vec![1], None, 2));
    assert!(map.ranges[0].is_handed_over && map.ranges[0].moves_to.is_none());
    // A primary that is replaced has handed over nothing, and moves nothing.
    assert_eq!(refused(&mut map, &moves(1)), None);
    let promotes = |at| Command::Promote { at, cell: CellId(1), why: Why::Silent };
    assert_eq!(refused(&mut map, &promotes), None);
    assert!(!map.ranges[0].is_handed_over && map.ranges[0].moves_to.is_none());
    assert_eq!(refused(&mut map, &moves(1)), Some(Refusal::NotEligible));
    for learner in [2, 3] {
        let learns = |at| Command::Learn { at, cell: CellId(learner) };
        let admits = |at| Command::Admit { at, cell: CellId(learner) };
        let drops = |at| Command::Drop { at, cell: CellId(learner), why: Why::Silent };
        assert_eq!(refused(&mut map, &learns), None);
        assert_eq!(refused(&mut map, &moves(learner)), Some(Refusal::Busy));
        assert_eq!(refused(&mut map, &admits), None);
        assert_eq!(refused(&mut map, &moves(learner)), None);
        assert_eq!(refused(&mut map, &drops), None);
        assert_eq!(map.ranges[0].moves_to, None, "it is dropped");
    }
    // One of three copies is missing.
    let mut map = formed(3, 3);
    let drops = |at| Command::Drop { at, cell: CellId(3), why: Why::Silent };
    assert_eq!(refused(&mut map, &drops), None);
    assert_eq!(refused(&mut map, &moves(2)), Some(Refusal::Busy));
}

#[test]
fn a_cell_that_is_to_lead_a_range_learns_it_first_and_takes_the_place_of_the_primary() {
    let refused = |map: &mut Map, command: &dyn Fn(super::Stamp) -> Command| {
        let at = map.ranges[0].stamp();
        let verdict = map.apply(&command(at));
        assert_eq!(map.fault(), None);
        match verdict {
            Verdict::Refused(why) => Some(why),
            Verdict::Applied { .. } => None,
        }
    };
    let moves = |cell: u32| move |at| Command::Move { at, cell: CellId(cell), from: None };
    let learns = |cell: u32| move |at| Command::Learn { at, cell: CellId(cell) };
    let admits = |cell: u32| move |at| Command::Admit { at, cell: CellId(cell) };
    let hands = |cell: u32| move |at| Command::HandOver { at, cell: CellId(cell) };
    let drops = |cell: u32| move |at| Command::Drop { at, cell: CellId(cell), why: Why::Silent };
    let ordered = || {
        let mut map = formed(4, 2);
        assert_eq!(refused(&mut map, &learns(3)), Some(Refusal::NotEligible), "nobody is missing");
        assert_eq!(refused(&mut map, &moves(3)), None);
        map
    };
    let mut map = ordered();
    assert_eq!(refused(&mut map, &learns(4)), Some(Refusal::NotEligible), "another one is to");
    assert_eq!(refused(&mut map, &hands(3)), Some(Refusal::NotEligible), "it has nothing");
    assert_eq!(refused(&mut map, &learns(3)), None);
    assert_eq!(refused(&mut map, &hands(3)), Some(Refusal::NotEligible), "it has not all");
    assert_eq!(refused(&mut map, &admits(3)), None);
    assert_eq!(parts(&map.ranges[0]), (1, vec![2, 3], None, 1));
    assert_eq!(refused(&mut map, &hands(3)), None);
    assert_eq!(parts(&map.ranges[0]), (3, vec![2], None, 2));
    // A copy was lost meanwhile: the primary stays one.
    let mut map = ordered();
    assert_eq!(refused(&mut map, &learns(3)), None);
    assert_eq!(refused(&mut map, &admits(3)), None);
    assert_eq!(refused(&mut map, &drops(2)), None);
    assert_eq!(refused(&mut map, &hands(3)), None);
    assert_eq!(parts(&map.ranges[0]), (3, vec![1], None, 2));
    // A primary that ends takes the order with it, whatever came of that.
    let promotes = |at| Command::Promote { at, cell: CellId(2), why: Why::Silent };
    for steps in 0..3 {
        let mut map = ordered();
        let all: [&dyn Fn(super::Stamp) -> Command; 2] = [&learns(3), &admits(3)];
        all[..steps].iter().for_each(|step| assert_eq!(refused(&mut map, step), None));
        assert_eq!(refused(&mut map, &promotes), None);
        let copies = if steps == 2 { vec![3] } else { vec![] };
        assert_eq!(parts(&map.ranges[0]), (2, copies, None, 2));
        assert_eq!(map.ranges[0].moves_to, None);
    }
    // And so does who was to lead it, also before it learns.
    let mut map = ordered();
    assert_eq!(refused(&mut map, &drops(4)), Some(Refusal::NotEligible));
    assert_eq!(refused(&mut map, &drops(3)), None);
    assert_eq!((map.ranges[0].moves_to, parts(&map.ranges[0])), (None, (1, vec![2], None, 1)));
}

#[test]
fn a_range_is_divided_and_a_spare_leads_one_part_and_replaces_a_copy_of_the_other() {
    let refused = |map: &mut Map, command: &dyn Fn(&Map) -> Command| {
        let command = command(map);
        let verdict = map.apply(&command);
        assert_eq!(map.fault(), None);
        match verdict {
            Verdict::Refused(why) => Some(why),
            Verdict::Applied { .. } => None,
        }
    };
    let at = |map: &Map, range: usize| map.ranges[range].stamp();
    let divides = |slice, cell: u32| {
        move |map: &Map| Command::Divide {
            at: at(map, 1),
            into: Division { slice, cell: CellId(cell) },
        }
    };
    let splits = |map: &Map| Command::Split { at: at(map, 1) };
    let mut map = formed(3, 2);
    map.apply(&Command::Join { token: 9, started: started(1) });
    let (start, end) = (map.ranges[1].start, map.ranges[1].end);
    assert_eq!(refused(&mut map, &splits), Some(Refusal::NotEligible), "nobody wants that");
    for (slice, cell) in [(start, 4), (end, 4), (start + 1, 2)] {
        assert_eq!(refused(&mut map, &divides(slice, cell)), Some(Refusal::NotEligible));
    }
    assert_eq!(refused(&mut map, &divides(start + 1, 5)), Some(Refusal::NoCell));
    assert_eq!(refused(&mut map, &divides(start + 100, 4)), None);
    assert_eq!(refused(&mut map, &divides(start + 100, 4)), Some(Refusal::Busy));
    assert_eq!((map.ranges[1].expects(), map.ranges[1].is_to_be_sealed()), (Some(CellId(4)), true));
    // Who is to have a part in it is gone: it is one range still.
    let drops = |map: &Map| Command::Drop { at: at(map, 1), cell: CellId(4), why: Why::Silent };
    let mut dropped = map.clone();
    assert_eq!(refused(&mut dropped, &drops), None);
    assert_eq!(refused(&mut dropped, &splits), Some(Refusal::NotEligible));
    // Its primary divides it: both parts go on as they were, in a new epoch.
    assert_eq!(refused(&mut map, &splits), None);
    let of: Vec<_> = map.ranges.iter().map(|it| (it.id.0, it.start, it.end)).collect();
    assert_eq!(of[1..3], [(2, start, start + 100), (4, start + 100, end)]);
    for range in &map.ranges[1..3] {
        assert_eq!(parts(range), (2, vec![3], None, 2));
        assert!(range.is_handed_over && range.moves_to == Some(CellId(4)));
        assert!(range.divides.is_none() && map.before(range).is_some());
    }
    assert_eq!(
        map.ranges[1..3].iter().map(|it| it.leaves).collect::<Vec<_>>(),
        [Some(CellId(3)), None]
    );
    // The new cell learns both. It replaces a copy of the one, and the primary of the other.
    for range in [1, 2] {
        let cell = CellId(4);
        assert_eq!(refused(&mut map, &|map| Command::Learn { at: at(map, range), cell }), None);
        assert_eq!(map.ranges[range].releases(), None, "it has not all");
        assert_eq!(refused(&mut map, &|map| Command::Admit { at: at(map, range), cell }), None);
    }
    assert_eq!((map.ranges[1].releases(), map.ranges[1].hands_over_to()), (Some(CellId(3)), None));
    let (cell, why) = (CellId(3), Why::Replaced);
    assert_eq!(refused(&mut map, &|map| Command::Drop { at: at(map, 1), cell, why }), None);
    let hands = |map: &Map| Command::HandOver { at: at(map, 2), cell: CellId(4) };
    assert_eq!(refused(&mut map, &hands), None);
    assert_eq!(parts(&map.ranges[1]), (2, vec![4], None, 2));
    assert_eq!(parts(&map.ranges[2]), (4, vec![3], None, 3));
    assert!(map.ranges.iter().all(|it| it.moves_to.is_none() && it.leaves.is_none()));
}

/// Of two that are ordered at the same time, one would leave too few.
#[test]
fn enough_cells_stay_for_the_copies_of_ranges_unless_it_is_forced() {
    let mut map = formed(3, 2);
    let leaves = |cell, is_forced| {
        let how = Leaving { is_absorbed: true, is_forced };
        Command::Leave { cell: CellId(cell), life: Incarnation(1), how }
    };
    assert!(is_applied(&mut map, leaves(1, false)));
    assert_eq!(map.apply(&leaves(2, false)), Verdict::Refused(Refusal::TooFewStay));
    assert!(is_applied(&mut map, leaves(2, true)));
    assert_eq!(map.apply(&leaves(3, true)), Verdict::Refused(Refusal::TooFewStay), "the last one");
    assert!(is_applied(&mut map, leaves(1, true)), "it leaves already");
}

/// Two cells of which one leads all share it, though nobody learns anything.
#[test]
fn a_division_for_a_copy_hands_half_of_it_over() {
    let mut map = formed(3, 2);
    let at = |map: &Map, range: usize| map.ranges[range].stamp();
    let copy = CellId(2);
    let into = Division { slice: 99, cell: copy };
    let divide = Command::Divide { at: at(&map, 0), into };
    assert!(is_applied(&mut map, divide));
    assert_eq!(map.ranges[0].expects(), None, "it has everything");
    let mut left = map.clone();
    let how = Leaving { is_absorbed: false, is_forced: true };
    assert!(is_applied(&mut left, Command::Leave { cell: copy, life: Incarnation(1), how }));
    assert_eq!((left.ranges[0].divides, &left.ranges[0].copies[..]), (None, &[copy][..]));
    let steps: [&dyn Fn(&Map) -> Command; 2] = [&|map| Command::Split { at: at(map, 0) }, &|map| {
        Command::HandOver { at: at(map, 1), cell: copy }
    }];
    for step in steps {
        let command = step(&map);
        assert!(is_applied(&mut map, command), "{command:?}");
    }
    assert_eq!(parts(&map.ranges[0]), (1, vec![2], None, 2));
    assert_eq!(parts(&map.ranges[1]), (2, vec![1], None, 3));
    assert!(map.ranges[..2].iter().all(|it| !it.is_ordered() && it.leaves.is_none()));
}

/// The cell for which it is divided has become a copy meanwhile: nobody is replaced by itself.
#[test]
fn a_division_for_a_cell_that_has_become_a_copy_replaces_none() {
    let mut map = formed(3, 2);
    map.apply(&Command::Join { token: 9, started: started(1) });
    let at = |map: &Map| map.ranges[0].stamp();
    let (copy, spare) = (CellId(2), CellId(4));
    let steps: [&dyn Fn(&Map) -> Command; 5] = [
        &|map| Command::Divide { at: at(map), into: Division { slice: 99, cell: spare } },
        &|map| Command::Drop { at: at(map), cell: copy, why: Why::Silent },
        &|map| Command::Learn { at: at(map), cell: spare },
        &|map| Command::Admit { at: at(map), cell: spare },
        &|map| Command::Split { at: at(map) },
    ];
    for step in steps {
        let command = step(&map);
        assert!(is_applied(&mut map, command), "{command:?}");
    }
    let [lower, upper] = [0, 1].map(|range| &map.ranges[range]);
    assert_eq!((lower.releases(), lower.moves_to), (None, None));
    assert_eq!(upper.hands_over_to(), Some(spare));
}

#[test]
fn a_primary_that_leaves_hands_over_also_what_lacks_a_copy_to_one_that_has_it() {
    let mut map = formed(4, 3);
    let at = |map: &Map| map.ranges[0].stamp();
    let (one, two, three, four) = (CellId(1), CellId(2), CellId(3), CellId(4));
    let at_0 = at(&map);
    assert!(is_applied(&mut map, Command::Drop { at: at_0, cell: three, why: Why::Silent }));
    let moves = |map: &Map, cell| Command::Move { at: at(map), cell, from: None };
    let command = moves(&map, two);
    assert_eq!(map.apply(&command), Verdict::Refused(Refusal::Busy));
    let how = Leaving { is_absorbed: false, is_forced: true };
    assert!(is_applied(&mut map, Command::Leave { cell: one, life: Incarnation(1), how }));
    let command = moves(&map, four);
    assert_eq!(map.apply(&command), Verdict::Refused(Refusal::Busy), "it has nothing");
    let command = moves(&map, two);
    assert!(is_applied(&mut map, command));
}

#[test]
fn a_cell_leads_a_bounded_number_of_ranges_by_division() {
    let mut map = formed(3, 1);
    let mut last = None;
    for _ in 0..20 {
        let range = map.ranges[0].clone();
        let into = Division { slice: range.start + 1 + range.end / 2, cell: CellId(2) };
        last = Some(map.apply(&Command::Divide { at: range.stamp(), into }));
        let at = map.ranges[0].stamp();
        map.apply(&Command::Split { at });
        let gone = map.ranges[1].stamp();
        map.apply(&Command::Drop { at: gone, cell: CellId(2), why: Why::Silent });
        assert_eq!(map.fault(), None);
    }
    assert_eq!(last, Some(Verdict::Refused(Refusal::TooManyRanges)));
    assert_eq!(map.ranges.iter().filter(|it| it.primary == CellId(1)).count(), 12);
}

#[test]
fn two_ranges_of_the_same_cells_become_one_in_an_epoch_above_both() {
    let mut map = formed(3, 2);
    let at = |map: &Map, range: usize| map.ranges[range].stamp();
    let unite = |map: &Map, lower| Command::Unite { at: at(map, lower), with: at(map, lower + 1) };
    let merge = |map: &Map, lower| Command::Merge { at: at(map, lower), with: at(map, lower + 1) };
    let refused = |map: &mut Map, command| match map.apply(&command) {
        Verdict::Refused(why) => Some(why),
        Verdict::Applied { .. } => None,
    };
    let command = unite(&map, 0);
    assert_eq!(refused(&mut map, command), Some(Refusal::NotEligible), "others have them");
    // Range 1 moves to its copy, cell 2, and cell 1 is replaced by cell 3: both are of 2 and 3.
    let steps: [&dyn Fn(&Map) -> Command; 5] = [
        &|map| Command::Move { at: at(map, 0), cell: CellId(2), from: None },
        &|map| Command::HandOver { at: at(map, 0), cell: CellId(2) },
        &|map| Command::Move { at: at(map, 0), cell: CellId(3), from: Some(CellId(1)) },
        &|map| Command::Learn { at: at(map, 0), cell: CellId(3) },
        &|map| Command::Admit { at: at(map, 0), cell: CellId(3) },
    ];
    for step in steps {
        let command = step(&map);
        assert_eq!(refused(&mut map, command), None, "{command:?}");
    }
    let command = unite(&map, 0);
    assert_eq!(refused(&mut map, command), Some(Refusal::NotEligible), "one is being replaced");
    let (at_0, cell) = (at(&map, 0), CellId(1));
    assert!(is_applied(&mut map, Command::Drop { at: at_0, cell, why: Why::Replaced }));
    let (command, early) = (unite(&map, 0), merge(&map, 0));
    assert_eq!(refused(&mut map, early), Some(Refusal::NotEligible), "nobody wants that");
    assert_eq!(refused(&mut map, command), None);
    assert!(map.ranges[..2].iter().all(Range::is_to_be_sealed));
    // What changes one of them ends the order, for both.
    let mut other = map.clone();
    let (at_1, cell) = (at(&other, 1), CellId(3));
    assert!(is_applied(&mut other, Command::Drop { at: at_1, cell, why: Why::Silent }));
    assert!(other.ranges.iter().all(|range| !range.is_ordered()));
    assert_ne!(at(&other, 0), at(&map, 0), "a proposal of before is refused");
    // The proposer of what is refused because of the upper one does not wait for the lower one.
    let mut late = map.clone();
    let Command::Merge { at: at_0, mut with } = merge(&late, 0) else { unreachable!() };
    with.config -= 1;
    assert_eq!(refused(&mut late, Command::Merge { at: at_0, with }), Some(Refusal::NotEligible));
    // What settles a proposal about one of them is of both.
    let mut settled = map.clone();
    let (command, at_0) = (merge(&settled, 0), at(&settled, 0));
    assert!(is_applied(&mut settled, Command::Settle { at: at_0 }));
    assert_eq!(refused(&mut settled, command), Some(Refusal::Changed));
    assert!(settled.ranges[0].is_ordered() && at(&settled, 1) != at(&map, 1));
    let before = map.clone();
    let command = merge(&map, 0);
    assert_eq!(refused(&mut map, command), None);
    assert_eq!((map.fault(), map.ranges.len()), (None, 2));
    let range = &map.ranges[0];
    assert_eq!((range.id.0, range.start, range.end), (1, 0, before.ranges[1].end));
    assert_eq!(parts(range), (2, vec![3], None, 3), "above 2 and 1");
    assert!(before.ranges[..2].iter().all(|it| range.follows(it)));
    assert_eq!(before.overlapping(range).map(|it| it.id.0).collect::<Vec<_>>(), [1, 2]);
    // The next epoch is of one range alone.
    let (mut next, at_0) = (map.clone(), at(&map, 0));
    assert!(is_applied(
        &mut next,
        Command::Promote { at: at_0, cell: CellId(3), why: Why::Silent }
    ));
    assert!(next.ranges[0].made_of.is_empty() && !next.ranges[0].follows(range));
    let command = merge(&before, 0);
    assert_eq!(refused(&mut map, command), Some(Refusal::Changed), "it is over");
}

#[test]
fn a_cell_that_leaves_begins_nothing_and_its_ranges_come_back_unless_it_is_absorbed() {
    let absorbed = [false, true];
    for is_absorbed in absorbed {
        let mut map = formed(4, 2);
        let at = |map: &Map, range: usize| map.ranges[range].stamp();
        let (one, two, three) = (CellId(1), CellId(2), CellId(3));
        let how = Leaving { is_absorbed, is_forced: false };
        let leave = |cell, life| Command::Leave { cell, life: Incarnation(life), how };
        assert_eq!(map.apply(&leave(one, 2)), Verdict::Refused(Refusal::OldLife));
        // A learner is none any more, nor one to which something is to move.
        let moves =
            |range, cell| move |map: &Map| Command::Move { at: at(map, range), cell, from: None };
        let command = moves(1, one)(&map);
        assert!(is_applied(&mut map, command));
        let at_1 = at(&map, 1);
        assert!(is_applied(&mut map, Command::Learn { at: at_1, cell: one }));
        let command = moves(3, one)(&map);
        assert!(is_applied(&mut map, command), "it is a copy of that");
        assert!(is_applied(&mut map, leave(one, 1)));
        assert!(map.ranges.iter().all(|range| !range.is_ordered() && range.learner.is_none()));
        assert_eq!(map.leaving(one), Some(how));
        let command = moves(1, one)(&map);
        assert_eq!(map.apply(&command), Verdict::Refused(Refusal::Leaves));
        // What it has led is led by others, and comes back, if it is not absorbed.
        let command = moves(0, two)(&map);
        assert!(is_applied(&mut map, command));
        let at_0 = at(&map, 0);
        assert!(is_applied(&mut map, Command::HandOver { at: at_0, cell: two }));
        let range = &map.ranges[0];
        assert_eq!((range.home, range.is_absorbed), ((!is_absorbed).then_some(one), is_absorbed));
        let (mut dead, at_0) = (map.clone(), at(&map, 0));
        let why = Why::Silent;
        assert!(is_applied(&mut dead, Command::Promote { at: at_0, cell: one, why }));
        assert_eq!(dead.ranges[0].home, None, "that is its home, or it has none");
        assert!(is_applied(&mut map, Command::Start { cell: one, started: started(2) }));
        assert_eq!(map.leaving(one), None);
        // An operator wants it to be elsewhere.
        let drops = Command::Learn { at: at(&map, 0), cell: three };
        assert!(is_applied(&mut map, drops));
        let at_0 = at(&map, 0);
        assert!(is_applied(&mut map, Command::Admit { at: at_0, cell: three }));
        let command = moves(0, three)(&map);
        assert!(is_applied(&mut map, command));
        let at_0 = at(&map, 0);
        assert!(is_applied(&mut map, Command::HandOver { at: at_0, cell: three }));
        assert_eq!(map.ranges[0].home, None);
        assert_eq!(map.fault(), None);
    }
}

#[test]
fn who_would_take_the_place_of_a_cell_that_stays_after_all_stops_learning_it() {
    let mut map = formed(4, 2);
    let at = |map: &Map, range: usize| map.ranges[range].stamp();
    let (one, four) = (CellId(1), CellId(4));
    let how = Leaving { is_absorbed: true, is_forced: false };
    assert!(is_applied(&mut map, Command::Leave { cell: one, life: Incarnation(1), how }));
    // Its range is handed over, its copy is replaced; another range moves for another reason.
    let copy = map.ranges.iter().position(|it| it.copies.contains(&one)).expect("it is a copy");
    let orders = [(0, CellId(3), None), (copy, CellId(2), Some(one)), (1, four, None)];
    for (range, cell, from) in orders {
        let ordered = Command::Move { at: at(&map, range), cell, from };
        assert!(is_applied(&mut map, ordered));
        let learns = Command::Learn { at: at(&map, range), cell };
        assert!(is_applied(&mut map, learns));
    }
    assert!(is_applied(&mut map, Command::Stay { cell: one, life: Incarnation(1) }));
    for range in [0, copy] {
        let range = &map.ranges[range];
        assert!(!range.is_ordered() && range.learner.is_none() && range.is_in_sync(one));
    }
    assert_eq!((map.ranges[1].moves_to, map.ranges[1].learner), (Some(four), Some(four)));
    // Said once more, or of a cell that did not leave, it ends nothing.
    let stays = Command::Stay { cell: CellId(2), life: Incarnation(1) };
    assert_eq!(map.ranges[1].primary, CellId(2));
    assert!(is_applied(&mut map, stays));
    assert_eq!((map.ranges[1].moves_to, map.ranges[1].learner), (Some(four), Some(four)));
    assert_eq!(map.fault(), None);
}

#[test]
fn ranges_that_a_cell_is_to_lead_count_before_it_leads_them() {
    let mut map = formed(3, 2);
    let (begin, end) = (map.ranges[0].clone(), map.ranges[0].end);
    // Many ranges of cell 2, all copied by cell 1.
    let many = ORDERED_MAX as u16 + 3;
    let range = |nth: u16| Range {
        id: RangeId(100 + u32::from(nth)),
        start: nth,
        end: if nth + 1 == many { end } else { nth + 1 },
        primary: CellId(2),
        copies: vec![CellId(1)],
        ..begin.clone()
    };
    map.ranges.splice(0..1, (0..many).map(range));
    assert_eq!(map.fault(), None);
    let ordered = (0..usize::from(many)).filter(|nth| {
        let at = map.ranges[*nth].stamp();
        is_applied(&mut map, Command::Move { at, cell: CellId(1), from: None })
    });
    assert_eq!(ordered.count(), ORDERED_MAX);
    // Those of a cell that leaves are led by their copy, as after a failover.
    let how = Leaving { is_absorbed: false, is_forced: false };
    let leave = Command::Leave { cell: CellId(2), life: Incarnation(1), how };
    assert!(is_applied(&mut map, leave));
    let at = map.ranges[usize::from(many) - 1].stamp();
    assert!(is_applied(&mut map, Command::Move { at, cell: CellId(1), from: None }));
}

/// What the range will be compared with after one more change.
fn bumped(map: &Map) -> super::Stamp {
    let stamp = map.ranges[0].stamp();
    super::Stamp { config: stamp.config + 1, ..stamp }
}

#[test]
fn a_new_life_proves_that_the_one_before_has_ended() {
    let mut map = formed(3, 2);
    let again = |cell, life| Command::Start { cell: CellId(cell), started: started(life) };
    assert!(is_applied(&mut map, again(1, 2)));
    assert_eq!(parts(&map.ranges[0]), (2, vec![], None, 2), "its copy follows it");
    assert_eq!(parts(&map.ranges[2]), (3, vec![], None, 1), "it was a copy");
    assert_eq!(map.ranges[0].losses, 0);
    assert_eq!(map.apply(&again(1, 1)), Verdict::Refused(Refusal::OldLife));
    assert!(is_applied(&mut map, again(2, 2)));
    assert_eq!(parts(&map.ranges[0]), (2, vec![], None, 3), "it was the last copy");
    assert_eq!(map.ranges[0].losses, 1);
    let before = map.ranges.clone();
    assert!(is_applied(&mut map, again(3, 1)), "it runs on at another address");
    assert_eq!(map.ranges, before);
}

fn commands() -> impl Strategy<Value = Vec<(u8, u8, u8, bool)>> {
    let kind = prop_oneof![0_u8..=18, Just(1), Just(7), Just(7), 8_u8..=14, 4_u8..=5];
    proptest::collection::vec((kind, any::<u8>(), any::<u8>(), any::<bool>()), 0..200)
}

proptest! {
    #[test]
    fn no_order_breaks_the_map(cells in 1_u32..6, copies in 1_u8..4, list in commands()) {
        let mut map = formed(cells, copies);
        // By range, the cells that have all that was acknowledged, in memory or in a journal.
        let of = |range: &Range| range.in_sync().collect::<BTreeSet<_>>();
        let mut have: BTreeMap<_, _> = map.ranges.iter().map(|it| (it.id, of(it))).collect();
        for (kind, range, cell, fresh) in list {
            // What a primary acknowledges while it waits for no journal has nobody else.
            for range in map.ranges.iter().filter(|range| range.journals.is_empty() && fresh) {
                let have = have.get_mut(&range.id).expect("it is known");
                have.retain(|cell| range.is_in_sync(*cell));
            }
            let other = CellId(u32::from(cell) / 8 % cells + 1);
            let slice = u16::from(cell) * 64;
            let cell = CellId(u32::from(cell) % (cells + 1) + 1);
            let number = usize::from(range) % map.ranges.len();
            let with = map.ranges[(number + 1) % map.ranges.len()].stamp();
            let mut at = map.ranges[number].stamp();
            at.config -= u64::from(!fresh);
            let life = map.cells.get(&cell).map_or(1, |it| it.started.incarnation.0);
            let command = match kind {
                0 => Command::Join { token: u64::from(cell.0), started: started(life) },
                1 => Command::Start { cell, started: started(life + u64::from(fresh)) },
                2 => Command::Promote { at, cell, why: Why::Silent },
                3 => Command::Drop { at, cell, why: Why::Silent },
                4 => Command::Learn { at, cell },
                5 => Command::Admit { at, cell },
                8 => Command::Move { at, cell, from: None },
                9 => Command::HandOver { at, cell },
                10 => Command::Move { at, cell, from: Some(other) },
                11 => Command::Divide { at, into: Division { slice, cell } },
                12 => Command::Split { at },
                13 => Command::Unite { at, with },
                14 => Command::Merge { at, with },
                15 => {
                    let how = Leaving { is_absorbed: fresh, is_forced: true };
                    Command::Leave { cell, life: Incarnation(life), how }
                }
                16 => Command::Stay { cell, life: Incarnation(life) },
                17 => Command::Remove { cell, life: Incarnation(life) },
                18 => Command::Use { edition: 1 },
                7 => {
                    let started = Started { has_journal: true, ..started(life + 1) };
                    Command::Start { cell, started }
                }
                _ => Command::Settle { at },
            };
            let before = map.clone();
            match map.apply(&command) {
                Verdict::Refused(_) => assert_eq!(map, before),
                Verdict::Applied { version, .. } => assert_eq!(version, before.version + 1),
            }
            assert_eq!(map.fault(), None);
            let is_new_life = map.cells.get(&cell).map(|it| it.started.incarnation)
                != before.cells.get(&cell).map(|it| it.started.incarnation);
            for new in &map.ranges {
                let old = before.before(new).expect("a range covers it");
                let olds = before.overlapping(new);
                let rises = |old: &Range| new.epoch >= old.epoch && new.config >= old.config;
                assert!(olds.clone().all(rises));
                let of_olds = olds.map(|old| have.get(&old.id).cloned().expect("it is known"));
                let of_all = of_olds.reduce(|one, other| &one & &other);
                have.insert(new.id, of_all.expect("ranges cover it"));
                let have = have.get_mut(&new.id).expect("it was inserted");
                let is_new = new.epoch > old.epoch;
                let is_split = [12, 14].contains(&kind) && at.range == old.id && is_new;
                if is_new_life && kind == 1 {
                    have.remove(&cell);
                }
                if new.losses > old.losses {
                    *have = of(new);
                }
                have.extend((kind == 5 && new.is_in_sync(cell)).then_some(cell));
                let mut counts = new.in_sync().chain(new.journals.iter().copied());
                assert!(counts.all(|cell| have.contains(&cell)), "only what has all counts");
                let begins = new.primary != old.primary || new.losses > old.losses || is_split;
                assert!(is_new == begins || is_new && kind == 7 && new.is_recovered);
            }
        }
    }
}

/// As it is sent, and kept: also where each range has changed often, and is to move.
#[test]
fn a_map_of_a_thousand_cells_has_300_kilobytes_at_most() {
    let mut map = Map::new(u64::MAX, 1_000, 2);
    for token in 0..1_000_u64 {
        let at = |port| SocketAddr::from(([10, 255, (token / 250) as u8, token as u8 % 250], port));
        let addresses = Addresses { control: at(11_311), links: at(11_411), clients: at(11_211) };
        let (token, started) = (u64::MAX - token, Started::new(Incarnation(9), addresses));
        map.apply(&Command::Join { token, started });
    }
    for range in &mut map.ranges {
        (range.epoch, range.config, range.home) = (1_000, 100_000, Some(CellId(1_000)));
    }
    let bytes = serde_json::to_vec(&map).expect("it is data").len();
    assert_eq!((map.ranges.len(), map.fault()), (1_000, None));
    assert!(bytes <= 300_000, "{bytes}");
}
