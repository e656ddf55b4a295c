//! How far a rate is raised before throughput is called flat: a pure rule over what was measured.
//!
//! ```text
//! first rate --- answered in full, or more than before ---> rate x growth
//!            --- twice in a row no more than before -------> flat
//! ```
//!
//! Pure. It never measures: the caller offers the rate and reports the throughput. Bound:
//! [`STEPS_MAX`] steps. Rates and throughputs are requests per second.

use crate::rate::RATE_MAX;

/// A step that raises the best throughput by less than this share has not raised it.
const GAIN: f64 = 0.02;

/// Steps without a gain after which throughput is flat; a single one may be an accident.
const FLAT_STEPS: usize = 2;

/// The share of the offered rate that a server must reach to have kept up.
pub const KEPT_SHARE: f64 = 0.98;

/// The most steps of a ladder.
pub const STEPS_MAX: usize = 60;

/// A rate that was offered, and the throughput it gave.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Step {
    /// Requests due per second.
    pub offered_per_s: f64,
    /// Replies per second.
    pub achieved_per_s: f64,
}

impl Step {
    /// Whether the server answered at the offered rate.
    #[must_use]
    pub fn kept(&self) -> bool {
        self.achieved_per_s >= self.offered_per_s * KEPT_SHARE
    }
}

/// The steps so far.
///
/// ```
/// use load::ladder::{Ladder, Step};
///
/// let mut ladder = Ladder::new(2.0);
/// ladder.climb(Step { offered_per_s: 100.0, achieved_per_s: 100.0 });
/// assert_eq!((ladder.next(), ladder.is_flat()), (Some(200.0), false));
/// ```
#[derive(Clone, Debug)]
pub struct Ladder {
    growth: f64,
    steps: Vec<Step>,
}

impl Ladder {
    /// A ladder whose steps grow by the factor `growth`, above 1.
    #[must_use]
    pub fn new(growth: f64) -> Self {
        Self { growth, steps: Vec::new() }
    }

    /// Adds what was measured.
    pub fn climb(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// The steps from the first.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The rate to offer next; none when throughput is flat, or a limit of steps or rates is
    /// reached.
    #[must_use]
    pub fn next(&self) -> Option<f64> {
        let last = self.steps.last()?;
        let over = last.offered_per_s >= RATE_MAX || self.steps.len() >= STEPS_MAX;
        if over || self.is_flat() {
            return None;
        }
        Some((last.offered_per_s * self.growth).min(RATE_MAX))
    }

    /// Whether the last steps have gained nothing.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        let Some(split) = self.steps.len().checked_sub(FLAT_STEPS).filter(|split| *split > 0)
        else {
            return false;
        };
        let (before, last) = self.steps.split_at(split);
        let best = before.iter().map(|step| step.achieved_per_s).fold(0.0, f64::max);
        // A server that never answers gains nothing, so it ends the ladder too.
        last.iter().all(|step| !step.kept() && step.achieved_per_s <= best * (1.0 + GAIN))
    }

    /// The best throughput of all steps.
    #[must_use]
    pub fn best_per_s(&self) -> f64 {
        self.steps.iter().map(|step| step.achieved_per_s).fold(0.0, f64::max)
    }

    /// The highest rate that was answered in full.
    #[must_use]
    pub fn kept_per_s(&self) -> Option<f64> {
        let kept = self.steps.iter().filter(|step| step.kept());
        kept.map(|step| step.offered_per_s).max_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Climbs over a server whose throughput is a function of the rate.
    fn climbed(first: f64, growth: f64, server: impl Fn(f64) -> f64) -> Ladder {
        let mut ladder = Ladder::new(growth);
        let mut rate = Some(first);
        while let Some(offered_per_s) = rate {
            ladder.climb(Step { offered_per_s, achieved_per_s: server(offered_per_s) });
            rate = ladder.next();
        }
        ladder
    }

    #[test]
    fn it_ends_where_throughput_is_flat() {
        for capacity in [950.0, 50_000.0, 1e6] {
            let ladder = climbed(100.0, 1.4, |rate| rate.min(capacity));
            assert!(ladder.is_flat(), "{capacity}");
            assert_eq!(ladder.best_per_s(), capacity);
            let kept = ladder.kept_per_s().unwrap();
            assert!(kept <= capacity / KEPT_SHARE && kept > capacity / 1.5, "{kept} {capacity}");
        }
    }

    #[test]
    fn a_server_that_breaks_down_is_flat_too() {
        let ladder = climbed(100.0, 1.5, |rate| if rate > 1_000.0 { 300.0 } else { rate });
        assert!(ladder.is_flat() && ladder.best_per_s() < 1_000.0);
    }

    #[test]
    fn one_bad_step_is_no_plateau() {
        let ladder = climbed(100.0, 1.5, |rate| {
            let unlucky = (200.0..300.0).contains(&rate);
            if unlucky { 50.0 } else { rate.min(5_000.0) }
        });
        assert_eq!(ladder.best_per_s(), 5_000.0);
    }

    #[test]
    fn a_silent_server_is_flat() {
        let ladder = climbed(100.0, 1.5, |_| 0.0);
        assert_eq!((ladder.steps().len(), ladder.is_flat()), (1 + FLAT_STEPS, true));
        assert_eq!((ladder.best_per_s(), ladder.kept_per_s()), (0.0, None));
    }

    #[test]
    fn no_step_is_above_the_fastest_rate() {
        let ladder = climbed(1e6, 10.0, |rate| rate);
        let offered: Vec<f64> = ladder.steps().iter().map(|step| step.offered_per_s).collect();
        assert_eq!(offered, [1e6, 1e7, 1e8, RATE_MAX]);
    }

    #[test]
    fn a_bottomless_server_ends_the_ladder() {
        let ladder = climbed(1.0, 1.1, |rate| rate);
        assert_eq!((ladder.steps().len(), ladder.is_flat()), (STEPS_MAX, false));
    }
}
