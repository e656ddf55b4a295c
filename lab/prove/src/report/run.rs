//! The report of one run of a proof: on the screen and as JSON.
//!
//! A row has the claim, its bar, the finding and the verdict. The details are always in the JSON;
//! on the screen only those of rows that did not pass are shown.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::claim::{Claim, Measured, Verdict};
use crate::lab::Lab;
use measure::screen::{Cell, Table, Tone};
use measure::{account::Machine, repo::Repo};

/// One claim and its result.
#[derive(Clone, Serialize)]
pub struct Row {
    pub(super) id: &'static str,
    claim: &'static str,
    bar: &'static str,
    #[serde(flatten)]
    pub(super) measured: Measured,
}

impl Row {
    /// A claim and its measurement.
    pub fn new(claim: &Claim, measured: Measured) -> Self {
        Self { id: claim.id, claim: claim.claim, bar: claim.bar, measured }
    }
}

/// What a proof was run on.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct On {
    pub(super) commit: String,
    pub(super) date: String,
    pub(super) machine: String,
    pub(super) memcached: String,
}

/// The whole proof and what it was run on.
#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    pub(super) on: On,
    long: bool,
    pub(super) rows: Vec<Row>,
}

impl Report {
    /// A report on the tree as it stands.
    pub fn new(lab: &Lab, rows: Vec<Row>) -> Result<Self> {
        let (commit, date) = (lab.repo().commit()?, Repo::today()?);
        let (machine, memcached) = (Machine::here().line(), lab.memcached()?.1.to_owned());
        let on = On { commit, date, machine, memcached };
        Ok(Self { on, long: lab.is_long(), rows })
    }

    /// Whether every claim passed.
    pub fn holds(&self) -> bool {
        self.rows.iter().all(|row| row.measured.verdict == Verdict::Pass)
    }

    /// Prints the table, and the details of each line that did not pass.
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

    fn table(&self) -> Table {
        let mut table = Table::new(&["id", "claim", "bar", "measured", "verdict"]);
        for row in &self.rows {
            let tone = match row.measured.verdict {
                Verdict::Pass => Tone::Good,
                Verdict::Fail => Tone::Bad,
                Verdict::NotMeasured(_) => Tone::Warn,
            };
            let texts = [row.id, row.claim, row.bar, &row.measured.text];
            let mut cells: Vec<Cell> = texts.into_iter().map(Cell::from).collect();
            cells.push(Cell::new(row.measured.verdict.word(), tone));
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
            self.on.commit,
            self.on.memcached,
            self.on.machine
        )
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
        let (commit, date) = (text("abc"), text("2026-01-02"));
        let (machine, memcached) = (text("a machine"), text("1.6.45"));
        Report { on: On { commit, date, machine, memcached }, long: true, rows: vec![row] }
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
    fn the_json_is_flat_and_names_the_verdict() {
        let value = serde_json::to_value(report(Verdict::Pass)).unwrap();
        assert_eq!(value["rows"][0]["verdict"], "pass");
        assert_eq!(value["rows"][0]["number"], 1.9);
    }
}
