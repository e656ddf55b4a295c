//! Threads that send requests to an engine.
//!
//! The requests and the bytes of all keys exist before a turn begins. Every key is stored at the
//! start and fits, so each read is a hit.

use crate::{
    Contender, Drawn, KEY_BYTES, THREADS, Turns, VALUE_BYTES, common, per_s, side_by_side,
};
use base::Now;
use engine::{Counters, Engine, Local, Pin, Read, ValueSink, WriteStatus};

const LIMIT_BYTES: u64 = 128 << 20;
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };

type Name = [u8; KEY_BYTES];

/// An engine for all threads, or one for each.
pub struct Shared {
    cells: Vec<(Engine, Vec<Local>)>,
    names: Vec<Name>,
    drawn: Vec<Vec<Drawn>>,
}

impl Shared {
    pub fn new(engines: usize, names: Vec<Name>, drawn: Vec<Vec<Drawn>>) -> Self {
        let filled = |_| {
            let (engine, mut locals) = common::open(common::config(LIMIT_BYTES, THREADS));
            names.iter().for_each(|name| locals[0].batch(|pin| store(&engine, pin, name)));
            (engine, locals)
        };
        Self { cells: (0..engines).map(filled).collect(), names, drawn }
    }

    fn counters(&self) -> Vec<Counters> {
        self.cells.iter().map(|(engine, _)| engine.counters()).collect()
    }
}

impl Contender for Shared {
    fn turn(&mut self, threads: usize, turns: &mut Turns) {
        let before = self.counters();
        let names = &self.names;
        let cells = self.cells.iter_mut();
        let locals =
            cells.flat_map(|(engine, locals)| locals.iter_mut().map(|one| (&*engine, one)));
        // Engines apart: the first local of each; one engine for all: its first locals.
        let works = locals.step_by(before.len()).zip(&self.drawn).take(threads);
        let works = works.map(|((engine, local), drawn)| move || work(engine, local, names, drawn));
        let found = side_by_side(works.collect());
        turns.per_s.push(found.iter().map(|(per_s, _)| per_s).sum());
        turns.reads += found.iter().map(|(_, reads)| reads).sum::<u64>();
        for (before, after) in before.into_iter().zip(self.counters()) {
            turns.shared_writes += after.shared_writes - before.shared_writes;
            turns.torn += after.torn - before.torn;
        }
    }
}

fn store(engine: &Engine, pin: &mut Pin, name: &Name) {
    let status = common::set(engine, pin, engine.key(name), &[b'v'; VALUE_BYTES], 0, NOW);
    assert_eq!(status, WriteStatus::Done, "there is room for every key");
}

/// Requests per second over one turn, and how many of them were reads.
fn work(engine: &Engine, local: &mut Local, names: &[Name], drawn: &[Drawn]) -> (f64, u64) {
    let (mut out, mut reads) = (ValueSink::default(), 0);
    let per_s = per_s(drawn, |batch| {
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
    });
    (per_s, reads)
}
