//! `load lambda-max`: the most requests per second that a server answers.
//!
//! ```text
//! closed loop, briefly     the approximate rate
//! ladder of open loops     from a share of that, raised until throughput flattens
//! rounds beyond the knee   the plateau, measured several times: its mean is lambda-max
//! ```
//!
//! The plateau belongs to the number of connections and the depth that were chosen: they bound the
//! number of requests that the server has at once. Bounds: the ladder's, and 100 rounds.

use std::time::Duration;

use serde_json::json;

use super::bench::{Bench, Done, whole_per_s};
use super::settings::{Subject, at_least_two, read};
use crate::conclusion::pictures::{by_percentile, runs_table};
use crate::conclusion::{Labelled, Latency, Report, Study};
use crate::drive::{Limit, Mode, Plan, Watch};
use crate::ladder::{Ladder, Step};
use crate::rate::{RATE_MAX, RateCurve};
use measure::Error;
use measure::stats::{self, Estimate};
use measure::units::duration;
use report::figure::{Axis, Figure, Scale, Series, short};
use report::table::aligned;

pub(super) const EXAMPLES: &str = "Examples:
  The most that a server answers with 50 connections, one request deep:
    volvox load lambda-max --target 127.0.0.1:11211 --populate
  Sixteen deep, finer steps, a page with the curve:
    volvox load lambda-max --populate --pipeline 16 --growth 1.15 --html lambda.html";

/// The first rate of the ladder, as a share of what a closed loop reaches.
const FIRST_SHARE: f64 = 0.3;

/// The rate on the plateau, as a multiple of the best throughput.
const BEYOND: f64 = 1.25;

/// The most rates whose latencies are drawn by percentile.
const CURVES_MAX: usize = 6;

/// The most rounds on the plateau.
const ROUNDS_MAX: usize = 100;

/// Settings of `load lambda-max`.
#[derive(Debug, clap::Args)]
pub struct LambdaMaxArgs {
    /// What is measured.
    #[command(flatten)]
    pub subject: Subject,
    /// The first rate, such as 10k [default: 30 % of what a closed loop reaches].
    #[arg(long, value_name = "RATE")]
    pub from: Option<String>,
    /// Factor from one rate to the next.
    #[arg(long, default_value_t = 1.3)]
    pub growth: f64,
    /// How long to measure each rate.
    #[arg(long, value_parser = duration, default_value = "3s")]
    pub duration: Duration,
    /// How often the plateau is measured.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Store every key once before.
    #[arg(long)]
    pub populate: bool,
}

impl LambdaMaxArgs {
    /// Raises the rate until throughput flattens, then measures the plateau.
    ///
    /// # Errors
    /// When a setting is out of range, or a run cannot be started or carried through.
    pub fn carry_out(&self, watch: &Watch) -> Result<Study, Error> {
        if !(self.growth > 1.01 && self.growth <= 10.0) {
            let text = format!("--growth {}: choose from above 1.01 to 10", self.growth);
            return Err(Error::Setting(text));
        }
        at_least_two("--rounds", self.rounds, ROUNDS_MAX)?;
        let closed = self.subject.plan(Mode::Closed, Limit::Time(self.duration))?;
        let from = self.from.as_ref().map(|from| read::<RateCurve>("from", from)).transpose()?;
        let arrival = self.subject.settings.arrival;
        let open = |rate: f64| Plan {
            mode: Mode::Open { arrival, rate: RateCurve::constant(rate) },
            drop_overdue: true,
            ..closed.clone()
        };
        let mut bench = Bench::new(&self.subject.settings, watch);
        if self.populate {
            bench.fill(&closed);
        }
        // A run that was cut short says nothing, and a higher rate would say no more.
        let mut per_s = |phase: &str, rate: Option<f64>| {
            let plan = rate.map_or_else(|| closed.clone(), open);
            let rate = rate.map_or("-".to_string(), |rate| format!("{rate:.0}"));
            whole_per_s(bench.measure(&plan, &[("phase", phase.to_string()), ("rate", rate)]))
        };
        let first = match from {
            Some(from) => Some(from.at(0.0)),
            None => per_s("closed loop", None).map(|rate| rate * FIRST_SHARE),
        };
        let mut ladder = Ladder::new(self.growth);
        let mut next = first.map(|rate| rate.max(1.0).round());
        while let Some(offered_per_s) = next {
            let Some(achieved_per_s) = per_s(LADDER, Some(offered_per_s)) else { break };
            ladder.climb(Step { offered_per_s, achieved_per_s });
            next = ladder.next().map(f64::round);
        }
        let mut plateau = Vec::new();
        if ladder.best_per_s() > 0.0 {
            let beyond = (ladder.best_per_s() * BEYOND).round().clamp(1.0, RATE_MAX);
            plateau.extend((0..self.rounds).map_while(|_| per_s("plateau", Some(beyond))));
        }
        Ok(study(bench.finish()?, &ladder, &plateau))
    }
}

/// The label of the runs that raise the rate.
const LADDER: &str = "ladder";

/// The latencies of a report that holds gets, else of its sets.
fn latency(report: &Report) -> Option<&Latency> {
    report.get_latency.as_ref().or(report.set_latency.as_ref())
}

fn study(mut done: Done, ladder: &Ladder, plateau: &[f64]) -> Study {
    let lambda = stats::mean(plateau);
    let kept = ladder.kept_per_s();
    if !ladder.is_flat() {
        let text = "throughput has not flattened: the rate stated is no maximum";
        done.warnings.push(text.to_string());
    }
    let (headline, interval) = match lambda {
        None => ("lambda-max: not measured".to_string(), "-".to_string()),
        Some(Estimate { value, low, high }) => (
            format!("lambda-max {value:.0} requests/s (95 % interval {low:.0} to {high:.0})"),
            format!("{} to {}", short(low), short(high)),
        ),
    };
    let table = runs_table(&done.runs);
    let kept_text = kept.map_or("none".to_string(), |rate| format!("{rate:.0}"));
    let text = format!(
        "{}\n{headline}\nhighest rate answered in full: {kept_text} requests/s",
        aligned(&table)
    );
    let mut figures = figures(&done.runs, ladder, lambda);
    figures.push(Figure::Table(table));
    let conclusion = json!({
        "lambda_max_per_s": lambda,
        "kept_per_s": kept,
        "flat": ladder.is_flat(),
        "steps": ladder.steps(),
        "plateau_per_s": plateau,
    });
    Study {
        conclusion,
        text,
        varied: &["loop"],
        sections: vec![("Raising the rate".to_string(), figures)],
        ..done.study("lambda-max", "The most that the server answers")
    }
    .fact("lambda-max per second", lambda.map_or("-".into(), |l| short(l.value)))
    .fact("95 % interval", interval)
    .fact("answered in full up to", kept.map_or("-".to_string(), short))
    .gather(Some("a queue has grown"))
}

fn figures(runs: &[Labelled], ladder: &Ladder, lambda: Option<Estimate>) -> Vec<Figure> {
    let steps = ladder.steps().iter();
    let points: Vec<_> = steps.map(|step| (step.offered_per_s, step.achieved_per_s)).collect();
    let last = points.last().map_or(0.0, |point| point.0);
    let mut series = vec![Series::new("achieved", points)];
    series.push(Series::reference("as offered", vec![(0.0, 0.0), (last, last)]));
    if let Some(Estimate { value, .. }) = lambda {
        series.push(Series::reference("lambda-max", vec![(0.0, value), (last, value)]));
    }
    let climbed = runs.iter().filter(|run| run.label(0) == LADDER && run.report.whole);
    let climbed: Vec<(f64, &Latency)> = climbed
        .filter_map(|run| Some((run.report.rate.offered_per_s?, latency(&run.report)?)))
        .collect();
    let line = |name: &str, of: fn(&Latency) -> f64| {
        Series::new(name, climbed.iter().map(|(rate, latency)| (*rate, of(latency))).collect())
    };
    let every = climbed.len().div_ceil(CURVES_MAX).max(1);
    let curves = climbed.iter().step_by(every);
    let curves: Vec<(String, &Latency)> =
        curves.map(|(rate, latency)| (format!("{}/s", short(*rate)), *latency)).collect();
    let x = || Axis::new("offered, requests per second", Scale::Linear);
    vec![
        Figure::plot(
            "Achieved by offered rate",
            "Where the line leaves the diagonal, requests come faster than they are answered.",
            x(),
            Axis::new("achieved, replies per second", Scale::Linear),
            series,
        ),
        Figure::plot(
            "Latency by offered rate",
            "Beyond the knee latencies grow with the length of the run.",
            x(),
            Axis::new("latency, us", Scale::Log),
            vec![
                line("p50", |latency| latency.p50_us),
                line("p99", |latency| latency.p99_us),
                line("p99.9", |latency| latency.p999_us),
            ],
        ),
        by_percentile("Latency by percentile at each rate", &curves),
    ]
}
