//! One value under a lock that readers only look at: the least that any server of it must do.
//!
//! A seqlock: a word that is odd while somebody writes, and the value on other lines. There is no
//! index, no key and no version, so what a second thread costs here is what the machine takes to
//! move the lines. Source: Boehm, "Can seqlocks get along with programming language memory
//! models?", 2012.

use crate::{BATCH, Contender, Drawn, TURN, Turns, VALUE_BYTES, Workload, draw, side_by_side};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;

const WORDS: usize = VALUE_BYTES.div_ceil(8);

/// What begins a line of its own, and the pair of lines that a processor may fetch together.
#[repr(align(128))]
#[derive(Default)]
struct Apart<T>(T);

/// A value and its lock.
#[derive(Default)]
struct Bare {
    lock: Apart<AtomicU64>,
    value: Apart<[AtomicU64; WORDS]>,
}

impl Bare {
    fn write(&self, word: u64) {
        let lock = &self.lock.0;
        let before = loop {
            let seen = lock.load(Ordering::Relaxed);
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            let free = seen.is_multiple_of(2);
            if free && lock.compare_exchange_weak(seen, seen + 1, acquire, relaxed).is_ok() {
                break seen;
            }
            spin_loop();
        };
        // The thread that sees a word of the new value must see the lock taken.
        fence(Ordering::Release);
        self.value.0.iter().for_each(|to| to.store(word, Ordering::Relaxed));
        lock.store(before + 2, Ordering::Release);
    }

    fn read(&self) -> [u64; WORDS] {
        loop {
            let before = self.lock.0.load(Ordering::Acquire);
            let value = std::array::from_fn(|at| self.value.0[at].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.lock.0.load(Ordering::Relaxed) == before {
                return value;
            }
            spin_loop();
        }
    }

    /// Asks for the length of a turn; requests per second.
    fn work(&self, drawn: &[Drawn]) -> f64 {
        let mut asked = 0_u64;
        let start = Instant::now();
        for batch in drawn.chunks_exact(BATCH).cycle() {
            for request in batch {
                if request.write {
                    self.write(asked);
                } else {
                    black_box(self.read());
                }
            }
            asked += BATCH as u64;
            if start.elapsed() >= TURN {
                break;
            }
        }
        asked as f64 / start.elapsed().as_secs_f64()
    }
}

/// Threads that ask for one value.
pub struct Alone {
    bare: Bare,
    drawn: Vec<Vec<Drawn>>,
}

impl Alone {
    pub fn new(workload: &Workload) -> Self {
        Self { bare: Bare::default(), drawn: draw(workload) }
    }
}

impl Contender for Alone {
    fn turn(&mut self, threads: usize, turns: &mut Turns) {
        let bare = &self.bare;
        let works = self.drawn[..threads].iter().map(|drawn| move || bare.work(drawn)).collect();
        turns.per_s.push(side_by_side(works).iter().sum());
    }
}
