//! The report as one page: its sections with their figures. It is written as HTML with plots, and
//! as Markdown without them.

use report::figure::{Figure, Scale, short};
use report::html::Page;

use super::document::Document;
use super::plots::{Percentile, latency_heat, peak_heat, point_plot};
use super::rows::{Cell, Peak, Point};
use super::tables::{
    calls_table, cell_table, common_table, cost_table, lambda_table, point_table, win_table,
};
use crate::plan::{CONNECTIONS, KEYS, PIPELINE, TIERED_MIB};

/// The page; `command` writes such a report again.
pub(crate) fn page(document: &Document, command: &str) -> Page {
    let beside = document.subject.memcached.iter().map(|name| format!(" and {name}"));
    let (filled, all) = document.filled();
    let mut facts = vec![("cells filled".to_string(), format!("{filled} of {all}"))];
    let peaks = document.lambda_max.iter();
    let known = peaks.filter_map(|peak| Some((peak, peak.lambda_max?.per_s)));
    if let Some((peak, per_s)) = known.max_by(|a, b| a.1.total_cmp(&b.1)) {
        let name = format!("highest lambda-max ({}, {})", peak.contestant, peak.workload());
        facts.push((name, format!("{}/s", short(per_s))));
    }
    let scope = std::iter::once(document.scope.to_string());
    let sections = [
        ("Who wins where, and why", reasons(document)),
        ("Latencies", latencies(document)),
        ("Clients", clients(document)),
        ("Workers", workers(document)),
        ("Index, cold and warm", index(document)),
    ];
    Page {
        title: format!("The lab: four I/O styles{}", beside.collect::<String>()),
        setup: setup(document, command),
        facts,
        warnings: scope.chain(document.warnings().cloned()).collect(),
        sections: sections.map(|(heading, figures)| (heading.to_string(), figures)).into(),
    }
}

/// What was measured, when, on which machine, and how.
fn setup(document: &Document, command: &str) -> String {
    let subject = &document.subject;
    let keys = match subject.database {
        None => format!("{KEYS} keys"),
        Some(_) => format!("keys for four times a memory of {TIERED_MIB} MiB,"),
    };
    format!(
        "The {} form, measured on {} by \"{command}\", volvox {} (build {}), on {}. One worker on \
         a core of its own, the generator on another. {CONNECTIONS} connections with at most \
         {PIPELINE} requests each; {keys} of 20 bytes, a tenth of which has 90 % of all \
         requests; open loop; every value is compared.",
        subject.form,
        subject.date,
        subject.version,
        subject.build,
        subject.machine.line()
    )
}

fn reasons(document: &Document) -> Vec<Figure> {
    let cpu: fn(&Peak) -> Option<f64> = |peak| peak.counters.map(|of| of.cpu_us_per_request);
    let per_s: fn(&Peak) -> Option<f64> = |peak| peak.lambda_max.map(|of| of.per_s);
    let mut figures = vec![
        peak_heat(document, "Lambda-max, requests per second", "Darker is more.", per_s),
        peak_heat(
            document,
            "Server CPU per request above lambda-max, us",
            "Darker is more expensive.",
            cpu,
        ),
        Figure::Table(win_table(document)),
    ];
    figures.extend(common_table(document).map(Figure::Table));
    let tables = [lambda_table(document), cost_table(document), calls_table(document)];
    figures.extend(tables.map(Figure::Table));
    figures
}

fn latencies(document: &Document) -> Vec<Figure> {
    let percentiles: [Percentile; 3] =
        [("p50", |cell| cell.p50_us), ("p95", |cell| cell.p95_us), ("p99", |cell| cell.p99_us)];
    let heats = ["GET", "PUT"].into_iter().flat_map(|op| percentiles.map(|of| (op, of)));
    let heats = heats.map(|(op, percentile)| latency_heat(document, op, percentile));
    let tables = document.cells.chunk_by(|one: &Cell, next| one.size == next.size);
    heats.chain(tables.map(|cells| Figure::Table(cell_table(cells)))).collect()
}

fn clients(document: &Document) -> Vec<Figure> {
    let points = &document.clients;
    let axes = |y| ("clients", Scale::Linear, y);
    vec![
        point_plot(document, points, "Throughput", axes("requests per second"), |p| p.per_s),
        point_plot(document, points, "p99 of gets", axes("us"), |p| p.get_p99_us),
        Figure::Table(point_table(points, "Closed loop, one request per client", "clients")),
    ]
}

fn workers(document: &Document) -> Vec<Figure> {
    let points = &document.workers;
    let axes = |y| ("workers", Scale::Linear, y);
    let cpu: fn(&Point) -> Option<f64> = |point| point.cpu_us_per_request;
    let title = "Closed loop; no process has a core of its own, and the generator needs one too";
    vec![
        point_plot(document, points, "Throughput", axes("requests per second"), |p| p.per_s),
        point_plot(document, points, "Server CPU per request", axes("us"), cpu),
        Figure::Table(point_table(points, title, "workers")),
    ]
}

fn index(document: &Document) -> Vec<Figure> {
    let axes = ("entries", Scale::Log, "requests per second");
    let mut figures = Vec::new();
    for (points, title, note) in [
        (&document.index_cold, "Cold: missed and stored", "every key once, in an index that grows"),
        (&document.index_warm, "Warm: found", "as many requests"),
    ] {
        figures.push(point_plot(document, points, title, axes, |point| point.per_s));
        figures.push(Figure::Table(point_table(points, &format!("{title}, {note}"), "entries")));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::document;
    use super::*;

    #[test]
    fn the_page_says_what_it_is_of_and_escapes_names() {
        let html = page(&document(), "volvox lab --quick").to_html();
        for part in
            ["memory alone", "Who wins where", "X &amp; Y", "Index, cold and warm", "PUT p99"]
        {
            assert!(html.contains(part), "{part}");
        }
    }

    #[test]
    fn the_markdown_holds_every_cell_and_its_command() {
        let document = document();
        let text = report::markdown::page(&page(&document, "volvox lab --quick"));
        assert!(text.contains("\"volvox lab --quick\"") && text.contains("memory alone"));
        let rows = text.lines().filter(|line| line.contains("| GET |")).count();
        assert_eq!(rows * 2, document.cells.len());
        assert!(text.contains("### Lambda-max") && !text.contains("unanswered"));
    }
}
