//! What every bench of the engine needs: its arguments, an engine, a store.
//!
//! Lengths are bytes. No function here is part of what a bench measures, except [`set`], which
//! makes one request and nothing else.

use base::{MemoryBudget, NoSink, Now};
use engine::{Action, Engine, EngineConfig, Key, Local, Mode, Op, Pin, WriteStatus};

/// The arguments of the bench, without the `--bench` that cargo adds.
pub fn arguments() -> Vec<String> {
    std::env::args().skip(1).filter(|word| word != "--bench").collect()
}

/// An empty engine of `limit_bytes` for `threads`, as most benches need it.
pub fn config(limit_bytes: u64, threads: usize) -> EngineConfig {
    EngineConfig { locals: threads, ..EngineConfig::new(limit_bytes) }
}

/// An empty engine, and its locals.
pub fn open(config: EngineConfig) -> (Engine, Vec<Local>) {
    let budget = MemoryBudget::new(config.limit_bytes);
    Engine::new(config, budget).expect("the limit is high enough")
}

/// Stores a value that expires at `expiry_s`, 0 for never.
pub fn set(
    engine: &Engine,
    pin: &mut Pin,
    key: Key<'_>,
    value: &[u8],
    expiry_s: u32,
    now: Now,
) -> WriteStatus {
    let action = Action::Store { mode: Mode::Set, value, client_flags: 0, expiry_s };
    engine.write(pin, &Op::new(key, action), now, &mut NoSink).status
}
