//! The rows of the report as tables, plots and heat maps, before they are drawn.

use report::figure::{Axis, Figure, Heat, Plot, Scale, Series, Table, short};

use crate::column::COLUMNS;
use crate::document::Document;
use crate::table::{Cell, Peak, Point};

/// A figure, or a dash where there is none.
fn number(value: Option<f64>) -> String {
    value.map_or("-".to_string(), short)
}

/// A figure with two digits behind the point.
fn fine(value: Option<f64>) -> String {
    value.map_or("-".to_string(), |value| format!("{value:.2}"))
}

fn table(title: &str, head: &[&str], rows: Vec<Vec<String>>) -> Table {
    let head = head.iter().map(|word| (*word).to_string()).collect();
    Table { title: title.to_string(), head, rows }
}

/// Lambda-max: a row for each contestant, a column for each size and mix.
pub(crate) fn lambda_table(document: &Document) -> Table {
    let peaks = &document.lambda_max;
    let mut head = vec!["requests/s".to_string()];
    let of_first = |peak: &&Peak| peak.contestant == peaks[0].contestant;
    head.extend(peaks.iter().filter(of_first).map(|peak| format!("{} B {}", peak.size, peak.mix)));
    let row = |name: &&'static str| {
        let mut row = vec![(*name).to_string()];
        let own = peaks.iter().filter(|peak| peak.contestant == *name);
        row.extend(own.map(|peak| match peak.lambda_max {
            None => "-".to_string(),
            Some(of) => {
                format!("{} ({} to {})", short(of.per_s), short(of.low_per_s), short(of.high_per_s))
            }
        }));
        row
    };
    let title = "Lambda-max, requests per second, with 95 % intervals".to_string();
    Table { title, head, rows: document.contestants.iter().map(row).collect() }
}

/// What a request costs in overload.
pub(crate) fn cost_table(document: &Document) -> Table {
    let row = |peak: &Peak| {
        let of = peak.counters;
        vec![
            peak.contestant.to_string(),
            format!("{} B", peak.size),
            peak.mix.to_string(),
            fine(of.map(|of| of.cpu_us_per_request)),
            number(peak.instructions_per_request),
            fine(peak.system_calls_per_request),
            fine(of.map(|of| of.sleeps_per_request)),
            fine(of.map(|of| of.preemptions_per_request)),
            fine(of.and_then(|of| of.receives_per_request)),
            fine(of.and_then(|of| of.sends_per_request)),
            fine(of.and_then(|of| of.requests_per_event)),
            fine(of.map(|of| of.busy_cores)),
            fine(of.map(|of| of.waiting_cores)),
            fine(of.map(|of| of.stolen_cores)),
            fine(peak.generator_busy),
        ]
    };
    let head = [
        "server",
        "size",
        "mix",
        "CPU us",
        "instructions",
        "calls",
        "sleeps",
        "preempted",
        "recvs",
        "sends",
        "per event",
        "busy",
        "waited",
        "stolen",
        "generator",
    ];
    let title = "What a request costs: beyond lambda-max by the kernel's and the server's counts; \
                 instructions by callgrind and system calls by strace, in runs of their own";
    table(title, &head, document.lambda_max.iter().map(row).collect())
}

/// System calls per request by name.
pub(crate) fn calls_table(document: &Document) -> Table {
    let row = |peak: &Peak| {
        let mut calls: Vec<(&String, &f64)> = peak.system_calls.iter().collect();
        calls.sort_by(|a, b| b.1.total_cmp(a.1));
        let named: Vec<String> =
            calls.iter().map(|(name, count)| format!("{name} {count:.3}")).collect();
        let named = if named.is_empty() { "-".to_string() } else { named.join(", ") };
        vec![peak.contestant.to_string(), format!("{} B", peak.size), peak.mix.to_string(), named]
    };
    let rows = document.lambda_max.iter().map(row).collect();
    table("System calls per request, by strace", &["server", "size", "mix", "by name"], rows)
}

/// The whole table of latencies.
pub(crate) fn cell_table(cells: &[&Cell], title: &str) -> Table {
    let head: Vec<&str> = COLUMNS.iter().map(|(_, title, _)| *title).collect();
    let row = |cell: &&Cell| COLUMNS.iter().map(|(_, _, of)| of(cell).short()).collect();
    table(title, &head, cells.iter().map(row).collect())
}

/// A sweep as a table.
pub(crate) fn point_table(points: &[Point], title: &str, what: &str) -> Table {
    let row = |point: &Point| {
        vec![
            point.contestant.to_string(),
            point.value.to_string(),
            number(point.per_s),
            number(point.get_p50_us),
            number(point.get_p99_us),
            number(point.put_p99_us),
            fine(point.cpu_us_per_request),
        ]
    };
    let head = ["server", what, "requests/s", "get p50 us", "get p99 us", "put p99 us", "CPU us"];
    table(title, &head, points.iter().map(row).collect())
}

/// A line for every contestant over a sweep.
pub(crate) fn point_plot(
    document: &Document,
    points: &[Point],
    title: &str,
    axes: (&str, Scale, &str),
    of: fn(&Point) -> Option<f64>,
) -> Figure {
    let line = |name: &&'static str| {
        let own = points.iter().filter(|point| point.contestant == *name);
        let points = own.filter_map(|point| Some((point.value as f64, of(point)?)));
        Series::new(*name, points.collect())
    };
    Figure::Plot(Plot {
        title: title.to_string(),
        note: String::new(),
        x: Axis::new(axes.0, axes.1),
        y: Axis::new(axes.2, Scale::Linear),
        series: document.contestants.iter().map(line).collect(),
    })
}

/// Lambda-max as shades: who answers how much where.
pub(crate) fn lambda_heat(document: &Document) -> Figure {
    peak_heat(document, ("Lambda-max, requests per second", "Darker is more."), |peak| {
        peak.lambda_max.map(|of| of.per_s)
    })
}

/// Processor time as shades: what a request costs whom where.
pub(crate) fn cost_heat(document: &Document) -> Figure {
    let words = ("Server CPU per request beyond lambda-max, us", "Darker is dearer.");
    peak_heat(document, words, |peak| peak.counters.map(|of| of.cpu_us_per_request))
}

fn peak_heat(
    document: &Document,
    (title, note): (&str, &str),
    of: fn(&Peak) -> Option<f64>,
) -> Figure {
    let of_first = |peak: &&Peak| Some(&peak.contestant) == document.contestants.first();
    let row = |place: &Peak| {
        let at = |name: &&'static str| {
            let is_here = |peak: &&Peak| {
                (peak.contestant, peak.size, peak.mix) == (name, place.size, place.mix)
            };
            document.lambda_max.iter().find(is_here).and_then(of)
        };
        let name = format!("{} B {}", place.size, place.mix);
        (name, document.contestants.iter().map(at).collect())
    };
    Figure::Heat(Heat {
        title: title.to_string(),
        note: note.to_string(),
        columns_label: "server; bytes of a value and gets to sets".to_string(),
        columns: document.contestants.iter().map(|name| (*name).to_string()).collect(),
        rows: document.lambda_max.iter().filter(of_first).map(row).collect(),
    })
}

/// A size in as few characters as a narrow place has.
fn bytes(size: u32) -> String {
    if size.is_multiple_of(1_000) { format!("{}k", size / 1_000) } else { size.to_string() }
}

/// A percentile: its name, and how it is read off a cell.
pub(crate) type Percentile = (&'static str, fn(&Cell) -> Option<f64>);

/// One percentile of one kind of request as shades: sizes and mixes of everybody by rate.
pub(crate) fn latency_heat(document: &Document, op: &str, (name, of): Percentile) -> Figure {
    let mut columns: Vec<String> = Vec::new();
    let mut rows: Vec<(String, Vec<Option<f64>>)> = Vec::new();
    for cell in document.cells.iter().filter(|cell| cell.op == op) {
        // Columns are narrow.
        let column = cell.rate.replace("common", "all");
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    for contestant in &document.contestants {
        let own = |cell: &&Cell| cell.op == op && cell.contestant == *contestant;
        for cell in document.cells.iter().filter(own) {
            let title = format!("{contestant} {} {}", bytes(cell.size), cell.mix);
            match rows.iter_mut().find(|row| row.0 == title) {
                Some(row) => row.1.push(of(cell)),
                None => rows.push((title, vec![of(cell)])),
            }
        }
    }
    Figure::Heat(Heat {
        title: format!("{op} {name}, us"),
        note:
            "Darker is slower. Rows: server, bytes of a value, gets to sets. Own: a share of what \
               this server answers; all: a share of what the slowest does, the same rate for all."
                .to_string(),
        columns_label: "rate".to_string(),
        columns,
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::tests::document;

    #[test]
    fn every_table_is_as_wide_as_its_head() {
        let document = document();
        let cells: Vec<&Cell> = document.cells.iter().collect();
        for table in [
            lambda_table(&document),
            cost_table(&document),
            calls_table(&document),
            cell_table(&cells, "t"),
            point_table(&document.clients, "t", "clients"),
        ] {
            assert!(!table.rows.is_empty(), "{}", table.title);
            assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{}", table.title);
        }
    }

    #[test]
    fn heat_maps_have_a_cell_for_every_column() {
        let document = document();
        for figure in [
            lambda_heat(&document),
            cost_heat(&document),
            latency_heat(&document, "GET", ("p99", |cell| cell.p99_us)),
        ] {
            let Figure::Heat(heat) = figure else { panic!("a heat map") };
            assert!(!heat.rows.is_empty());
            assert!(heat.rows.iter().all(|row| row.1.len() == heat.columns.len()));
        }
    }
}
