//! The figures of runs: latency by percentile, replies over time, and their tables.
//!
//! Pure: functions from reports to figures. Units stand in axes and heads.

use super::labelled::Labelled;
use super::latency::Latency;
use super::report::Report;
use crate::rate::RateCurve;
use report::figure::{Axis, Figure, Scale, Series, Table, short};
use report::html::Page;

/// The report as a page.
#[must_use]
pub fn page(report: &Report) -> Page {
    let mut facts = vec![
        ("requests per second".to_string(), short(report.rate.achieved_per_s)),
        ("measured".to_string(), format!("{:.1} s", report.window_s)),
    ];
    let mut fact = |name: &str, value: String| facts.push((name.to_string(), value));
    if let Some(offered) = report.rate.offered_per_s {
        fact("offered per second", short(offered));
    }
    if let Some(server) = &report.server {
        fact("server CPU per request", format!("{} us", short(server.cpu_us_per_request)));
        fact("server cores busy", short(server.cores));
    }
    let latencies = report.latencies().into_iter();
    let latencies: Vec<(String, &Latency)> =
        latencies.filter_map(|(op, latency)| Some((op.to_string(), latency?))).collect();
    for (op, latency) in &latencies {
        fact(&format!("{op} p99"), format!("{} us", short(latency.p99_us)));
    }
    if let Some(hit_ratio) = report.hit_ratio {
        fact("hit ratio", format!("{:.2} %", hit_ratio * 100.0));
    }
    let requests = &report.requests;
    let trouble = requests.errors + requests.lost + requests.unanswered;
    fact("errors and lost", trouble.to_string());
    let verified = if report.setup.verify { "" } else { " (not verified)" };
    fact("wrong values", format!("{}{verified}", report.wrong_values));
    let figures = vec![
        by_percentile("Latency by percentile", &latencies),
        over_time("Throughput over time", "replies", report),
        Figure::Table(latency_table(&latencies)),
    ];
    Page {
        title: format!("Load on {}", report.setup.target),
        setup: line(&report.setup.parts()),
        facts,
        warnings: report.warnings.iter().chain(&report.complaints).cloned().collect(),
        sections: vec![("Latency and throughput".to_string(), figures)],
    }
}

/// Names and values of settings, in a line.
pub(super) fn line(parts: &[(&'static str, String)]) -> String {
    let parts = parts.iter().map(|(name, value)| format!("{name} {value}"));
    parts.collect::<Vec<_>>().join(", ")
}

/// Latencies of several distributions by percentile.
#[must_use]
pub fn by_percentile(title: &str, latencies: &[(String, &Latency)]) -> Figure {
    let series = latencies.iter().map(|(name, latency)| Series::new(name, latency.curve.clone()));
    Figure::plot(
        title,
        "Each step to the right is ten times rarer; the last point is the slowest request.",
        Axis::new("percentile", Scale::Percentile),
        Axis::new("latency, us", Scale::Log),
        series.collect(),
    )
}

/// Replies per second of a run over its window, as a line called `name`, and what was offered.
#[must_use]
pub fn over_time(title: &str, name: &str, report: &Report) -> Figure {
    let stretch_s = report.timeline.stretch_s;
    let at_s = |nth: usize| (nth as f64 + 0.5) * stretch_s;
    let rates = report.timeline.replies_per_s.iter().enumerate();
    let replies: Vec<(f64, f64)> = rates.map(|(nth, rate)| (at_s(nth), *rate)).collect();
    let curve = report.rate.offered.as_ref().and_then(|text| text.parse::<RateCurve>().ok());
    let offered = curve.map(|curve| {
        let points = replies.iter().map(|(at_s, _)| (*at_s, curve.at(at_s * 1e9)));
        Series::reference("offered", points.collect())
    });
    let series = std::iter::once(Series::new(name, replies.clone())).chain(offered).collect();
    let x = Axis::new("seconds since the warm-up", Scale::Linear);
    Figure::plot(title, "", x, Axis::new("replies per second", Scale::Linear), series)
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
        let cells = cells.map(|us| format!("{us:.1}"));
        let name = std::iter::once(name.clone());
        name.chain(cells).chain([latency.count.to_string()]).collect()
    };
    let head = ["latency, us", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max", "count"];
    Table { rows: latencies.iter().map(row).collect(), ..Table::new("Latencies", &head) }
}

/// One row for every run: rates, cost and the latencies of gets and sets.
#[must_use]
pub fn runs_table(runs: &[Labelled]) -> Table {
    let labels = runs.first().map_or(&[][..], |run| &run.labels);
    let mut head: Vec<&str> = labels.iter().map(|(name, _)| *name).collect();
    head.extend([
        "offered/s",
        "achieved/s",
        "CPU us",
        "get p50",
        "get p99",
        "set p50",
        "set p99",
        "errors",
    ]);
    let row = |run: &Labelled| {
        let report = &run.report;
        let number = |value: Option<f64>, digits: usize| {
            value.map_or("-".to_string(), |value| format!("{value:.digits$}"))
        };
        let (get, set) = (report.get_latency.as_ref(), report.set_latency.as_ref());
        let cells = [
            number(report.rate.offered_per_s, 0),
            number(Some(report.rate.achieved_per_s), 0),
            number(report.server.as_ref().map(|server| server.cpu_us_per_request), 2),
            number(get.map(|latency| latency.p50_us), 1),
            number(get.map(|latency| latency.p99_us), 1),
            number(set.map(|latency| latency.p50_us), 1),
            number(set.map(|latency| latency.p99_us), 1),
            (report.requests.errors + report.requests.lost).to_string(),
        ];
        run.labels.iter().map(|(_, value)| value.clone()).chain(cells).collect()
    };
    let rows = runs.iter().map(row).collect();
    Table { rows, ..Table::new("Runs; latencies in us", &head) }
}
