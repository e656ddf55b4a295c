//! Threads that ask an engine.

use crate::{
    BATCH, Contender, Drawn, THREADS, TURN, Turns, VALUE_BYTES, Workload, draw, side_by_side,
};
use base::{MemoryBudget, Now};
use engine::{
    Action, Counters, Engine, EngineConfig, Local, Mode, NoSink, Op, Pin, Read, ValueSink,
    WriteStatus,
};
use std::time::Instant;

const LIMIT_BYTES: u64 = 128 << 20;
const KEY_BYTES: usize = 20;
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };

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
            locals[0].batch(|pin| store(&engine, pin, &name(key)));
        }
        Self { engine, locals }
    }
}

/// An engine for all threads, or one for each.
pub struct Shared {
    cells: Vec<Cell>,
    names: Vec<[u8; KEY_BYTES]>,
    drawn: Vec<Vec<Drawn>>,
}

impl Shared {
    pub fn new(workload: &Workload) -> Self {
        let engines = if workload.apart { THREADS } else { 1 };
        Self {
            cells: (0..engines).map(|_| Cell::filled(workload.keys)).collect(),
            names: (0..workload.keys).map(name).collect(),
            drawn: draw(workload),
        }
    }

    fn counters(&self) -> Vec<Counters> {
        self.cells.iter().map(|cell| cell.engine.counters()).collect()
    }
}

impl Contender for Shared {
    fn turn(&mut self, threads: usize, turns: &mut Turns) {
        let before = self.counters();
        let names = &self.names;
        let slots = self
            .cells
            .iter_mut()
            .flat_map(|cell| cell.locals.iter_mut().map(|local| (&cell.engine, local)));
        // Engines apart: the first slot of each; one engine for all: its first slots.
        let stride = before.len();
        let works = slots
            .step_by(stride)
            .zip(&self.drawn)
            .take(threads)
            .map(|((engine, local), drawn)| move || work(engine, local, names, drawn))
            .collect();
        let found = side_by_side(works);
        turns.per_s.push(found.iter().map(|(per_s, _)| per_s).sum());
        turns.reads += found.iter().map(|(_, reads)| reads).sum::<u64>();
        before.into_iter().zip(self.counters()).for_each(|(was, is)| turns.count(was, is));
    }
}

fn name(key: usize) -> [u8; KEY_BYTES] {
    let mut name = [b'k'; KEY_BYTES];
    let digits = key.to_string();
    name[KEY_BYTES - digits.len()..].copy_from_slice(digits.as_bytes());
    name
}

fn store(engine: &Engine, pin: &mut Pin, name: &[u8]) {
    let value = &[b'v'; VALUE_BYTES];
    let action = Action::Store { mode: Mode::Set, value, client_flags: 0, expiry_s: 0 };
    let wrote = engine.write(pin, &Op::new(engine.key(name), action), NOW, &mut NoSink);
    assert_eq!(wrote.status, WriteStatus::Done, "there is room for every key");
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
        local.batch(|pin| {
            for request in batch {
                let name = &names[request.key as usize];
                if request.write {
                    store(engine, pin, name);
                    continue;
                }
                let read = engine.get(pin, &engine.key(name), NOW, &mut out);
                assert_eq!(read, Read::Hit, "every key is there");
                reads += 1;
            }
        });
        out.bytes.clear();
        asked += BATCH as u64;
        if start.elapsed() >= TURN {
            break;
        }
    }
    (asked as f64 / start.elapsed().as_secs_f64(), reads)
}
