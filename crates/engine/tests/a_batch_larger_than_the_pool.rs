//! One worker may write more in a batch than the pool holds: its pin moves on when room is short,
//! so it never waits for itself. Nor do workers wait for each other for ever.
#![cfg(not(any(loom, shuttle)))]

use base::{MemoryBudget, NoSink, Now};
use engine::{
    Action, Engine, EngineConfig, Local, Mode, Obstacle, Op, Pin, Read, ValueSink, WriteStatus,
};

const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };

fn engine(limit_bytes: u64, evict: bool) -> (Engine, Vec<Local>) {
    let config = EngineConfig { evict, ..EngineConfig::new(limit_bytes) };
    Engine::new(config, MemoryBudget::new(limit_bytes)).expect("enough memory")
}

fn store(engine: &Engine, pin: &mut Pin, key: &[u8], value: &[u8]) -> WriteStatus {
    let action = Action::Store { mode: Mode::Set, value, client_flags: 0, expiry_s: 0 };
    engine.write(pin, &Op::new(engine.key(key), action), NOW, &mut NoSink).status
}

#[test]
fn one_pin_outlasts_the_pool_many_times_over() {
    let limit_bytes = 2 * engine::LIMIT_BYTES_MIN;
    for value_bytes in [10, 900, 7_000, 20_000] {
        let (engine, mut locals) = engine(limit_bytes, true);
        let mut pin = locals.pop().expect("a local").pin();
        let value = vec![b'v'; value_bytes];
        let writes = 10 * limit_bytes / value_bytes as u64;
        for number in 0..writes {
            let key = format!("key-{number}").into_bytes();
            let outcome = store(&engine, &mut pin, &key, &value);
            let state = (number, engine.usage(), engine.counters());
            assert_eq!(outcome, WriteStatus::Done, "{value_bytes}: {state:?}");
            let mut sink = ValueSink::default();
            let read = engine.get(&pin, &engine.key(&key), NOW, &mut sink);
            assert_eq!((read, sink.bytes.len()), (Read::Hit, value_bytes));
        }
    }
}

#[test]
fn workers_with_endless_batches_do_not_wait_for_each_other() {
    let (engine, mut locals) = engine(engine::LIMIT_BYTES_MIN, true);
    let value = [b'v'; 700];
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let (engine, local) = (&engine, locals.pop().expect("a local"));
            scope.spawn(move || {
                let mut pin = local.pin();
                for number in 0..5_000 {
                    let key = format!("key-{worker}-{number}").into_bytes();
                    // Space comes when the others have ended their batches, as each does.
                    while store(engine, &mut pin, &key, &value) != WriteStatus::Done {
                        pin.renew();
                    }
                }
            });
        }
    });
}

/// Without eviction a full pool refuses, and what is deleted or overwritten is used again.
#[test]
fn without_eviction_dead_space_is_used_again() {
    let (engine, mut locals) = engine(1 << 20, false);
    let mut local = locals.pop().expect("a local");
    let name = |number: u64| format!("key-{number}").into_bytes();
    let mut fill = |from: u64| {
        let mut stored = 0;
        for number in from..from + 10_000 {
            let outcome = local.batch(|pin| store(&engine, pin, &name(number), &[b'v'; 500]));
            match outcome {
                WriteStatus::Done => stored += 1,
                outcome => {
                    assert_eq!(outcome, WriteStatus::NoSpace);
                    break;
                }
            }
        }
        for number in from..from + stored {
            local.batch(|pin| {
                let mut sink = ValueSink::default();
                let read = engine.get(pin, &engine.key(&name(number)), NOW, &mut sink);
                assert_eq!(read, Read::Hit, "nothing is evicted");
                let name = name(number);
                let op = Op::new(engine.key(&name), Action::Delete);
                let wrote = engine.write(pin, &op, NOW, &mut NoSink);
                assert_eq!(wrote.status, WriteStatus::Done);
            });
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
            let key = format!("key-{number}").into_bytes();
            let outcome = writer.batch(|pin| store(&engine, pin, &key, &value));
            if outcome != WriteStatus::Done {
                return outcome;
            }
        }
        WriteStatus::Done
    };
    let reader = reader.pin();
    let later = WriteStatus::Later(Obstacle::Memory);
    assert_eq!(fill(&mut writer), later, "nothing may be freed");
    drop(reader);
    assert_eq!(fill(&mut writer), WriteStatus::Done);
}
