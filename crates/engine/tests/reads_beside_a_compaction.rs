//! While one thread empties every other group, so that the index is made compact, another stores
//! the keys of the rest and finds each with the value that it stored last. Then the groups change
//! places: those that were filled last lie high, and are the next to move.
#![cfg(not(any(loom, shuttle)))]

use base::{MemoryBudget, NoSink, Now, SliceId};
use engine::{
    Action, Engine, EngineConfig, Left, Local, Mode, Op, Pin, Read, ValueSink, WriteStatus,
};
use std::sync::atomic::{AtomicBool, Ordering};

const LIMIT_BYTES: u64 = 2 << 20;
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
const KEYS: u32 = 20_000;
const PHASES: usize = 200;
const BATCH: usize = 16;

/// 512 slices share a group.
fn half(key: u32) -> usize {
    SliceId::of(&key.to_be_bytes()).index() / 512 % 2
}

fn set(engine: &Engine, pin: &mut Pin, key: u32, value: &[u8]) {
    let action = Action::Store { mode: Mode::Set, value, client_flags: 0, expiry_s: 0 };
    let name = key.to_be_bytes();
    let op = Op::new(engine.key(&name), action);
    // Space comes when the others have ended their batches, as each does.
    while engine.write(pin, &op, NOW, &mut NoSink).status != WriteStatus::Done {
        pin.renew();
        std::thread::yield_now();
    }
}

fn delete(engine: &Engine, pin: &mut Pin, key: u32) {
    let name = key.to_be_bytes();
    let op = Op::new(engine.key(&name), Action::Delete);
    let status = engine.write(pin, &op, NOW, &mut NoSink).status;
    assert_eq!(status, WriteStatus::Done, "key {key}");
}

/// Sets its flag when it is dropped, after a panic too.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Empties a half, makes the index compact, and fills the half again.
fn change(engine: &Engine, local: &mut Local, keys: &[u32]) {
    for batch in keys.chunks(BATCH) {
        local.batch(|pin| batch.iter().for_each(|key| delete(engine, pin, *key)));
    }
    while local.batch(|pin| engine.tend(pin, NOW, 64, &mut NoSink)) == Left::Debt {}
    for batch in keys.chunks(BATCH) {
        local.batch(|pin| batch.iter().for_each(|key| set(engine, pin, *key, b"first")));
    }
}

/// Reads each key of a half and stores it again, over and over; at the end each is as it was.
fn check(engine: &Engine, local: &mut Local, keys: &[u32], ended: &AtomicBool) {
    let mut values: [&[u8]; 2] = [b"first", b"second"];
    while !ended.load(Ordering::Relaxed) || values[0] != b"first" {
        for batch in keys.chunks(BATCH) {
            local.batch(|pin| {
                for key in batch {
                    let mut sink = ValueSink::default();
                    let name = key.to_be_bytes();
                    let read = engine.get(pin, &engine.key(&name), NOW, &mut sink);
                    assert_eq!((read, &sink.bytes[..]), (Read::Hit, values[0]), "key {key}");
                    // So that its slot changes.
                    delete(engine, pin, *key);
                    set(engine, pin, *key, values[1]);
                }
            });
        }
        values.swap(0, 1);
    }
}

#[test]
fn what_stays_is_found() {
    let config = EngineConfig { locals: 2, ..EngineConfig::new(LIMIT_BYTES) };
    let (engine, locals) =
        Engine::new(config, MemoryBudget::new(LIMIT_BYTES)).expect("enough memory");
    let [mut first, mut second]: [Local; 2] = locals.try_into().ok().expect("two locals");
    first.batch(|pin| (0..KEYS).for_each(|key| set(&engine, pin, key, b"first")));
    let halves = [0, 1].map(|it| (0..KEYS).filter(|key| half(*key) == it).collect::<Vec<_>>());
    for phase in 0..PHASES {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| check(&engine, &mut second, &halves[(phase + 1) % 2], &ended));
            let _end = End(&ended);
            change(&engine, &mut first, &halves[phase % 2]);
        });
    }
    assert_eq!(engine.counters().items, u64::from(KEYS));
    assert_eq!(engine.counters().evicted, 0);
}
