//! A whole tier on a disk that crashes: what was promised is there, and nothing that was gone.
//!
//! | file | what it is |
//! |---|---|
//! | `../common/disk` | the disk |
//! | `below` | the backend |
//! | `model` | what each key may have |
//! | `life` | one life of a cell |
//! | `world` | random lives |
//!
//! `CRASH_SEEDS` sets how many seeds each random test takes, and `CRASH_SEED` which one alone.
#![cfg(not(any(loom, shuttle)))]

#[path = "../common/disk.rs"]
mod disk;

mod below;
mod life;
mod model;
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
        all.changes += counts.changes;
        all.refused += counts.refused;
        all.reads += counts.reads;
        all.items += counts.items;
        all.crashes += counts.crashes;
        all.in_begin += counts.in_begin;
        all.failures += counts.failures;
        all.written_back += counts.written_back;
    }
    println!("{all:?}");
    all
}

#[test]
fn without_a_crash_each_read_shows_the_last_change() {
    let plan = Plan { crashes: false, lives: 2, steps: 400, ..Plan::MIXED };
    let counts = run(6, Config::shortest(2), plan);
    assert!(is_one() || counts.items > 100);
}

#[test]
fn what_was_written_outlives_the_process_and_what_is_durable_a_power_cut() {
    for ack in [Ack::Disk, Ack::Os] {
        for lanes in 1..=3 {
            let counts = run(10, Config { ack, ..Config::shortest(lanes) }, Plan::MIXED);
            assert!(is_one() || counts.crashes > 10 && counts.items > 100);
        }
    }
}
