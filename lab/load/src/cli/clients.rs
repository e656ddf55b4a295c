//! `load clients`: the same load over more and more connections.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::settings::{Server, Settings};
use super::work::{Bench, Done};
use crate::drive::{CONNECTIONS_MAX, Limit, Mode, Plan, Watch};
use crate::report::pictures::{aligned, runs_table};
use crate::report::{Labelled, Latency, Outputs, Report, Study};
use measure::Error;
use measure::units::duration;
use report::figure::{Axis, Figure, Plot, Scale, Series};

pub(super) const EXAMPLES: &str = "Examples:
  From 10 to 100 connections in steps of 10, closed loop, 5 s each:
    volvox load clients --target 127.0.0.1:11211 --populate
  A few numbers of connections, with a page of plots:
    volvox load clients --clients 1,10,100,1000 --populate --html clients.html";

/// The most numbers of connections in one study.
const CLIENTS_MAX: usize = 200;

/// The requests whose time is stated.
const WHOLE: f64 = 100_000.0;

/// Settings of `load clients`.
#[derive(Debug, clap::Args)]
pub struct ClientsArgs {
    /// The server.
    #[command(flatten)]
    pub server: Server,
    /// What flows to it; --connections is what is varied.
    #[command(flatten)]
    pub settings: Settings,
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
    /// Where the report goes.
    #[command(flatten)]
    pub outputs: Outputs,
}

impl ClientsArgs {
    /// Measures every number of connections.
    ///
    /// # Errors
    /// When a run cannot be started or carried through.
    pub fn carry_out(&self, watch: &Watch, screen: &mut dyn Write) -> Result<Study, Error> {
        if self.clients.len() > CLIENTS_MAX {
            let text = format!("--clients: {} numbers, at most {CLIENTS_MAX}", self.clients.len());
            return Err(Error::Setting(text));
        }
        // Every plan is made before the first run, so that a mistake costs no measurement.
        let plans = self.clients.iter().map(|connections| self.plan(*connections));
        let plans = plans.collect::<Result<Vec<Plan>, Error>>()?;
        let mut bench = Bench::new(&self.settings, watch, screen);
        if self.populate {
            plans.last().into_iter().for_each(|plan| bench.fill(plan));
        }
        for plan in &plans {
            bench.measure(plan, &[("clients", plan.connections.to_string())]);
        }
        Ok(study(bench.finish()?))
    }

    /// The plan for so many connections; threads that would have none are left out.
    fn plan(&self, connections: usize) -> Result<Plan, Error> {
        if !(1..=CONNECTIONS_MAX).contains(&connections) {
            let text = format!("--clients {connections}: choose from 1 to {CONNECTIONS_MAX}");
            return Err(Error::Setting(text));
        }
        let threads = self.settings.threads.min(connections);
        let settings = Settings { connections, threads, ..self.settings.clone() };
        settings.plan(&self.server, Mode::Closed, Limit::Time(self.duration))
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

fn plot(title: &str, label: &str, series: Vec<Series>) -> Figure {
    Figure::Plot(Plot {
        title: title.to_string(),
        note: String::new(),
        x: Axis::new("connections", Scale::Linear),
        y: Axis::new(label, Scale::Linear),
        series,
    })
}

fn study(Done { runs, warnings, complete }: Done) -> Study {
    let rates = line(&runs, |report| Some(report.rate.achieved_per_s));
    let best = rates.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
    let get = |name: &str, of: fn(&Latency) -> f64| {
        Series::new(name, line(&runs, |report| report.get_latency.as_ref().map(of)))
    };
    let set = |name: &str, of: fn(&Latency) -> f64| {
        Series::new(name, line(&runs, |report| report.set_latency.as_ref().map(of)))
    };
    let whole_s = line(&runs, time_s);
    let mut table = runs_table(&runs);
    table.head.push("s/100k".to_string());
    for (row, run) in table.rows.iter_mut().zip(&runs) {
        let time_s = time_s(&run.report);
        row.push(time_s.map_or("-".to_string(), |time_s| format!("{time_s:.3}")));
    }
    let text = aligned(&table);
    let figures = vec![
        plot("Throughput", "requests per second", vec![Series::new("rate", rates)]),
        plot(
            "Latency of gets",
            "us",
            vec![get("p50", |get| get.p50_us), get("p99", |get| get.p99_us)],
        ),
        plot(
            "Latency of sets",
            "us",
            vec![set("p50", |set| set.p50_us), set("p99", |set| set.p99_us)],
        ),
        plot("Time for 100,000 requests", "seconds", vec![Series::new("time", whole_s.clone())]),
        plot(
            "Server CPU per request",
            "us",
            vec![Series::new(
                "cpu",
                line(&runs, |report| {
                    report.server.as_ref().map(|server| server.cpu_us_per_request)
                }),
            )],
        ),
        Figure::Table(table),
    ];
    let mut study = Study {
        command: "clients",
        title: "Throughput by number of connections".to_string(),
        conclusion: json!({
            "best_clients": best.0,
            "best_per_s": best.1,
            "s_per_100k_requests": whole_s,
        }),
        text: format!("{text}\nbest: {:.0} requests/s over {} connections", best.1, best.0),
        facts: vec![
            ("best rate per second".to_string(), report::figure::short(best.1)),
            ("over connections".to_string(), best.0.to_string()),
        ],
        warnings,
        varied: &["connections", "threads"],
        runs,
        sections: vec![("By number of connections".to_string(), figures)],
        csv: None,
        clean: complete,
    };
    study.gather(None);
    study
}
