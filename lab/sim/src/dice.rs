//! Random choices of one run. Each is a function of the seed and of the choices before it.

use measure::rng::Rng;

/// A source of random choices.
pub(crate) struct Dice(Rng);

impl Dice {
    /// The choices of `seed` in `lane`. Lanes are independent of each other.
    pub(crate) fn new(seed: u64, lane: u64) -> Self {
        Self(Rng::new(seed, lane))
    }

    /// A source for others, which goes on by itself.
    pub(crate) fn source(&mut self) -> Rng {
        Rng::new(self.number(), 0)
    }

    /// A number.
    pub(crate) fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`; 0 where that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// True in that many of 1,000 cases.
    pub(crate) fn per_mille(&mut self, cases: u64) -> bool {
        self.0.below(1000) < cases
    }

    /// The index of one of `count`.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        self.0.below(count as u64) as usize
    }

    /// A duration from `low` to `high`: each order of magnitude is equally likely.
    pub(crate) fn duration(&mut self, low: u64, high: u64) -> u64 {
        let doublings = (high / low.max(1)).max(1).ilog2() + 1;
        let top = low.max(1) << self.0.below(u64::from(doublings));
        self.between(top, top * 2).min(high)
    }

    /// Puts `items` into a random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.index(at + 1));
        }
    }
}
