//! Hit ratios in process: the committed streams against the engine and against S3-FIFO by items.
//!
//! ```text
//! cargo bench -p engine --bench policy -- quick
//! cargo bench -p engine --bench policy -- drift scan-20
//! ```
//!
//! The tool to tune the policy with: no wire, no other server, exact time. The second policy is
//! written from the paper and kept by items, at the bytes that the engine held on average; it
//! stands in for a library that `tests/hit_ratio` asks for the last word.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::{MemoryBudget, Now};
use engine::{Action, Engine, EngineConfig, Mode, NoSink, Op, Read, ValueSink, WriteStatus};
use load::replay::{STREAMS, Spec, Trace};
use load::workload;

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
/// Bytes of an item besides key and value, as the engine lays it out.
const HEADER_BYTES: u64 = 16;
const EXPIRY_BYTES: u64 = 4;

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
    fn ratio(&self) -> f64 {
        self.hits as f64 / self.gets.max(1) as f64
    }

    fn count(&mut self, counted: bool, hit: bool) {
        self.gets += u64::from(counted);
        self.hits += u64::from(counted && hit);
    }
}

/// Replays a stream to an engine of its own.
fn with_engine(spec: &Spec) -> Found {
    let limit_bytes = spec.memory_mib << 20;
    let budget = MemoryBudget::new(limit_bytes);
    let config = EngineConfig { locals: 1, ..EngineConfig::new(limit_bytes) };
    let (engine, mut locals) = Engine::new(config, budget).expect("the limit is high enough");
    let mut pin = locals.remove(0).pin();
    let trace = Trace::new(spec).expect("streams of the list are possible");
    let (form, measured_from) = (trace.form().clone(), trace.measured_from());
    let (mut key, mut value, mut out) = (Vec::new(), Vec::new(), ValueSink::default());
    let (mut found, mut samples, mut tended_s) = (Found::default(), 0, 0);
    for (at, step) in (0_u64..).zip(trace) {
        let now = Now { mono_ns: 0, expiry_s: EPOCH_S + step.at_s };
        let request = step.request;
        if at % BATCH_STEPS == 0 {
            pin.renew();
        }
        if tended_s != step.at_s {
            tended_s = step.at_s;
            engine.tend(&mut pin, now, TEND_ITEMS, &mut NoSink);
        }
        key.clear();
        form.keys.write(request.key, &mut key);
        let key = engine.key(&key);
        if request.op == workload::Op::Get {
            out.bytes.clear();
            let hit = engine.get(&pin, &key, now, &mut out) != Read::Miss;
            found.count(at >= measured_from, hit);
            if hit {
                continue;
            }
        }
        value.clear();
        form.values.write(request.key, request.value_bytes, &mut value);
        let expiry_s = if request.ttl_s == 0 { 0 } else { now.expiry_s + request.ttl_s };
        let (mode, client_flags) = (Mode::Set, 0);
        let action = Action::Store { mode, value: &value, client_flags, expiry_s };
        let wrote = engine.write(&mut pin, &Op::new(key, action), now, &mut NoSink);
        assert_eq!(wrote.status, WriteStatus::Done, "a cache that evicts has room");
        if at >= measured_from && at % SAMPLE_STEPS == 0 {
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

/// An item of the reference.
struct Held {
    bytes: u64,
    freq: u8,
    main: bool,
    expiry_s: u32,
    /// Tells an entry of a queue that stands for this item from one left by an earlier life.
    life: u64,
}

/// S3-FIFO by items, as `libcachesim` computes it.
struct ByItems {
    capacity: u64,
    items: HashMap<u64, Held>,
    small: VecDeque<(u64, u64)>,
    main: VecDeque<(u64, u64)>,
    small_bytes: u64,
    main_bytes: u64,
    ghosts: HashMap<u64, (u64, u64)>,
    ghost_queue: VecDeque<(u64, u64)>,
    ghost_bytes: u64,
    lives: u64,
    evicted: bool,
}

impl ByItems {
    fn new(capacity: u64) -> Self {
        Self {
            capacity,
            items: HashMap::new(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            small_bytes: 0,
            main_bytes: 0,
            ghosts: HashMap::new(),
            ghost_queue: VecDeque::new(),
            ghost_bytes: 0,
            lives: 0,
            evicted: false,
        }
    }

    fn small_max(&self) -> u64 {
        self.capacity / 10
    }

    fn remove(&mut self, key: u64) {
        if let Some(held) = self.items.remove(&key) {
            let bytes = if held.main { &mut self.main_bytes } else { &mut self.small_bytes };
            *bytes -= held.bytes;
        }
    }

    /// Counts a use; whether the item was there.
    fn touch(&mut self, key: u64, now_s: u32) -> bool {
        if self.items.get(&key).is_some_and(|held| held.expiry_s != 0 && held.expiry_s <= now_s) {
            self.remove(key);
        }
        let held = self.items.get_mut(&key);
        held.map(|held| held.freq = held.freq.saturating_add(1)).is_some()
    }

    fn insert(&mut self, key: u64, bytes: u64, expiry_s: u32) {
        let remembered = self.ghosts.remove(&key);
        if let Some((_, ghost_bytes)) = remembered {
            self.ghost_bytes -= ghost_bytes;
        }
        while self.small_bytes + self.main_bytes + bytes > self.capacity {
            self.evict();
        }
        let filling = !self.evicted && self.small_bytes + bytes > self.small_max();
        let main = remembered.is_some() || filling;
        self.lives += 1;
        let life = self.lives;
        self.items.insert(key, Held { bytes, freq: 0, main, expiry_s, life });
        self.push(key, life, bytes, main);
    }

    fn push(&mut self, key: u64, life: u64, bytes: u64, main: bool) {
        if main {
            self.main_bytes += bytes;
            self.main.push_back((key, life));
        } else {
            self.small_bytes += bytes;
            self.small.push_back((key, life));
        }
    }

    fn evict(&mut self) {
        self.evicted = true;
        let from_main = self.main_bytes > self.capacity - self.small_max() || self.small_bytes == 0;
        let queue = if from_main { &mut self.main } else { &mut self.small };
        let Some((key, life)) = queue.pop_front() else { return };
        let Some(held) = self.items.get_mut(&key).filter(|held| held.life == life) else { return };
        if held.main != from_main {
            return;
        }
        let bytes = held.bytes;
        let stays = held.freq >= if from_main { 1 } else { 2 };
        if stays {
            held.freq = if from_main { held.freq.min(3) - 1 } else { 0 };
            held.main = true;
            let counted = if from_main { &mut self.main_bytes } else { &mut self.small_bytes };
            *counted -= bytes;
            self.push(key, life, bytes, true);
            return;
        }
        self.remove(key);
        if !from_main {
            self.remember(key, life, bytes);
        }
    }

    fn remember(&mut self, key: u64, life: u64, bytes: u64) {
        self.ghosts.insert(key, (life, bytes));
        self.ghost_queue.push_back((key, life));
        self.ghost_bytes += bytes;
        while self.ghost_bytes > self.capacity / 10 * 9 {
            let Some((key, life)) = self.ghost_queue.pop_front() else { return };
            if self.ghosts.get(&key).is_some_and(|ghost| ghost.0 == life) {
                self.ghosts.remove(&key);
                self.ghost_bytes -= bytes;
            }
        }
    }
}

/// Replays a stream to S3-FIFO by items, with a limit in bytes.
fn by_items(spec: &Spec, capacity: u64) -> Found {
    let trace = Trace::new(spec).expect("streams of the list are possible");
    let (form, measured_from) = (trace.form().clone(), trace.measured_from());
    let mut cache = ByItems::new(capacity);
    let mut found = Found::default();
    for (at, step) in (0_u64..).zip(trace) {
        let request = step.request;
        let now_s = EPOCH_S + step.at_s;
        let expiry_bytes = if request.ttl_s == 0 { 0 } else { EXPIRY_BYTES };
        let content_bytes = form.keys.bytes() as u64 + u64::from(request.value_bytes);
        let bytes = (HEADER_BYTES + expiry_bytes + content_bytes).next_multiple_of(8);
        let expiry_s = if request.ttl_s == 0 { 0 } else { now_s + request.ttl_s };
        let hit = cache.touch(request.key, now_s);
        if request.op == workload::Op::Get {
            found.count(at >= measured_from, hit);
            if hit {
                continue;
            }
        }
        match cache.items.get_mut(&request.key) {
            Some(held) if held.bytes == bytes => held.expiry_s = expiry_s,
            _ => {
                cache.remove(request.key);
                cache.insert(request.key, bytes, expiry_s);
            }
        }
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

fn main() {
    // `cargo bench` adds `--bench` to what it is given.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let streams = chosen(&words);
    if streams.is_empty() {
        eprintln!("usage: policy quick | full | STREAM...");
        // Without a word nothing is wanted: so run all benches of the crate.
        std::process::exit(if words.is_empty() { 0 } else { 2 });
    }
    let alone = std::env::var_os("ENGINE_ONLY").is_some();
    let next = AtomicUsize::new(0);
    let lines = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(streams.len()) {
            scope.spawn(|| {
                while let Some(spec) = streams.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let ours = with_engine(spec);
                    let (held, pool) = if alone {
                        (0.0, 0.0)
                    } else {
                        let at = |bytes| 100.0 * by_items(spec, bytes).ratio();
                        (at(ours.held_bytes), at(ours.pool_bytes))
                    };
                    let ratio = 100.0 * ours.ratio();
                    let fill = 100.0 * ours.held_bytes as f64 / ours.pool_bytes as f64;
                    let line = format!(
                        "{:16} engine {ratio:6.2}  by items {held:6.2}  in the whole pool \
                         {pool:6.2}  fill {fill:4.1}%  {}",
                        spec.name, ours.notes
                    );
                    lines.lock().expect("no thread panicked").push((spec.name, line));
                }
            });
        }
    });
    let mut lines = lines.into_inner().expect("no thread panicked");
    lines.sort_by_key(|(name, _)| streams.iter().position(|spec| spec.name == *name));
    for (_, line) in lines {
        println!("{line}");
    }
}
