//! How the engine alone scales: two threads on two cores compared with one on one.
//!
//! `cargo bench -p engine --bench scale -- ROUNDS [NAME ..]` prints JSON: for each workload, or for
//! those that are named, the requests per second of one and of two threads, and how often a hit
//! wrote to a line that other threads read.
//! One and two take turns, and so do the workloads, so a slow drift of the machine falls on all;
//! the factor is that of the medians. Some of the workloads say what the machine allows: `control`
//! and `stores_apart`, where each thread has an engine of its own, and `bare`, where one value is
//! read and written without an engine.
//!
//! Requests are drawn before the clock starts: what is measured is the engine, not the generator.

mod bare;
#[path = "../common/mod.rs"]
mod common;
mod full;
mod shared;

use bare::Alone;
use full::Full;
use load::workload::{Op, Popularity, Ratio, Spread, Stream, WorkloadSpec};
use measure::process::{CoreSet, Cores};
use measure::stats::{median, order};
use serde_json::{Value, json};
use shared::Shared;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const KEYS: u64 = 200_000;
const KEY_BYTES: usize = 20;
const VALUE_BYTES: usize = 100;
/// Requests drawn before the start; they are sent again and again.
const DRAWN: usize = 1 << 20;
/// Requests between two ends of a batch.
const BATCH: usize = 64;
/// Length of one turn.
const TURN: Duration = Duration::from_millis(400);
const ROUNDS_MAX: usize = 1000;
const THREADS: usize = 2;

/// What is requested.
struct Workload {
    name: &'static str,
    /// Keys of the requests, by Zipf 1.0.
    keys: u64,
    writes_percent: u32,
    /// How many engines serve the threads.
    engines: usize,
}

const ZIPF: Workload = Workload { name: "zipf", keys: KEYS, writes_percent: 10, engines: 1 };
const HOT_WRITE: Workload = Workload { name: "hot_write", keys: 1, ..ZIPF };
const WORKLOADS: [Workload; 4] = [
    Workload { name: "control", engines: THREADS, ..ZIPF },
    ZIPF,
    Workload { name: "hot_read", keys: 1, writes_percent: 0, ..ZIPF },
    HOT_WRITE,
];

impl Workload {
    /// The bytes of each key, and the requests of each thread.
    fn draw(&self) -> (Vec<[u8; KEY_BYTES]>, Vec<Vec<Drawn>>) {
        let workload = load::workload::Workload::new(&WorkloadSpec {
            keys: self.keys,
            key_bytes: Spread::Fixed(KEY_BYTES as u32),
            key_prefix: "k".to_owned(),
            popularity: Popularity::Zipf(1.0),
            ratio: Ratio::of(100 - self.writes_percent, self.writes_percent),
            value_bytes: Spread::Fixed(VALUE_BYTES as u32),
            ttl_s: Spread::Fixed(0),
            seed: 1,
        });
        let workload = workload.expect("the workloads of the list are possible");
        let name = |key| {
            let mut name = Vec::new();
            workload.keys.write(key, &mut name);
            name.try_into().expect("all keys have one length")
        };
        let lane = |lane| {
            let drawn = Stream::new(&workload, lane, THREADS as u64).take(DRAWN);
            drawn.map(|one| Drawn { key: one.key as u32, write: one.op == Op::Set }).collect()
        };
        ((0..self.keys).map(name).collect(), (0..THREADS as u64).map(lane).collect())
    }
}

/// One request that was drawn.
#[derive(Clone, Copy)]
struct Drawn {
    key: u32,
    write: bool,
}

/// What the turns of some threads found.
#[derive(Default)]
struct Turns {
    per_s: Vec<f64>,
    reads: u64,
    shared_writes: u64,
    torn: u64,
}

impl Turns {
    fn median_per_s(&self) -> f64 {
        median(&self.per_s).unwrap_or_default()
    }
}

/// Runs each of `works` on a core of its own, all at the same time.
fn side_by_side<T: Send, F: FnOnce() -> T + Send>(works: Vec<F>) -> Vec<T> {
    let cores = Cores::find().expect("a process may read its cores");
    assert!(cores.are_apart(), "the machine has a core for each thread");
    let barrier = &Barrier::new(works.len());
    std::thread::scope(|scope| {
        let start = |(core, work): (_, F)| {
            scope.spawn(move || {
                CoreSet::move_here(&core).expect("a thread may move to a core of its process");
                barrier.wait();
                work()
            })
        };
        let cores = [cores.server(), cores.generator()];
        let handles: Vec<_> = cores.into_iter().zip(works).map(start).collect();
        handles.into_iter().map(|handle| handle.join().expect("no thread panics")).collect()
    })
}

/// Works off batches for the length of a turn; requests per second.
fn per_s<T>(drawn: &[T], mut work: impl FnMut(&[T])) -> f64 {
    let mut requests = 0;
    let start = Instant::now();
    for batch in drawn.chunks_exact(BATCH).cycle() {
        work(batch);
        requests += BATCH;
        if start.elapsed() >= TURN {
            break;
        }
    }
    requests as f64 / start.elapsed().as_secs_f64()
}

/// What takes turns with one thread and with two.
trait Contender {
    fn turn(&mut self, threads: usize, turns: &mut Turns);
}

/// A contender, and what its turns with one thread and with two found.
struct Entry {
    name: &'static str,
    contender: Box<dyn Contender>,
    turns: [Turns; THREADS],
}

impl Entry {
    fn new(name: &'static str, contender: impl Contender + 'static) -> Self {
        Self { name, contender: Box::new(contender), turns: Default::default() }
    }

    fn round(&mut self, round: usize) {
        for at in order(THREADS, round) {
            self.contender.turn(at + 1, &mut self.turns[at]);
        }
    }

    fn report(&self) -> Value {
        let [one_per_s, two_per_s] = self.turns.each_ref().map(Turns::median_per_s);
        let Turns { reads, shared_writes, torn, .. } = self.turns[THREADS - 1];
        // Only an engine counts reads.
        let per_hit = |count: u64| (reads > 0).then(|| count as f64 / reads as f64);
        json!({
            "name": self.name,
            "one_per_s": one_per_s,
            "two_per_s": two_per_s,
            "factor": two_per_s / one_per_s,
            "shared_writes_per_hit": per_hit(shared_writes),
            "torn_per_hit": per_hit(torn),
        })
    }
}

/// The workloads of these names; all where there is none.
fn entries(names: &[String]) -> Vec<Entry> {
    let wanted = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    let shared = |workload: &Workload| {
        let (names, drawn) = workload.draw();
        Entry::new(workload.name, Shared::new(workload.engines, names, drawn))
    };
    let workloads = WORKLOADS.iter().filter(|workload| wanted(workload.name));
    let mut entries: Vec<Entry> = workloads.map(shared).collect();
    for (name, engines) in [("stores", 1), ("stores_apart", THREADS)] {
        if wanted(name) {
            entries.push(Entry::new(name, Full::new(engines)));
        }
    }
    if wanted("bare") {
        entries.push(Entry::new("bare", Alone::new(HOT_WRITE.draw().1)));
    }
    entries
}

fn main() {
    let words = common::arguments();
    let (rounds, names) = match &words[..] {
        [] => (Some(1), &[][..]),
        [rounds, names @ ..] => {
            (rounds.parse().ok().filter(|rounds| (1..=ROUNDS_MAX).contains(rounds)), names)
        }
    };
    let mut entries = entries(names);
    let Some(rounds) = rounds.filter(|_| !entries.is_empty()) else {
        eprintln!("usage: scale [ROUNDS [NAME ..]], with 1 to {ROUNDS_MAX} rounds");
        std::process::exit(2);
    };
    for round in 0..rounds {
        entries.iter_mut().for_each(|entry| entry.round(round));
    }
    let workloads: Vec<Value> = entries.iter().map(Entry::report).collect();
    println!("{}", json!({ "rounds": rounds, "workloads": workloads }));
}
