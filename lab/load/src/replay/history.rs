//! The hit ratio over the course of a replay, at ever coarser steps.
//!
//! Bound: [`POINTS_MAX`] points. When they are full, neighbours are joined and steps become twice
//! as long. Invariant: the points cover a trace of any length from its first request to its last.

/// The most points kept.
const POINTS_MAX: usize = 512;

/// Gets of the first steps.
const STEP_GETS: u64 = 1_000;

/// Hits by gets, step by step.
#[derive(Clone, Debug)]
pub struct History {
    step_gets: u64,
    hits: Vec<u64>,
    /// Gets and hits of the step that is not full.
    open: (u64, u64),
}

impl Default for History {
    fn default() -> Self {
        Self { step_gets: STEP_GETS, hits: Vec::new(), open: (0, 0) }
    }
}

impl History {
    /// Counts a get.
    pub fn count(&mut self, hit: bool) {
        self.open.0 += 1;
        self.open.1 += u64::from(hit);
        if self.open.0 == self.step_gets {
            self.hits.push(self.open.1);
            self.open = (0, 0);
        }
        if self.hits.len() == POINTS_MAX {
            self.hits = self.hits.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.step_gets *= 2;
        }
    }

    /// Gets at the middle of each full step, and its hit ratio in percent; of a trace that fills
    /// none, one point for all of it.
    #[must_use]
    pub fn percent(&self) -> Vec<(f64, f64)> {
        let (gets, hits) = self.open;
        if self.hits.is_empty() && gets > 0 {
            return vec![(gets as f64 / 2.0, hits as f64 / gets as f64 * 100.0)];
        }
        let step = self.step_gets as f64;
        let at = |nth: usize| (nth as f64 + 0.5) * step;
        let points = self.hits.iter().enumerate();
        points.map(|(nth, hits)| (at(nth), *hits as f64 / step * 100.0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_trace_is_one_point() {
        let mut history = History::default();
        assert!(history.percent().is_empty());
        for hit in [true, true, false, true] {
            history.count(hit);
        }
        assert_eq!(history.percent(), [(2.0, 75.0)]);
    }

    #[test]
    fn any_length_fits() {
        let mut history = History::default();
        let gets = 2_000_000;
        for get in 0..gets {
            // The second half hits every other time.
            history.count(get >= gets / 2 && get % 2 == 0);
        }
        let points = history.percent();
        assert!(points.len() < POINTS_MAX && points.len() > POINTS_MAX / 4, "{}", points.len());
        assert_eq!((points[0].1, points[points.len() - 1].1), (0.0, 50.0));
        assert!(points[points.len() - 1].0 > 0.98 * f64::from(gets));
    }
}
