//! `load clients`: the same load over more and more connections.
//!
//! A closed loop for each number of connections. Every plan is made before the first run, so that a
//! wrong setting costs no measurement. Bound: 200 numbers.

use std::time::Duration;

use serde_json::json;

use super::bench::{Bench, Done};
use super::settings::{Settings, Subject};
use crate::conclusion::pictures::runs_table;
use crate::conclusion::{Labelled, Latency, Report, Study};
use crate::drive::{CONNECTIONS_MAX, Limit, Mode, Plan, Watch};
use measure::Error;
use measure::units::duration;
use report::figure::{Axis, Figure, Scale, Series, short};
use report::table::aligned;

pub(super) const EXAMPLES: &str = "Examples:
  From 10 to 100 connections in steps of 10, closed loop, 5 s each:
    volvox load clients --target 127.0.0.1:11211 --populate
  A few numbers of connections, with a page of plots:
    volvox load clients --clients 1,10,100,1000 --populate --html clients.html";

/// The most numbers of connections in one study.
const CLIENTS_MAX: usize = 200;

/// The number of requests whose time is stated.
const WHOLE: f64 = 100_000.0;

/// Settings of `load clients`.
#[derive(Debug, clap::Args)]
pub struct ClientsArgs {
    /// What is measured; --connections is what is varied.
    #[command(flatten)]
    pub subject: Subject,
    /// The numbers of connections.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,N,..",
        default_value = "10,20,30,40,50,60,70,80,90,100"
    )]
    pub clients: Vec<usize>,
    /// How long to measure each.
    #[arg(long, value_parser = duration, default_value = "5s")]
    pub duration: Duration,
    /// Store every key once before the first.
    #[arg(long)]
    pub populate: bool,
}

impl ClientsArgs {
    /// Measures every number of connections.
    ///
    /// # Errors
    /// When a run cannot be started or carried through.
    pub fn carry_out(&self, watch: &Watch) -> Result<Study, Error> {
        if self.clients.len() > CLIENTS_MAX {
            let text = format!("--clients: {} numbers, at most {CLIENTS_MAX}", self.clients.len());
            return Err(Error::Setting(text));
        }
        let plans = self.clients.iter().map(|connections| self.plan(*connections));
        let plans = plans.collect::<Result<Vec<Plan>, Error>>()?;
        let mut bench = Bench::new(&self.subject.settings, watch);
        if self.populate {
            plans.last().into_iter().for_each(|plan| bench.fill(plan));
        }
        for plan in &plans {
            bench.measure(plan, &[("clients", plan.connections.to_string())]);
        }
        Ok(study(bench.finish()?))
    }

    /// The plan for `connections`; threads that would have none are left out.
    fn plan(&self, connections: usize) -> Result<Plan, Error> {
        if !(1..=CONNECTIONS_MAX).contains(&connections) {
            let text = format!("--clients {connections}: choose from 1 to {CONNECTIONS_MAX}");
            return Err(Error::Setting(text));
        }
        let settings = &self.subject.settings;
        let threads = settings.threads.min(connections);
        let settings = Settings { connections, threads, ..settings.clone() };
        settings.plan(&self.subject.server, Mode::Closed, Limit::Time(self.duration))
    }
}

/// The value of `of` for each number of connections; of whole runs only.
fn line(runs: &[Labelled], of: impl Fn(&Report) -> Option<f64>) -> Vec<(f64, f64)> {
    let point = |run: &Labelled| Some((run.report.setup.connections as f64, of(&run.report)?));
    runs.iter().filter(|run| run.report.whole).filter_map(point).collect()
}

/// Seconds for `WHOLE` requests; none where none was answered.
fn time_s(report: &Report) -> Option<f64> {
    Some(WHOLE / report.rate.achieved_per_s).filter(|time_s| time_s.is_finite())
}

fn study(done: Done) -> Study {
    let runs = &done.runs;
    let rates = line(runs, |report| Some(report.rate.achieved_per_s));
    let whole_s = line(runs, time_s);
    let best = rates.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
    let latencies = |of: fn(&Report) -> Option<&Latency>| {
        let p50 = line(runs, |report| of(report).map(|latency| latency.p50_us));
        let p99 = line(runs, |report| of(report).map(|latency| latency.p99_us));
        vec![Series::new("p50", p50), Series::new("p99", p99)]
    };
    let cpu = line(runs, |report| report.server.as_ref().map(|it| it.cpu_us_per_request));
    let plot = |title: &str, label: &str, series| {
        let x = Axis::new("connections", Scale::Linear);
        Figure::plot(title, "", x, Axis::new(label, Scale::Linear), series)
    };
    let mut table = runs_table(runs);
    table.head.push("s/100k".to_string());
    for (row, run) in table.rows.iter_mut().zip(runs) {
        let time_s = time_s(&run.report);
        row.push(time_s.map_or("-".to_string(), |time_s| format!("{time_s:.3}")));
    }
    let text = aligned(&table);
    let figures = vec![
        plot("Throughput", "requests per second", vec![Series::new("rate", rates)]),
        plot("Latency of gets", "us", latencies(|report| report.get_latency.as_ref())),
        plot("Latency of sets", "us", latencies(|report| report.set_latency.as_ref())),
        plot("Time for 100,000 requests", "seconds", vec![Series::new("time", whole_s.clone())]),
        plot("Server CPU per request", "us", vec![Series::new("cpu", cpu)]),
        Figure::Table(table),
    ];
    let conclusion = json!({
        "best_clients": best.0,
        "best_per_s": best.1,
        "s_per_100k_requests": whole_s,
    });
    Study {
        conclusion,
        text: format!("{text}\nbest: {:.0} requests/s over {} connections", best.1, best.0),
        varied: &["connections", "threads"],
        sections: vec![("By number of connections".to_string(), figures)],
        ..done.study("clients", "Throughput by number of connections")
    }
    .fact("best rate per second", short(best.1))
    .fact("over connections", best.0.to_string())
    .gather(None)
}
