//! A whole tier on a disk that crashes: what was promised is there, and nothing that was gone. The
//! disk, and the objects of the bucket, are those of the crate `faulty`.
//!
//! | file | what it is |
//! |---|---|
//! | `below` | the backend |
//! | `bucket` | pages in a bucket |
//! | `model` | what each key may have |
//! | `cell` | a cell that ends and begins again |
//! | `life` | one life of a cell |
//! | `world` | random lives |
//! | `due` | a flush of all that is still to come |
//! | `adopted` | a new journal above what another one has written back |
//! | `full` | a disk that is full before its journal is |
//! | `given_up` | changes that are given up |
//! | `checked` | a check of all that lies below memory |
//! | `promised` | what a cell of a ring promises of its journal |
//! | `ring_cell` | a cell of a ring |
//! | `promoted` | one that leads what it has copied |
//! | `part_over` | a cell of a ring whose part in a range is over |
//! | `single` | what a random life meets too rarely |
//!
//! All short histories are in `../histories`.
//!
//! `CRASH_SEEDS` sets how many seeds each random test takes, and `CRASH_SEED` which one alone.
#![cfg(not(any(loom, shuttle)))]

mod adopted;
#[allow(dead_code, reason = "histories use the rest of it")]
mod below;
mod bucket;
mod calls;
mod cell;
mod checked;
mod due;
mod full;
mod given_up;
#[allow(dead_code, reason = "histories use the rest of it")]
mod life;
#[allow(dead_code, reason = "histories use the rest of it")]
mod model;
mod part_over;
mod promised;
mod promoted;
mod ring_cell;
mod single;
mod touched;
mod world;

use life::Config;
use std::env;
use tier::Ack;
use world::{Counts, Plan, World};

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Whether one seed alone is wanted.
fn is_one() -> bool {
    number("CRASH_SEED").is_some()
}

/// Runs a plan under many seeds.
fn run(seeds: u64, config: Config, plan: Plan) -> Counts {
    let seeds = match number("CRASH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CRASH_SEEDS").unwrap_or(seeds),
    };
    let mut all = Counts::default();
    for seed in seeds {
        let counts = World::new(seed, config, plan).run();
        all.merge(&counts);
    }
    println!("{all:?}");
    all
}

/// Seeds of lives with every harm that found a fault once: a refused head of a segment that is used
/// again, of which the next start took the old one for missing; a head that was changed in part; a
/// name of the journal whose sync had failed; and an END of which that was so.
const ONCE_FAILED: [u64; 4] = [321, 496, 1621, 4572];

/// From this number of seeds on, each harm must have been done a thousand times.
const SEEDS_OF_A_LONG_RUN: usize = 6_000;

/// Every harm that is done to disk and backend.
fn all_harm() -> impl Iterator<Item = &'static str> {
    faulty::disk::HARM.into_iter().chain(below::HARM).chain(faulty::objects::HARM)
}

/// Lives with everything that may happen to them: `HARM_FIRST` is the first seed, `HARM_SEEDS` how
/// many there are, and `HARM_MIN` how often each harm must have been done.
#[test]
fn every_harm_is_done_and_nothing_is_lost_that_was_promised() {
    let first = number("HARM_FIRST").unwrap_or(0);
    let seeds: Vec<u64> = match (number("CRASH_SEED"), number("HARM_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, Some(count)) => (first..first + count).collect(),
        (None, None) => (0..40).chain(ONCE_FAILED).collect(),
    };
    let usual = if seeds.len() >= SEEDS_OF_A_LONG_RUN { 1_000 } else { 1 };
    let (least, mut all) = (number("HARM_MIN").unwrap_or(usual), Counts::default());
    let shortest = [1, 2, 3].map(Config::shortest);
    for seed in &seeds {
        let (at, turn) = ((seed / 2) as usize, (seed / 12) as usize);
        let config = Config { has_levels: true, ack: Ack::ALL[turn % 4], ..shortest[turn % 3] };
        let plan =
            Plan { faults: true, lives: 8, pages: Some(seed.is_multiple_of(2)), ..Plan::MIXED };
        let plan = match at % 6 {
            0 => Plan { flush_later: 20, steps: 100, ..plan },
            1 => Plan { flips: 60, lives: 12, steps: 80, ..plan },
            2 => Plan { breaks: 6, sync: 20, flush_all: 20, steps: 200, ..plan },
            3 => Plan { long: 70, flush: 12, steps: 300, flush_later: 10, ..plan },
            4 => Plan { changes_lanes: true, lives: 12, steps: 60, ..plan },
            _ => Plan { lives: 2, steps: 10, ..plan },
        };
        all.merge(&World::new(*seed, config, plan).run());
    }
    println!("{} seeds, each harm {least} times at least:", seeds.len());
    println!("{}", all.harm);
    let Counts { changes, crashes, in_begin, repairs, salvages, flushed_later, .. } = all;
    println!(
        "{changes} changes, {} crashes, {in_begin} of them in a start, {repairs} repairs, \
         {salvages} salvages, {flushed_later} flushes of all that came later",
        crashes
    );
    if !is_one() {
        let missing: Vec<_> = all_harm().filter(|name| all.harm.of(name) < least).collect();
        assert!(missing.is_empty(), "done less than {least} times: {missing:?}");
        let others = [repairs, salvages, flushed_later];
        assert!(others.iter().all(|count| *count >= least), "{others:?}");
    }
}

#[test]
fn without_a_crash_each_read_shows_the_last_change() {
    let plan = Plan { crashes: false, lives: 2, steps: 400, ..Plan::MIXED };
    let counts = run(6, Config::shortest(2), plan);
    assert!(is_one() || counts.items > 100);
}

#[test]
fn what_was_written_outlives_the_process_and_what_is_durable_a_power_cut() {
    for ack in [Ack::Backend, Ack::Disk, Ack::Os] {
        for lanes in 1..=3 {
            let counts = run(10, Config { ack, ..Config::shortest(lanes) }, Plan::MIXED);
            assert!(is_one() || counts.crashes > 10 && counts.items > 100);
        }
    }
}

#[test]
fn segments_that_are_freed_and_used_again_lose_nothing() {
    let long = Plan { steps: 600, long: 90, flush: 12, lives: 4, ..Plan::MIXED };
    let ended = Plan { steps: 300, flush_all: 60, flush: 12, lives: 4, ..Plan::MIXED };
    for lanes in 1..=3 {
        for plan in [long, ended] {
            let counts = run(4, Config { ack: Ack::Os, ..Config::shortest(lanes) }, plan);
            assert!(is_one() || counts.written_back > 10);
        }
    }
}

#[test]
fn a_full_journal_and_a_full_index_are_written_back_and_go_on() {
    let plan = Plan { steps: 1500, long: 95, flush: 1, sync: 3, lives: 3, ..Plan::MIXED };
    let clean = Plan { crashes: false, ..plan };
    let few = Plan { steps: 400, long: 5, ..plan };
    for lanes in [1, 3] {
        let config = Config { age_ns: 1 << 40, ..Config::shortest(lanes) };
        run(2, config, plan);
        run(2, config, clean);
        let counts = run(3, Config { entries: 6, ..config }, few);
        assert!(is_one() || counts.refused > 10);
    }
}

#[test]
fn versions_are_given_once_in_many_short_lives() {
    let plan = Plan { lives: 20, steps: 20, skip: 150, sync: 20, ..Plan::MIXED };
    run(6, Config::shortest(2), plan);
    // Ceilings that could not be made durable do not count.
    let fails = Plan { faults: true, crashes: false, lives: 10, steps: 60, skip: 300, ..plan };
    run(6, Config::shortest(1), fails);
}

#[test]
fn lanes_may_change_from_life_to_life() {
    let plan = Plan { lives: 10, changes_lanes: true, steps: 80, ..Plan::MIXED };
    run(8, Config::shortest(2), plan);
}

#[test]
fn what_fails_is_not_promised_and_what_was_promised_is_there() {
    let plan = Plan { faults: true, lives: 8, steps: 60, ..Plan::MIXED };
    for ack in [Ack::Backend, Ack::Disk, Ack::Os] {
        let counts = run(16, Config { ack, ..Config::shortest(2) }, plan);
        assert!(is_one() || counts.failures > 0 && counts.repairs > 3, "{counts:?}");
    }
}

#[test]
fn a_journal_that_goes_on_after_the_disk_has_refused_loses_nothing() {
    let plan = Plan { faults: true, breaks: 6, lives: 6, steps: 200, sync: 20, ..Plan::MIXED };
    for (lanes, ack) in [(1, Ack::Os), (2, Ack::Disk), (3, Ack::Backend)] {
        let config = Config { ack, ..Config::shortest(lanes) };
        let counts = run(8, config, Plan { flush_all: 20, ..plan });
        assert!(is_one() || counts.repairs > 20, "{counts:?}");
    }
}
