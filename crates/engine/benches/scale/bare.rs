//! One value under a lock that readers only look at: the least that any server of it must do.
//!
//! A seqlock: a word that is odd during a write, and the value on other lines. There is no
//! index, no key and no version, so what a second thread costs here is what the machine takes to
//! move the lines. Source: Boehm, "Can seqlocks get along with programming language memory
//! models?", 2012.

use crate::{Contender, Drawn, Turns, VALUE_BYTES, per_s, side_by_side};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering, fence};

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
        // A reader that sees a word of the new value must see the lock taken.
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

    /// Requests per second over one turn.
    fn work(&self, drawn: &[Drawn]) -> f64 {
        per_s(drawn, |batch| {
            for request in batch {
                if request.write {
                    self.write(u64::from(request.key));
                } else {
                    black_box(self.read());
                }
            }
        })
    }
}

/// Threads that send requests for one value.
pub struct Alone {
    drawn: Vec<Vec<Drawn>>,
    bare: Bare,
}

impl Alone {
    pub fn new(drawn: Vec<Vec<Drawn>>) -> Self {
        Self { drawn, bare: Bare::default() }
    }
}

impl Contender for Alone {
    fn turn(&mut self, threads: usize, turns: &mut Turns) {
        let works = self.drawn[..threads].iter().map(|drawn| || self.bare.work(drawn)).collect();
        turns.per_s.push(side_by_side(works).iter().sum());
    }
}
