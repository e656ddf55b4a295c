//! `load compare`: the same load on several servers, in alternating rounds of one run.
//!
//! A machine drifts: it warms up, others come and go. Rounds that alternate give every server its
//! part of that, the order turns with every round, and ratios are taken within a round.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::settings::{Server, Settings, read};
use super::work::{Bench, Done};
use crate::drive::{Limit, Mode, Plan, Watch};
use crate::rate::RateCurve;
use crate::report::pictures::{aligned, by_percentile, runs_table};
use crate::report::{Labelled, Latency, Outputs, Report, Study};
use measure::stats::{self, Estimate};
use measure::units::duration;
use measure::{Error, Target};
use report::figure::{Axis, Figure, Plot, Scale, Series, Table, short};

pub(super) const EXAMPLES: &str = "Examples:
  Two servers, five rounds of 5 s each:
    volvox load compare --target 127.0.0.1:11211 --target 127.0.0.1:11212 --populate
  Their latencies at the same rate, with names and a page of plots:
    volvox load compare --target 127.0.0.1:11211 --name memcached \\
      --target 127.0.0.1:11212 --name volvox --populate --rate 50k --html compare.html
Ratios are those of each server to the first.";

/// The most servers of one comparison.
const TARGETS_MAX: usize = 16;
/// The most rounds.
const ROUNDS_MAX: usize = 1_000;

/// Settings of `load compare`.
#[derive(Debug, clap::Args)]
pub struct CompareArgs {
    /// A server: HOST:PORT or unix:PATH; give it once for each, the one to compare with first.
    #[arg(long = "target", required = true, value_name = "TARGET")]
    pub targets: Vec<Target>,
    /// What to call it, in the same order [default: its address].
    #[arg(long = "name", value_name = "NAME")]
    pub names: Vec<String>,
    /// Its process, in the same order, to read its CPU time from.
    #[arg(long = "server-pid", value_name = "PID")]
    pub pids: Vec<u32>,
    /// What flows to them.
    #[command(flatten)]
    pub settings: Settings,
    /// Open loop: requests per second, as for run.
    #[arg(long)]
    pub rate: Option<String>,
    /// How long to measure each server in each round.
    #[arg(long, value_parser = duration, default_value = "5s")]
    pub duration: Duration,
    /// How many rounds.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Store every key once in every server before.
    #[arg(long)]
    pub populate: bool,
    /// Where the report goes.
    #[command(flatten)]
    pub outputs: Outputs,
}

impl CompareArgs {
    fn check(&self) -> Result<(), Error> {
        let count = self.targets.len();
        if !(2..=TARGETS_MAX).contains(&count) {
            let text = format!("{count} times --target: choose from 2 to {TARGETS_MAX}");
            return Err(Error::Setting(text));
        }
        for (what, given) in [("--name", self.names.len()), ("--server-pid", self.pids.len())] {
            if given != 0 && given != count {
                let text = format!("{given} times {what} for {count} targets: give one for each");
                return Err(Error::Setting(text));
            }
        }
        let names: Vec<String> = (0..count).map(|nth| self.name(nth)).collect();
        if let Some(nth) = (1..count).find(|nth| names[..*nth].contains(&names[*nth])) {
            let text = format!("two targets are called {:?}: give each a --name", names[nth]);
            return Err(Error::Setting(text));
        }
        if !(2..=ROUNDS_MAX).contains(&self.rounds) {
            let text = format!("--rounds {}: choose from 2 to {ROUNDS_MAX}", self.rounds);
            return Err(Error::Setting(text));
        }
        Ok(())
    }

    fn name(&self, nth: usize) -> String {
        self.names.get(nth).cloned().unwrap_or_else(|| self.targets[nth].to_string())
    }

    fn plans(&self) -> Result<Vec<Plan>, Error> {
        let mode = match &self.rate {
            None => Mode::Closed,
            Some(rate) => Mode::Open {
                arrival: self.settings.arrival,
                rate: read::<RateCurve>("rate", rate)?,
            },
        };
        let plan = |(nth, target): (usize, &Target)| {
            let server = Server { target: target.clone(), server_pid: self.pids.get(nth).copied() };
            self.settings.plan(&server, mode.clone(), Limit::Time(self.duration))
        };
        self.targets.iter().enumerate().map(plan).collect()
    }

    /// Measures every server in every round.
    ///
    /// # Errors
    /// When a setting is out of range, or a run cannot be started or carried through.
    pub fn carry_out(&self, watch: &Watch, screen: &mut dyn Write) -> Result<Study, Error> {
        self.check()?;
        let plans = self.plans()?;
        let mut bench = Bench::new(&self.settings, watch, screen);
        if self.populate {
            for plan in &plans {
                bench.fill(plan);
            }
        }
        for round in 0..self.rounds {
            let mut order: Vec<usize> = (0..plans.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for nth in order {
                let labels = [("target", self.name(nth)), ("round", (round + 1).to_string())];
                bench.measure(&plans[nth], &labels);
            }
        }
        let names: Vec<String> = (0..plans.len()).map(|nth| self.name(nth)).collect();
        Ok(study(bench.finish()?, &names))
    }
}

/// A figure that servers are compared by.
type Figured = fn(&Report) -> Option<f64>;

/// What is compared: a name for tools, a name for people, how it is read off a report.
const MEASURES: [(&str, &str, Figured); 5] = [
    ("rate_per_s", "requests/s", |report| Some(report.rate.achieved_per_s)),
    ("server_cpu_us", "CPU us/request", |report| {
        report.server.as_ref().map(|server| server.cpu_us_per_request)
    }),
    ("get_p50_us", "get p50 us", |report| report.get_latency.as_ref().map(|get| get.p50_us)),
    ("get_p99_us", "get p99 us", |report| report.get_latency.as_ref().map(|get| get.p99_us)),
    ("set_p99_us", "set p99 us", |report| report.set_latency.as_ref().map(|set| set.p99_us)),
];

/// The figure of one server in each round, by the number of the round. A round in which its run
/// was cut short, or has no such figure, is left out.
fn rounds(runs: &[Labelled], name: &str, of: Figured) -> BTreeMap<usize, f64> {
    let own = runs.iter().filter(|run| run.labels[0].1 == name && run.report.whole);
    own.filter_map(|run| Some((run.labels[1].1.parse().ok()?, of(&run.report)?))).collect()
}

/// How many times the figures are the `base`'s, in the rounds that have both.
fn ratio(values: &BTreeMap<usize, f64>, base: &BTreeMap<usize, f64>) -> Option<Estimate> {
    let pairs = values.iter().filter_map(|(round, value)| Some((*value, *base.get(round)?)));
    let (values, bases): (Vec<f64>, Vec<f64>) = pairs.unzip();
    stats::ratio(&values, &bases)
}

fn estimate_text(estimate: Option<Estimate>) -> String {
    estimate.map_or("-".to_string(), |Estimate { value, low, high }| {
        format!("{value:.3} ({low:.3} to {high:.3})")
    })
}

fn study(Done { runs, warnings, complete }: Done, names: &[String]) -> Study {
    let mut rows = Vec::new();
    let mut servers = Vec::new();
    for name in names {
        let mut server = serde_json::Map::new();
        server.insert("target".to_string(), json!(name));
        for (key, label, of) in MEASURES {
            let values = rounds(&runs, name, of);
            let base = rounds(&runs, &names[0], of);
            let ratio = ratio(&values, &base);
            let values: Vec<f64> = values.into_values().collect();
            let (Some(median), Some((low, high))) = (stats::median(&values), stats::range(&values))
            else {
                continue;
            };
            let ratio = ratio.filter(|_| *name != names[0]);
            rows.push(vec![
                name.clone(),
                label.to_string(),
                short(median),
                format!("{} to {}", short(low), short(high)),
                estimate_text(ratio),
            ]);
            let spread: Value = json!({ "low": low, "high": high });
            let entry = json!({ "median": median, "range": spread, "ratio_to_first": ratio });
            server.insert(key.to_string(), entry);
        }
        servers.push(Value::Object(server));
    }
    let table = Table {
        title: "Medians of the rounds, and ratios to the first with 95 % intervals".to_string(),
        head: ["target", "figure", "median", "range", "ratio to first (95 % interval)"]
            .map(str::to_string)
            .to_vec(),
        rows,
    };
    let facts = table.rows.iter().filter(|row| row[4] != "-").map(|row| {
        let ratio = row[4].split(' ').next().unwrap_or("-");
        (format!("{}, {}", row[0], row[1]), format!("x {ratio}"))
    });
    let mut study = Study {
        command: "compare",
        title: format!("Comparison of {}", names.join(" and ")),
        conclusion: json!({ "first": names[0], "servers": servers }),
        text: aligned(&table),
        facts: facts.collect(),
        warnings,
        varied: &["target"],
        sections: vec![("Side by side".to_string(), figures(&runs, names, table))],
        runs,
        csv: None,
        clean: complete,
    };
    study.gather(None);
    study
}

/// The run of a server whose rate is the median, or just below.
fn typical<'r>(runs: &'r [Labelled], name: &str) -> Option<&'r Report> {
    let mut own: Vec<&Report> =
        runs.iter().filter(|run| run.labels[0].1 == name).map(|run| &run.report).collect();
    own.retain(|report| report.whole);
    own.sort_by(|a, b| a.rate.achieved_per_s.total_cmp(&b.rate.achieved_per_s));
    own.get(own.len().saturating_sub(1) / 2).copied()
}

fn figures(runs: &[Labelled], names: &[String], table: Table) -> Vec<Figure> {
    let curves: Vec<(String, &Latency)> = names
        .iter()
        .filter_map(|name| {
            let report = typical(runs, name)?;
            let latency = report.get_latency.as_ref().or(report.set_latency.as_ref())?;
            Some((name.clone(), latency))
        })
        .collect();
    let by_round = |title: &str, unit: &str, of: Figured| {
        let line = |name: &String| {
            let values = rounds(runs, name, of);
            let points = values.iter().map(|(round, value)| (*round as f64, *value));
            Series::new(name, points.collect())
        };
        Figure::Plot(Plot {
            title: title.to_string(),
            note: String::new(),
            x: Axis::new("round", Scale::Linear),
            y: Axis::new(unit, Scale::Linear),
            series: names.iter().map(line).collect(),
        })
    };
    vec![
        Figure::Table(table),
        by_round("Throughput", "requests per second", MEASURES[0].2),
        by_round("Server CPU per request", "us", MEASURES[1].2),
        by_percentile("Latency by percentile, median round", &curves),
        Figure::Table(runs_table(runs)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{observed, report};

    /// A run at `per_s` requests per second.
    fn run(name: &str, round: usize, per_s: u64, stopped: bool) -> Labelled {
        let mut observed = observed();
        observed.tally.answered = per_s * observed.window_ns / 1_000_000_000;
        observed.stopped = stopped;
        let labels = vec![("target", name.to_string()), ("round", round.to_string())];
        Labelled { labels, report: report(&[], &observed) }
    }

    #[test]
    fn only_rounds_that_both_were_carried_through_are_compared() {
        // The rate of the machine grows with the rounds, and the second is always twice as fast.
        let mut runs = Vec::new();
        for (round, per_s, first_stopped, second_stopped) in [
            (1, 100, true, false),
            (2, 200, false, false),
            (3, 400, false, false),
            (4, 800, false, true),
        ] {
            runs.push(run("first", round, per_s, first_stopped));
            runs.push(run("second", round, per_s * 2, second_stopped));
        }
        let of = MEASURES[0].2;
        let (base, values) = (rounds(&runs, "first", of), rounds(&runs, "second", of));
        assert_eq!(base, BTreeMap::from([(2, 200.0), (3, 400.0), (4, 800.0)]));
        assert_eq!(values, BTreeMap::from([(1, 200.0), (2, 400.0), (3, 800.0)]));
        let Estimate { value, low, high } = ratio(&values, &base).unwrap();
        assert!((value - 2.0).abs() < 1e-9 && high - low < 1e-9, "{value} {low} {high}");
        let study = study(Done { runs, ..Done::default() }, &["first".into(), "second".into()]);
        assert!(!study.clean);
    }
}
