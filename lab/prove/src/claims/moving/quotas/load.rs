//! A load on several cells: a generator for each, and what all of them saw, by seconds.
//!
//! ```text
//! start --warm-up--> seconds 0, 1, 2 ... --end--> their reports
//! ```
//!
//! Each generator counts seconds of its own. They begin together but for [`APART_NS_MAX`], so what
//! is said of a second is said of the same second of all. The last one is not whole, and is left
//! out.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use crate::instruments::{ByTime, Cell, Load, Outcome, Second, send};
use crate::lab::Lab;
use measure::exec::Running;

/// Longest the generators may take.
const RUN_MAX: Duration = Duration::from_secs(180);
/// The most that the beginnings of their seconds may lie apart.
const APART_NS_MAX: u64 = 100_000_000;
const NS_PER_S: u64 = 1_000_000_000;
/// The part of the requests that take longer than the p99.
const SLOW: f64 = 0.01;
/// How often the interval of a percentile is halved: more than enough for microseconds.
const HALVINGS: usize = 50;

/// Generators that run.
pub struct Loads(Vec<Running>);

/// What they saw.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Requests that were answered in a second, of all cells.
    pub answered_per_s: f64,
    /// What was not answered as it should be, in words.
    pub wrong: Vec<String>,
    parts: Vec<ByTime>,
}

impl Loads {
    /// Starts a generator for each cell.
    pub fn start(lab: &Lab, cells: &[Cell], load: Load) -> Result<Self> {
        let start = |(nth, cell): (usize, &Cell)| {
            let exec = lab.generator()?.args(load.words_for(cell.address, cell.pid));
            // With one seed, all would request the same keys at the same time.
            exec.args(["--by-time", "--seed", &(nth + 1).to_string()]).start(RUN_MAX)
        };
        Ok(Self(cells.iter().enumerate().map(start).collect::<Result<_>>()?))
    }

    /// Ends them now. What was due then and was not sent is no error.
    pub fn end(self) -> Result<Loaded> {
        self.0.iter().try_for_each(|running| send(running.pid(), Signal::INT))?;
        self.finished()
    }

    /// Waits for their end.
    pub fn finished(self) -> Result<Loaded> {
        let outcomes = self.0.into_iter().map(Running::json::<Outcome>);
        Loaded::new(&outcomes.collect::<Result<Vec<_>>>()?)
    }
}

impl Loaded {
    fn new(outcomes: &[Outcome]) -> Result<Self> {
        let mut loaded = Self::default();
        for outcome in outcomes {
            loaded.answered_per_s += outcome.number("/rate/achieved_per_s")?;
            let wrong = outcome.wrong()?.into_iter();
            loaded.wrong.extend(wrong.filter(|what| !what.ends_with(" unsent")));
            loaded.parts.push(outcome.by_time()?);
        }
        let began = || loaded.parts.iter().map(|part| part.began_mono_ns);
        let (first, last) = (began().min(), began().max());
        let apart_ns = last.zip(first).context("no generator has run").map(|(b, a)| b - a)?;
        if apart_ns > APART_NS_MAX {
            bail!("the generators began {} ms apart", apart_ns / 1_000_000);
        }
        Ok(loaded)
    }

    /// The seconds that lie between two moments as a whole.
    fn within(&self, [from_ns, till_ns]: [u64; 2]) -> Range<usize> {
        let from = from_ns.saturating_sub(self.began_ns()).div_ceil(NS_PER_S);
        let till = till_ns.saturating_sub(self.began_ns()) / NS_PER_S;
        self.known(from, till)
    }

    /// The seconds that have a part of the time between two moments.
    fn touching(&self, [from_ns, till_ns]: [u64; 2]) -> Range<usize> {
        let from = from_ns.saturating_sub(self.began_ns()) / NS_PER_S;
        let till = till_ns.saturating_sub(self.began_ns()).div_ceil(NS_PER_S);
        self.known(from, till)
    }

    /// How many requests were answered in each of these seconds.
    pub fn counts(&self, seconds: Range<usize>) -> Vec<u64> {
        let of = |nth: usize| self.parts.iter().map(|part| part.seconds[nth].count).sum();
        seconds.map(of).collect()
    }

    /// How many were answered between two moments, as if they were even within each second.
    pub fn count(&self, [from_ns, till_ns]: [u64; 2]) -> f64 {
        let touched = self.touching([from_ns, till_ns]);
        let shares = touched.clone().map(|nth| {
            let begin_ns = self.began_ns() + nth as u64 * NS_PER_S;
            let end_ns = (begin_ns + NS_PER_S).min(till_ns);
            end_ns.saturating_sub(begin_ns.max(from_ns)) as f64 / NS_PER_S as f64
        });
        self.counts(touched).into_iter().zip(shares).map(|(count, part)| count as f64 * part).sum()
    }

    /// The p99 of the requests of all cells that were answered in these seconds, in milliseconds,
    /// from the percentiles of each second.
    pub fn p99_ms(&self, seconds: Range<usize>) -> f64 {
        let all: Vec<Second> =
            seconds.flat_map(|nth| self.parts.iter().map(move |part| part.seconds[nth])).collect();
        let count: f64 = all.iter().map(|one| one.count as f64).sum();
        let slower = |us: f64| all.iter().map(|one| one.count as f64 * above(one, us)).sum::<f64>();
        let mut range_us = [0.0, all.iter().map(|one| one.max_us).fold(0.0, f64::max)];
        for _ in 0..HALVINGS {
            let middle_us = (range_us[0] + range_us[1]) / 2.0;
            range_us[usize::from(slower(middle_us) <= SLOW * count)] = middle_us;
        }
        range_us[1] / 1e3
    }

    /// The whole seconds from `first` to `before`, those that touch the time from there to `after`,
    /// and all later ones.
    pub fn around(&self, [first, before, after]: [u64; 3]) -> [Range<usize>; 3] {
        let during = self.touching([before, after]);
        [self.within([first, before]), during.clone(), self.known(during.end as u64, u64::MAX)]
    }

    fn began_ns(&self) -> u64 {
        self.parts.iter().map(|part| part.began_mono_ns).min().unwrap_or(0)
    }

    /// Those of the seconds that all generators have seen whole.
    fn known(&self, from: u64, till: u64) -> Range<usize> {
        let seen = self.parts.iter().map(|part| part.seconds.len().saturating_sub(1)).min();
        let till = (till as usize).min(seen.unwrap_or(0));
        (from as usize).min(till)..till
    }
}

/// The part of the requests of a second that took longer than this: even between percentiles.
fn above(second: &Second, us: f64) -> f64 {
    let Second { p50_us, p99_us, p999_us, max_us, .. } = *second;
    let known = [(0.0, 1.0), (p50_us, 0.5), (p99_us, 0.01), (p999_us, 0.001), (max_us, 0.0)];
    let around = known.windows(2).find(|pair| us < pair[1].0);
    around.map_or(0.0, |pair| {
        let [(low_us, more), (high_us, fewer)] = [pair[0], pair[1]];
        more - (more - fewer) * (us - low_us) / (high_us - low_us)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(count: u64, ms: f64) -> Second {
        let us = ms * 1e3;
        Second { count, p50_us: us / 2.0, p99_us: us, p999_us: us * 2.0, max_us: us * 3.0 }
    }

    /// Two cells, of which the second one is slow in its third second.
    fn loaded() -> Loaded {
        let part = |began_ms: u64, third: Second| ByTime {
            began_mono_ns: began_ms * 1_000_000,
            seconds: vec![second(100, 4.0), second(100, 4.0), third, second(7, 4.0)],
            ..ByTime::default()
        };
        let parts = vec![part(10_000, second(100, 4.0)), part(10_040, second(40, 100.0))];
        Loaded { parts, ..Loaded::default() }
    }

    #[test]
    fn the_seconds_of_a_time_are_found_and_the_last_one_is_left_out() {
        let (loaded, ms) = (loaded(), 1_000_000);
        assert_eq!(loaded.within([10_000 * ms, 12_900 * ms]), 0..2);
        assert_eq!(loaded.within([10_001 * ms, 13_000 * ms]), 1..3);
        assert_eq!(loaded.touching([11_500 * ms, 12_001 * ms]), 1..3);
        assert_eq!(loaded.touching([12_500 * ms, 19_000 * ms]), 2..3);
        assert!(loaded.touching([18_000 * ms, 19_000 * ms]).is_empty());
        let around = loaded.around([10_000, 11_500, 11_900].map(|it| it * ms));
        assert_eq!(around, [0..1, 1..2, 2..3]);
        assert_eq!(loaded.counts(1..3), [200, 140]);
        assert_eq!(loaded.count([11_500 * ms, 12_500 * ms]), 170.0);
    }

    #[test]
    fn the_p99_of_all_is_that_of_each_where_they_are_alike_and_shows_a_slow_cell() {
        let loaded = loaded();
        assert!((loaded.p99_ms(0..2) - 4.0).abs() < 0.01, "{}", loaded.p99_ms(0..2));
        let slow = loaded.p99_ms(0..3);
        assert!((50.0..100.0).contains(&slow), "{slow}");
        assert_eq!(loaded.p99_ms(1..1), 0.0);
    }

    #[test]
    fn a_part_of_a_second_is_above_what_lies_between_its_percentiles() {
        let second = second(1, 4.0);
        for (ms, part) in [(0.0, 1.0), (2.0, 0.5), (4.0, 0.01), (6.0, 0.005_5), (12.0, 0.0)] {
            let found = above(&second, ms * 1e3);
            assert!((found - part).abs() < 0.001, "{ms} ms: {found}, not {part}");
        }
    }
}
