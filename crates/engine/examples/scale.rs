//! How the engine alone scales: two threads on two cores against one on one.
//!
//! `cargo run --release -p engine --example scale -- ROUNDS` prints JSON: for each workload the
//! requests per second of one and of two threads, and how often a hit wrote to a line that other
//! threads read. One and two take turns, so the machine's mood falls on both; the factor is that of
//! the medians. The control gives each thread an engine of its own: what the machine itself allows.
//!
//! Requests are drawn before the clock starts: what is measured is the engine, not the generator.

use base::{MemoryBudget, Now};
use engine::{
    Action, Counters, Engine, EngineConfig, Local, Mode, NoSink, Op, Outcome, Read, ValueSink,
};
use load::rng::Rng;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const LIMIT_BYTES: u64 = 128 << 20;
const KEYS: usize = 200_000;
const KEY_BYTES: usize = 20;
const VALUE_BYTES: usize = 100;
/// Requests drawn before the start; they are asked again and again.
const DRAWN: usize = 1 << 20;
/// Requests between two ends of a batch.
const BATCH: usize = 64;
/// Length of one turn.
const TURN: Duration = Duration::from_millis(400);
/// Turns of one thread and of two, when the command does not say.
const ROUNDS: usize = 9;
const ROUNDS_MAX: usize = 1000;
const THREADS: usize = 2;
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };

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
const WORKLOADS: [Workload; 4] = [
    Workload { name: "control", apart: true, ..ZIPF },
    ZIPF,
    Workload { name: "hot_read", keys: 1, writes_percent: 0, ..ZIPF },
    Workload { name: "hot_write", keys: 1, ..ZIPF },
];

/// One request that was drawn.
#[derive(Clone, Copy)]
struct Drawn {
    key: u32,
    write: bool,
}

/// An engine, and a local for each thread.
struct Cell {
    engine: Engine,
    locals: Vec<Local>,
}

impl Cell {
    fn filled(keys: usize) -> Self {
        let config = EngineConfig { locals: THREADS, ..EngineConfig::new(LIMIT_BYTES) };
        let (engine, mut locals) =
            Engine::new(config, MemoryBudget::new(LIMIT_BYTES)).expect("the limit is high enough");
        for key in 0..keys {
            engine.pin(&locals[0]);
            store(&engine, &mut locals[0], &name(key));
            engine.unpin(&locals[0]);
        }
        Self { engine, locals }
    }
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

    fn count(&mut self, before: Counters, after: Counters) {
        self.shared_writes += after.shared_writes - before.shared_writes;
        self.torn += after.torn - before.torn;
    }
}

fn name(key: usize) -> [u8; KEY_BYTES] {
    let mut name = [b'k'; KEY_BYTES];
    let digits = key.to_string();
    name[KEY_BYTES - digits.len()..].copy_from_slice(digits.as_bytes());
    name
}

fn store(engine: &Engine, local: &mut Local, name: &[u8]) {
    let value = &[b'v'; VALUE_BYTES];
    let action = Action::Store { mode: Mode::Set, value, client_flags: 0, expiry_s: 0 };
    let wrote = engine.write(local, &Op::new(engine.key(name), action), NOW, &mut NoSink);
    assert_eq!(wrote.outcome, Outcome::Done, "there is room for every key");
}

fn draw(workload: &Workload, lane: usize) -> Vec<Drawn> {
    let mut total = 0.0;
    let mut weigh = |rank: usize| {
        total += 1.0 / rank as f64;
        total
    };
    let sums: Vec<f64> = (1..=workload.keys).map(&mut weigh).collect();
    let mut rng = Rng::new(1, lane as u64);
    let mut one = || {
        let at = rng.unit() * total;
        let key = sums.partition_point(|sum| *sum < at).min(workload.keys - 1) as u32;
        Drawn { key, write: rng.below(100) < workload.writes_percent }
    };
    (0..DRAWN).map(|_| one()).collect()
}

/// Asks for the length of a turn; requests per second, and how many of them read.
fn work(
    engine: &Engine,
    local: &mut Local,
    names: &[[u8; KEY_BYTES]],
    drawn: &[Drawn],
) -> (f64, u64) {
    let mut out = ValueSink::default();
    let (mut asked, mut reads) = (0_u64, 0);
    let start = Instant::now();
    for batch in drawn.chunks_exact(BATCH).cycle() {
        engine.pin(local);
        for request in batch {
            let name = &names[request.key as usize];
            if request.write {
                store(engine, local, name);
                continue;
            }
            let read = engine.get(local, &engine.key(name), NOW, &mut out);
            assert_eq!(read, Read::Hit, "every key is there");
            reads += 1;
        }
        engine.unpin(local);
        out.bytes.clear();
        asked += BATCH as u64;
        if start.elapsed() >= TURN {
            break;
        }
    }
    (asked as f64 / start.elapsed().as_secs_f64(), reads)
}

/// One turn of so many threads, each on a core of its own.
fn turn(cells: &mut [Cell], names: &[[u8; KEY_BYTES]], drawn: &[Vec<Drawn>], turns: &mut Turns) {
    let threads = drawn.len();
    let counters = |cells: &[Cell]| -> Vec<Counters> {
        cells.iter().map(|cell| cell.engine.counters()).collect()
    };
    let before = counters(cells);
    let mut seats: Vec<(&Engine, &mut Local)> = cells
        .iter_mut()
        .flat_map(|cell| cell.locals.iter_mut().map(|local| (&cell.engine, local)))
        .collect();
    // Engines apart: the first seat of each; one engine for all: its first seats.
    let stride = seats.len() / THREADS;
    let mut taken: Vec<_> = seats.drain(..).step_by(stride).take(threads).collect();
    let barrier = Barrier::new(threads);
    let found: Vec<(f64, u64)> = std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for (core, ((engine, local), drawn)) in taken.drain(..).zip(drawn).enumerate() {
            let barrier = &barrier;
            handles.push(scope.spawn(move || {
                let mut cores = CpuSet::new();
                cores.set(core).expect("a set of cores has room for two");
                sched_setaffinity(Pid::from_raw(0), &cores)
                    .expect("the machine has a core for each thread");
                barrier.wait();
                work(engine, local, names, drawn)
            }));
        }
        handles.into_iter().map(|handle| handle.join().expect("no thread panics")).collect()
    });
    turns.per_s.push(found.iter().map(|(per_s, _)| per_s).sum());
    turns.reads += found.iter().map(|(_, reads)| reads).sum::<u64>();
    before.into_iter().zip(counters(cells)).for_each(|(before, after)| turns.count(before, after));
}

/// Lets one thread and two take turns; a line of JSON.
fn measure(workload: &Workload, rounds: usize) -> String {
    let names: Vec<_> = (0..workload.keys).map(name).collect();
    let drawn: Vec<_> = (0..THREADS).map(|lane| draw(workload, lane)).collect();
    let engines = if workload.apart { THREADS } else { 1 };
    let mut cells: Vec<_> = (0..engines).map(|_| Cell::filled(workload.keys)).collect();
    let (mut one, mut two) = (Turns::default(), Turns::default());
    for round in 0..rounds {
        // One first, then two first.
        for threads in if round % 2 == 0 { [1, 2] } else { [2, 1] } {
            let turns = if threads == 1 { &mut one } else { &mut two };
            turn(&mut cells, &names, &drawn[..threads], turns);
        }
    }
    let (one_per_s, two_per_s) = (one.median_per_s(), two.median_per_s());
    let per_hit = |count: u64| count as f64 / two.reads as f64;
    format!(
        "{{\"name\": \"{}\", \"one_per_s\": {one_per_s:.0}, \"two_per_s\": {two_per_s:.0}, \
         \"factor\": {:.3}, \"shared_writes_per_hit\": {:.6}, \"torn_per_hit\": {:.6}}}",
        workload.name,
        two_per_s / one_per_s,
        per_hit(two.shared_writes),
        per_hit(two.torn),
    )
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds = match &words[..] {
        [] => Some(ROUNDS),
        [rounds] => rounds.parse().ok().filter(|rounds| (1..=ROUNDS_MAX).contains(rounds)),
        _ => None,
    };
    let Some(rounds) = rounds else {
        eprintln!("usage: scale [ROUNDS], with 1 to {ROUNDS_MAX} rounds");
        std::process::exit(2);
    };
    let lines: Vec<String> = WORKLOADS.iter().map(|workload| measure(workload, rounds)).collect();
    println!("{{\"rounds\": {rounds}, \"workloads\": [\n{}\n]}}", lines.join(",\n"));
}
