//! A cell of the product, as it is built for a simulated process.

use crate::dice::Dice;
use crate::outside::{Outside, lock};
use base::{ExpiryClock, MemoryBudget};
use engine::EngineConfig;
use peer::Secret;
use service::{
    Cell, ConnectionReport, Connections, CopyReads, EffectLogOptions, Host, LimitChange, Options,
    Reach, RingCell, RingHost, RingIdentity, Rusage,
};
use std::sync::{Arc, Mutex, PoisonError};

/// Memory of a cell.
pub(crate) const LIMIT_BYTES: u64 = 8 << 20;
/// The longest value.
pub(crate) const VALUE_BYTES_MAX: u64 = 512;
/// What all cells know.
const SECRET: &[u8] = b"a secret of all simulated cells";
/// Threads besides the workers that use the engine: the keeper, and who looks into it in the end.
const LOCALS_BESIDES: usize = 3;
/// Threads of a tier that use the engine, and those that append.
const TIER_LOCALS: usize = 1;
const TIER_SINKS: usize = 2;

/// How many workers a cell has at most.
pub(crate) const WORKERS_MAX: usize = 3;

/// How the work of a cell is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Workers, at most [`WORKERS_MAX`].
    pub(crate) workers: usize,
    /// Those of them that have links: all, or the first one, which serves the others.
    pub(crate) linked: usize,
    /// Logs of effects.
    pub(crate) lanes: usize,
    /// How old the answers of copies to its clients may be, in milliseconds. 0: copies answer
    /// nothing.
    pub(crate) age_ms: u16,
}

impl Shape {
    /// One worker, which has all.
    pub(crate) const ONE: Self = Self { workers: 1, linked: 1, lanes: 1, age_ms: 0 };

    /// Some division.
    pub(crate) fn choose(dice: &mut Dice) -> Self {
        let workers = dice.between(1, WORKERS_MAX as u64) as usize;
        let linked = if dice.per_mille(250) { 1 } else { workers };
        Self { workers, linked, lanes: dice.between(1, 3) as usize, age_ms: 0 }
    }
}

/// The memory of a cell, its log and its limits. `is_tiered`: it is to be above a tier.
pub(crate) fn cell(
    (shape, is_tiered): (Shape, bool),
    budget: &Arc<MemoryBudget>,
    version_seed: u64,
    now: base::Now,
) -> Arc<Cell> {
    let tiered = usize::from(is_tiered);
    let config = EngineConfig {
        value_bytes_max: VALUE_BYTES_MAX as usize,
        version_seed: Some(version_seed),
        locals: shape.workers + LOCALS_BESIDES + tiered * TIER_LOCALS,
        ..EngineConfig::new(LIMIT_BYTES)
    };
    let log = EffectLogOptions {
        lanes: shape.lanes,
        // The keeper appends too.
        workers: shape.workers + 1 + tiered * TIER_SINKS,
        value_bytes_max: VALUE_BYTES_MAX,
        gates: true,
        has_readers: true,
    };
    let options = Options {
        version: "simulated".to_owned(),
        limits: memcache::Limits { value_bytes_max: VALUE_BYTES_MAX, ..Default::default() },
        allow_flush: true,
        allow_shutdown: false,
        allow_policy: false,
        allow_discard: false,
        allow_dump: false,
        authenticate: None,
        connections_part: 4,
        keep_leases: true,
        settings: Vec::new(),
        effect_log: Some(log),
    };
    let cell = Cell::new(config, budget.clone(), options, Box::new(NoHost), now);
    cell.expect("invariant: the memory of a simulated cell is enough")
}

/// The cell in its ring. Its threads reach each other by `outside`.
pub(crate) fn ring_cell(
    shape: Shape,
    cell: Arc<Cell>,
    identity: RingIdentity,
    outside: &Arc<Mutex<Outside>>,
    expiry: Arc<ExpiryClock>,
    seed: u64,
) -> Arc<RingCell> {
    let nonces = Mutex::new(Dice::new(seed, 0));
    let nonce = move || {
        let mut dice = nonces.lock().unwrap_or_else(PoisonError::into_inner);
        let words: [u64; 4] = std::array::from_fn(|_| dice.number());
        let mut nonce = peer::Nonce::default();
        let bytes = words.into_iter().flat_map(u64::to_le_bytes);
        nonce.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
        nonce
    };
    let finds = outside.clone();
    let find = move |finding| lock(&finds).findings.push(finding);
    let copy_reads = CopyReads { age_ms: shape.age_ms, ..CopyReads::default() };
    let host = RingHost { nonce: Box::new(nonce), find: Box::new(find), expiry, copy_reads };
    let secret = Secret::new(SECRET).expect("invariant: the secret is long enough");
    let ring = RingCell::new(cell, identity, secret, host);
    let ring = ring.expect("invariant: the cell has a log");
    let (posts, releases) = (outside.clone(), outside.clone());
    ring.set_reach(Reach {
        workers: shape.linked as u16,
        post: Box::new(move |worker, mail| lock(&posts).post(worker, mail)),
        release: Box::new(move |log| lock(&releases).release(log)),
    });
    ring
}

/// A process without numbers of its own.
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

    fn shutdown(&self, _graceful: bool) {}

    fn set_verbosity(&self, _level: u32) {}

    fn limit_changed(&self, _change: LimitChange) {}
}
