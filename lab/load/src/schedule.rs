//! When requests are due in an open loop: a seeded process that knows nothing of replies.
//!
//! Invariant: due times follow from the seed alone, so they are the same whether the server answers
//! at once or not at all. A request that is sent late keeps its due time, and its latency counts
//! from then. Due times are drawn one at a time. They are nanoseconds from the start of the run.

use std::str::FromStr;

use crate::rate::{Leg, RateCurve};
use measure::rng::Rng;

/// Keeps the due times of a lane independent of its requests.
const ARRIVAL_LANE: u64 = 1 << 48;

/// The rounding error of a sum of many gaps, in requests.
const ROUNDING: f64 = 1e-6;

/// How due times follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Independent arrivals, as from many users.
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
///
/// ```
/// use load::schedule::{Arrival, Schedule};
///
/// let rate = "1000".parse()?;
/// let mut schedule = Schedule::new(Arrival::Fixed, &rate, 0, 1, (0, 1));
/// schedule.advance();
/// assert_eq!(schedule.due_ns(), 1_000_000);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Schedule {
    arrival: Arrival,
    legs: Vec<Leg>,
    /// The leg that holds the next due time.
    leg: usize,
    at_ns: f64,
    /// Requests of all lanes from one of this lane to the next, on average.
    lanes: f64,
    rng: Rng,
}

impl Schedule {
    /// Lane `lane` of `lanes` that together follow `rate`, which begins after `warmup_ns`.
    #[must_use]
    pub fn new(
        arrival: Arrival,
        rate: &RateCurve,
        warmup_ns: u64,
        seed: u64,
        (lane, lanes): (u64, u64),
    ) -> Self {
        let mut schedule = Self {
            arrival,
            legs: rate.legs_after(warmup_ns as f64),
            leg: 0,
            at_ns: 0.0,
            lanes: lanes.max(1) as f64,
            rng: Rng::new(seed, ARRIVAL_LANE + lane),
        };
        match arrival {
            Arrival::Fixed => schedule.pass(lane as f64),
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

    /// Moves to the next request.
    #[inline]
    pub fn advance(&mut self) {
        let requests = match self.arrival {
            Arrival::Fixed => self.lanes,
            Arrival::Poisson => -self.rng.unit().ln() * self.lanes,
        };
        self.pass(requests);
    }

    /// How many of the requests to come are due from `from_ns` on and before `until_ns`: for fixed
    /// gaps the exact number, for Poisson arrivals the expected one. It costs one step per leg, not
    /// per request, so the length of a backlog does not matter.
    #[must_use]
    pub fn due_between(&self, from_ns: u64, until_ns: u64) -> u64 {
        self.due_before(until_ns as f64).saturating_sub(self.due_before(from_ns as f64))
    }

    /// How many of the requests to come are due before `until_ns`.
    fn due_before(&self, until_ns: f64) -> u64 {
        if self.at_ns >= until_ns {
            return 0;
        }
        let requests = |leg: &Leg| {
            let (from_ns, to_ns) = (leg.begin_ns.max(self.at_ns), leg.end_ns.min(until_ns));
            if to_ns > from_ns { leg.requests(from_ns, to_ns) } else { 0.0 }
        };
        let gaps = self.legs[self.leg..].iter().map(requests).sum::<f64>() / self.lanes;
        match self.arrival {
            // The next one, and one after each whole gap that ends before the time.
            Arrival::Fixed => (gaps - ROUNDING).ceil().max(1.0) as u64,
            Arrival::Poisson => 1 + gaps.round() as u64,
        }
    }

    /// Moves to the time at which `requests` more of all lanes are past.
    #[inline]
    fn pass(&mut self, mut requests: f64) {
        loop {
            let leg = &self.legs[self.leg];
            let at_ns = self.at_ns + leg.time_ns(self.at_ns, requests);
            if at_ns <= leg.end_ns {
                self.at_ns = at_ns;
                return;
            }
            // The last leg has no end, so there is another one.
            requests -= leg.requests_from(self.at_ns);
            self.at_ns = leg.end_ns;
            self.leg += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(arrival: Arrival, lane: u64, lanes: u64, count: usize) -> Vec<u64> {
        let rate = RateCurve::constant(1_000.0);
        let mut schedule = Schedule::new(arrival, &rate, 0, 9, (lane, lanes));
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
    fn what_is_ahead_is_counted_without_walking_it() {
        const S: u64 = 1_000_000_000;
        for text in ["1k", "steps:100,300/2s", "100..500/4s", "500..100/4s"] {
            let rate: RateCurve = text.parse().unwrap();
            for (arrival, slack) in [(Arrival::Fixed, 1), (Arrival::Poisson, 150)] {
                for (passed, from_ns, until_ns) in
                    [(0, 0, S), (0, S, 6 * S), (70, 0, 5 * S), (70, S, 7 * S), (300, 0, 0)]
                {
                    let mut schedule = Schedule::new(arrival, &rate, S, 5, (1, 3));
                    (0..passed).for_each(|_| schedule.advance());
                    let counted = schedule.due_between(from_ns, until_ns);
                    let mut walked = 0;
                    while schedule.due_ns() < until_ns {
                        walked += u64::from(schedule.due_ns() >= from_ns);
                        schedule.advance();
                    }
                    let case = format!("{text} {arrival:?} {passed} {from_ns} {until_ns}");
                    assert!(counted.abs_diff(walked) <= slack, "{case}: {counted} {walked}");
                }
            }
        }
        // A day at the fastest rate takes no longer than a second at the slowest.
        let rate: RateCurve = "1000M".parse().unwrap();
        let schedule = Schedule::new(Arrival::Fixed, &rate, 0, 5, (0, 1));
        assert_eq!(schedule.due_between(0, 86_400 * S), 86_400 * S);
    }

    #[test]
    fn due_times_are_a_function_of_the_seed() {
        assert_eq!(dues(Arrival::Poisson, 1, 4, 100), dues(Arrival::Poisson, 1, 4, 100));
        assert_ne!(dues(Arrival::Poisson, 1, 4, 100), dues(Arrival::Poisson, 2, 4, 100));
    }

    #[test]
    fn a_changing_rate_is_followed_after_the_warm_up() {
        for (text, counts) in [
            // Requests in the warm-up of a second, then in each of five seconds.
            ("steps:100,300/2s", [100, 100, 100, 300, 300, 300]),
            ("100..500/4s", [100, 150, 250, 350, 450, 500]),
        ] {
            let rate: RateCurve = text.parse().unwrap();
            for (arrival, slack) in [(Arrival::Fixed, 2), (Arrival::Poisson, 120)] {
                let mut seen = [0i32; 6];
                for lane in 0..3 {
                    let mut lane = Schedule::new(arrival, &rate, 1_000_000_000, 5, (lane, 3));
                    while lane.due_ns() < 6_000_000_000 {
                        seen[(lane.due_ns() / 1_000_000_000) as usize] += 1;
                        lane.advance();
                    }
                }
                let near = seen.iter().zip(counts).all(|(a, b)| (a - b).abs() <= slack);
                assert!(near, "{text} {arrival:?}: {seen:?}");
            }
        }
    }
}
