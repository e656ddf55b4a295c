//! The rows of the report as plots and heat maps.
//!
//! A heat map has a cell for each column; a cell that was not measured is empty, and a plot has no
//! point there.

use report::figure::{Axis, Figure, Heat, Scale, Series};

use super::document::Document;
use super::rows::{Cell, Peak, Point};

/// A line for each contestant over a sweep.
pub(super) fn point_plot(
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
    let (x, y) = (Axis::new(axes.0, axes.1), Axis::new(axes.2, Scale::Linear));
    Figure::plot(title, "", x, y, document.contestants.iter().map(line).collect())
}

/// A figure of every lambda-max: a row for each size and mix, a column for each contestant.
pub(super) fn peak_heat(
    document: &Document,
    title: &str,
    note: &str,
    of: fn(&Peak) -> Option<f64>,
) -> Figure {
    let row = |group: &[Peak]| (group[0].workload(), group.iter().map(of).collect());
    Figure::Heat(Heat {
        title: title.to_string(),
        note: note.to_string(),
        columns_label: "server; bytes of a value and gets to sets".to_string(),
        columns: document.contestants.iter().map(|name| (*name).to_string()).collect(),
        rows: document.lambda_max.chunk_by(Peak::same_workload).map(row).collect(),
    })
}

/// A percentile: its name, and where it is read.
pub(super) type Percentile = (&'static str, fn(&Cell) -> Option<f64>);

/// One percentile of one kind of request: a row for each contestant, size and mix, a column for
/// each rate.
pub(super) fn latency_heat(document: &Document, op: &str, (name, of): Percentile) -> Figure {
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    for contestant in &document.contestants {
        let own = |cell: &&Cell| cell.op == op && cell.contestant == *contestant;
        let cells: Vec<&Cell> = document.cells.iter().filter(own).collect();
        for row in cells.chunk_by(|one, next| (one.size, one.mix) == (next.size, next.mix)) {
            let title = format!("{contestant} {} {}", bytes(row[0].size), row[0].mix);
            rows.push((title, row.iter().map(|cell| of(cell)).collect()));
            // Columns are narrow.
            columns = row.iter().map(|cell| cell.rate.replace("common", "all")).collect();
        }
    }
    Figure::Heat(Heat {
        title: format!("{op} {name}, us"),
        note: "Darker is slower. Rows: server, bytes of a value, gets to sets. Own: percent of \
               this server's lambda-max. All: percent of the slowest server's, so the same rate \
               for all."
            .to_string(),
        columns_label: "rate".to_string(),
        columns,
        rows,
    })
}

/// A size in as few characters as a narrow column has.
fn bytes(size: u32) -> String {
    if size.is_multiple_of(1_000) { format!("{}k", size / 1_000) } else { size.to_string() }
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::document;
    use super::*;

    #[test]
    fn heat_maps_have_a_cell_for_every_column() {
        let document = document();
        for figure in [
            peak_heat(&document, "t", "n", |peak| peak.lambda_max.map(|of| of.per_s)),
            peak_heat(&document, "t", "n", |peak| peak.counters.map(|of| of.cpu_us_per_request)),
            latency_heat(&document, "GET", ("p99", |cell| cell.p99_us)),
        ] {
            let Figure::Heat(heat) = figure else { panic!("a heat map") };
            assert!(!heat.rows.is_empty());
            assert!(heat.rows.iter().all(|row| row.1.len() == heat.columns.len()));
        }
    }
}
