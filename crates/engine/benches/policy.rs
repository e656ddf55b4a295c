//! Hit ratios in process: the committed streams against the engine and against S3-FIFO by items.
//!
//! ```text
//! cargo bench -p engine --bench policy -- quick
//! cargo bench -p engine --bench policy -- drift scan-20
//! ```
//!
//! The tool to tune the policy with: no wire, no other server, exact time. The second policy keeps
//! items one by one (`doubles::policy`), at the bytes that the engine held on average; it stands in
//! for a library, which `tests/hit_ratio` runs for the final result. With `ENGINE_ONLY` set it is
//! not run.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base::Now;
use doubles::policy::{Items, Policy, charge};
use engine::{NoSink, Read, ValueSink, WriteStatus};
use load::replay::{STREAMS, Spec, Step, Trace};
use load::workload::{Op, Request, Workload};

/// Streams replayed at once.
const THREADS: usize = 2;
/// Steps between two looks at what the engine holds.
const SAMPLE_STEPS: u64 = 10_000;
/// Steps between two ends of a batch.
const BATCH_STEPS: u64 = 64;
/// Items that housekeeping looks at, once a second of the stream's clock.
const TEND_ITEMS: u32 = 4096;
/// The expiry clock when a stream begins.
const EPOCH_S: u32 = 1_000_000;
/// What a replay found.
#[derive(Default)]
struct Found {
    gets: u64,
    hits: u64,
    /// Means over the steps that count.
    held_bytes: u64,
    pool_bytes: u64,
    notes: String,
}

impl Found {
    fn percent(&self) -> f64 {
        100.0 * self.hits as f64 / self.gets.max(1) as f64
    }

    fn count(&mut self, counted: bool, hit: bool) {
        self.gets += u64::from(counted);
        self.hits += u64::from(counted && hit);
    }
}

/// The keys and values of a stream, and its steps: number, whether its hit counts, step.
fn steps(spec: &Spec) -> (Arc<Workload>, impl Iterator<Item = (u64, bool, Step)>) {
    let trace = Trace::new(spec).expect("streams of the list are possible");
    let (form, measured_from) = (Arc::clone(trace.form()), trace.measured_from());
    (form, (0..).zip(trace).map(move |(at, step)| (at, at >= measured_from, step)))
}

/// Replays a stream to an engine of its own.
fn with_engine(spec: &Spec) -> Found {
    let limit_bytes = spec.memory_mib << 20;
    let (engine, mut locals) = common::open(limit_bytes, 1);
    let mut pin = locals.remove(0).pin();
    let (form, steps) = steps(spec);
    let (mut key, mut value, mut out) = (Vec::new(), Vec::new(), ValueSink::default());
    let (mut found, mut samples, mut tended_s) = (Found::default(), 0, 0);
    for (at, counts, Step { at_s, request }) in steps {
        let now = Now { mono_ns: 0, expiry_s: EPOCH_S + at_s };
        if at % BATCH_STEPS == 0 {
            pin.renew();
        }
        if tended_s != at_s {
            tended_s = at_s;
            engine.tend(&mut pin, now, TEND_ITEMS, &mut NoSink);
        }
        key.clear();
        form.keys.write(request.key, &mut key);
        let key = engine.key(&key);
        if request.op == Op::Get {
            out.bytes.clear();
            let hit = engine.get(&pin, &key, now, &mut out) != Read::Miss;
            found.count(counts, hit);
            if hit {
                continue;
            }
        }
        value.clear();
        form.values.write(request.key, request.value_bytes, &mut value);
        let expiry_s = if request.ttl_s == 0 { 0 } else { now.expiry_s + request.ttl_s };
        let status = common::set(&engine, &mut pin, key, &value, expiry_s, now);
        assert_eq!(status, WriteStatus::Done, "a cache that evicts has room");
        if counts && at % SAMPLE_STEPS == 0 {
            found.held_bytes += engine.counters().item_words * 8;
            found.pool_bytes += engine.usage().segments * engine.usage().segment_bytes;
            samples += 1;
        }
    }
    let (counters, usage) = (engine.counters(), engine.usage());
    found.held_bytes /= samples.max(1);
    found.pool_bytes /= samples.max(1);
    found.notes = format!(
        "items {} index {:.1}% small {} main {} kept {} compacted {} ghost hits {} evicted {}",
        counters.items,
        100.0 * usage.index_bytes as f64 / limit_bytes as f64,
        usage.segments_small,
        usage.segments_main,
        counters.kept,
        counters.compacted,
        counters.ghost_hits,
        counters.evicted,
    );
    found
}

/// Replays a stream to S3-FIFO by items, in `capacity_bytes`.
fn by_items(spec: &Spec, capacity_bytes: u64) -> Found {
    let mut cache = Items::new(Policy::S3Fifo, capacity_bytes);
    let (mut found, (form, steps)) = (Found::default(), steps(spec));
    for (_, counts, Step { at_s, request: Request { op, key, value_bytes, ttl_s } }) in steps {
        let (value_bytes, ttl_s, now_s) = (value_bytes as usize, ttl_s.into(), u64::from(at_s));
        if op == Op::Get {
            let hit = cache.get(&key, now_s).is_some();
            found.count(counts, hit);
            if hit {
                continue;
            }
        }
        let expires_s = if ttl_s == 0 { 0 } else { now_s + ttl_s };
        let bytes = charge(form.keys.bytes(), value_bytes, ttl_s);
        cache.set(key, value_bytes, bytes, expires_s, now_s);
    }
    found
}

/// The streams that the words name.
fn chosen(words: &[String]) -> Vec<&'static Spec> {
    let is = |word: &str, spec: &Spec| match word {
        "full" => true,
        "quick" => spec.quick,
        name => spec.name == name,
    };
    STREAMS.iter().filter(|spec| words.iter().any(|word| is(word, spec))).collect()
}

/// Replays a stream to both, and describes the result in one line.
fn line(spec: &Spec, is_alone: bool) -> String {
    let ours = with_engine(spec);
    let at = |bytes| if is_alone { 0.0 } else { by_items(spec, bytes).percent() };
    format!(
        "{:16} engine {:6.2}  by items {:6.2}  in the whole pool {:6.2}  fill {:4.1}%  {}",
        spec.name,
        ours.percent(),
        at(ours.held_bytes),
        at(ours.pool_bytes),
        100.0 * ours.held_bytes as f64 / ours.pool_bytes as f64,
        ours.notes
    )
}

fn main() {
    let words = common::arguments();
    let streams = chosen(&words);
    if streams.is_empty() {
        eprintln!("usage: policy quick | full | STREAM...");
        // Without a word nothing is requested, as when all benches of the crate run.
        std::process::exit(if words.is_empty() { 0 } else { 2 });
    }
    let is_alone = std::env::var_os("ENGINE_ONLY").is_some();
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(vec![String::new(); streams.len()]));
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(streams.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(spec) = streams.get(at) else { break };
                    let line = line(spec, is_alone);
                    lines.lock().expect("no thread panicked")[at] = line;
                }
            });
        }
    });
    println!("{}", lines.into_inner().expect("no thread panicked").join("\n"));
}
