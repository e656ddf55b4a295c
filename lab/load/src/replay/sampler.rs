//! What a server holds during a replay, as the mean of a few samples.
//!
//! Bound: 16 samples, at even distances over the requests that count. A sample is a connection of
//! its own, so it never disturbs the replies of the replay.

use crate::server;
use measure::Target;

/// How often the server is asked while hits are counted.
const SAMPLES: u64 = 16;

/// The samples so far.
pub(super) struct Sampler<'t> {
    target: &'t Target,
    next: u64,
    every: u64,
    sums: (u64, u64),
    samples: u64,
}

impl<'t> Sampler<'t> {
    /// Samples the server at `target` from the step `from` of `requests` on.
    pub fn new(target: &'t Target, from: u64, requests: u64) -> Self {
        let every = (requests - from).div_ceil(SAMPLES).max(1);
        Self { target, next: from, every, sums: (0, 0), samples: 0 }
    }

    /// Takes a sample if it is time after `at` requests.
    pub fn look(&mut self, at: u64) {
        if at < self.next {
            return;
        }
        self.next += self.every;
        if let Some((bytes, items)) = server::held(self.target) {
            self.sums = (self.sums.0 + bytes, self.sums.1 + items);
            self.samples += 1;
        }
    }

    /// The mean bytes and items.
    pub fn mean(&self) -> (u64, u64) {
        let samples = self.samples.max(1);
        (self.sums.0 / samples, self.sums.1 / samples)
    }
}
