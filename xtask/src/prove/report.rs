//! The report of a proof: on the screen, as JSON, as a document.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    claim::{Claim, Measured, Verdict},
    lab::Lab,
};
use crate::{
    repo::Repo,
    screen::{Cell, Table, Tone},
};

/// One claim and what became of it.
#[derive(Serialize)]
pub struct Row {
    id: &'static str,
    claim: &'static str,
    bar: &'static str,
    #[serde(flatten)]
    measured: Measured,
}

impl Row {
    /// A claim and its measurement.
    pub fn new(claim: &Claim, measured: Measured) -> Self {
        Self { id: claim.id, claim: claim.claim, bar: claim.bar, measured }
    }
}

/// The whole proof and what it was run on.
#[derive(Serialize)]
pub struct Report {
    commit: String,
    date: String,
    machine: String,
    memcached: String,
    long: bool,
    rows: Vec<Row>,
}

impl Report {
    /// A report on the tree as it stands.
    pub fn new(lab: &Lab, rows: Vec<Row>) -> Result<Self> {
        Ok(Self {
            commit: lab.repo.commit()?,
            date: Repo::today()?,
            machine: Repo::machine(),
            memcached: lab.memcached_version().to_owned(),
            long: lab.long,
            rows,
        })
    }

    /// Whether every claim passed.
    pub fn holds(&self) -> bool {
        self.rows.iter().all(|row| row.measured.verdict == Verdict::Pass)
    }

    /// Prints the table, and what stands behind each line that did not pass.
    pub fn print(&self) {
        self.table().print();
        for row in self.rows.iter().filter(|row| row.measured.verdict != Verdict::Pass) {
            if let Verdict::NotMeasured(reason) = &row.measured.verdict {
                println!("\n{}: not measured: {reason}", row.id);
            }
            row.measured.details.iter().for_each(|line| println!("  {}: {line}", row.id));
        }
        println!("\n{}", self.sum());
    }

    /// Writes the document.
    pub fn keep(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        }
        fs::write(path, self.document()).with_context(|| format!("write {}", path.display()))
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&["id", "claim", "bar", "measured", "verdict"]);
        for row in &self.rows {
            let (word, tone) = match row.measured.verdict {
                Verdict::Pass => ("pass", Tone::Good),
                Verdict::Fail => ("FAIL", Tone::Bad),
                Verdict::NotMeasured(_) => ("not measured", Tone::Warn),
            };
            let texts = [row.id, row.claim, row.bar, &row.measured.text];
            let mut cells: Vec<Cell> = texts.into_iter().map(Cell::from).collect();
            cells.push(Cell::new(word, tone));
            table.row(cells);
        }
        table
    }

    fn sum(&self) -> String {
        let count = |wanted: fn(&Verdict) -> bool| {
            self.rows.iter().filter(|row| wanted(&row.measured.verdict)).count()
        };
        format!(
            "{} pass, {} fail, {} not measured; {} against memcached {}, {}",
            count(|verdict| *verdict == Verdict::Pass),
            count(|verdict| *verdict == Verdict::Fail),
            count(|verdict| matches!(verdict, Verdict::NotMeasured(_))),
            self.commit,
            self.memcached,
            self.machine
        )
    }

    fn document(&self) -> String {
        let form = if self.long { " --long" } else { "" };
        let mut text = format!(
            "# The path, measured\n\nWritten by `cargo xtask prove path{form}` on {}.\n\n\
             - commit: {}\n- machine: {}\n- memcached: {}\n\n{}\n\n{}",
            self.date,
            self.commit,
            self.machine,
            self.memcached,
            self.sum(),
            self.table().markdown()
        );
        for row in &self.rows {
            let reason = match &row.measured.verdict {
                Verdict::NotMeasured(reason) => vec![format!("not measured: {reason}")],
                Verdict::Pass | Verdict::Fail => Vec::new(),
            };
            let lines: Vec<&String> = reason.iter().chain(&row.measured.details).collect();
            if !lines.is_empty() {
                text.push_str(&format!("\n## {}\n\n", row.id));
                lines.iter().for_each(|line| text.push_str(&format!("- {line}\n")));
            }
        }
        text
    }
}

/// Prints the claims and their bars.
pub fn list(claims: &[Claim]) {
    let mut table = Table::new(&["id", "claim", "bar"]);
    for claim in claims {
        table.row(vec![claim.id.into(), claim.claim.into(), claim.bar.into()]);
    }
    table.print();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(verdict: Verdict) -> Report {
        let measured = Measured {
            text: "1.9x".to_owned(),
            number: Some(1.9),
            verdict,
            details: vec!["round by round".to_owned()],
        };
        let row = Row { id: "cpu.get", claim: "faster", bar: ">= 1.8x", measured };
        let text = |word: &str| word.to_owned();
        Report {
            commit: text("abc"),
            date: text("2026-01-02"),
            machine: text("a machine"),
            memcached: text("1.6.45"),
            long: true,
            rows: vec![row],
        }
    }

    #[test]
    fn only_passing_everywhere_holds() {
        let cases = [
            (Verdict::Pass, true),
            (Verdict::Fail, false),
            (Verdict::NotMeasured("why".to_owned()), false),
        ];
        for (verdict, holds) in cases {
            assert_eq!(report(verdict.clone()).holds(), holds, "{verdict:?}");
        }
    }

    #[test]
    fn the_document_names_commit_date_machine_and_reasons() {
        let text = report(Verdict::NotMeasured("no valgrind".to_owned())).document();
        for expected in ["abc", "2026-01-02", "a machine", "1.6.45", "no valgrind", "| cpu.get |"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn the_json_is_flat_and_names_the_verdict() {
        let value = serde_json::to_value(report(Verdict::Pass)).unwrap();
        assert_eq!(value["rows"][0]["verdict"], "pass");
        assert_eq!(value["rows"][0]["number"], 1.9);
    }
}
