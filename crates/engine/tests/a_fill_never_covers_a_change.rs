//! A fill beside changes of the same key, on plain threads: it comes before them or not at all.
#![cfg(not(any(loom, shuttle)))]

mod beside;

use base::{MemoryBudget, NoSink, Now};
use beside::{CHANGES, Watch, fill};
use engine::{Action, Engine, EngineConfig, Op};
use std::sync::Barrier;
use std::thread;

const LIMIT_BYTES: u64 = 8 << 20;
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
const ROUNDS: usize = 6_000;
/// Steps by which the changes begin later, at most, in turn.
const DELAYS: usize = 700;

/// `ROUNDS` fills of a value of `bytes`, each beside a few changes.
fn race(bytes: usize) {
    let config = EngineConfig { locals: 2, ..EngineConfig::new(LIMIT_BYTES) };
    let (engine, mut locals) =
        Engine::new(config, MemoryBudget::new(LIMIT_BYTES)).expect("enough memory");
    let (mut one, mut two) = (locals.remove(0), locals.remove(0));
    let (barrier, value) = (Barrier::new(2), vec![b'o'; bytes]);
    for (round, changes) in (0..ROUNDS).zip(CHANGES.into_iter().cycle()) {
        let delete = Op::new(engine.key(b"key"), Action::Delete);
        one.batch(|pin| engine.write(pin, &delete, NOW, &mut NoSink));
        let watch = Watch::default();
        thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                (0..round % DELAYS).for_each(|_| std::hint::spin_loop());
                changes.make(&engine, &mut two, &watch);
            });
            barrier.wait();
            fill(&engine, &mut one, &watch, &value);
        });
        changes.check(&engine, &mut one);
    }
}

#[test]
fn of_a_short_value() {
    race(40);
}

#[test]
fn of_a_long_value() {
    race(9_000);
}

#[test]
fn of_a_value_in_chunks() {
    race(40_000);
}
