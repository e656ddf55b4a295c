//! The whole report as one structure: what the JSON says field for field, and what the other forms
//! are made of.

use serde::Serialize;

use crate::column::COLUMNS;
use crate::contestant::Contestant;
use crate::finding::Findings;
use crate::form::Form;
use crate::plan::Task;
use crate::subject::Subject;
use crate::table::{self, Cell, Peak, Point};
use crate::verdict::{self, MEMORY_ALONE};

/// Name and version of the JSON.
pub(crate) const SCHEMA: &str = "volvox-lab/1";

/// A report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Document {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// What it is a report of.
    #[serde(flatten)]
    pub subject: Subject,
    /// Who was measured.
    pub contestants: Vec<&'static str>,
    /// What the table is a table of.
    pub scope: &'static str,
    /// Whether every cell is filled and nothing went wrong.
    pub whole: bool,
    /// Cells without a figure.
    pub empty_cells: Vec<String>,
    /// Measurements without figures, or in which something went wrong, and why.
    pub missing: Vec<String>,
    /// Who wins where, and why.
    pub verdict: Vec<String>,
    /// Why the figures may not mean what they seem to.
    pub doubts: Vec<String>,
    /// Lambda-max by size, mix and contestant.
    pub lambda_max: Vec<Peak>,
    /// The table of latencies.
    pub cells: Vec<Cell>,
    /// By number of clients.
    pub clients: Vec<Point>,
    /// By number of workers.
    pub workers: Vec<Point>,
    /// By entries of an index that is filled meanwhile.
    pub index_cold: Vec<Point>,
    /// By entries of a filled index.
    pub index_warm: Vec<Point>,
}

impl Document {
    /// Draws the conclusions.
    pub fn new(form: &Form, who: &[Contestant], subject: Subject, found: &Findings) -> Self {
        let cells = table::cells(form, who, found);
        let lambda_max = table::peaks(form, who, found);
        let empty_cells: Vec<String> =
            cells.iter().filter(|cell| cell.is_empty()).map(Cell::name).collect();
        let missing: Vec<String> =
            found.iter().filter_map(|one| Some(format!("{}: {}", one.job, one.flaw()?))).collect();
        Self {
            schema: SCHEMA,
            subject,
            contestants: verdict::names(who),
            scope: MEMORY_ALONE,
            whole: empty_cells.is_empty() && missing.is_empty(),
            empty_cells,
            missing,
            verdict: verdict::sentences(&lambda_max, &cells),
            doubts: verdict::doubts(&lambda_max, &cells),
            lambda_max,
            cells,
            clients: table::clients(form, who, found),
            workers: table::workers(form, who, found),
            index_cold: table::index(form, who, found, Task::IndexCold),
            index_warm: table::index(form, who, found, Task::IndexWarm),
        }
    }

    /// As JSON, on several lines.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and strings always serialise")
    }

    /// The table of latencies as CSV, an empty field where nothing was measured.
    pub fn to_csv(&self) -> String {
        let names: Vec<&str> = COLUMNS.iter().map(|(name, _, _)| *name).collect();
        let mut csv = names.join(",") + "\n";
        for cell in &self.cells {
            let fields: Vec<String> = COLUMNS.iter().map(|(_, _, of)| of(cell).exact()).collect();
            csv.push_str(&fields.join(","));
            csv.push('\n');
        }
        csv
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contestant::DRIVERS;
    use crate::finding::tests::lambda;
    use crate::subject::tests::subject;

    /// A report with one lambda-max in it.
    pub fn document() -> Document {
        let form = Form::quick(2);
        let mut found = Findings::default();
        found.put(lambda(Contestant::Epoll, table::places(&form)[0], 1_000.0, 4.0));
        Document::new(&form, &DRIVERS, subject("quick"), &found)
    }

    #[test]
    fn a_report_with_empty_cells_is_not_whole() {
        let document = document();
        assert!(!document.whole && document.empty_cells.len() == document.cells.len());
        assert!(document.verdict[0].contains("epoll answers most"));
    }

    #[test]
    fn the_json_is_flat_and_names_its_schema() {
        let value: serde_json::Value = serde_json::from_str(&document().to_json()).unwrap();
        assert_eq!(value["schema"], "volvox-lab/1");
        assert_eq!(value["form"], "quick");
        assert_eq!(value["lambda_max"][0]["rate"]["per_s"], 1_000.0);
        for empty in [&value["cells"][0]["p50_us"], &value["lambda_max"][1]["rate"]] {
            assert_eq!(*empty, serde_json::Value::Null);
        }
    }

    #[test]
    fn the_csv_has_a_line_for_every_cell() {
        let document = document();
        let csv = document.to_csv();
        assert_eq!(csv.lines().count(), document.cells.len() + 1);
        let fields = csv.lines().next().unwrap().split(',').count();
        assert!(csv.lines().all(|line| line.split(',').count() == fields));
    }
}
