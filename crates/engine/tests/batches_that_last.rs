//! Whoever lacks room waits for the batches of others: long, but not for ever, nor in vain.
#![cfg(not(any(loom, shuttle)))]

use base::{MemoryBudget, Now};
use engine::{Action, Engine, EngineConfig, LIMIT_BYTES_MIN, Local, Mode, NoSink, Op, Outcome};

const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
const VALUE: [u8; 1_000] = [b'v'; 1_000];
/// As many as fill the pool several times.
const KEYS: u32 = 1_000;
/// Longer than anybody only gives way.
const WAITS: u64 = 1_100;

fn engine(evict: bool) -> (Engine, [Local; 2]) {
    let config = EngineConfig { locals: 2, evict, ..EngineConfig::new(LIMIT_BYTES_MIN) };
    let (engine, locals) =
        Engine::new(config, MemoryBudget::new(LIMIT_BYTES_MIN)).expect("the limit is high enough");
    (engine, locals.try_into().expect("two were asked for"))
}

/// Stores until a store fails or all is stored.
fn fill(engine: &Engine, local: &mut Local) -> Outcome {
    let store = Action::Store { mode: Mode::Set, value: &VALUE, client_flags: 0, expiry_s: 0 };
    engine.pin(local);
    let outcome = (0..KEYS)
        .map(|key| {
            engine.write(local, &Op::new(engine.key(&key.to_be_bytes()), store), NOW, &mut NoSink)
        })
        .map(|wrote| wrote.outcome)
        .find(|outcome| *outcome != Outcome::Done);
    engine.unpin(local);
    outcome.unwrap_or(Outcome::Done)
}

#[test]
fn a_batch_that_lasts_is_waited_for() {
    let (engine, [lasting, mut local]) = engine(true);
    engine.pin(&lasting);
    let outcome = std::thread::scope(|scope| {
        let writer = scope.spawn(|| fill(&engine, &mut local));
        while engine.counters().waits < WAITS && !writer.is_finished() {
            std::thread::yield_now();
        }
        engine.unpin(&lasting);
        writer.join().expect("no panic")
    });
    assert_eq!(outcome, Outcome::Done);
    assert!(engine.counters().waits >= WAITS, "{:?}", engine.counters());
}

#[test]
fn a_batch_that_never_ends_is_not_waited_for_for_ever() {
    let (engine, [lasting, mut local]) = engine(true);
    engine.pin(&lasting);
    assert_eq!(fill(&engine, &mut local), Outcome::NoSpace);
    engine.unpin(&lasting);
    assert_eq!(fill(&engine, &mut local), Outcome::Done);
}

#[test]
fn where_no_room_can_come_nobody_waits_for_it() {
    let (engine, [_, mut local]) = engine(false);
    assert_eq!(fill(&engine, &mut local), Outcome::NoSpace);
    assert!(engine.counters().waits < WAITS, "{:?}", engine.counters());
}
