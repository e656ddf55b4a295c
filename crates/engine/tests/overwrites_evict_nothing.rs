//! Where all items take less than a third of memory, room is made of what was overwritten:
//! not one item is evicted, wherever the dead words lie.
#![cfg(not(any(loom, shuttle)))]

use base::{MemoryBudget, NoSink, Now};
use engine::{Action, Engine, EngineConfig, Local, Mode, Op, Pin, WriteStatus};

const LIMIT_BYTES: u64 = 8 << 20;
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
/// Values of two lengths in turn: a longer one is not written where a shorter one lies.
const VALUE: [u8; 1_200] = [b'v'; 1_200];
const KEYS: u64 = 2_000;
/// Written first, and never again: they lie in segments side by side that stay whole.
const STILL_KEYS: u64 = KEYS * 9 / 10;
const WRITES: u64 = 500_000;
const BATCH: u64 = 64;
const WRITERS: usize = 24;

fn set(engine: &Engine, pin: &mut Pin, key: u64, nth: u64) -> WriteStatus {
    let value = &VALUE[..if (nth / KEYS).is_multiple_of(2) { 600 } else { 1_200 }];
    let store = Action::Store { mode: Mode::Set, value, client_flags: 0, expiry_s: 0 };
    let name = format!("key-{key:06}");
    let op = Op::new(engine.key(name.as_bytes()), store);
    engine.write(pin, &op, NOW, &mut NoSink).status
}

fn engine(locals: usize) -> (Engine, Vec<Local>) {
    let config = EngineConfig { locals, ..EngineConfig::new(LIMIT_BYTES) };
    Engine::new(config, MemoryBudget::new(LIMIT_BYTES)).expect("the limit is high enough")
}

/// Every key once, then those from `first` on, over and over.
fn writes(first: u64) -> impl Iterator<Item = (u64, u64)> {
    let rewritten = (0..WRITES).map(move |nth| first + nth * nth % 1_000_003 % (KEYS - first));
    (0_u64..).zip((0..KEYS).chain(rewritten))
}

#[test]
fn what_is_still_stays_while_the_rest_is_written_over_and_over() {
    let (engine, mut locals) = engine(1);
    let mut pin = locals.remove(0).pin();
    for (nth, key) in writes(STILL_KEYS) {
        if nth % BATCH == 0 {
            pin.renew();
        }
        assert_eq!(set(&engine, &mut pin, key, nth), WriteStatus::Done);
    }
    let counters = engine.counters();
    assert!(counters.drained > 512, "memory was filled: {counters:?}");
    assert_eq!((counters.evicted, counters.items), (0, KEYS), "{counters:?}");
}

#[test]
fn many_writers_at_once_leave_the_space_that_moves_need() {
    let (engine, locals) = engine(WRITERS);
    std::thread::scope(|scope| {
        for (writer, local) in locals.into_iter().enumerate() {
            let engine = &engine;
            scope.spawn(move || {
                let mut pin = local.pin();
                for (nth, key) in writes(0).skip(writer * 997) {
                    if nth % BATCH == 0 {
                        pin.renew();
                    }
                    // Space comes when the others have ended their batches, as each does.
                    while set(engine, &mut pin, key, nth) != WriteStatus::Done {
                        pin.renew();
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    let counters = engine.counters();
    assert_eq!((counters.evicted, counters.items), (0, KEYS), "{counters:?}");
}
