//! How long the engine takes for a request while it evicts, expires and compacts all the time.
//!
//! `cargo bench -p engine --bench churn -- SECONDS [SEED]` prints JSON: percentiles of
//! the service time, how many samples were set aside because the thread was preempted, and the
//! largest housekeeping that any one request did.
//!
//! One clock reading ends a sample and begins the next, so nothing falls between two samples and
//! each holds the making of its request too. After a slow sample the thread's count of involuntary
//! switches is read: if it rose, the sample was preempted and is counted apart. Nothing else is set
//! aside: page faults and interrupts are part of the engine's service time. Lengths are
//! nanoseconds, exact to 1 %.

mod common;

use base::{NoSink, Now};
use engine::{Action, Engine, Op, Pin, Read, ValueSink, WriteStatus};
use hdrhistogram::Histogram;
use measure::rng::Rng;
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::json;
use std::time::{Duration, Instant};

const LIMIT_BYTES: u64 = 256 << 20;
/// Keys in use: several times what fits, so that misses and evictions never end.
const KEYS: u64 = 2_000_000;
/// Seconds of the expiry clock when it begins.
const EPOCH_S: u32 = 1_000_000;
/// Requests between two ends of a batch.
const BATCH: u64 = 64;
/// Items that housekeeping looks at once a second at the end of a batch, as a worker does.
const TEND_ITEMS: u32 = 4096;
/// Shortest sample that could hide a preemption worth asking about.
const SLOW_NS: u64 = 5_000;
/// Longest value; longer ones than a segment holds are kept in chunks.
const VALUE_BYTES_MAX: usize = 1 << 20;
const SECONDS_MAX: u64 = 86_400;

/// What is asked: cache-aside reads, with writes and deletes among them.
struct Traffic {
    rng: Rng,
    name: [u8; 12],
    value: Vec<u8>,
    out: ValueSink,
}

impl Traffic {
    fn new(seed: u64) -> Self {
        let value = vec![b'v'; VALUE_BYTES_MAX];
        Self { rng: Rng::new(seed, 0), name: *b"key-00000000", value, out: ValueSink::default() }
    }

    /// Makes one request.
    fn request(&mut self, engine: &Engine, pin: &mut Pin, now: Now) {
        // The fourth power makes low keys popular.
        let key = (self.rng.unit().powi(4) * KEYS as f64) as u64;
        self.name[4..].copy_from_slice(&key.to_be_bytes());
        let key = engine.key(&self.name);
        let outcome = match self.rng.below(100) {
            0..5 => engine.write(pin, &Op::new(key, Action::Delete), now, &mut NoSink).status,
            5..15 => self.store(engine, pin, now),
            _ => {
                self.out.bytes.clear();
                match engine.get(pin, &key, now, &mut self.out) {
                    Read::Hit => WriteStatus::Done,
                    _ => self.store(engine, pin, now),
                }
            }
        };
        assert!(matches!(outcome, WriteStatus::Done | WriteStatus::NotFound), "{outcome:?}");
    }

    fn store(&mut self, engine: &Engine, pin: &mut Pin, now: Now) -> WriteStatus {
        let value_bytes = self.value_bytes();
        let expiry_s = match self.rng.below(4) {
            0 => now.expiry_s + 1 + self.rng.below(20) as u32,
            1 => now.expiry_s + 1 + self.rng.below(4_000) as u32,
            _ => 0,
        };
        let key = engine.key(&self.name);
        common::set(engine, pin, key, &self.value[..value_bytes], expiry_s, now)
    }

    /// Small values are common; one in ten thousand is large.
    fn value_bytes(&mut self) -> usize {
        let ceiling = match self.rng.below(10_000) {
            0 => VALUE_BYTES_MAX,
            1..100 => 32 << 10,
            100..3_000 => 4 << 10,
            _ => 300,
        };
        self.rng.below(ceiling as u64) as usize
    }
}

/// Switches that this thread did not ask for, so far.
fn preemptions() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD)
        .expect("a thread may ask for its own usage")
        .involuntary_context_switches()
}

/// Samples by length, of at most a minute; longer ones count as that.
fn lengths() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("the bounds are in order")
}

/// Runs requests for `length`; the samples, and those that were preempted.
fn measure(engine: &Engine, pin: &mut Pin, length: Duration, seed: u64) -> [Histogram<u64>; 2] {
    let mut traffic = Traffic::new(seed);
    let (mut kept, mut preempted) = (lengths(), lengths());
    let start = Instant::now();
    let (mut last, mut switches, mut tended_s) = (start, preemptions(), EPOCH_S);
    while last - start < length {
        let seconds = (last - start).as_secs() as u32;
        let now = Now { mono_ns: 0, expiry_s: EPOCH_S + seconds };
        for at in 0..BATCH {
            traffic.request(engine, pin, now);
            if at == BATCH - 1 {
                // The end of a batch belongs to its last request.
                if tended_s != now.expiry_s {
                    tended_s = now.expiry_s;
                    engine.tend(pin, now, TEND_ITEMS, &mut NoSink);
                }
                pin.renew();
            }
            let end = Instant::now();
            let ns = (end - last).as_nanos() as u64;
            last = end;
            let mut lengths = &mut kept;
            if ns >= SLOW_NS {
                let switched = preemptions();
                if switched != switches {
                    (switches, lengths) = (switched, &mut preempted);
                }
                // Reading the count belongs to no sample.
                last = Instant::now();
            }
            lengths.saturating_record(ns);
        }
    }
    [kept, preempted]
}

fn main() {
    let words = common::arguments();
    let words: Vec<u64> = words.iter().map(|word| word.parse().unwrap_or(0)).collect();
    let (seconds, seed) = match words[..] {
        [] => (1, 1),
        [seconds] if (1..=SECONDS_MAX).contains(&seconds) => (seconds, 1),
        [seconds, seed] if (1..=SECONDS_MAX).contains(&seconds) => (seconds, seed),
        _ => {
            eprintln!("usage: churn [SECONDS [SEED]], with 1 to {SECONDS_MAX} seconds");
            std::process::exit(2);
        }
    };
    let (engine, mut locals) = common::open(common::config(LIMIT_BYTES, 1));
    let mut pin = locals.remove(0).pin();
    let [kept, preempted] = measure(&engine, &mut pin, Duration::from_secs(seconds), seed);
    let (usage, counters) = (engine.usage(), engine.counters());
    let report = json!({
        "seconds": seconds,
        "samples": kept.len() + preempted.len(),
        "preempted": preempted.len(),
        "p50_ns": kept.value_at_quantile(0.5),
        "p999_ns": kept.value_at_quantile(0.999),
        "p99999_ns": kept.value_at_quantile(0.99999),
        "longest_ns": kept.max(),
        "longest_preempted_ns": preempted.max(),
        "paid_items_max": usage.paid_items_max,
        "paid_bytes_max": usage.paid_bytes_max,
        "rooms_made": counters.rooms_made,
        "room_items_max": usage.room_items_max,
        "evicted": counters.evicted,
        "expired": counters.expired,
    });
    println!("{report}");
}
