//! Changes that are given up.

use crate::calls::{Calls, Moment};
use crate::cell::{Cell, NOW};
use crate::life::Config;
use crate::model::{Item, KeyModel, KeyState};
use crate::number;
use crate::ring_cell::{self, RingCell};

use backend::{Fault as BackendFault, MemoryBackend};
use base::{Change, Facts, Now, Refused, SLICES, SliceId, Value};
use faulty::disk::SimDisk;
use measure::rng::Rng;
use std::sync::{Arc, Mutex};
use tier::{Discard, Discarded, Failure, Stored};

/// When changes that were durable at [`NOW`] are old enough.
const LATER: Now = Now { mono_ns: NOW.mono_ns + 5_000_000_000, ..NOW };

fn key(cell: &Cell, at: usize) -> Discard {
    Discard::Keys(vec![cell.keys[at].key.clone().into()])
}

/// Asks for changes to be given up, and writes that to the journal.
fn ask(cell: &Cell, which: Discard, now: Now) {
    assert!(cell.life.tier.discard(which), "nothing else is given up");
    cell.life.tier.carry_out_discards(now, |it| panic!("{it:?} is given up before that counts"));
}

/// What came of it, once it is durable.
fn finish(cell: &Cell, now: Now) -> Discarded {
    let (before, _) = cell.life.tier.discarded();
    cell.life.tier.sync(now);
    cell.life.tier.carry_out_discards(now, |_| {});
    let (count, discarded) = cell.life.tier.discarded();
    assert_eq!(count, before + 1, "something came of it");
    assert_eq!(discarded.failure, None);
    discarded
}

fn found(cell: &Cell, at: usize) -> KeyState {
    cell.life.load(&cell.keys[at], NOW).expect("nothing fails")
}

/// What lies below.
fn below(cell: &Cell, key: &KeyModel) -> KeyState {
    let record = cell.backend.memory.records().remove(&key.key)?;
    Some(Item::of(&Stored::decode(&key.key, record).expect("a record")))
}

fn end_batch(cell: &mut Cell) {
    cell.life.sink.end_batch();
    cell.life.tier.write();
}

#[test]
fn what_is_given_up_is_so_after_a_restart_and_what_lies_below_counts() {
    for power_cut in [false, true] {
        let mut cell = Cell::new(Config::shortest(2), 5);
        (0..4).for_each(|at| cell.set(at, 100).expect("there is room"));
        cell.life.drain(NOW).expect("nothing fails");
        let old: Vec<_> = (0..4).map(|at| found(&cell, at)).collect();
        for at in [0, 3, 4] {
            cell.set(at, 200).expect("there is room");
        }
        let Cell { life, keys, given, .. } = &mut cell;
        life.delete(given, &mut keys[1]).expect("there is room");
        let item = old[2].clone().expect("it is there");
        life.touch(given, &mut keys[2], &item, (NOW.expiry_s + 99, false)).expect("room");
        end_batch(&mut cell);
        cell.sync();
        // No batch says that this is durable: the next start writes it once more, and what follows.
        cell.set(3, 300).expect("there is room");
        let kept = found(&cell, 3);
        let names = |cell: &Cell, all: &[usize]| {
            Discard::Keys(all.iter().map(|at| cell.keys[*at].key.clone().into()).collect())
        };
        ask(&cell, names(&cell, &[0, 1, 2, 4]), LATER);
        let discarded = finish(&cell, LATER);
        let what: Vec<_> = discarded.given_up.iter().map(|it| it.what).collect();
        assert_eq!(what, ["value", "removal", "touch", "value"]);
        assert_eq!(cell.life.tier.dirty(), 1);
        for _ in 0..3 {
            let now: Vec<_> = (0..5).map(|at| found(&cell, at)).collect();
            let expected = [&old[0], &old[1], &old[2], &kept, &None];
            assert_eq!(now.iter().collect::<Vec<_>>(), expected);
            match power_cut {
                true => cell.disk.cut_power(&mut Rng::new(1, 0)),
                false => cell.disk.kill(),
            }
            let on = (&cell.disk, &cell.backend);
            cell.life = crate::cell::begin(on, &cell.config, &cell.given).expect("it begins");
            assert_eq!(cell.life.tier.dirty(), 1, "what is given up is not found again");
        }
        cell.life.drain(NOW).expect("nothing fails");
        assert_eq!(
            (below(&cell, &cell.keys[0]), below(&cell, &cell.keys[3])),
            (old[0].clone(), kept)
        );
    }
}

#[test]
fn nothing_is_given_up_before_that_is_durable_or_while_replies_may_wait() {
    let mut cell = Cell::new(Config::shortest(1), 2);
    cell.set(0, 100).expect("there is room");
    cell.sync();
    assert!(cell.life.tier.discard(key(&cell, 0)));
    cell.life.tier.carry_out_discards(NOW, |it| panic!("{it:?} is young"));
    cell.life.tier.sync(NOW);
    cell.life.tier.carry_out_discards(NOW, |it| panic!("{it:?} is young"));
    assert_eq!(cell.life.tier.discarded().1.young, 1);
    let is = found(&cell, 0);
    ask(&cell, key(&cell, 0), LATER);
    assert!(!cell.life.tier.discard(key(&cell, 1)), "one at a time");
    cell.life.tier.carry_out_discards(LATER, |it| panic!("{it:?} is not durable yet"));
    assert_eq!(found(&cell, 0), is, "it is not durable yet");
    cell.disk.cut_power(&mut Rng::new(1, 0));
    let on = (&cell.disk, &cell.backend);
    cell.life = crate::cell::begin(on, &cell.config, &cell.given).expect("it begins");
    let now = found(&cell, 0);
    assert!(now == is || now.is_none(), "one or the other: {now:?}");
}

#[test]
fn what_changes_again_meanwhile_is_not_given_up() {
    let mut cell = Cell::new(Config::shortest(1), 2);
    (0..2).for_each(|at| cell.set(at, 100).expect("there is room"));
    cell.life.drain(NOW).expect("nothing fails");
    let old = found(&cell, 1).expect("it is there");
    (0..2).for_each(|at| cell.set(at, 200).expect("there is room"));
    cell.sync();
    ask(&cell, Discard::Prefix(b"key-"[..].into()), LATER);
    cell.set(0, 300).expect("there is room");
    touch(&mut cell, 1);
    let discarded = finish(&cell, LATER);
    assert_eq!((discarded.changed, discarded.given_up.len()), (1, 1));
    for _ in 0..2 {
        assert_eq!(found(&cell, 0).map(|it| it.value.len()), Some(300));
        // The touch is one of what lies below.
        let touched = found(&cell, 1).expect("it is there");
        assert_eq!((touched.value, touched.expiry_s), (old.value.clone(), NOW.expiry_s + 99));
        cell.disk.kill();
        let on = (&cell.disk, &cell.backend);
        cell.life = crate::cell::begin(on, &cell.config, &cell.given).expect("it begins");
    }
}

fn touch(cell: &mut Cell, at: usize) {
    let Cell { life, keys, given, .. } = &mut *cell;
    let item = life.load(&keys[at], NOW).expect("nothing fails").expect("it is there");
    life.touch(given, &mut keys[at], &item, (NOW.expiry_s + 99, false)).expect("room");
    end_batch(cell);
}

/// The touch is not durable when all that is durable is written back.
#[test]
fn what_is_touched_just_after_it_was_given_up_is_not_written_back() {
    let mut cell = Cell::new(Config::shortest(1), 1);
    cell.set(0, 100).expect("there is room");
    cell.life.drain(NOW).expect("nothing fails");
    cell.set(0, 200).expect("there is room");
    cell.sync();
    ask(&cell, key(&cell, 0), LATER);
    cell.life.tier.sync(LATER);
    touch(&mut cell, 0);
    cell.life.tier.carry_out_discards(LATER, |_| {});
    assert_eq!(cell.life.tier.discarded().1.given_up.len(), 1);
    for expiry_s in [0, NOW.expiry_s + 99] {
        cell.life.tier.flush(LATER, true).expect("nothing fails");
        let below = below(&cell, &cell.keys[0]).expect("it is there");
        assert_eq!((below.value.len(), below.expiry_s), (100, expiry_s));
        cell.sync();
    }
}

/// The change is touched after it was chosen, and before the journal says that it is given up.
#[test]
fn what_is_touched_just_before_it_is_given_up_does_not_come_back() {
    let disk = SimDisk::new(1);
    let on = Calls::on(&disk);
    let mut led = RingCell::begin_on((&disk, on.clone()), Arc::new(MemoryBackend::new()));
    led.is_promoted();
    led.leads(ring_cell::led(10), Change::Put(Value::Parts([b"value", b""]), Facts::default()));
    led.sync();
    let tier = led.tier.clone();
    let led = Arc::new(Mutex::new(led));
    let touches = led.clone();
    on.call(Moment::Reads, move || {
        let mut led = touches.lock().expect("no thread has failed");
        led.leads(ring_cell::led(20), Change::Touch(77, None));
    });
    let now = |second: u64| Now { mono_ns: second * 1_000_000_000, ..Now::default() };
    assert!(tier.discard(Discard::Keys(vec![ring_cell::KEY.into()])));
    for second in 60..70 {
        tier.carry_out_discards(now(second), |_| {});
        tier.sync(now(second));
    }
    assert_eq!(tier.discarded().1.given_up.len(), 1);
    drop(tier);
    let led = Arc::into_inner(led).expect("it was called").into_inner();
    let led = led.expect("no thread has failed");
    assert_eq!((led.finds(), led.tier.dirty()), (None, 0));
    let led = led.begin_again();
    assert_eq!((led.finds(), led.tier.dirty()), (None, 0));
}

#[test]
fn of_a_run_all_keys_are_given_up_and_no_others() {
    const RUNS: usize = 4;
    let mut cell = Cell::new(Config::shortest(2), 40);
    cell.backend.group_by(SLICES / RUNS);
    (0..40).for_each(|at| cell.set(at, 100).expect("there is room"));
    cell.sync();
    for run in 0..=RUNS {
        let is_of = |key: &&KeyModel| key.slice.index() / (SLICES / RUNS) == run;
        let of_run = cell.keys.iter().filter(is_of).count();
        assert!(run == RUNS || of_run > 0, "each has some");
        ask(&cell, Discard::Run(run), LATER);
        let discarded = finish(&cell, LATER);
        assert_eq!(discarded.given_up.len(), of_run);
        assert!(
            discarded
                .given_up
                .iter()
                .all(|it| SliceId::of(&it.key).index() / (SLICES / RUNS) == run)
        );
    }
    assert_eq!(cell.life.tier.dirty(), 0);
}

#[test]
fn a_full_journal_takes_changes_again_when_what_is_refused_is_given_up() {
    let mut cell = Cell::new(Config::shortest(1), 40);
    let mut set = 0;
    while cell.set(set % 40, 15_000) != Err(Refused::Full) {
        cell.sync();
        set += 1;
        assert!(set < 10_000, "it is full in the end");
    }
    cell.backend.memory.fail_applies(1000, BackendFault::Refused(Failure::Permanent));
    let refused = cell.life.tier.flush(NOW, true);
    assert!(refused.is_err() && cell.set(0, 15_000).is_err());
    ask(&cell, Discard::Prefix(b"key-"[..].into()), LATER);
    assert_eq!(finish(&cell, LATER).given_up.len(), 40);
    for _ in 0..10 {
        // Nothing is left to be written back.
        cell.life.tier.flush(LATER, true).expect("nothing is refused");
        cell.life.tier.sync(LATER);
    }
    cell.set(0, 15_000).expect("there is room");
}

/// Its reply may wait until the touch is below.
#[test]
fn what_was_touched_a_moment_ago_is_not_given_up() {
    let mut cell = Cell::new(Config::shortest(1), 1);
    cell.set(0, 100).expect("there is room");
    cell.sync();
    let mut tried = |(after_s, touches): (u64, bool)| {
        if touches {
            touch(&mut cell, 0);
        }
        let now = Now { mono_ns: LATER.mono_ns + after_s * 1_000_000_000, ..LATER };
        cell.life.tier.sync(now);
        ask(&cell, key(&cell, 0), now);
        let discarded = finish(&cell, now);
        (discarded.young, discarded.given_up.len())
    };
    let times = [(0, true), (10, true), (20, true), (22, false), (30, false)];
    assert_eq!(times.map(&mut tried), [(1, 0), (1, 0), (1, 0), (1, 0), (0, 1)]);
}

#[test]
fn random_lives_in_which_changes_are_given_up() {
    let mut count = 0;
    for seed in 0..number("CRASH_SEEDS").unwrap_or(8) {
        let mut rng = Rng::new(seed, 11);
        let mut cell = Cell::new(Config::shortest(1 + seed as usize % 3), 8);
        let mut now = NOW;
        for _ in 0..200 {
            let at = rng.below(8) as usize;
            match rng.below(14) {
                0..5 => _ = cell.set(at, 100),
                5 => {
                    let Cell { life, keys, given, .. } = &mut cell;
                    let _ = life.delete(given, &mut keys[at]);
                    end_batch(&mut cell);
                }
                6 => {
                    let item = found(&cell, at);
                    let Cell { life, keys, given, .. } = &mut cell;
                    if let Some(item) = item {
                        let _ = life.touch(given, &mut keys[at], &item, (0, false));
                    }
                    end_batch(&mut cell);
                }
                7..9 => cell.life.tier.sync(now),
                9 => {
                    if rng.below(2) == 0 {
                        let fault = BackendFault::Refused(Failure::Transient);
                        cell.backend.memory.fail_applies(1, fault);
                    }
                    let _ = cell.life.tier.flush(now, true);
                    cell.backend.memory.clear_faults();
                }
                10..12 => {
                    cell.life.tier.sync(now);
                    now.mono_ns += 5_000_000_000;
                    ask(&cell, key(&cell, at), now);
                    let mut discarded = finish(&cell, now);
                    if discarded.young == 1 {
                        // It was touched, at a time that nobody knows.
                        now.mono_ns += 5_000_000_000;
                        ask(&cell, key(&cell, at), now);
                        discarded = finish(&cell, now);
                    }
                    assert_eq!((discarded.young, discarded.changed), (0, 0), "seed {seed}");
                    if discarded.given_up.len() == 1 {
                        count += 1;
                        let state = below(&cell, &cell.keys[at]);
                        cell.keys[at].settle(state);
                    }
                }
                12 => {
                    let found = found(&cell, at);
                    let checked = cell.keys[at].check(&found, NOW);
                    checked.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
                }
                _ => {
                    cell.end();
                    if rng.below(2) == 0 {
                        cell.disk.cut_power(&mut rng);
                    }
                    cell.begin_whole(seed);
                    cell.keys.iter_mut().for_each(KeyModel::begin);
                }
            }
        }
    }
    assert!(count > 30 || number("CRASH_SEEDS").is_some(), "{count}");
}
