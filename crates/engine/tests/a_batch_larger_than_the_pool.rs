//! One worker may write more in a batch than the pool holds: its pin moves on when room is short,
//! so it never waits for itself. Nor do workers wait for each other for ever.
#![cfg(not(any(loom, shuttle)))]

use base::{MemoryBudget, Now};
use engine::{Action, Engine, EngineConfig, Local, Mode, NoSink, Op, Outcome, Read, ValueSink};

const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };

fn engine(limit_bytes: u64, evict: bool) -> (Engine, Vec<Local>) {
    let config = EngineConfig { evict, ..EngineConfig::new(limit_bytes) };
    Engine::new(config, MemoryBudget::new(limit_bytes)).expect("enough memory")
}

fn store(engine: &Engine, local: &mut Local, key: &[u8], value: &[u8]) -> Outcome {
    let action = Action::Store { mode: Mode::Set, value, client_flags: 0, expiry_s: 0 };
    engine.write(local, &Op::new(engine.key(key), action), NOW, &mut NoSink).outcome
}

#[test]
fn one_pin_outlasts_the_pool_many_times_over() {
    let limit_bytes = 2 * engine::LIMIT_BYTES_MIN;
    for value_bytes in [10, 900, 7_000, 20_000] {
        let (engine, mut locals) = engine(limit_bytes, true);
        let mut local = locals.pop().expect("a local");
        let value = vec![b'v'; value_bytes];
        engine.pin(&local);
        let writes = 10 * limit_bytes / value_bytes as u64;
        for number in 0..writes {
            let key = format!("key-{number}").into_bytes();
            let outcome = store(&engine, &mut local, &key, &value);
            let state = (number, engine.usage(), engine.counters());
            assert_eq!(outcome, Outcome::Done, "{value_bytes}: {state:?}");
            let mut sink = ValueSink::default();
            let read = engine.get(&local, &engine.key(&key), NOW, &mut sink);
            assert_eq!((read, sink.bytes.len()), (Read::Hit, value_bytes));
        }
        engine.unpin(&local);
    }
}

#[test]
fn workers_with_endless_batches_do_not_wait_for_each_other() {
    let (engine, mut locals) = engine(engine::LIMIT_BYTES_MIN, true);
    let value = [b'v'; 700];
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let (engine, mut local) = (&engine, locals.pop().expect("a local"));
            scope.spawn(move || {
                engine.pin(&local);
                for number in 0..5_000 {
                    let key = format!("key-{worker}-{number}").into_bytes();
                    assert_eq!(store(engine, &mut local, &key, &value), Outcome::Done);
                }
                engine.unpin(&local);
            });
        }
    });
}

/// Without eviction a full pool refuses, and what is deleted or overwritten is used again.
#[test]
fn without_eviction_dead_ground_is_used_again() {
    let (engine, mut locals) = engine(1 << 20, false);
    let mut local = locals.pop().expect("a local");
    let name = |number: u64| format!("key-{number}").into_bytes();
    let mut fill = |from: u64| {
        let mut stored = 0;
        for number in from..from + 10_000 {
            engine.pin(&local);
            let outcome = store(&engine, &mut local, &name(number), &[b'v'; 500]);
            engine.unpin(&local);
            match outcome {
                Outcome::Done => stored += 1,
                outcome => {
                    assert_eq!(outcome, Outcome::NoSpace);
                    break;
                }
            }
        }
        for number in from..from + stored {
            engine.pin(&local);
            let mut sink = ValueSink::default();
            let read = engine.get(&local, &engine.key(&name(number)), NOW, &mut sink);
            assert_eq!(read, Read::Hit, "nothing is evicted");
            let name = name(number);
            let op = Op::new(engine.key(&name), Action::Delete);
            let wrote = engine.write(&mut local, &op, NOW, &mut NoSink);
            assert_eq!(wrote.outcome, Outcome::Done);
            engine.unpin(&local);
        }
        stored
    };
    let first = fill(0);
    assert!(first > 1_000, "{first} items fit");
    for round in 1..5 {
        let again = fill(round * 100_000);
        assert!(again * 10 >= first * 9, "{first} items fitted first, {again} in round {round}");
    }
}

/// What a batch may be reading is not used again, even if others must then go without.
#[test]
fn nothing_is_freed_under_a_pin() {
    let (engine, mut locals) = engine(2 * engine::LIMIT_BYTES_MIN, true);
    let (reader, mut writer) = (locals.remove(0), locals.remove(0));
    let value = [b'v'; 1_000];
    let fill = |writer: &mut Local| {
        for number in 0..1_000_u64 {
            engine.pin(writer);
            let key = format!("key-{number}").into_bytes();
            let outcome = store(&engine, writer, &key, &value);
            engine.unpin(writer);
            if outcome != Outcome::Done {
                return outcome;
            }
        }
        Outcome::Done
    };
    engine.pin(&reader);
    assert_eq!(fill(&mut writer), Outcome::NoSpace, "nothing may be freed");
    engine.unpin(&reader);
    assert_eq!(fill(&mut writer), Outcome::Done);
}
