//! When requests are due in an open loop: a seeded process that knows nothing of replies.
//!
//! Due times are nanoseconds from the start of the run. They are drawn lazily, but only from the
//! seed, so they are the same whether the server answers at once or not at all: a request that
//! is sent late was still due when it was due, and its latency is counted from then.

use std::str::FromStr;

use crate::rng::Rng;

/// Fastest rate accepted, in requests per second.
pub const RATE_MAX: f64 = 1e9;

/// Keeps due times independent of the requests drawn for the same lane.
const ARRIVAL_LANE: u64 = 1 << 48;

/// How due times follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Independent arrivals, as from very many users.
    Poisson,
    /// One every 1 / rate.
    Fixed,
}

impl FromStr for Arrival {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "poisson" => Ok(Self::Poisson),
            "fixed" => Ok(Self::Fixed),
            _ => Err(format!("{text:?} is neither poisson nor fixed")),
        }
    }
}

/// The due times of one lane.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrival: Arrival,
    gap_ns: f64,
    at_ns: f64,
    rng: Rng,
}

impl Schedule {
    /// Lane `lane` of `lanes` that together make `rate` requests per second, from 0 on.
    #[must_use]
    pub fn new(arrival: Arrival, rate: f64, seed: u64, lane: u64, lanes: u64) -> Self {
        let gap_ns = 1e9 / rate;
        let lanes = lanes.max(1);
        let mut schedule = Self {
            arrival,
            gap_ns: gap_ns * lanes as f64,
            at_ns: 0.0,
            rng: Rng::new(seed, ARRIVAL_LANE + lane),
        };
        match arrival {
            Arrival::Fixed => schedule.at_ns = gap_ns * lane as f64,
            Arrival::Poisson => schedule.advance(),
        }
        schedule
    }

    /// When the next request is due.
    #[inline]
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        self.at_ns as u64
    }

    /// Goes on to the request after it.
    #[inline]
    pub fn advance(&mut self) {
        self.at_ns += match self.arrival {
            Arrival::Fixed => self.gap_ns,
            Arrival::Poisson => -self.rng.unit().ln() * self.gap_ns,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(arrival: Arrival, lane: u64, lanes: u64, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(arrival, 1_000.0, 9, lane, lanes);
        let mut next = || {
            let due = schedule.due_ns();
            schedule.advance();
            due
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn fixed_lanes_interleave() {
        let mut all = dues(Arrival::Fixed, 0, 2, 3);
        all.extend(dues(Arrival::Fixed, 1, 2, 3));
        all.sort_unstable();
        assert_eq!(all, [0, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000]);
    }

    #[test]
    fn poisson_keeps_its_rate_and_its_spread() {
        let dues = dues(Arrival::Poisson, 0, 1, 100_000);
        let mean_ns = *dues.last().unwrap() as f64 / dues.len() as f64;
        assert!((mean_ns / 1e6 - 1.0).abs() < 0.02, "{mean_ns}");
        // Of exponential gaps, 1 - 1/e are shorter than the mean.
        let short = dues.windows(2).filter(|pair| pair[1] - pair[0] < 1_000_000).count();
        let share = short as f64 / dues.len() as f64;
        assert!((share - 0.632).abs() < 0.01, "{share}");
    }

    #[test]
    fn due_times_are_a_function_of_the_seed() {
        assert_eq!(dues(Arrival::Poisson, 1, 4, 100), dues(Arrival::Poisson, 1, 4, 100));
        assert_ne!(dues(Arrival::Poisson, 1, 4, 100), dues(Arrival::Poisson, 2, 4, 100));
    }
}
