//! Where all items take less than a quarter of memory, room is made of what was overwritten:
//! not one item is evicted, wherever the dead ground lies.
#![cfg(not(any(loom, shuttle)))]

use base::{MemoryBudget, Now};
use engine::{Action, Engine, EngineConfig, Local, Mode, NoSink, Op, Outcome};

const LIMIT_BYTES: u64 = 8 << 20;
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
/// Values of two lengths in turn: none is written where the one before lies.
const VALUE: [u8; 1_200] = [b'v'; 1_200];
const KEYS: u64 = 2_000;
/// Written first, and never again: they lie in segments side by side that stay whole.
const STILL_KEYS: u64 = KEYS * 9 / 10;
const WRITES: u64 = 500_000;
const BATCH: u64 = 16;

fn set(engine: &Engine, local: &mut Local, key: u64, nth: u64) {
    let value = &VALUE[..if (nth / KEYS).is_multiple_of(2) { 600 } else { 1_200 }];
    let store = Action::Store { mode: Mode::Set, value, client_flags: 0, expiry_s: 0 };
    let name = format!("key-{key:06}");
    let op = Op::new(engine.key(name.as_bytes()), store);
    assert_eq!(engine.write(local, &op, NOW, &mut NoSink).outcome, Outcome::Done);
}

#[test]
fn what_is_still_stays_while_the_rest_is_written_over_and_over() {
    let config = EngineConfig { locals: 1, ..EngineConfig::new(LIMIT_BYTES) };
    let (engine, mut locals) =
        Engine::new(config, MemoryBudget::new(LIMIT_BYTES)).expect("the limit is high enough");
    let local = &mut locals[0];
    let rewritten = (0..WRITES).map(|nth| STILL_KEYS + nth * 7_919 % (KEYS - STILL_KEYS));
    for (nth, key) in (0_u64..).zip((0..KEYS).chain(rewritten)) {
        if nth % BATCH == 0 {
            engine.unpin(local);
            engine.pin(local);
        }
        set(&engine, local, key, nth);
    }
    let counters = engine.counters();
    assert!(counters.drained > 512, "memory was filled: {counters:?}");
    assert_eq!((counters.evicted, counters.items), (0, KEYS), "{counters:?}");
}
