//! The order of versions under shuttle: random orders of every atomic step of writers, a walk and
//! the reader of the logs, on a pool of a few segments and the smallest logs.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p engine --test shuttle_versions`
#![cfg(shuttle)]

mod commands;
mod logged;

use effects::LOG_BYTES_MIN;
use logged::{Plan, TABLES, run};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the stack of each thread: a table of logs lies on it while it is made.
const STACK_BYTES: usize = 1 << 20;

/// Orders tried by each test: `SHUTTLE_ORDERS`, or enough for a few seconds.
fn orders() -> usize {
    std::env::var("SHUTTLE_ORDERS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000)
}

fn plan() -> Plan {
    Plan {
        seed: 0,
        threads: 2,
        round: 10,
        effects: 1,
        limit_bytes: 2 * engine::LIMIT_BYTES_MIN,
        copy_bytes: 64 << 10,
        value_bytes_max: 40,
        keys: 6,
        lanes: 1,
        log_bytes: TABLES + LOG_BYTES_MIN,
        slow: false,
        barriers_every: 12,
    }
}

/// Runs `plan` in random orders, and in orders with few changes of thread, each with other dice.
/// Returns how many items were evicted.
fn try_orders(plan: Plan) -> u64 {
    let counts = Arc::new([AtomicU64::new(1), AtomicU64::new(0)]);
    let shared = counts.clone();
    let order = move || {
        let [seed, evicted] = &*shared;
        let seed = seed.fetch_add(1, Ordering::Relaxed);
        let happened = run(&Plan { seed, ..plan.clone() });
        assert!(happened.walked > 0 || happened.entries > 0, "{happened:?}");
        evicted.fetch_add(happened.evicted, Ordering::Relaxed);
    };
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    let random = RandomScheduler::new(orders() / 2);
    Runner::new(random, config.clone()).run(order.clone());
    Runner::new(PctScheduler::new(4, orders() / 2), config).run(order);
    counts[1].load(Ordering::Relaxed)
}

#[test]
fn of_few_hot_keys() {
    try_orders(plan());
}

#[test]
fn in_a_pool_that_evicts() {
    let plan = Plan { limit_bytes: engine::LIMIT_BYTES_MIN, value_bytes_max: 80, ..plan() };
    let evicted = try_orders(Plan { keys: 60, round: 40, ..plan });
    assert!(evicted > orders() as u64 / 10, "{evicted} evictions");
}

#[test]
fn of_slices_in_two_logs() {
    try_orders(Plan { lanes: 2, log_bytes: TABLES + 2 * LOG_BYTES_MIN, ..plan() });
}
