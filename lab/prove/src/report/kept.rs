//! The proof that is kept: the latest full measurement of every claim, with its commit and date.
//!
//! The full bars take hours, so they may be run a few claims at a time. A run replaces the lines of
//! the claims that it measured and leaves the others. The lines are kept as JSON and shown as a
//! document, in which a claim that was never measured in full says so.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::run::{On, Report};
use crate::claim::{Claim, Measured, Verdict};
use measure::screen::{Cell, Table};

/// The two files of a proof: its lines, and the document made of them.
fn files(subject: &str) -> (String, String) {
    (format!("{subject}.json"), format!("{subject}.md"))
}

/// One claim as it was last measured in full.
#[derive(Debug, Deserialize, Serialize)]
struct Line {
    #[serde(flatten)]
    measured: Measured,
    #[serde(flatten)]
    on: On,
}

/// Lines by the id of their claim.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Kept(BTreeMap<String, Line>);

impl Kept {
    /// What is kept in `folder` about the subject; nothing if it has none.
    pub fn read(folder: &Path, subject: &str) -> Result<Self> {
        let path = folder.join(files(subject).0);
        if !path.is_file() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not ours", path.display()))
    }

    /// What is kept of a claim.
    pub fn measured(&self, id: &str) -> Option<&Measured> {
        self.0.get(id).map(|line| &line.measured)
    }

    /// Takes over what a run has measured.
    pub fn take(&mut self, report: Report) {
        for row in report.rows {
            let line = Line { measured: row.measured, on: report.on.clone() };
            self.0.insert(row.id.to_owned(), line);
        }
    }

    /// Writes the lines and the document about `claims`, in their order.
    pub fn write(&self, folder: &Path, subject: &str, claims: &[Claim]) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let lines = serde_json::to_string_pretty(self)? + "\n";
        let names = files(subject);
        for (name, text) in [(names.0, lines), (names.1, self.document(subject, claims))] {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }

    fn document(&self, subject: &str, claims: &[Claim]) -> String {
        let mut table = Table::new(&["id", "claim", "bar", "measured", "verdict", "on", "commit"]);
        for claim in claims {
            let line = self.0.get(claim.id);
            let text = |of: fn(&Line) -> &str| line.map_or("-", of);
            let verdict = line.map_or("not measured", |line| line.measured.verdict.word());
            let texts = [
                claim.id,
                claim.claim,
                claim.bar,
                text(|line| &line.measured.text),
                verdict,
                text(|line| &line.on.date),
                text(|line| &line.on.commit),
            ];
            table.row(texts.into_iter().map(Cell::from).collect());
        }
        let mut text = format!(
            "# The {subject}, measured in full\n\nWritten by `cargo xtask prove {subject} --long`, \
             which may be run for a few claims at a time; each line names its commit.\n\n{}",
            table.markdown()
        );
        for (claim, line) in claims.iter().filter_map(|claim| Some((claim, self.0.get(claim.id)?)))
        {
            text.push_str(&format!("\n## {}\n\n", claim.id));
            text.push_str(&format!("- on {}, memcached {}\n", line.on.machine, line.on.memcached));
            if let Verdict::NotMeasured(reason) = &line.measured.verdict {
                text.push_str(&format!("- not measured: {reason}\n"));
            }
            line.measured.details.iter().for_each(|detail| text.push_str(&format!("- {detail}\n")));
        }
        text
    }
}

#[cfg(test)]
impl Kept {
    /// Measurements of one commit and machine.
    pub fn of(all: impl IntoIterator<Item = (&'static str, Measured)>) -> Self {
        let text = |word: &str| word.to_owned();
        let line = |(id, measured): (&str, Measured)| {
            let (commit, date) = (text("abc"), text("2026-01-02"));
            let (machine, memcached) = (text("a machine"), text("1.6.45"));
            (text(id), Line { measured, on: On { commit, date, machine, memcached } })
        };
        Self(all.into_iter().map(line).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIMS: [Claim; 2] = [claim("cpu.get"), claim("cpu.set")];

    const fn claim(id: &'static str) -> Claim {
        Claim::new(id, "faster").bar(">= 1.8x").by(|_| Ok(Measured::not("why")))
    }

    fn kept(id: &'static str, verdict: Verdict) -> Kept {
        let measured = Measured { verdict, ..Measured::new("1.9x", 1.9, true) };
        Kept::of([(id, measured.with_details(vec!["round by round".to_owned()]))])
    }

    #[test]
    fn the_document_names_commit_date_machine_and_reasons() {
        let text =
            kept("cpu.get", Verdict::NotMeasured("no valgrind".into())).document("path", &CLAIMS);
        for expected in ["abc", "2026-01-02", "a machine", "1.6.45", "no valgrind", "| cpu.get"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(text.contains("| cpu.set"), "claims never measured are named: {text}");
    }

    #[test]
    fn lines_survive_being_written_and_read() {
        let folder = std::env::temp_dir().join(format!("kept-{}", std::process::id()));
        kept("cpu.get", Verdict::Pass).write(&folder, "path", &CLAIMS).unwrap();
        let mut back = Kept::read(&folder, "path").unwrap();
        back.0.extend(kept("cpu.set", Verdict::Fail).0);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(back.0["cpu.get"].measured.verdict, Verdict::Pass);
        assert_eq!(back.0.len(), 2);
        assert!(Kept::read(&folder, "path").unwrap().0.is_empty());
    }
}
