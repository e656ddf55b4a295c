//! Threads that store new keys in engines that are full: each store takes memory and evicts.
//!
//! Each name is stored once, so nothing is overwritten in place. An engine for all threads shows
//! what they share; an engine for each is the control.

use crate::{Contender, KEY_BYTES, THREADS, Turns, VALUE_BYTES, common, per_s, side_by_side};
use base::Now;
use engine::{Engine, Local, WriteStatus};

const LIMIT_BYTES: u64 = 128 << 20;
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
/// The stores of a turn are not drawn: a name is a number.
const STORES: [(); 1 << 16] = [(); 1 << 16];

/// A thread's local in its engine, and the names that it has stored.
struct Lane {
    local: Local,
    next: u64,
}

/// An engine for all threads, or one for each.
pub struct Full {
    cells: Vec<(Engine, Vec<Lane>)>,
}

impl Full {
    pub fn new(engines: usize) -> Self {
        Self { cells: (0..engines).map(|_| filled()).collect() }
    }
}

fn filled() -> (Engine, Vec<Lane>) {
    let (engine, locals) = common::open(common::config(LIMIT_BYTES, THREADS));
    // The names of two threads differ in their upper half.
    let lane = |(nth, local)| Lane { local, next: (nth as u64) << 32 };
    let mut lanes: Vec<Lane> = locals.into_iter().enumerate().map(lane).collect();
    while engine.counters().evicted == 0 {
        lanes[0].store(&engine, crate::BATCH);
    }
    (engine, lanes)
}

impl Lane {
    /// Stores a batch of new names.
    fn store(&mut self, engine: &Engine, stores: usize) {
        let Self { local, next } = self;
        local.batch(|pin| {
            for _ in 0..stores {
                let mut name = [b'n'; KEY_BYTES];
                name[..8].copy_from_slice(&next.to_be_bytes());
                *next += 1;
                let value = [b'v'; VALUE_BYTES];
                loop {
                    match common::set(engine, pin, engine.key(&name), &value, 0, NOW) {
                        WriteStatus::Done => break,
                        // Another thread must end its batch first, as it does in a server.
                        WriteStatus::Later(_) => pin.renew(),
                        failed => panic!("a full engine makes space: {failed:?}"),
                    }
                }
            }
        });
    }
}

impl Contender for Full {
    fn turn(&mut self, threads: usize, turns: &mut Turns) {
        let apart = self.cells.len();
        let lanes = self.cells.iter_mut();
        let lanes = lanes.flat_map(|(engine, lanes)| lanes.iter_mut().map(|lane| (&*engine, lane)));
        // Engines apart: the first lane of each; one engine for all: its first lanes.
        let works = lanes.step_by(apart).take(threads);
        let works = works
            .map(|(engine, lane)| move || per_s(&STORES, |batch| lane.store(engine, batch.len())));
        turns.per_s.push(side_by_side(works.collect()).iter().sum());
    }
}
