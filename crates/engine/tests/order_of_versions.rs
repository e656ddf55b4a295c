//! The order of versions is the order of the log in every slice, and a copy that follows the log
//! holds what the source holds: every command from four threads, pools that evict, logs that are
//! full, barriers, and a learner that a walk feeds.
//!
//! `EFFECTS=20000000 cargo test --release -p engine --test order_of_versions -- --nocapture`
#![cfg(not(any(loom, shuttle)))]

mod commands;
mod logged;

use base::{EffectSink, Facts, MemoryBudget, SliceId, Space, Value, Version};
use effects::{Batch, Entry, Joining, LOG_BYTES_MIN, Lanes, LanesConfig, Mark, Who, WorkerSink};
use logged::{Happened, Plan, TABLES, run};

/// Effects of all tests together: `EFFECTS`, or enough for a few seconds.
fn effects() -> u64 {
    std::env::var("EFFECTS").ok().and_then(|text| text.parse().ok()).unwrap_or(200_000)
}

fn plan(seed: u64) -> Plan {
    Plan {
        seed,
        threads: 4,
        round: 5_000,
        effects: effects() / 3,
        limit_bytes: 4 * engine::LIMIT_BYTES_MIN,
        copy_bytes: 32 << 20,
        value_bytes_max: 1_000,
        keys: 3_000,
        lanes: 2,
        log_bytes: TABLES + 2 * LOG_BYTES_MIN,
        slow: true,
        barriers_every: 2_000,
    }
}

fn timed(plan: &Plan) -> Happened {
    let start = std::time::Instant::now();
    let happened = run(plan);
    let rate = happened.entries as f64 / start.elapsed().as_secs_f64();
    println!("{} bytes: {happened:?}, {rate:.0} effects/s", plan.limit_bytes);
    assert!(happened.entries >= plan.effects && happened.no_space < plan.effects / 100);
    assert!(happened.barriers > 0 && happened.expired > 0 && happened.walked > 0, "{happened:?}");
    happened
}

#[test]
fn a_tiny_pool_and_a_log_that_is_often_full() {
    let happened = timed(&plan(1));
    // How often the log is full, and so how much is stored, depends on scheduling.
    assert!(happened.evicted > 100 && happened.full > 100, "{happened:?}");
}

#[test]
fn values_in_chunks() {
    let plan = Plan { limit_bytes: 2 << 20, value_bytes_max: 40_000, keys: 1_500, ..plan(2) };
    let plan = Plan { round: 2_000, lanes: 1, log_bytes: TABLES + (2 << 20), ..plan };
    let happened = timed(&Plan { slow: false, ..plan });
    assert!(happened.evicted > 1_000, "{happened:?}");
}

#[test]
fn a_pool_with_room_for_everything() {
    let plan = Plan { limit_bytes: 64 << 20, copy_bytes: 64 << 20, keys: 6_000, ..plan(3) };
    let plan = Plan { lanes: 8, log_bytes: TABLES + (2 << 20), slow: false, ..plan };
    let happened = timed(&plan);
    assert_eq!(happened.evicted, 0, "{happened:?}");
}

/// A store that was not made leaves a copy of its value in the sink; an item of a walk is another.
#[test]
fn an_item_of_a_walk_is_sent_as_it_is_after_a_store_that_was_not_made() {
    let bytes = TABLES + (1 << 20);
    let config = LanesConfig { lanes: 1, sinks: 1, bytes, value_bytes_max: 0, follows: false };
    let lanes = Lanes::new(&config, &MemoryBudget::new(32 * bytes)).expect("enough memory");
    let mut sink = WorkerSink::new(lanes.clone());
    let (lane, log) = lanes.logs().next().expect("a lane");
    let holds = Some(Mark::Durable);
    let joining = Joining { who: Who::Learner(1), from: None, holds, grants: None };
    let reader = log.join(&joining).expect("there is a place");
    let slice = SliceId::of(b"key");
    let (stored, walked) = (vec![1; 20_000], vec![2; 20_000]);
    let known = Some(Value::Parts([&stored, &[]]));
    let space = Space::Change { key_bytes: 3, value_bytes: stored.len(), value: known };
    sink.reserve(slice, space).expect("empty");
    let value = Parts(&walked);
    let item = (Value::Stored(&value), Facts::default());
    sink.emit(reader, slice, b"key", item, Version::from_raw(1)).expect("empty");
    let mut batch = Batch::new(1_000);
    lanes.log(lane).read(reader, 1, &mut batch).expect("it is held");
    let record = batch.records().next().expect("an entry");
    let Entry::Item { value, .. } = record.entry else { panic!("{record:?}") };
    let mut sent = Vec::new();
    value.append_to(&mut sent);
    assert!(sent == walked, "the item has the value of the store");
}

/// A value that lies somewhere.
struct Parts<'a>(&'a [u8]);

impl base::StoredValue for Parts<'_> {
    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn append_to(&self, target: &mut Vec<u8>) {
        target.extend_from_slice(self.0);
    }
}
