//! The logs against plain lists: random calls of everything that they offer.
//!
//! `MODEL_STEPS=1000000 cargo test -p effects --test logs_are_lists` for a longer run.
#![cfg(not(any(loom, shuttle)))]

#[path = "common/machine.rs"]
mod machine;

use machine::{Dice, Machine};
use measure::rng::Rng;

struct Seeded(Rng);

impl Dice for Seeded {
    fn below(&mut self, bound: u64) -> Option<u64> {
        Some(if bound < 1 << 32 { self.0.below(bound) } else { self.0.next_u64() % bound })
    }
}

#[test]
fn whatever_is_called() {
    let steps = std::env::var("MODEL_STEPS").ok().and_then(|text| text.parse().ok());
    let steps = steps.unwrap_or(60_000);
    let mut counts = [0; 3];
    for seed in 0..20 {
        let mut dice = Seeded(Rng::new(seed, 0));
        let mut machine = Machine::new(1 + seed as usize % 3, 1 + seed % 4, 4_000);
        for _ in 0..steps / 20 {
            machine.step(&mut dice).expect("dice have no end");
        }
        counts = std::array::from_fn(|index| counts[index] + machine.counts[index]);
    }
    assert!(counts.iter().all(|count| *count > 100), "too little happened: {counts:?}");
}
