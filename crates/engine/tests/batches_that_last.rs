//! A request that lacks space does not wait for the batches of others: it can be tried again later.
//! Where no space can come it is refused at once.
#![cfg(not(any(loom, shuttle)))]

use base::{MemoryBudget, NoSink, Now};
use engine::{
    Action, Engine, EngineConfig, LIMIT_BYTES_MIN, Local, Mode, Obstacle, Op, Read, ValueSink,
    WriteStatus,
};
use std::ops::Range;

const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
const VALUE: [u8; 1_000] = [b'v'; 1_000];
/// As many as fill the pool several times.
const KEYS: Range<u32> = 0..1_000;
/// More rounds of letting others run than two requests may have.
const WAITS: u64 = 300;

fn engine(limit_bytes: u64, evict: bool) -> (Engine, [Local; 2]) {
    let config = EngineConfig { locals: 2, evict, ..EngineConfig::new(limit_bytes) };
    let (engine, locals) =
        Engine::new(config, MemoryBudget::new(limit_bytes)).expect("the limit is high enough");
    (engine, locals.try_into().ok().expect("two were requested"))
}

/// Carries `action` out on one key after the other, until that fails or all are done.
fn on_all(
    engine: &Engine,
    local: &mut Local,
    mut keys: Range<u32>,
    action: Action<'_>,
) -> WriteStatus {
    let failed = local.batch(|pin| {
        keys.find_map(|key| {
            let name = key.to_be_bytes();
            let op = Op::new(engine.key(&name), action);
            Some(engine.write(pin, &op, NOW, &mut NoSink).status)
                .filter(|outcome| *outcome != WriteStatus::Done)
        })
    });
    failed.unwrap_or(WriteStatus::Done)
}

fn fill(engine: &Engine, local: &mut Local) -> WriteStatus {
    store(engine, local, KEYS)
}

fn store(engine: &Engine, local: &mut Local, keys: Range<u32>) -> WriteStatus {
    let store = Action::Store { mode: Mode::Set, value: &VALUE, client_flags: 0, expiry_s: 0 };
    on_all(engine, local, keys, store)
}

fn is_there(engine: &Engine, local: &mut Local, key: u32) -> bool {
    let mut sink = ValueSink::default();
    let name = key.to_be_bytes();
    local.batch(|pin| engine.get(pin, &engine.key(&name), NOW, &mut sink)) == Read::Hit
}

#[test]
fn a_batch_that_lasts_is_not_waited_for() {
    let (engine, [lasting, mut local]) = engine(LIMIT_BYTES_MIN, true);
    let lasting = lasting.pin();
    let later = WriteStatus::Later(Obstacle::Memory);
    assert_eq!(fill(&engine, &mut local), later);
    assert_eq!(fill(&engine, &mut local), later, "nothing was freed meanwhile");
    assert!(engine.counters().waits < WAITS, "{:?}", engine.counters());
    drop(lasting);
    assert_eq!(fill(&engine, &mut local), WriteStatus::Done);
}

#[test]
fn where_no_room_can_come_nobody_waits_for_it() {
    let (engine, [_, mut local]) = engine(LIMIT_BYTES_MIN, false);
    assert_eq!(fill(&engine, &mut local), WriteStatus::NoSpace);
    assert!(engine.counters().waits < WAITS, "{:?}", engine.counters());
}

#[test]
fn what_is_kept_waits_for_the_space_that_a_batch_holds() {
    const KEPT: Range<u32> = 0..350;
    let (engine, [lasting, mut local]) = engine(1 << 20, true);
    // Of three items in a row one is gone, and two were asked for.
    for key in KEPT {
        let gone = 1_000 + key / 2..1_000 + key.div_ceil(2);
        assert_eq!(store(&engine, &mut local, key..key + 1), WriteStatus::Done);
        assert_eq!(store(&engine, &mut local, gone.clone()), WriteStatus::Done);
        assert_eq!(on_all(&engine, &mut local, gone, Action::Delete), WriteStatus::Done);
    }
    for key in KEPT {
        assert!((0..3).all(|_| is_there(&engine, &mut local, key)), "{key}");
    }
    // From here on what is drained stays in limbo: two segments move into the space of one.
    let lasting = lasting.pin();
    let later = WriteStatus::Later(Obstacle::Memory);
    assert_eq!(store(&engine, &mut local, 10_000..20_000), later);
    let counters = engine.counters();
    assert!(counters.kept > 0 && counters.evicted == 0, "{counters:?}");
    for key in KEPT {
        assert!(is_there(&engine, &mut local, key), "{key}");
    }
    drop(lasting);
}
