//! The logs under shuttle: random orders of the steps of several appenders, readers and others.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p effects --test shuttle_orders`
#![cfg(shuttle)]

mod common;

use base::{Change, Refused, SliceRange, Version};
use common::{Cell, LEVEL, SLICES, join_level, slice, watch};
use effects::{Batch, Entry, FellOut, LaneId, Mark, Part, ReaderId};
use measure::rng::Rng;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;
use std::sync::Arc;

/// Orders tried by each test: `SHUTTLE_ORDERS`, or enough for a few seconds.
fn orders() -> usize {
    std::env::var("SHUTTLE_ORDERS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000)
}

/// Tries random orders, and orders with few changes of thread, each with other dice.
fn try_orders(order: impl Fn(u64) + Clone + Send + Sync + 'static) {
    let seed = Arc::new(std::sync::atomic::AtomicU64::new(1));
    let order = move || order(seed.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    shuttle::check_random(order.clone(), orders() / 2);
    shuttle::check_pct(order, orders() / 2, 4);
}

/// Changes that each appender makes.
const CHANGES: u64 = 12;
/// How often an appender tries again while a log is full: far more than the readers need.
const TRIES_MAX: u32 = 100_000;

/// Makes changes of all kinds. Returns how many were taken, and whether the log was sealed.
fn append(cell: &Cell, seed: u64, lane: u64) -> (u64, bool) {
    let (mut dice, mut sink) = (Rng::new(seed, lane), cell.sink());
    let mut taken = 0;
    for _ in 0..CHANGES {
        let (index, kind) = (dice.below(SLICES as u64) as usize, dice.below(8));
        let value = [7; 90];
        let done = (0..TRIES_MAX).find_map(|_| {
            let done = match kind {
                0 => cell.remove(&mut sink, index).map(|_| 1),
                // Beyond what a block of these logs takes.
                1 => cell.put(&mut sink, index, &[8; 300]).map(|_| 1),
                2 => cell.flush(&mut sink).map(|places| places.len() as u64),
                length => cell.put(&mut sink, index, &value[..length as usize * 8]).map(|_| 1),
            };
            if done == Err(Refused::Full) {
                sink.end_batch();
                thread::yield_now();
                return None;
            }
            Some(done)
        });
        match done.expect("readers make room") {
            Ok(count) => taken += count,
            Err(why) => {
                assert_eq!(why, Refused::Sealed);
                return (taken, true);
            }
        }
        if dice.below(3) == 0 {
            sink.end_batch();
        }
    }
    (taken, false)
}

/// What a reader has seen of a log.
#[derive(Default)]
struct Seen {
    count: u64,
    versions: [u64; SLICES],
}

impl Seen {
    /// Reads on, and checks that versions rise with positions, without a gap in either.
    fn read(&mut self, cell: &Cell, reader: ReaderId, batch: &mut Batch) {
        cell.log().read(reader, self.count + 1, batch).expect("it holds them");
        assert_eq!(batch.first(), self.count + 1);
        for record in batch.records() {
            self.count += 1;
            assert_eq!(record.position, self.count);
            if let Entry::Change { slice, version, .. } = record.entry {
                let last = &mut self.versions[slice.index()];
                assert_eq!(version.raw(), *last + 1, "in slice {}", slice.index());
                *last = version.raw();
            }
        }
    }
}

/// Several appenders and a reader that passes its mark. At the end it has seen everything.
fn appended_and_read(seed: u64, seals: bool) {
    let cell = Cell::new(1, 3, 1);
    let reader = join_level(cell.log());
    let appenders: Vec<_> = (0..3)
        .map(|lane| {
            let cell = cell.clone();
            thread::spawn(move || append(&cell, seed, lane))
        })
        .collect();
    let running = Arc::new(AtomicU64::new(1));
    let (other, is_running) = (cell.clone(), running.clone());
    let reads = thread::spawn(move || {
        let (mut seen, mut batch) = (Seen::default(), Batch::new(200));
        while is_running.load(Ordering::Acquire) > 0 || seen.count < other.log().end() {
            seen.read(&other, reader, &mut batch);
            other.log().pass(reader, Mark::Durable, seen.count);
            thread::yield_now();
        }
        seen
    });
    let sealed = seals.then(|| cell.log().seal());
    let done = appenders.into_iter().map(|thread| thread.join().expect("no promise was broken"));
    let done: Vec<_> = done.collect();
    running.store(0, Ordering::Release);
    let seen = reads.join().expect("no promise was broken");
    assert_eq!(seen.count, done.iter().map(|(taken, _)| taken).sum::<u64>());
    assert_eq!(seen.count, cell.log().end());
    assert!(cell.log().is_settled(LEVEL));
    match sealed {
        Some(last) => {
            assert_eq!((last, cell.log().part()), (seen.count, Part::Sealed));
            assert!(done.iter().all(|(taken, sealed)| *sealed || *taken >= CHANGES));
        }
        None => {
            (0..SLICES).for_each(|index| assert_eq!(seen.versions[index], cell.version(index)));
            cell.log().leave(reader);
            assert_eq!(cell.log().used_bytes(), 0, "nothing is wanted, all room is returned");
        }
    }
}

#[test]
fn the_versions_of_a_slice_rise_with_the_positions() {
    try_orders(|seed| appended_and_read(seed, false));
}

#[test]
fn nothing_is_appended_after_the_seal() {
    try_orders(|seed| appended_and_read(seed, true));
}

#[test]
fn nothing_that_is_made_from_a_flushed_item_comes_after_the_barrier() {
    try_orders(|_| {
        let cell = Cell::new(1, 3, 1);
        let reader = join_level(cell.log());
        let old = cell.put(&mut cell.sink(), 0, b"v").expect("empty");
        let touches: Vec<_> = (0..2)
            .map(|_| {
                let cell = cell.clone();
                thread::spawn(move || {
                    let mut sink = cell.sink();
                    let touch = Change::Touch(1, None);
                    (0..3).map(|_| cell.change(&mut sink, 0, touch, Some(old))).collect()
                })
            })
            .collect();
        cell.flush(&mut cell.sink()).expect("there is room");
        let done: Vec<Vec<Result<Version, Refused>>> =
            touches.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let taken = done.iter().flatten().filter(|done| done.is_ok()).count();
        assert!(
            done.iter().flatten().flat_map(|done| done.err()).all(|why| why == Refused::Flushed)
        );
        let mut batch = Batch::new(10_000);
        cell.log().read(reader, 1, &mut batch).expect("it holds them");
        let entries: Vec<_> = batch.records().map(|record| record.entry).collect();
        let barrier = entries.iter().position(|entry| matches!(entry, Entry::Barrier(..)));
        assert_eq!((barrier, entries.len()), (Some(taken + 1), taken + 2));
    });
}

#[test]
fn what_is_before_the_barrier_is_dead_and_what_is_after_it_lives() {
    try_orders(|_| {
        let cell = Cell::new(1, 3, 1);
        let reader = join_level(cell.log());
        let puts: Vec<_> = (0..2)
            .map(|_| {
                let cell = cell.clone();
                thread::spawn(move || {
                    let mut sink = cell.sink();
                    (0..3).for_each(|_| _ = cell.put(&mut sink, 0, b"v").expect("there is room"));
                })
            })
            .collect();
        cell.flush(&mut cell.sink()).expect("there is room");
        puts.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let (mut batch, mut is_after) = (Batch::new(10_000), false);
        cell.log().read(reader, 1, &mut batch).expect("it holds them");
        for record in batch.records() {
            match record.entry {
                Entry::Change { version, .. } => {
                    assert_eq!(version.raw() > cell.barrier(0), is_after, "{version:?}");
                }
                _ => is_after = true,
            }
        }
        assert!(is_after);
    });
}

#[test]
fn a_watcher_reads_without_a_gap_or_falls_out() {
    try_orders(|seed| {
        let cell = Cell::new(1, 2, 1);
        let watcher = cell.log().join(&watch()).expect("there is a place");
        let appenders: Vec<_> = (0..2)
            .map(|lane| {
                let cell = cell.clone();
                thread::spawn(move || {
                    let mut sink = cell.sink();
                    let mut dice = Rng::new(seed, lane);
                    for _ in 0..20 {
                        let length = dice.below(300) as usize;
                        cell.put(&mut sink, 0, &[7; 300][..length]).expect("nobody holds it back");
                    }
                })
            })
            .collect();
        let (mut next, mut batch) = (1, Batch::new(500));
        for _ in 0..10 {
            match cell.log().read(watcher, next, &mut batch) {
                Ok(()) => {
                    let positions = batch.records().map(|record| record.position);
                    assert!(positions.eq(next..batch.next()));
                    next = batch.next();
                }
                Err(FellOut) => {
                    assert!(cell.log().first() > next, "it was there");
                    break;
                }
            }
        }
        appenders.into_iter().for_each(|thread| thread.join().expect("never full"));
    });
}

/// Where the changes of one slice stand, by version.
type Positions = [AtomicU64; 8];

#[test]
fn what_a_reply_shows_has_passed_when_it_leaves() {
    try_orders(|_| {
        let cell = Cell::new(2, 3, 1);
        let readers: Vec<_> = cell.lanes.logs().map(|(_, log)| join_level(log)).collect();
        let shown = Arc::new(AtomicU64::new(0));
        let positions: Arc<Positions> = Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
        let (other, item, places) = (cell.clone(), shown.clone(), positions.clone());
        let appends = thread::spawn(move || {
            let mut sink = other.sink();
            for number in 1..8_u64 {
                if number.is_multiple_of(3) {
                    other.advance(0, 100);
                }
                other.put(&mut sink, 1, b"of another slice").expect("there is room");
                other.put(&mut sink, 0, b"v").expect("there is room");
                let position = sink.last_in(slice(0)).expect("it was appended").position;
                places[number as usize].store(position, Ordering::Relaxed);
                item.store(other.version(0) << 8 | number, Ordering::Release);
            }
        });
        let (other, passes) = (cell.clone(), readers[0]);
        let marks = thread::spawn(move || {
            for _ in 0..8 {
                let (_, log) = other.lanes.logs().next().expect("a lane");
                log.pass(passes, Mark::Durable, log.end());
            }
        });
        for ask in 0..12 {
            let seen = shown.load(Ordering::Acquire);
            let version = Version::from_raw(seen >> 8);
            let position = positions[seen as usize & 7].load(Ordering::Relaxed);
            let log = cell.log();
            match cell.lanes.wait_for(LEVEL, slice(0), (ask % 2 == 0).then_some(version)) {
                None => assert!(log.passed(LEVEL, position), "{version:?} at {position}"),
                Some(wait) => assert!(wait.position >= position, "{version:?} at {position}"),
            }
        }
        appends.join().expect("no panic");
        marks.join().expect("no panic");
    });
}

#[test]
fn a_slice_moves_to_another_lane_between_two_changes() {
    try_orders(|_| {
        let cell = Cell::new(2, 2, 1);
        let readers: Vec<_> = cell.lanes.logs().map(|(_, log)| join_level(log)).collect();
        let other = cell.clone();
        let appends = thread::spawn(move || {
            let mut sink = other.sink();
            for _ in 0..6 {
                let mut put = || other.put(&mut sink, 0, b"v");
                let tried = (0..TRIES_MAX).map(|_| put()).find(|done| *done != Err(Refused::Full));
                tried.expect("there is room").expect("both lead");
            }
        });
        let lanes: Vec<LaneId> = cell.lanes.logs().map(|(lane, _)| lane).collect();
        let (mut last, mut next, mut batch) = (0, [1, 1], Batch::new(10_000));
        for turn in 0..8 {
            let moved = cell.lanes.assign(SliceRange::of(slice(0)), lanes[turn % 2]);
            let lane = cell.lanes.lane_of(slice(0));
            assert!(!moved || lane == lanes[turn % 2]);
            let log = cell.lanes.log(lane);
            let from = &mut next[lane.index()];
            log.read(readers[lane.index()], *from, &mut batch).expect("it holds them");
            for record in batch.records() {
                let Entry::Change { version, .. } = record.entry else { panic!("a change") };
                assert_eq!(version.raw(), last + 1, "in the order of lanes");
                last = version.raw();
            }
            if batch.next() > *from {
                *from = batch.next();
                log.pass(readers[lane.index()], Mark::Durable, batch.next() - 1);
            }
        }
        appends.join().expect("no panic");
    });
}
