//! The rows of the report as tables of text.
//!
//! A figure has three significant digits, or two digits after the point where a column compares
//! small costs. A dash was not measured.

use report::figure::{Table, short};

use super::document::Document;
use super::rows::{Cell, Peak, Point};
use super::winners::{CommonP99, HigherCost, Loser, Win};

/// A column: its title, and its text in a row.
type Column<R> = (&'static str, fn(&R) -> String);

fn table<R>(title: &str, columns: &[Column<R>], rows: &[R]) -> Table {
    let row = |row| columns.iter().map(|(_, text)| text(row)).collect();
    Table {
        title: title.to_string(),
        head: columns.iter().map(|(title, _)| (*title).to_string()).collect(),
        rows: rows.iter().map(row).collect(),
    }
}

/// A figure with three significant digits.
fn number(value: Option<f64>) -> String {
    value.map_or("-".to_string(), short)
}

/// A figure with all its digits; empty if it was not measured.
fn exact(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A figure with two digits after the point.
fn fine(value: Option<f64>) -> String {
    value.map_or("-".to_string(), |value| format!("{value:.2}"))
}

/// Who wins where: a row for each loser of a size and mix.
pub(crate) fn win_table(document: &Document) -> Table {
    let title =
        "The highest lambda-max; why: the costs of a request that are higher than the winner's";
    let rows = document.winners.iter().flat_map(win_rows).collect();
    Table { rows, ..Table::new(title, &["where", "winner", "by how much", "why"]) }
}

fn win_rows(win: &Win) -> Vec<Vec<String>> {
    let place = format!("{} B, {}", win.size, win.mix);
    let (Some(leader), Some(per_s)) = (win.leader, win.per_s) else {
        return vec![[&place, "not measured", "-", "-"].map(str::to_string).to_vec()];
    };
    let mut winner = match win.equals[..] {
        [] => format!("{leader}, {}/s", short(per_s)),
        _ => {
            let equals = win.equals.join(", ");
            format!("nobody: {leader} {}/s; {equals} within its interval", short(per_s))
        }
    };
    if win.crowded {
        winner.push_str("; not decided: others used the machine");
    }
    let row = |loser: &Loser| {
        let cost =
            |of: &HigherCost| format!("{} {} against {}", of.cost, short(of.own), short(of.leader));
        let why = match loser.costs[..] {
            [] => "no counted cost is more than a tenth higher".to_string(),
            _ => loser.costs.iter().map(cost).collect::<Vec<_>>().join(", "),
        };
        let by = format!("{:.2} x {}", loser.factor, loser.contestant);
        vec![String::new(), String::new(), by, why]
    };
    let mut rows: Vec<Vec<String>> = win.losers.iter().map(row).collect();
    if rows.is_empty() {
        rows.push(vec!["-".to_string(); 4]);
    }
    (rows[0][0], rows[0][1]) = (place, winner);
    rows
}

/// The p99 of gets at the highest common rate; none if no such rate was measured.
pub(super) fn common_table(document: &Document) -> Option<Table> {
    let rows = &document.common_p99;
    let rate = &rows.first()?.rate;
    let title = format!(
        "p99 of gets at {rate}, the same rate for all: geometric mean over sizes and mixes"
    );
    let columns: [Column<CommonP99>; 2] =
        [("server", |row| row.contestant.to_string()), ("p99 us", |row| short(row.get_p99_us))];
    Some(table(&title, &columns, rows))
}

/// Lambda-max: a row for each size and mix, a column for each contestant.
pub(crate) fn lambda_table(document: &Document) -> Table {
    let text = |peak: &Peak| match peak.lambda_max {
        None => "-".to_string(),
        Some(of) => {
            format!("{} ({} to {})", short(of.per_s), short(of.low_per_s), short(of.high_per_s))
        }
    };
    let row = |group: &[Peak]| {
        std::iter::once(group[0].workload()).chain(group.iter().map(text)).collect()
    };
    let rows = document.lambda_max.chunk_by(Peak::same_workload).map(row).collect();
    let head = [&["where"], &document.contestants[..]].concat();
    Table { rows, ..Table::new("Lambda-max, requests per second, with 95 % intervals", &head) }
}

/// The cost of a request above lambda-max.
pub(crate) fn cost_table(document: &Document) -> Table {
    let columns: [Column<Peak>; 14] = [
        ("server", |peak| peak.contestant.to_string()),
        ("where", Peak::workload),
        ("CPU us", |peak| fine(peak.counters.map(|of| of.cpu_us_per_request))),
        ("instructions", |peak| number(peak.instructions_per_request)),
        ("calls", |peak| fine(peak.system_calls_per_request)),
        ("sleeps", |peak| fine(peak.counters.map(|of| of.sleeps_per_request))),
        ("preempted", |peak| fine(peak.counters.map(|of| of.preemptions_per_request))),
        ("recvs", |peak| fine(peak.counters.and_then(|of| of.receives_per_request))),
        ("sends", |peak| fine(peak.counters.and_then(|of| of.sends_per_request))),
        ("per event", |peak| fine(peak.counters.and_then(|of| of.requests_per_event))),
        ("busy", |peak| fine(peak.counters.map(|of| of.busy_cores))),
        ("waited", |peak| fine(peak.counters.map(|of| of.waiting_cores))),
        ("stolen", |peak| fine(peak.counters.map(|of| of.stolen_cores))),
        ("generator", |peak| fine(peak.generator_busy)),
    ];
    let title = "The cost of a request: above lambda-max by the counters of the kernel and of the \
                 server; instructions by callgrind and system calls by strace in runs of their own";
    table(title, &columns, &document.lambda_max)
}

/// System calls per request by name.
pub(super) fn calls_table(document: &Document) -> Table {
    let by_name = |peak: &Peak| {
        let mut calls: Vec<(&String, &f64)> = peak.system_calls.iter().collect();
        calls.sort_by(|a, b| b.1.total_cmp(a.1));
        let calls = calls.iter().map(|(name, count)| format!("{name} {count:.3}"));
        let named = calls.collect::<Vec<_>>().join(", ");
        if named.is_empty() { "-".to_string() } else { named }
    };
    let columns: [Column<Peak>; 3] = [
        ("server", |peak| peak.contestant.to_string()),
        ("where", Peak::workload),
        ("by name", by_name),
    ];
    table("System calls per request, by strace", &columns, &document.lambda_max)
}

/// Latencies of one size.
pub(super) fn cell_table(cells: &[Cell]) -> Table {
    let size = cells.first().map_or(0, |cell| cell.size);
    let columns: [Column<Cell>; 11] = [
        ("server", |cell| cell.contestant.to_string()),
        ("mix", |cell| cell.mix.to_string()),
        ("rate", |cell| cell.rate.clone()),
        ("offered/s", |cell| number(cell.offered_per_s)),
        ("achieved/s", |cell| number(cell.achieved_per_s)),
        ("op", |cell| cell.op.to_string()),
        ("p50 us", |cell| number(cell.p50_us)),
        ("p95 us", |cell| number(cell.p95_us)),
        ("p99 us", |cell| number(cell.p99_us)),
        ("wrong", |cell| cell.wrong.map_or("-".to_string(), |count| count.to_string())),
        ("CPU us", |cell| number(cell.cpu_us_per_request)),
    ];
    table(&format!("Values of {size} bytes"), &columns, cells)
}

/// All cells with all digits, for tools; a field is empty if it was not measured.
pub(crate) fn csv_table(document: &Document) -> Table {
    let columns: [Column<Cell>; 12] = [
        ("contestant", |cell| cell.contestant.to_string()),
        ("size_bytes", |cell| cell.size.to_string()),
        ("mix", |cell| cell.mix.to_string()),
        ("rate", |cell| cell.rate.clone()),
        ("offered_per_s", |cell| exact(cell.offered_per_s)),
        ("achieved_per_s", |cell| exact(cell.achieved_per_s)),
        ("op", |cell| cell.op.to_string()),
        ("p50_us", |cell| exact(cell.p50_us)),
        ("p95_us", |cell| exact(cell.p95_us)),
        ("p99_us", |cell| exact(cell.p99_us)),
        ("wrong", |cell| exact(cell.wrong)),
        ("server_cpu_us_per_request", |cell| exact(cell.cpu_us_per_request)),
    ];
    table("Latencies", &columns, &document.cells)
}

/// A sweep over `what`.
pub(super) fn point_table(points: &[Point], title: &str, what: &'static str) -> Table {
    let columns: [Column<Point>; 7] = [
        ("server", |point| point.contestant.to_string()),
        (what, |point| point.value.to_string()),
        ("requests/s", |point| number(point.per_s)),
        ("get p50 us", |point| number(point.get_p50_us)),
        ("get p99 us", |point| number(point.get_p99_us)),
        ("put p99 us", |point| number(point.put_p99_us)),
        ("CPU us", |point| fine(point.cpu_us_per_request)),
    ];
    table(title, &columns, points)
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::document;
    use super::*;

    #[test]
    fn every_table_is_as_wide_as_its_head() {
        let document = document();
        for table in [
            win_table(&document),
            lambda_table(&document),
            cost_table(&document),
            calls_table(&document),
            cell_table(&document.cells),
            point_table(&document.clients, "t", "clients"),
        ] {
            assert!(!table.rows.is_empty(), "{}", table.title);
            assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{}", table.title);
        }
    }

    #[test]
    fn the_csv_has_a_line_for_every_cell() {
        let document = document();
        let csv = report::table::csv(&csv_table(&document));
        assert_eq!(csv.lines().count(), document.cells.len() + 1);
        let head = csv.lines().next().unwrap();
        assert!(head.starts_with("contestant,size_bytes,mix,") && head.ends_with("_per_request"));
        assert!(csv.lines().all(|line| line.split(',').count() == head.split(',').count()));
    }

    #[test]
    fn what_was_not_measured_is_empty_for_tools_and_a_dash_for_people() {
        assert_eq!((exact(None::<f64>), exact(Some(12_345.678))), ("".into(), "12345.678".into()));
        assert_eq!((number(None), fine(None)), ("-".to_string(), "-".to_string()));
        assert_eq!((number(Some(12_345.678)), fine(Some(0.1234))), ("12.3k".into(), "0.12".into()));
    }
}
