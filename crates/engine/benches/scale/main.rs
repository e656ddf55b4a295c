//! How the engine alone scales: two threads on two cores against one on one.
//!
//! `cargo bench -p engine --bench scale -- ROUNDS` prints JSON: for each workload the
//! requests per second of one and of two threads, and how often a hit wrote to a line that other
//! threads read. One and two take turns, and so do the workloads, so the machine's mood falls on
//! all; the factor is that of the medians. Two of the workloads say what the machine allows: the
//! control, where each thread has an engine of its own, and `bare`, where one value is read and
//! written without an engine.
//!
//! Requests are drawn before the clock starts: what is measured is the engine, not the generator.

mod bare;
mod shared;

use bare::Alone;
use engine::Counters;
use measure::rng::Rng;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use shared::Shared;
use std::sync::Barrier;
use std::time::Duration;

const KEYS: usize = 200_000;
const VALUE_BYTES: usize = 100;
/// Requests drawn before the start; they are asked again and again.
const DRAWN: usize = 1 << 20;
/// Requests between two ends of a batch.
const BATCH: usize = 64;
/// Length of one turn.
const TURN: Duration = Duration::from_millis(400);
const ROUNDS_MAX: usize = 1000;
const THREADS: usize = 2;

/// What is asked.
struct Workload {
    name: &'static str,
    /// Keys that are asked for, by Zipf 1.0.
    keys: usize,
    writes_percent: u64,
    /// Whether each thread has an engine of its own.
    apart: bool,
}

const ZIPF: Workload = Workload { name: "zipf", keys: KEYS, writes_percent: 10, apart: false };
const HOT_WRITE: Workload = Workload { name: "hot_write", keys: 1, ..ZIPF };
const WORKLOADS: [Workload; 4] = [
    Workload { name: "control", apart: true, ..ZIPF },
    ZIPF,
    Workload { name: "hot_read", keys: 1, writes_percent: 0, ..ZIPF },
    HOT_WRITE,
];

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
    fn median_per_s(&mut self) -> f64 {
        self.per_s.sort_by(f64::total_cmp);
        self.per_s[self.per_s.len() / 2]
    }

    /// What the engine counted of its hits, if there was one.
    fn counted(&self) -> Option<String> {
        let per_hit = |count: u64| count as f64 / self.reads as f64;
        let (shared, torn) = (per_hit(self.shared_writes), per_hit(self.torn));
        let line = format!(", \"shared_writes_per_hit\": {shared:.6}, \"torn_per_hit\": {torn:.6}");
        (self.reads > 0).then_some(line)
    }

    fn count(&mut self, before: Counters, after: Counters) {
        self.shared_writes += after.shared_writes - before.shared_writes;
        self.torn += after.torn - before.torn;
    }
}

/// What each thread asks for.
fn draw(workload: &Workload) -> Vec<Vec<Drawn>> {
    let mut total = 0.0;
    let mut weigh = |rank: usize| {
        total += 1.0 / rank as f64;
        total
    };
    let sums: Vec<f64> = (1..=workload.keys).map(&mut weigh).collect();
    let one = |rng: &mut Rng| {
        let at = rng.unit() * total;
        let key = sums.partition_point(|sum| *sum < at).min(workload.keys - 1) as u32;
        Drawn { key, write: rng.below(100) < workload.writes_percent }
    };
    let lane = |lane: usize| {
        let mut rng = Rng::new(1, lane as u64);
        (0..DRAWN).map(|_| one(&mut rng)).collect()
    };
    (0..THREADS).map(lane).collect()
}

/// Runs each of `works` on a core of its own, all at the same time.
fn side_by_side<T: Send, F: FnOnce() -> T + Send>(works: Vec<F>) -> Vec<T> {
    let barrier = &Barrier::new(works.len());
    std::thread::scope(|scope| {
        let start = |(core, work): (usize, F)| {
            scope.spawn(move || {
                let mut cores = CpuSet::new();
                cores.set(core).expect("a set of cores has room for two");
                sched_setaffinity(Pid::from_raw(0), &cores)
                    .expect("the machine has a core for each thread");
                barrier.wait();
                work()
            })
        };
        let handles: Vec<_> = works.into_iter().enumerate().map(start).collect();
        handles.into_iter().map(|handle| handle.join().expect("no thread panics")).collect()
    })
}

/// What takes turns with one thread and with two.
trait Contender {
    fn turn(&mut self, threads: usize, turns: &mut Turns);
}

/// A contender and what its turns found.
struct Entry {
    name: &'static str,
    contender: Box<dyn Contender>,
    one: Turns,
    two: Turns,
}

impl Entry {
    fn new(name: &'static str, contender: impl Contender + 'static) -> Self {
        let contender = Box::new(contender);
        Self { name, contender, one: Turns::default(), two: Turns::default() }
    }

    /// One first, then two first.
    fn round(&mut self, round: usize) {
        for threads in if round.is_multiple_of(2) { [1, 2] } else { [2, 1] } {
            let turns = if threads == 1 { &mut self.one } else { &mut self.two };
            self.contender.turn(threads, turns);
        }
    }

    /// A line of JSON.
    fn line(&mut self) -> String {
        let (one_per_s, two_per_s) = (self.one.median_per_s(), self.two.median_per_s());
        format!(
            "{{\"name\": \"{}\", \"one_per_s\": {one_per_s:.0}, \"two_per_s\": {two_per_s:.0}, \
             \"factor\": {:.3}{}}}",
            self.name,
            two_per_s / one_per_s,
            self.two.counted().unwrap_or_default(),
        )
    }
}

fn main() {
    // `cargo bench` adds `--bench` to what it is given.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let rounds = match &words[..] {
        [] => Some(1),
        [rounds] => rounds.parse().ok().filter(|rounds| (1..=ROUNDS_MAX).contains(rounds)),
        _ => None,
    };
    let Some(rounds) = rounds else {
        eprintln!("usage: scale [ROUNDS], with 1 to {ROUNDS_MAX} rounds");
        std::process::exit(2);
    };
    let mut entries: Vec<Entry> =
        WORKLOADS.iter().map(|it| Entry::new(it.name, Shared::new(it))).collect();
    entries.push(Entry::new("bare", Alone::new(&HOT_WRITE)));
    for round in 0..rounds {
        entries.iter_mut().for_each(|entry| entry.round(round));
    }
    let lines: Vec<String> = entries.iter_mut().map(Entry::line).collect();
    println!("{{\"rounds\": {rounds}, \"workloads\": [\n{}\n]}}", lines.join(",\n"));
}
