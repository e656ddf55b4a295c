//! A value in chunks whose expiry was moved is not carried about when the old one has passed.
#![cfg(not(any(loom, shuttle)))]

use base::{MemoryBudget, NoSink, Now};
use engine::{Action, Engine, EngineConfig, Mode, Op, Pin, WriteStatus};

const LIMIT_BYTES: u64 = 8 << 20;
static VALUE: [u8; 50_000] = [b'v'; 50_000];
const KEYS: u64 = 40;
const START_S: u32 = 1_000;
/// When the values were to expire at first, and when they do after the touch (0: never).
const FIRST_S: u32 = START_S + 10;
const TOUCHED_S: [u32; 2] = [START_S + 1_000, 0];

fn write(engine: &Engine, pin: &mut Pin, key: u64, action: Action<'_>) {
    let now = Now { mono_ns: 0, expiry_s: START_S };
    let name = key.to_be_bytes();
    let op = Op::new(engine.key(&name), action);
    assert_eq!(engine.write(pin, &op, now, &mut NoSink).status, WriteStatus::Done);
}

#[test]
fn a_touch_is_noted_where_the_chunks_lie() {
    for touched_s in TOUCHED_S {
        let config = EngineConfig { locals: 1, ..EngineConfig::new(LIMIT_BYTES) };
        let (engine, mut locals) =
            Engine::new(config, MemoryBudget::new(LIMIT_BYTES)).expect("the limit is high enough");
        let mut pin = locals.remove(0).pin();
        for key in 0..KEYS {
            let value = &VALUE;
            let expiry_s = FIRST_S;
            let store = Action::Store { mode: Mode::Set, value, client_flags: 0, expiry_s };
            write(&engine, &mut pin, key, store);
        }
        for key in 0..KEYS {
            write(&engine, &mut pin, key, Action::Touch { expiry_s: touched_s });
        }
        for second in 0..20 {
            let now = Now { mono_ns: 0, expiry_s: FIRST_S + second };
            pin.renew();
            engine.tend(&mut pin, now, 1_000, &mut NoSink);
        }
        let counters = engine.counters();
        let found = (counters.items, counters.compacted, counters.expired);
        assert_eq!(found, (KEYS, 0, 0), "touched to {touched_s}: {counters:?}");
    }
}
