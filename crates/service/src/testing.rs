//! A cell without a process around it, for the tests of this crate.

use crate::{
    Cell, ConnectionReport, Connections, EffectLogOptions, Host, LimitChange, Options, Rusage,
};
use base::{MemoryBudget, Now};
use engine::EngineConfig;
use memcache::Limits;
use std::sync::Arc;

/// The time of these tests.
pub(crate) const NOW: Now = Now { mono_ns: 1, expiry_s: 1_800_000_000 };
/// The longest value.
pub(crate) const VALUE_BYTES_MAX: u64 = 1000;

struct NoHost;

impl Host for NoHost {
    fn connections(&self) -> Connections {
        Connections::default()
    }
    fn reports(&self) -> Vec<ConnectionReport> {
        Vec::new()
    }
    fn rusage(&self) -> Rusage {
        Rusage::default()
    }
    fn shutdown(&self, _: bool) {}
    fn set_verbosity(&self, _: u32) {}
    fn limit_changed(&self, _: LimitChange) {}
}

/// A cell with `bytes` of memory that keeps a log in one lane.
pub(crate) fn cell_with_log(bytes: u64, in_ring: bool) -> Arc<Cell> {
    cell_of(EngineConfig::new(bytes), bytes, in_ring)
}

/// One of a ring, which evicts nothing.
pub(crate) fn cell_without_eviction(bytes: u64) -> Arc<Cell> {
    cell_of(EngineConfig { evict: false, ..EngineConfig::new(bytes) }, bytes, true)
}

fn cell_of(config: EngineConfig, bytes: u64, in_ring: bool) -> Arc<Cell> {
    let effect_log = EffectLogOptions {
        lanes: 1,
        workers: 1,
        value_bytes_max: VALUE_BYTES_MAX,
        gates: in_ring,
        has_readers: in_ring,
    };
    let options = Options {
        effect_log: Some(effect_log),
        settings: Vec::new(),
        authenticate: None,
        allow_shutdown: false,
        allow_policy: true,
        allow_discard: true,
        allow_flush: true,
        keep_leases: true,
        connections_part: 4,
        allow_dump: false,
        limits: Limits { value_bytes_max: VALUE_BYTES_MAX, ..Limits::default() },
        version: "1.6.45".into(),
    };
    Cell::new(config, MemoryBudget::new(bytes), options, Box::new(NoHost), NOW).expect("it fits")
}
