//! `load lambda-max`: the most requests per second that a server answers.
//!
//! ```text
//! closed loop, briefly     how fast about
//! ladder of open loops     from a part of that, raised until throughput flattens
//! rounds beyond the knee   the plateau, measured several times: its mean is lambda-max
//! ```
//!
//! The plateau belongs to the number of connections and the depth that were chosen: they bound
//! how much the server has at once.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::settings::{Server, Settings, read};
use super::work::{Bench, Done};
use crate::drive::{Limit, Mode, Plan, Watch};
use crate::ladder::{Ladder, Step};
use crate::rate::{RATE_MAX, RateCurve};
use crate::report::pictures::{aligned, by_percentile, runs_table};
use crate::report::{Labelled, Latency, Outputs, Report, Study};
use measure::Error;
use measure::stats::{self, Estimate};
use measure::units::duration;
use report::figure::{Axis, Figure, Plot, Scale, Series, short};

pub(super) const EXAMPLES: &str = "Examples:
  The most that a server answers with 50 connections, one request deep:
    volvox load lambda-max --target 127.0.0.1:11211 --populate
  Sixteen deep, finer steps, a page with the curve:
    volvox load lambda-max --populate --pipeline 16 --growth 1.15 --html lambda.html";

/// The ladder begins at this share of what a closed loop reaches.
const FIRST_SHARE: f64 = 0.3;

/// The plateau is measured at so many times the best throughput.
const BEYOND: f64 = 1.25;

/// The most rates whose latencies are drawn by percentile.
const CURVES_MAX: usize = 6;

/// The most rounds on the plateau.
const ROUNDS_MAX: usize = 100;

/// Settings of `load lambda-max`.
#[derive(Debug, clap::Args)]
pub struct LambdaMaxArgs {
    /// The server.
    #[command(flatten)]
    pub server: Server,
    /// What flows to it.
    #[command(flatten)]
    pub settings: Settings,
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
    /// Where the report goes.
    #[command(flatten)]
    pub outputs: Outputs,
}

impl LambdaMaxArgs {
    /// Climbs, then measures the plateau.
    ///
    /// # Errors
    /// When a setting is out of range, or a run cannot be started or carried through.
    pub fn carry_out(&self, watch: &Watch, screen: &mut dyn Write) -> Result<Study, Error> {
        if !(self.growth > 1.01 && self.growth <= 10.0) {
            let text = format!("--growth {}: choose from above 1.01 to 10", self.growth);
            return Err(Error::Setting(text));
        }
        if !(2..=ROUNDS_MAX).contains(&self.rounds) {
            let text = format!("--rounds {}: choose from 2 to {ROUNDS_MAX}", self.rounds);
            return Err(Error::Setting(text));
        }
        let limit = Limit::Time(self.duration);
        let closed = self.settings.plan(&self.server, Mode::Closed, limit)?;
        let mut bench = Bench::new(&self.settings, watch, screen);
        let from = self.from.as_ref().map(|from| read::<RateCurve>("from", from)).transpose()?;
        if self.populate {
            bench.fill(&closed);
        }
        let first = match from {
            Some(from) => Some(from.at(0.0)),
            None => {
                let labels = [("phase", "closed loop".to_string()), ("rate", "-".to_string())];
                whole_per_s(bench.measure(&closed, &labels)).map(|rate| rate * FIRST_SHARE)
            }
        };
        let open = |rate: f64| Plan {
            mode: Mode::Open { arrival: self.settings.arrival, rate: RateCurve::constant(rate) },
            drop_overdue: true,
            ..closed.clone()
        };
        let mut ladder = Ladder::new(self.growth);
        let mut next = first.map(|rate| rate.max(1.0).round());
        while let Some(offered_per_s) = next {
            let labels = [("phase", "ladder".to_string()), ("rate", format!("{offered_per_s:.0}"))];
            // A step that was cut short says nothing, and a higher rate would say no more.
            let Some(achieved_per_s) = whole_per_s(bench.measure(&open(offered_per_s), &labels))
            else {
                break;
            };
            ladder.climb(Step { offered_per_s, achieved_per_s });
            next = ladder.next().map(f64::round);
        }
        let mut plateau = Vec::new();
        if ladder.best_per_s() > 0.0 {
            let beyond = (ladder.best_per_s() * BEYOND).round().clamp(1.0, RATE_MAX);
            let labels = [("phase", "plateau".to_string()), ("rate", format!("{beyond:.0}"))];
            let rounds =
                (0..self.rounds).map_while(|_| whole_per_s(bench.measure(&open(beyond), &labels)));
            plateau.extend(rounds);
        }
        Ok(study(bench.finish()?, &ladder, &plateau))
    }
}

/// The rate of a run that was carried to its end.
fn whole_per_s(report: Option<&Report>) -> Option<f64> {
    report.filter(|report| report.whole).map(|report| report.rate.achieved_per_s)
}

fn study(done: Done, ladder: &Ladder, plateau: &[f64]) -> Study {
    let Done { runs, mut warnings, complete } = done;
    let lambda = stats::mean(plateau);
    let kept = ladder.kept_per_s();
    if !ladder.is_flat() {
        warnings.push("throughput has not flattened: what is stated is no maximum".to_string());
    }
    let headline = match lambda {
        None => "lambda-max: not measured".to_string(),
        Some(Estimate { value, low, high }) => {
            format!("lambda-max {value:.0} requests/s (95 % interval {low:.0} to {high:.0})")
        }
    };
    let kept_text = kept.map_or("none".to_string(), |rate| format!("{rate:.0}"));
    let text = format!(
        "{}\n{headline}\nhighest rate answered in full: {kept_text} requests/s",
        aligned(&runs_table(&runs))
    );
    let interval = lambda.map_or("-".to_string(), |Estimate { low, high, .. }| {
        format!("{} to {}", short(low), short(high))
    });
    let mut study = Study {
        command: "lambda-max",
        title: "How much the server answers".to_string(),
        conclusion: json!({
            "lambda_max_per_s": lambda,
            "kept_per_s": kept,
            "flat": ladder.is_flat(),
            "steps": ladder.steps(),
            "plateau_per_s": plateau,
        }),
        text,
        facts: vec![
            ("lambda-max per second".to_string(), lambda.map_or("-".into(), |l| short(l.value))),
            ("95 % interval".to_string(), interval),
            ("answered in full up to".to_string(), kept.map_or("-".to_string(), short)),
        ],
        warnings,
        varied: &["loop"],
        sections: vec![("Raising the rate".to_string(), figures(&runs, ladder, lambda))],
        runs,
        csv: None,
        clean: complete,
    };
    study.gather(Some("a queue has grown"));
    study
}

fn figures(runs: &[Labelled], ladder: &Ladder, lambda: Option<Estimate>) -> Vec<Figure> {
    let steps = ladder.steps();
    let points: Vec<(f64, f64)> =
        steps.iter().map(|step| (step.offered_per_s, step.achieved_per_s)).collect();
    let last = points.last().map_or(0.0, |point| point.0);
    let mut series = vec![Series::new("achieved", points)];
    series.push(Series::reference("as offered", vec![(0.0, 0.0), (last, last)]));
    if let Some(Estimate { value, .. }) = lambda {
        series.push(Series::reference("lambda-max", vec![(0.0, value), (last, value)]));
    }
    let climbed = || runs.iter().filter(|run| run.labels[0].1 == "ladder" && run.report.whole);
    let latency = |name: &str, of: fn(&Latency) -> f64| {
        let points = climbed().filter_map(|run| {
            let latency = run.report.get_latency.as_ref().or(run.report.set_latency.as_ref())?;
            Some((run.report.rate.offered_per_s?, of(latency)))
        });
        Series::new(name, points.collect())
    };
    let every = climbed().count().div_ceil(CURVES_MAX).max(1);
    let curves: Vec<(String, &Latency)> = climbed()
        .step_by(every)
        .filter_map(|run| {
            let name = format!("{}/s", short(run.report.rate.offered_per_s?));
            Some((name, run.report.get_latency.as_ref().or(run.report.set_latency.as_ref())?))
        })
        .collect();
    vec![
        Figure::Plot(Plot {
            title: "Achieved by offered rate".to_string(),
            note:
                "Where the line leaves the diagonal, requests come faster than they are answered."
                    .to_string(),
            x: Axis::new("offered, requests per second", Scale::Linear),
            y: Axis::new("achieved, replies per second", Scale::Linear),
            series,
        }),
        Figure::Plot(Plot {
            title: "Latency by offered rate".to_string(),
            note: "Beyond the knee latencies grow with the length of the run.".to_string(),
            x: Axis::new("offered, requests per second", Scale::Linear),
            y: Axis::new("latency, us", Scale::Log),
            series: vec![
                latency("p50", |latency| latency.p50_us),
                latency("p99", |latency| latency.p99_us),
                latency("p99.9", |latency| latency.p999_us),
            ],
        }),
        by_percentile("Latency by percentile at each rate", &curves),
        Figure::Table(runs_table(runs)),
    ]
}
