//! The whole report as one structure: the JSON field for field, and the source of the pages.
//!
//! The JSON is stable under the name of its schema: fields may be added, none is removed, renamed
//! or given another unit. A figure that was not measured is `null`.

use serde::Serialize;

use super::doubts::doubts;
use super::rows::{Cell, Peak, Point, cells, peaks, points};
use super::winners::{CommonP99, Win, common_p99, wins};
use crate::findings::{Findings, Subject};
use crate::plan::{Contestant, Form, Task};

/// Name and version of the JSON.
const SCHEMA: &str = "volvox-lab/2";

/// What the table is a table of, and what it is not.
const MEMORY_ALONE: &str = "This is memory alone: no request waits for a database. volvox lab \
    --tier measures the same above one.";
const ABOVE: &str = "Our servers stand above a journal and a database, in one directory. Their \
    memory holds the keys that are requested most; others are read from the database. Under every \
    driver threads of the tier read it, on the core of the server, while requests wait: so a \
    server is busy with less, and its worker waits for its core.";

/// A report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Document {
    schema: &'static str,
    /// What the report is about.
    #[serde(flatten)]
    pub(super) subject: Subject,
    /// The servers, in order.
    pub(super) contestants: Vec<&'static str>,
    /// What the table is a table of.
    pub(super) scope: &'static str,
    /// Whether every cell has its figures and nothing went wrong.
    whole: bool,
    /// Cells without a figure.
    pub(super) empty_cells: Vec<String>,
    /// Measurements without figures, or in which something went wrong, and why.
    pub(super) missing: Vec<String>,
    /// Who wins where, and why.
    pub(super) winners: Vec<Win>,
    /// The p99 of gets at the highest common rate.
    pub(super) common_p99: Vec<CommonP99>,
    /// Reasons not to rely on the figures.
    pub(super) doubts: Vec<String>,
    /// Lambda-max by size, mix and contestant.
    pub(super) lambda_max: Vec<Peak>,
    /// The table of latencies.
    pub(super) cells: Vec<Cell>,
    /// By number of clients.
    pub(super) clients: Vec<Point>,
    /// By number of workers.
    pub(super) workers: Vec<Point>,
    /// By entries of an index that is filled at the same time.
    pub(super) index_cold: Vec<Point>,
    /// By entries of a filled index.
    pub(super) index_warm: Vec<Point>,
}

impl Document {
    /// The report on what was found.
    pub fn new(form: &Form, who: &[Contestant], subject: Subject, found: &Findings) -> Self {
        let (cells, lambda_max) = (cells(form, who, found), peaks(form, who, found));
        let empty_cells: Vec<String> =
            cells.iter().filter(|cell| cell.is_empty()).map(Cell::name).collect();
        let missing: Vec<String> =
            found.iter().filter_map(|one| Some(format!("{}: {}", one.job, one.flaw()?))).collect();
        Self {
            schema: SCHEMA,
            subject,
            contestants: who.iter().map(|one| one.name()).collect(),
            scope: if form.is_tiered { ABOVE } else { MEMORY_ALONE },
            whole: empty_cells.is_empty() && missing.is_empty(),
            empty_cells,
            missing,
            winners: wins(&lambda_max),
            common_p99: common_p99(&cells),
            doubts: doubts(&lambda_max, &cells),
            lambda_max,
            cells,
            clients: points(who, found, &form.clients, Task::Clients),
            workers: points(who, found, &form.workers, Task::Workers),
            index_cold: points(who, found, &form.entries, Task::IndexCold),
            index_warm: points(who, found, &form.entries, Task::IndexWarm),
        }
    }

    /// Whether every cell has its figures and nothing went wrong.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// The number of cells, and of those that have their figures.
    pub fn filled(&self) -> (usize, usize) {
        (self.cells.len() - self.empty_cells.len(), self.cells.len())
    }

    /// What a reader must know first: doubts, and what is missing.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        self.doubts.iter().chain(&self.missing)
    }

    /// As JSON, on several lines.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("invariant: numbers and strings serialise") + "\n"
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::findings::{lambda, subject};
    use crate::plan::{DRIVERS, Workload};

    /// A report with one lambda-max.
    pub fn document() -> Document {
        let form = Form::quick(2);
        let mut found = Findings::default();
        found.put(lambda(Contestant::Epoll, Workload::all(&form)[0], 1_000.0, 4.0));
        Document::new(&form, &DRIVERS, subject("quick"), &found)
    }

    #[test]
    fn a_report_with_empty_cells_is_not_whole() {
        let document = document();
        assert!(!document.whole && document.empty_cells.len() == document.cells.len());
        assert_eq!(document.winners[0].leader, Some("epoll"));
    }

    #[test]
    fn the_json_is_flat_and_names_its_schema() {
        let value: serde_json::Value = serde_json::from_str(&document().to_json()).unwrap();
        assert_eq!(value["schema"], "volvox-lab/2");
        assert_eq!(value["form"], "quick");
        assert_eq!(value["lambda_max"][0]["rate"]["per_s"], 1_000.0);
        for empty in [&value["cells"][0]["p50_us"], &value["lambda_max"][1]["rate"]] {
            assert_eq!(*empty, serde_json::Value::Null);
        }
    }
}
