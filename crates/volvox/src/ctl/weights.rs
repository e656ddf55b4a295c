//! What slices weigh, where a range is to be divided or cells are to be even: each as much as any
//! other, or as much as its primary has to do for it.
//!
//! A cell says how often it has executed something for each of up to 64 parts of a range (`stats
//! ring load`). These are counters, so it is asked twice. Within a part all slices weigh the same.

use std::collections::BTreeMap;
use std::error::Error;
use std::thread::sleep;
use std::time::{Duration, Instant};

use base::{RUN_SLICES, SLICES};

use super::client::Client;
use super::map::Range;
use super::report::{find, parse};
use super::survey::Survey;
use super::wanted::By;

/// For how long it is counted.
const MEASURED: Duration = Duration::from_secs(3);
/// How often something must be executed meanwhile: the middle of fewer is too far off by chance.
const COUNT_MIN: u64 = 1_000;

/// What slices weigh.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    /// By slice, what all before it weigh; one more, for all of them.
    before: Vec<u64>,
    by: By,
    /// In how many seconds that was counted, if it was.
    seconds: f64,
}

/// What a cell has counted, by the first and the last slice of a range: its parts.
type Counted = BTreeMap<(usize, usize), Vec<u32>>;

impl Weights {
    /// As `by` says, of what these cells lead.
    ///
    /// # Errors
    /// A cell that does not say what it does, or that there is too little to do.
    pub(super) fn of(
        by: By,
        (survey, cells): (&Survey, &[u32]),
        timeout: Duration,
    ) -> Result<Self, Box<dyn Error>> {
        match by {
            By::Slices => Ok(Self::even()),
            By::Load => Self::measured(survey, cells, timeout),
        }
    }

    /// Each slice weighs as much as any other.
    pub(super) fn even() -> Self {
        Self { before: (0..=SLICES as u64).collect(), by: By::Slices, seconds: 0.0 }
    }

    fn measured(survey: &Survey, cells: &[u32], timeout: Duration) -> Result<Self, Box<dyn Error>> {
        let ask = |cell: &u32| {
            let at = &survey.cells.get(cell).ok_or("no such cell")?.at;
            let says =
                |error: Box<dyn Error>| format!("cell {cell} does not say what it does: {error}");
            counted(at, timeout).map_err(says).map_err(Box::<dyn Error>::from)
        };
        let all = || cells.iter().map(ask).collect::<Result<Vec<_>, _>>();
        let start = Instant::now();
        let earlier = all()?;
        sleep(MEASURED.saturating_sub(start.elapsed()));
        let (later, seconds) = (all()?, start.elapsed().as_secs_f64());
        let mut weights = vec![0; SLICES];
        for (cell, (earlier, later)) in cells.iter().zip(earlier.iter().zip(&later)) {
            if earlier.0 != later.0 {
                return Err(format!("cell {cell} has started again meanwhile: try again").into());
            }
            add(&earlier.1, &later.1, &mut weights);
        }
        let weights = Self::counted(&weights, seconds);
        match weights.total() {
            COUNT_MIN.. => Ok(weights),
            few => Err(format!(
                "{few} requests in {seconds:.1} s are too few to go by, of {COUNT_MIN}: see --by"
            )
            .into()),
        }
    }

    /// What each slice weighs was counted, in this number of seconds.
    pub(super) fn counted(weights: &[u64], seconds: f64) -> Self {
        let sums = weights.iter().scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { before: std::iter::once(0).chain(sums).collect(), by: By::Load, seconds }
    }

    /// What the slices from `first` to before `end` weigh.
    pub(super) fn between(&self, first: usize, end: usize) -> u64 {
        self.before[end] - self.before[first]
    }

    /// What a range weighs.
    pub(super) fn of_range(&self, range: &Range) -> u64 {
        self.between(range.first, range.last + 1)
    }

    fn total(&self) -> u64 {
        self.before[SLICES]
    }

    /// Where `range` is to be divided so that what comes after weighs `wanted`, as nearly as may
    /// be: where a run begins, if that is `slack` away at most, and else at a multiple of `step`.
    /// `None`: there is none within.
    pub(super) fn cut(
        &self,
        range: &Range,
        (wanted, slack): (u64, u64),
        step: usize,
    ) -> Option<usize> {
        let end = range.last + 1;
        let upper = |at: usize| self.between(at, end);
        let is_within = |at: &usize| (range.first + 1..end).contains(at);
        let far = |at: &usize| upper(*at).abs_diff(wanted);
        let lower = self.before.partition_point(|before| *before < self.before[end] - wanted);
        let near = [lower.saturating_sub(1), lower, range.first + 1, range.last];
        let exact = near.into_iter().filter(is_within).min_by_key(far)?;
        let run = exact / RUN_SLICES * RUN_SLICES;
        let run = [run, run + RUN_SLICES].into_iter().filter(is_within).min_by_key(far);
        match exact.is_multiple_of(step.max(1)) {
            true => run.filter(|run| upper(*run).abs_diff(upper(exact)) <= slack).or(Some(exact)),
            false => run,
        }
    }

    /// What cells weigh of which the lightest and the heaviest weigh this.
    pub(super) fn text(&self, [least, most]: [u64; 2]) -> String {
        match self.by {
            By::Slices => format!("lead {least} to {most} slices"),
            By::Load => {
                let [least, most] = [least, most].map(|it| it as f64 / self.seconds);
                format!("have {least:.0} to {most:.0} requests a second of what was counted")
            }
        }
    }

    /// What part of all this is.
    pub(super) fn share(&self, weight: u64) -> f64 {
        weight as f64 / self.total().max(1) as f64
    }

    /// What is weighed.
    pub(super) fn by(&self) -> By {
        self.by
    }
}

/// The start of the cell at this address, and what it has counted since.
fn counted(at: &str, timeout: Duration) -> Result<(u64, Counted), Box<dyn Error>> {
    let report = Client::connect(at, timeout)?.stats("ring load")?;
    Ok((find(&report, "start")?, read(&report)?))
}

/// Reads `stats ring load`.
fn read(report: &[(String, String)]) -> Result<Counted, Box<dyn Error>> {
    let (mut counted, mut slices) = (Counted::new(), (0, 0));
    for (name, value) in report {
        match name.split(':').collect::<Vec<_>>()[..] {
            ["range", _, "slices"] => {
                let (first, last) = value.split_once('-').unwrap_or((value, ""));
                slices = (parse(name, first)?, parse(name, last)?);
            }
            ["range", _, "parts"] => {
                let parts = value.split(' ').map(|count| parse(name, count));
                counted.insert(slices, parts.collect::<Result<_, _>>()?);
            }
            _ => {}
        }
    }
    let is_sound = |((first, last), parts): (&(usize, usize), &Vec<u32>)| {
        first <= last && *last < SLICES && parts.len() <= last + 1 - first
    };
    match counted.iter().all(is_sound) {
        true => Ok(counted),
        false => Err("what it says makes no sense".into()),
    }
}

/// Adds to `weights` what was counted for slices in between. What was divided or led by another
/// cell meanwhile is not counted.
fn add(earlier: &Counted, later: &Counted, weights: &mut [u64]) {
    for ((first, last), parts) in later {
        let Some(before) = earlier.get(&(*first, *last)) else { continue };
        let (len, of) = (last + 1 - first, parts.len());
        for (part, (now, before)) in parts.iter().zip(before).enumerate() {
            let counted = u64::from(now.wrapping_sub(*before));
            let [begin, end] = [part, part + 1].map(|part| first + len * part / of);
            let slices = (end - begin) as u64;
            for (nth, weight) in (0..).zip(&mut weights[begin..end]) {
                *weight += counted * (nth + 1) / slices - counted * nth / slices;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::map::tests::report;
    use super::*;

    fn range(first: usize, last: usize) -> Range {
        Range { id: 1, first, last, primary: 1, ..Range::default() }
    }

    #[test]
    fn what_was_executed_between_two_reports_is_spread_over_the_slices_of_a_part() {
        let cell = |parts: &str| {
            let lines = format!("cell 1\nrange:1:slices 0-9\nrange:1:parts {parts}");
            read(&report(&lines)).expect("it can be read")
        };
        let mut weights = vec![0; SLICES];
        // A counter that has begun again in between.
        add(&cell("5 4294967290 0"), &cell("15 4 7"), &mut weights);
        assert_eq!(weights[..11], [3, 3, 4, 3, 3, 4, 1, 2, 2, 2, 0]);
        let weights = Weights::counted(&weights, 2.0);
        assert_eq!((weights.total(), weights.of_range(&range(3, 5))), (27, 10));
        assert_eq!(weights.text([10, 17]), "have 5 to 8 requests a second of what was counted");
        let mut none = vec![0; SLICES];
        let other = read(&report("range:1:slices 0-4\nrange:1:parts 1")).expect("it can be read");
        add(&other, &cell("15 4 7"), &mut none);
        assert!(none.iter().all(|weight| *weight == 0), "it was divided meanwhile");
    }

    #[test]
    fn what_no_cell_says_is_refused() {
        for lines in [
            "range:1:slices 5-4\nrange:1:parts 1",
            "range:1:slices 0-16384\nrange:1:parts 1",
            "range:1:slices 0-0\nrange:1:parts 1 2",
            "range:1:slices 0\nrange:1:parts 1",
            "range:1:slices 0-9\nrange:1:parts 1 x",
            "range:1:parts 1 2",
        ] {
            assert!(read(&report(lines)).is_err(), "{lines}");
        }
    }

    #[test]
    fn a_range_is_divided_where_the_rest_weighs_what_is_wanted() {
        let even = Weights::even();
        assert_eq!(even.cut(&range(0, 9), (5, 0), 1), Some(5));
        assert_eq!(even.cut(&range(0, 1), (1, 0), 1), Some(1));
        assert_eq!(even.cut(&range(7, 7), (0, 9), 1), None);
        // A run that begins nearby.
        assert_eq!(even.cut(&range(0, 999), (480, 8), 1), Some(512));
        assert_eq!(even.cut(&range(0, 999), (480, 7), 1), Some(520));
        assert_eq!(even.cut(&range(0, 999), (480, 0), RUN_SLICES), Some(512));
        assert_eq!(even.cut(&range(1, 255), (100, 0), RUN_SLICES), None);
        // All of the load is at the beginning, in the middle, and in one slice.
        let loaded = |slices: std::ops::Range<usize>| {
            let weigh = |slice| u64::from(slices.contains(&slice)) * 10;
            Weights::counted(&(0..SLICES).map(weigh).collect::<Vec<_>>(), 1.0)
        };
        let half = |weights: &Weights, range: &Range| {
            weights.cut(range, (weights.of_range(range) / 2, 0), 1)
        };
        assert_eq!(half(&loaded(0..100), &range(0, 9_999)), Some(50));
        assert_eq!(half(&loaded(600..640), &range(0, 9_999)), Some(620));
        assert_eq!(half(&loaded(700..701), &range(0, 9_999)), Some(512), "one slice has all");
        assert!(half(&loaded(0..1), &range(500, 9_999)).is_some(), "nothing is asked for there");
    }
}
