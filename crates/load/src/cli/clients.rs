//! `load clients`: the same load over more and more connections.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::settings::{Server, Settings};
use super::work::{Bench, Done};
use crate::Error;
use crate::drive::{Limit, Mode, Plan, Watch};
use crate::report::figure::{Axis, Figure, Plot, Scale, Series};
use crate::report::pictures::{aligned, runs_table};
use crate::report::{Labelled, Outputs, Report, Study};
use crate::units::duration;

pub(super) const EXAMPLES: &str = "Examples:
  From 10 to 100 connections in steps of 10, closed loop, 5 s each:
    volvox load clients --target 127.0.0.1:11211 --populate
  A few numbers of connections, with a page of plots:
    volvox load clients --clients 1,10,100,1000 --populate --html clients.html";

/// The most numbers of connections in one study.
const CLIENTS_MAX: usize = 200;

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
        let plan = self.settings.plan(&self.server, Mode::Closed, Limit::Time(self.duration))?;
        let mut bench = Bench::new(&self.settings, watch, screen);
        if self.populate {
            bench.fill(&plan);
        }
        for connections in &self.clients {
            let threads = plan.threads.min(*connections).max(1);
            let plan = Plan { connections: *connections, threads, ..plan.clone() };
            bench.measure(&plan, &[("clients", connections.to_string())]);
        }
        Ok(study(bench.finish()?))
    }
}

/// The value of `of` for each number of connections; of whole runs only.
fn line(runs: &[Labelled], of: impl Fn(&Report) -> Option<f64>) -> Vec<(f64, f64)> {
    let point = |run: &Labelled| Some((run.report.setup.connections as f64, of(&run.report)?));
    runs.iter().filter(|run| run.report.whole).filter_map(point).collect()
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
    let latency = |name: &str, of: fn(&crate::report::Latency) -> f64| {
        Series::new(name, line(&runs, |report| report.get_latency.as_ref().map(of)))
    };
    let figures = vec![
        plot("Throughput", "requests per second", vec![Series::new("rate", rates)]),
        plot(
            "Latency of gets",
            "us",
            vec![latency("p50", |get| get.p50_us), latency("p99", |get| get.p99_us)],
        ),
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
        Figure::Table(runs_table(&runs)),
    ];
    let text = aligned(&runs_table(&runs));
    let mut study = Study {
        command: "clients",
        title: "Throughput by number of connections".to_string(),
        conclusion: json!({ "best_clients": best.0, "best_per_s": best.1 }),
        text: format!("{text}\nbest: {:.0} requests/s over {} connections", best.1, best.0),
        facts: vec![
            ("best rate per second".to_string(), crate::report::figure::short(best.1)),
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
