//! What the log costs a request, in instructions.
//!
//! `cargo bench -p effects --bench emission` runs itself under callgrind, each stream at two
//! numbers of requests, and prints the difference divided by that of the requests. Values are 300
//! bytes in one part, keys 20. A reader passes its mark at the end of each batch. What the loop
//! and the stamp cost is a stream of its own, `no log`, and is subtracted from the others.

use base::{
    Change, Effect, EffectSink, Facts, KeyId, MemoryBudget, NoSink, Removal, SLICES, SliceId,
    Space, Value, Version,
};
use effects::{Joining, Lanes, LanesConfig, Level, Log, Mark, ReaderId, Who, WorkerSink};
use measure::process::{Exec, INSTRUCTIONS, Instrument, per_request};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, fs, hint, process};

/// Requests of the two runs.
const REQUESTS: (u64, u64) = (64_000, 192_000);
/// Longest that a run may take.
const RUN_MAX: Duration = Duration::from_secs(120);
const VALUE_BYTES: usize = 300;
const KEYS: usize = 64;
const LEVEL: Level = Level::new(0).expect("a level");

/// What is measured: its name, and the requests of a batch.
const STREAMS: [(&str, u64); 7] = [
    ("no log", 16),
    ("set, depth 1", 1),
    ("set, depth 16", 16),
    ("set, depth 256", 256),
    ("delete, depth 16", 16),
    ("check, settled", 16),
    ("check, not settled", 16),
];

/// One lane, its reader, a sink, and keys with their slices.
struct Bench {
    lanes: Arc<Lanes>,
    sink: WorkerSink,
    reader: ReaderId,
    keys: Vec<([u8; 20], KeyId)>,
    /// The versions of an engine.
    versions: Vec<AtomicU64>,
    value: Vec<u8>,
}

impl Bench {
    fn new() -> Self {
        let config = LanesConfig {
            lanes: 1,
            sinks: 2,
            bytes: 8 << 20,
            value_bytes_max: 1 << 20,
            follows: false,
        };
        let lanes = Lanes::new(&config, &MemoryBudget::new(1 << 30)).expect("enough memory");
        let joining =
            Joining { who: Who::Copy(1), from: None, holds: Some(Mark::Written), grants: None };
        let (_, log) = lanes.logs().next().expect("one lane");
        let reader = log.join(&joining).expect("the first reader");
        assert!(log.set_level(LEVEL, &[(reader, Mark::Written)]));
        let key = |number: usize| {
            let mut key = *b"a key of 20 bytes 00";
            key[18..].copy_from_slice(&(number as u16).to_be_bytes());
            (key, KeyId { slice: SliceId::of(&key), hash: number as u64 })
        };
        Self {
            sink: WorkerSink::new(lanes.clone()),
            lanes,
            reader,
            keys: (0..KEYS).map(key).collect(),
            versions: (0..SLICES).map(|_| AtomicU64::new(0)).collect(),
            value: vec![b'v'; VALUE_BYTES],
        }
    }

    fn log(&self) -> &Log {
        self.lanes.logs().next().expect("one lane").1
    }

    #[inline(never)]
    fn set(&mut self, number: usize) {
        let change = Change::Put(Value::Parts([&self.value, &[]]), Facts::default());
        emit(&mut self.sink, &self.keys[number % KEYS], &self.versions, change);
    }

    #[inline(never)]
    fn set_without(&mut self, number: usize) {
        let change = Change::Put(Value::Parts([&self.value, &[]]), Facts::default());
        emit(&mut NoSink, &self.keys[number % KEYS], &self.versions, change);
    }

    #[inline(never)]
    fn delete(&mut self, number: usize) {
        let change = Change::Remove(Removal::Deleted);
        emit(&mut self.sink, &self.keys[number % KEYS], &self.versions, change);
    }

    #[inline(never)]
    fn check(&self, number: usize) -> bool {
        let (_, id) = &self.keys[number % KEYS];
        self.lanes.wait_for(LEVEL, id.slice, Some(Version::from_raw(1))).is_none()
    }

    fn end_batch(&mut self) {
        self.sink.end_batch();
        let log = self.log();
        hint::black_box(log.pass(self.reader, Mark::Written, log.end()));
    }
}

/// Emits a change as an engine does.
#[inline(always)]
fn emit(
    sink: &mut impl EffectSink,
    (key, id): &([u8; 20], KeyId),
    versions: &[AtomicU64],
    change: Change<'_>,
) {
    let value_bytes = change.value_bytes();
    let value = if let Change::Put(value, _) = change { Some(value) } else { None };
    let space = Space::Change { key_bytes: key.len(), value_bytes, value };
    sink.reserve(id.slice, space).expect("the reader is fast");
    let stamp = || {
        let counter = &versions[id.slice.index()];
        let version = counter.load(Ordering::Relaxed) + 1;
        counter.store(version, Ordering::Relaxed);
        Ok(Version::from_raw(version))
    };
    let version = sink.commit(*id, &Effect { key, change }, stamp).expect("the log leads");
    hint::black_box(version);
}

fn run(stream: &str, per_batch: u64, requests: u64) {
    let mut bench = Bench::new();
    (0..KEYS).for_each(|number| bench.set(number));
    if stream != "check, not settled" {
        bench.end_batch();
    }
    let ask: fn(&mut Bench, usize) = match stream.split(',').next() {
        Some("set") => |bench, number| bench.set(number),
        Some("delete") => |bench, number| bench.delete(number),
        Some("check") => |bench, number| _ = hint::black_box(bench.check(number)),
        _ => |bench, number| bench.set_without(number),
    };
    let has_batches = !stream.starts_with(['n', 'c']);
    let mut number = 0;
    for _ in 0..requests / per_batch {
        for _ in 0..per_batch {
            ask(&mut bench, number);
            number += 1;
        }
        if has_batches {
            bench.end_batch();
        }
    }
}

fn instructions(stream: &str, requests: u64) -> measure::process::Counts {
    let file = env::temp_dir().join(format!("emission-{}-{requests}.out", process::id()));
    let words = Instrument::Callgrind.words(&file);
    let this = env::current_exe().expect("this program");
    let exec = Exec::new(&words[0]).args(&words[1..]).arg(this);
    let exec = exec.args(["run", stream, &requests.to_string()]);
    exec.capture(RUN_MAX).expect("the run succeeds");
    let counts = Instrument::Callgrind.read(&file).expect("callgrind writes its counts");
    fs::remove_file(&file).expect("the file is ours");
    counts
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [run_word, stream, requests] = &words[..]
        && run_word == "run"
    {
        let (stream, per_batch) =
            STREAMS.into_iter().find(|(name, _)| name == stream).expect("a stream");
        return run(stream, per_batch, requests.parse().expect("a number"));
    }
    let mut nothing = 0.0;
    for (stream, _) in STREAMS {
        let (few, many) = (instructions(stream, REQUESTS.0), instructions(stream, REQUESTS.1));
        let each = per_request(&few, &many, REQUESTS)[INSTRUCTIONS];
        if stream == "no log" {
            nothing = each;
        }
        println!("{stream:<20} {:6.1} instructions", each - nothing);
    }
    println!("{:<20} {nothing:6.1} instructions, subtracted above", "the loop");
}
