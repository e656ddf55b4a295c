//! The pictures of runs: latency by percentile, replies over time, and the tables beside them.

use super::{Labelled, Latency, Report, Setup};
use report::figure::{Axis, Figure, Plot, Scale, Series, Table, short};
use report::html::Page;

impl Setup {
    /// Names and values of the settings, for people.
    #[must_use]
    pub fn parts(&self) -> Vec<(&'static str, String)> {
        let workload = &self.workload;
        vec![
            ("target", self.target.clone()),
            ("protocol", self.protocol.clone()),
            ("loop", self.mode.clone()),
            ("connections", self.connections.to_string()),
            ("pipeline", self.pipeline.to_string()),
            ("threads", self.threads.to_string()),
            ("keys", self.keys.to_string()),
            ("key bytes", workload.key_lengths.clone()),
            ("value bytes", workload.value_bytes.clone()),
            ("ratio", workload.ratio.clone()),
            ("popularity", workload.popularity.clone()),
            ("keys per get", workload.multiget.clone()),
            ("lifetimes", format!("{} s", workload.ttl_s)),
            ("seed", workload.seed.to_string()),
        ]
    }
}

impl Report {
    /// The report as a page.
    #[must_use]
    pub fn page(&self) -> Page {
        let mut facts = vec![
            ("requests per second".to_string(), short(self.rate.achieved_per_s)),
            ("measured".to_string(), format!("{:.1} s", self.window_s)),
        ];
        let mut fact = |name: &str, value: String| facts.push((name.to_string(), value));
        if let Some(offered) = self.rate.offered_per_s {
            fact("offered per second", short(offered));
        }
        if let Some(server) = &self.server {
            fact("server CPU per request", format!("{} us", short(server.cpu_us_per_request)));
            fact("server cores busy", short(server.cores));
        }
        for (op, latency) in self.latencies() {
            if let Some(latency) = latency {
                fact(&format!("{op} p99"), format!("{} us", short(latency.p99_us)));
            }
        }
        if let Some(hit_ratio) = self.hit_ratio {
            fact("hit ratio", format!("{:.2} %", hit_ratio * 100.0));
        }
        let trouble = self.requests.errors + self.requests.lost + self.requests.unanswered;
        fact("errors and lost", trouble.to_string());
        let verified = if self.setup.verify { "" } else { " (not verified)" };
        fact("wrong values", format!("{}{verified}", self.wrong_values));
        let latencies: Vec<(String, &Latency)> = self
            .latencies()
            .into_iter()
            .filter_map(|(op, latency)| latency.map(|latency| (op.to_string(), latency)))
            .collect();
        Page {
            title: format!("Load on {}", self.setup.target),
            setup: self
                .setup
                .parts()
                .into_iter()
                .map(|(name, value)| format!("{name} {value}"))
                .collect::<Vec<_>>()
                .join(", "),
            facts,
            warnings: self.warnings.iter().chain(&self.complaints).cloned().collect(),
            sections: vec![(
                "Latency and throughput".to_string(),
                vec![
                    by_percentile("Latency by percentile", &latencies),
                    over_time("Throughput over time", &[("replies".to_string(), self)]),
                    Figure::Table(latency_table(&latencies)),
                ],
            )],
        }
    }
}

/// Latencies of several distributions by percentile.
#[must_use]
pub fn by_percentile(title: &str, latencies: &[(String, &Latency)]) -> Figure {
    let series = latencies.iter().map(|(name, latency)| Series::new(name, latency.curve.clone()));
    Figure::Plot(Plot {
        title: title.to_string(),
        note: "Each step to the right is ten times rarer; the last point is the slowest request."
            .to_string(),
        x: Axis::new("percentile", Scale::Percentile),
        y: Axis::new("latency, us", Scale::Log),
        series: series.collect(),
    })
}

/// Replies per second of several runs over their windows, with what was offered to the first.
#[must_use]
pub fn over_time(title: &str, runs: &[(String, &Report)]) -> Figure {
    let line = |rates: &[f64], stretch_s: f64| -> Vec<(f64, f64)> {
        let at = |nth: usize| (nth as f64 + 0.5) * stretch_s;
        rates.iter().enumerate().map(|(nth, rate)| (at(nth), *rate)).collect()
    };
    let mut series: Vec<Series> = runs
        .iter()
        .map(|(name, report)| {
            let timeline = &report.timeline;
            Series::new(name, line(&timeline.replies_per_s, timeline.stretch_s))
        })
        .collect();
    let offered =
        runs.first().and_then(|(_, report)| report.rate.offered.as_ref().zip(Some(report)));
    if let Some((text, report)) = offered
        && let Ok(curve) = text.parse::<crate::rate::RateCurve>()
    {
        let timeline = &report.timeline;
        let at_ns = |nth: usize| (nth as f64 + 0.5) * timeline.stretch_s * 1e9;
        let rates = (0..timeline.replies_per_s.len()).map(|nth| curve.at(at_ns(nth)));
        let rates: Vec<f64> = rates.collect();
        series.push(Series::reference("offered", line(&rates, timeline.stretch_s)));
    }
    Figure::Plot(Plot {
        title: title.to_string(),
        note: String::new(),
        x: Axis::new("seconds since the warm-up", Scale::Linear),
        y: Axis::new("replies per second", Scale::Linear),
        series,
    })
}

/// The percentiles by name.
#[must_use]
pub fn latency_table(latencies: &[(String, &Latency)]) -> Table {
    let row = |(name, latency): &(String, &Latency)| {
        let cells = [
            latency.p50_us,
            latency.p90_us,
            latency.p95_us,
            latency.p99_us,
            latency.p999_us,
            latency.p9999_us,
            latency.max_us,
        ];
        let mut row = vec![name.clone()];
        row.extend(cells.map(|us| format!("{us:.1}")));
        row.push(latency.count.to_string());
        row
    };
    Table {
        title: "Latency, us".to_string(),
        head: ["", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max", "count"]
            .map(str::to_string)
            .to_vec(),
        rows: latencies.iter().map(row).collect(),
    }
}

/// One row for every run: rates, cost and the latencies of gets and sets.
#[must_use]
pub fn runs_table(runs: &[Labelled]) -> Table {
    let mut head: Vec<String> = runs.first().map_or_else(Vec::new, |run| {
        run.labels.iter().map(|(name, _)| (*name).to_string()).collect()
    });
    head.extend(
        ["offered/s", "achieved/s", "CPU us", "get p50", "get p99", "set p50", "set p99", "errors"]
            .map(str::to_string),
    );
    let row = |run: &Labelled| {
        let report = &run.report;
        let us = |latency: &Option<Latency>, of: fn(&Latency) -> f64| {
            latency.as_ref().map_or("-".to_string(), |latency| format!("{:.1}", of(latency)))
        };
        let mut row: Vec<String> = run.labels.iter().map(|(_, value)| value.clone()).collect();
        row.push(report.rate.offered_per_s.map_or("-".to_string(), |rate| format!("{rate:.0}")));
        row.push(format!("{:.0}", report.rate.achieved_per_s));
        let cpu = report.server.as_ref().map(|server| server.cpu_us_per_request);
        row.push(cpu.map_or("-".to_string(), |us| format!("{us:.2}")));
        row.push(us(&report.get_latency, |latency| latency.p50_us));
        row.push(us(&report.get_latency, |latency| latency.p99_us));
        row.push(us(&report.set_latency, |latency| latency.p50_us));
        row.push(us(&report.set_latency, |latency| latency.p99_us));
        row.push((report.requests.errors + report.requests.lost).to_string());
        row
    };
    Table { title: "Runs; latencies in us".to_string(), head, rows: runs.iter().map(row).collect() }
}

/// The same table for the screen.
#[must_use]
pub fn aligned(table: &Table) -> String {
    let all = || std::iter::once(&table.head).chain(&table.rows);
    let widths: Vec<usize> = (0..table.head.len())
        .map(|column| all().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in all() {
        let cells = row.iter().zip(&widths).enumerate().map(|(nth, (cell, width))| {
            if nth == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}
