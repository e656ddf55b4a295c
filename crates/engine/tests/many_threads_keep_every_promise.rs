//! Plain threads on one engine: bounded work, no clock. Also what the sanitizers run.
#![cfg(not(any(loom, shuttle)))]

mod crowd;

use crowd::{Plan, run};

/// Operations of each thread: `CROWD_OPS`, or enough for a few seconds in all.
fn ops_per_thread() -> u64 {
    std::env::var("CROWD_OPS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000)
}

fn plan(seed: u64) -> Plan {
    Plan {
        seed,
        threads: 4,
        ops_per_thread: ops_per_thread(),
        batch_max: 16,
        keys: 48,
        kept_keys: 0,
        turn: 1,
        limit_bytes: engine::LIMIT_BYTES_MIN,
        lowered_bytes: u64::MAX,
        payload_bytes_max: 400,
    }
}

#[test]
fn on_few_hot_keys() {
    run(&Plan { keys: 6, ..plan(1) });
}

#[test]
fn in_a_pool_that_evicts_all_the_time() {
    run(&Plan { keys: 1_500, payload_bytes_max: 1_000, ..plan(2) });
}

#[test]
fn on_values_in_chunks() {
    let plan = Plan { limit_bytes: 1 << 20, keys: 40, payload_bytes_max: 40_000, ..plan(3) };
    run(&Plan { ops_per_thread: ops_per_thread() / 5, ..plan });
}

#[test]
fn while_groups_grow_and_shrink() {
    let plan = Plan { limit_bytes: 32 << 20, keys: 4_000, kept_keys: 300, ..plan(4) };
    run(&Plan { turn: 10_000, payload_bytes_max: 60, ..plan });
}

#[test]
fn while_the_limit_falls_and_rises() {
    let plan = Plan { limit_bytes: 16 << 20, lowered_bytes: 1 << 20, keys: 20_000, ..plan(5) };
    run(&Plan { payload_bytes_max: 1_500, ..plan });
}
