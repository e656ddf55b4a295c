//! `load compare`: the same load on several servers, in alternating rounds of one run.
//!
//! A machine drifts: it warms up, and other programs come and go. Alternating rounds spread that
//! over all servers, the order turns with every round, and ratios are taken within a round. Bounds:
//! 16 servers, 1,000 rounds.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::bench::{Bench, Done};
use super::settings::{Server, Settings, at_least_two};
use crate::conclusion::pictures::{by_percentile, runs_table};
use crate::conclusion::{Labelled, Latency, Outputs, Report, Study};
use crate::drive::{Limit, Plan, Watch};
use measure::stats::{self, Estimate};
use measure::units::duration;
use measure::{Error, Target};
use report::figure::{Axis, Figure, Scale, Series, Table, short};
use report::table::aligned;

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
    /// A server: HOST:PORT or unix:PATH; give it once for each, the first is the base of ratios.
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
    /// The name of every server, once all settings are checked.
    fn names(&self) -> Result<Vec<String>, Error> {
        let count = self.targets.len();
        at_least_two("--target", count, TARGETS_MAX)?;
        at_least_two("--rounds", self.rounds, ROUNDS_MAX)?;
        for (what, given) in [("--name", self.names.len()), ("--server-pid", self.pids.len())] {
            if given != 0 && given != count {
                let text = format!("{given} times {what} for {count} targets: give one for each");
                return Err(Error::Setting(text));
            }
        }
        let mut names = self.names.clone();
        names.extend(self.targets[names.len()..].iter().map(ToString::to_string));
        match (1..count).find(|nth| names[..*nth].contains(&names[*nth])) {
            None => Ok(names),
            Some(nth) => Err(Error::Setting(format!(
                "two targets are called {:?}: give each a --name",
                names[nth]
            ))),
        }
    }

    fn plan(&self, nth: usize) -> Result<Plan, Error> {
        let (target, server_pid) = (self.targets[nth].clone(), self.pids.get(nth).copied());
        let mode = self.settings.mode(self.rate.as_deref())?;
        self.settings.plan(&Server { target, server_pid }, mode, Limit::Time(self.duration))
    }

    /// Measures every server in every round.
    ///
    /// # Errors
    /// When a setting is out of range, or a run cannot be started or carried through.
    pub fn carry_out(&self, watch: &Watch) -> Result<Study, Error> {
        let names = self.names()?;
        let plans = (0..names.len()).map(|nth| self.plan(nth)).collect::<Result<Vec<_>, _>>()?;
        let mut bench = Bench::new(&self.settings, watch);
        if self.populate {
            plans.iter().for_each(|plan| bench.fill(plan));
        }
        for round in 0..self.rounds {
            let mut order: Vec<usize> = (0..plans.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for nth in order {
                let labels = [("target", names[nth].clone()), ("round", (round + 1).to_string())];
                bench.measure(&plans[nth], &labels);
            }
        }
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

/// The runs of one server that were carried to their end.
fn whole<'r>(runs: &'r [Labelled], name: &str) -> impl Iterator<Item = &'r Labelled> {
    runs.iter().filter(move |run| run.label(0) == name && run.report.whole)
}

/// The figure of one server in each round, by the number of the round. A round in which its run
/// was cut short, or has no such figure, is left out.
fn rounds(runs: &[Labelled], name: &str, of: Figured) -> BTreeMap<usize, f64> {
    whole(runs, name)
        .filter_map(|run| Some((run.label(1).parse().ok()?, of(&run.report)?)))
        .collect()
}

/// The figures as a multiple of the `base`'s, over the rounds that have both.
fn ratio(values: &BTreeMap<usize, f64>, base: &BTreeMap<usize, f64>) -> Option<Estimate> {
    let pairs = values.iter().filter_map(|(round, value)| Some((*value, *base.get(round)?)));
    let (values, bases): (Vec<f64>, Vec<f64>) = pairs.unzip();
    stats::ratio(&values, &bases)
}

fn study(done: Done, names: &[String]) -> Study {
    let head = ["target", "figure", "median", "range", "ratio to first (95 % interval)"];
    let title = "Medians of the rounds, and ratios to the first with 95 % intervals";
    let mut table = Table::new(title, &head);
    let (mut servers, mut facts) = (Vec::new(), Vec::new());
    for name in names {
        let mut server = serde_json::Map::new();
        server.insert("target".to_string(), json!(name));
        for (key, label, of) in MEASURES {
            let by_round = rounds(&done.runs, name, of);
            let ratio = ratio(&by_round, &rounds(&done.runs, &names[0], of));
            let ratio = ratio.filter(|_| *name != names[0]);
            let values: Vec<f64> = by_round.into_values().collect();
            let (Some(median), Some((low, high))) = (stats::median(&values), stats::range(&values))
            else {
                continue;
            };
            let ratio_text = ratio.map_or("-".to_string(), |Estimate { value, low, high }| {
                facts.push((format!("{name}, {label}"), format!("x {value:.3}")));
                format!("{value:.3} ({low:.3} to {high:.3})")
            });
            let range = format!("{} to {}", short(low), short(high));
            table.rows.push(vec![name.clone(), label.into(), short(median), range, ratio_text]);
            let range = json!({ "low": low, "high": high });
            let entry = json!({ "median": median, "range": range, "ratio_to_first": ratio });
            server.insert(key.to_string(), entry);
        }
        servers.push(server);
    }
    let text = aligned(&table);
    let mut figures = vec![Figure::Table(table)];
    figures.extend(self::figures(&done.runs, names));
    Study {
        conclusion: json!({ "first": names[0], "servers": servers }),
        text,
        facts,
        varied: &["target"],
        sections: vec![("Side by side".to_string(), figures)],
        ..done.study("compare", format!("Comparison of {}", names.join(" and ")))
    }
    .gather(None)
}

/// The run of a server whose rate is the median, or just below.
fn typical<'r>(runs: &'r [Labelled], name: &str) -> Option<&'r Report> {
    let mut own: Vec<&Report> = whole(runs, name).map(|run| &run.report).collect();
    own.sort_by(|a, b| a.rate.achieved_per_s.total_cmp(&b.rate.achieved_per_s));
    own.get(own.len().saturating_sub(1) / 2).copied()
}

fn figures(runs: &[Labelled], names: &[String]) -> [Figure; 4] {
    let curve = |name: &String| {
        let report = typical(runs, name)?;
        let latency = report.get_latency.as_ref().or(report.set_latency.as_ref())?;
        Some((name.clone(), latency))
    };
    let curves: Vec<(String, &Latency)> = names.iter().filter_map(curve).collect();
    let by_round = |title: &str, unit: &str, of: Figured| {
        let line = |name: &String| {
            let values = rounds(runs, name, of).into_iter();
            Series::new(name, values.map(|(round, value)| (round as f64, value)).collect())
        };
        let x = Axis::new("round", Scale::Linear);
        let series = names.iter().map(line).collect();
        Figure::plot(title, "", x, Axis::new(unit, Scale::Linear), series)
    };
    [
        by_round("Throughput", "requests per second", MEASURES[0].2),
        by_round("Server CPU per request", "us", MEASURES[1].2),
        by_percentile("Latency by percentile, median round", &curves),
        Figure::Table(runs_table(runs)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conclusion::tests::{observed, report};

    /// A run at `per_s` requests per second.
    fn run(name: &str, round: usize, per_s: u64, stopped: bool) -> Labelled {
        let mut observed = observed();
        observed.tally.totals.answered = per_s * observed.window_ns / 1_000_000_000;
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
