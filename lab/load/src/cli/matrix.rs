//! `load matrix`: sizes x mixes x rates, and the latencies of every kind of request in each.
//!
//! Every plan is made before the first run, so that a wrong setting costs no hours. Keys are stored
//! again for every size. Bound: 10,000 cells.

use std::time::Duration;

use serde_json::{Value, json};

use super::bench::{Bench, Done, whole_per_s};
use super::settings::{Settings, Subject};
use crate::conclusion::{Labelled, Latency, Study};
use crate::drive::{Limit, Mode, Plan, Watch};
use crate::rate::{RATE_MAX, RateCurve};
use measure::Error;
use measure::units::{count, duration};
use report::figure::{Figure, Heat, Table, short};
use report::table::aligned;

pub(super) const EXAMPLES: &str = "Examples:
  Three sizes, three mixes, at 30, 60 and 90 % of what the server does for each:
    volvox load matrix --target 127.0.0.1:11211
  The same rates for all, and a page with heat maps:
    volvox load matrix --rates 10k,20k,40k --html matrix.html
A rate in percent is a share of the capacity measured for that size and mix: the throughput of a
closed loop over the same connections. Keys are stored again for every size.";

/// The most runs of one matrix.
const CELLS_MAX: usize = 10_000;

/// Settings of `load matrix`.
#[derive(Debug, clap::Args)]
pub struct MatrixArgs {
    /// What is measured; --value-bytes and --ratio are what is varied.
    #[command(flatten)]
    pub subject: Subject,
    /// Lengths of values, separated by spaces or semicolons; each as for --value-bytes.
    #[arg(long, default_value = "100 1000 10000")]
    pub sizes: String,
    /// Mixes of requests, separated likewise; each as for --ratio.
    #[arg(long, default_value = "9:1 1:1 1:9")]
    pub mixes: String,
    /// Rates: shares of the capacity such as 60%, or requests per second such as 20k.
    #[arg(long, value_delimiter = ',', default_value = "30%,60%,90%")]
    pub rates: Vec<String>,
    /// How long to measure each cell.
    #[arg(long, value_parser = duration, default_value = "5s")]
    pub duration: Duration,
}

/// A rate of the matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Level {
    Share(f64),
    PerSecond(f64),
}

impl Level {
    fn read(text: &str) -> Result<Self, Error> {
        let read = match text.strip_suffix('%') {
            Some(percent) => count(percent).map(|percent| Self::Share(percent / 100.0)),
            None => count(text)
                .and_then(|rate| RateCurve::constant(rate).check().map(|()| Self::PerSecond(rate))),
        };
        read.map_err(|error| Error::Setting(format!("--rates: {error}, or a share such as 60%")))
    }

    fn per_s(self, capacity_per_s: Option<f64>) -> Option<f64> {
        match self {
            Self::Share(share) => Some((capacity_per_s? * share).round().clamp(1.0, RATE_MAX)),
            Self::PerSecond(rate) => Some(rate),
        }
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split([' ', ';']).filter(|word| !word.is_empty()).collect()
}

impl MatrixArgs {
    /// Measures every cell.
    ///
    /// # Errors
    /// When a setting is out of range, or a run cannot be started or carried through.
    pub fn carry_out(&self, watch: &Watch) -> Result<Study, Error> {
        let (sizes, mixes) = (words(&self.sizes), words(&self.mixes));
        let levels =
            self.rates.iter().map(|rate| Level::read(rate)).collect::<Result<Vec<_>, _>>()?;
        let cells = sizes.len() * mixes.len() * levels.len();
        if cells == 0 || cells > CELLS_MAX {
            let text = format!("--sizes x --mixes x --rates: {cells} cells, from 1 to {CELLS_MAX}");
            return Err(Error::Setting(text));
        }
        let mut plans = Vec::new();
        for size in &sizes {
            for mix in &mixes {
                let settings = Settings {
                    value_bytes: Some((*size).to_string()),
                    ratio: Some((*mix).to_string()),
                    ..self.subject.settings.clone()
                };
                let limit = Limit::Time(self.duration);
                let plan = settings.plan(&self.subject.server, Mode::Closed, limit)?;
                plans.push((*size, *mix, settings, plan));
            }
        }
        let mut bench = Bench::new(&self.subject.settings, watch);
        let mut filled = None;
        for (size, mix, settings, plan) in &plans {
            if filled != Some(*size) {
                bench.fill(plan);
                filled = Some(*size);
            }
            let place = [("size", (*size).to_string()), ("mix", (*mix).to_string())];
            self.row(&mut bench, (settings, plan), &place, &levels);
        }
        Ok(study(bench.finish()?, &self.rates))
    }

    /// The capacity of one size and mix, where a rate is a share of it, and the cells at each rate.
    fn row(
        &self,
        bench: &mut Bench<'_>,
        (settings, plan): (&Settings, &Plan),
        place: &[(&'static str, String)],
        levels: &[Level],
    ) {
        let labels = |rate: &str| {
            let mut labels = place.to_vec();
            labels.push(("rate", rate.to_string()));
            labels
        };
        let mut capacity_per_s = None;
        if levels.iter().any(|level| matches!(level, Level::Share(_))) {
            capacity_per_s = whole_per_s(bench.measure_as(plan, settings, &labels(CAPACITY)));
        }
        for (name, level) in self.rates.iter().zip(levels) {
            // Without a capacity there is no share of it, and its cells stay empty.
            let Some(rate_per_s) = level.per_s(capacity_per_s) else { continue };
            let rate = RateCurve::constant(rate_per_s);
            let mode = Mode::Open { arrival: self.subject.settings.arrival, rate };
            bench.measure_as(&Plan { mode, ..plan.clone() }, settings, &labels(name));
        }
    }
}

/// The label of the run that measures the capacity.
const CAPACITY: &str = "capacity";

/// Takes one figure out of a distribution.
type Percentile = fn(&Latency) -> f64;

/// What a cell shows of a distribution.
const PERCENTILES: [(&str, Percentile); 3] = [
    ("p50", |latency| latency.p50_us),
    ("p95", |latency| latency.p95_us),
    ("p99", |latency| latency.p99_us),
];

fn is_cell(run: &&Labelled) -> bool {
    run.label(2) != CAPACITY
}

/// One row for every size, mix, rate and kind of request.
fn table(runs: &[Labelled]) -> Table {
    let head =
        ["size", "mix", "rate", "offered/s", "achieved/s", "op", "p50 us", "p95 us", "p99 us"];
    let mut table = Table::new("Every cell", &head);
    for run in runs.iter().filter(is_cell) {
        let rate = &run.report.rate;
        for (op, latency) in run.report.latencies() {
            let Some(latency) = latency else { continue };
            let mut row: Vec<String> = run.labels.iter().map(|(_, value)| value.clone()).collect();
            row.push(format!("{:.0}", rate.offered_per_s.unwrap_or(0.0)));
            row.push(format!("{:.0}", rate.achieved_per_s));
            row.push(op.to_string());
            row.extend(PERCENTILES.map(|(_, of)| format!("{:.1}", of(latency))));
            table.rows.push(row);
        }
    }
    table
}

/// A heat map for each kind of request and percentile.
fn heats(runs: &[Labelled], rates: &[String]) -> Vec<Figure> {
    let mut places: Vec<[&str; 2]> = Vec::new();
    for run in runs {
        let place = [run.label(0), run.label(1)];
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let mut figures = Vec::new();
    for (nth, op) in ["get", "set", "delete", "modify"].into_iter().enumerate() {
        for (name, of) in PERCENTILES {
            let cell = |[size, mix]: [&str; 2], rate: &String| {
                let labels = [size, mix, rate.as_str()];
                let here = |run: &&Labelled| (0..3).all(|nth| run.label(nth) == labels[nth]);
                runs.iter().find(here)?.report.latencies()[nth].1.map(of)
            };
            let row = |place: &[&str; 2]| {
                let cells: Vec<Option<f64>> = rates.iter().map(|rate| cell(*place, rate)).collect();
                (format!("{} B, {}", place[0], place[1]), cells)
            };
            let rows: Vec<_> = places.iter().map(row).collect();
            if rows.iter().any(|(_, cells)| cells.iter().any(Option::is_some)) {
                figures.push(Figure::Heat(Heat {
                    title: format!("{op} {name}, us"),
                    note: "Size of values and mix of requests by rate; darker is slower.".into(),
                    columns_label: "rate".to_string(),
                    columns: rates.to_vec(),
                    rows,
                }));
            }
        }
    }
    figures
}

fn study(done: Done, rates: &[String]) -> Study {
    let runs = &done.runs;
    let capacity = |run: &Labelled| {
        let per_s = run.report.rate.achieved_per_s;
        json!({ "size": run.label(0), "mix": run.label(1), "capacity_per_s": per_s })
    };
    let capacities: Vec<Value> = runs.iter().filter(|run| !is_cell(run)).map(capacity).collect();
    let cells = runs.iter().filter(is_cell).count();
    let fastest = runs.iter().map(|run| run.report.rate.achieved_per_s).fold(0.0, f64::max);
    let (mut figures, table) = (heats(runs, rates), table(runs));
    let text = aligned(&table);
    figures.push(Figure::Table(table));
    Study {
        conclusion: json!({ "cells": cells, "capacities": capacities }),
        text,
        varied: &["loop", "value bytes", "ratio"],
        sections: vec![("Matrix".to_string(), figures)],
        ..done.study("matrix", "Latencies by size, mix and rate")
    }
    .fact("cells measured", cells.to_string())
    .fact("highest rate per second", short(fastest))
    .gather(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_shares_or_rates() {
        for (text, per_s) in [("60%", 600.0), ("20k", 20_000.0), ("0.01%", 1.0)] {
            let level = Level::read(text).unwrap();
            assert_eq!(level.per_s(Some(1_000.0)), Some(per_s), "{text}");
            assert_eq!(level.per_s(None).is_some(), !text.contains('%'), "{text}");
        }
        for text in ["", "%", "-5%", "fast", "0", "2000M"] {
            let error = Level::read(text).unwrap_err().to_string();
            assert!(error.contains("--rates"), "{error}");
        }
        assert_eq!(words("9:1 1:1;  1:9"), ["9:1", "1:1", "1:9"]);
    }
}
