//! The gate on instructions per request: counts that may fall and never rise.
//!
//! The bars of the proof are the goal; the ratchet keeps what was reached on the way to it.
//! `docs/proof/instructions.toml` holds the last accepted counts. A count above its entry by
//! more than the tolerance fails the check; one below it passes and says how to keep the gain.
//! Entries are written by `cargo xtask ratchet`, which refuses to raise one.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use measure::repo::Repo;
use measure::screen::{Cell, Table, Tone};

/// Where the accepted counts stand.
const KEPT: &str = "docs/proof/instructions.toml";
/// How the accepted counts are lowered.
const COMMAND: &str = "cargo xtask ratchet";
/// The tolerance of a new file. Other versions of the compiler and the C library differ by less.
const TOLERANCE_PERCENT: f64 = 3.0;

/// The accepted counts.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Accepted {
    /// How far above its entry a count may be.
    tolerance_percent: f64,
    /// User instructions per request, by the id of the claim.
    counts: BTreeMap<String, f64>,
}

/// A count compared with its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Within the tolerance.
    Held,
    /// Lower by more than the tolerance.
    Fell,
    /// Higher by more than the tolerance.
    Rose,
    /// Nothing was accepted yet.
    New,
}

impl Accepted {
    fn none() -> Self {
        Self { tolerance_percent: TOLERANCE_PERCENT, counts: BTreeMap::new() }
    }

    fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("read {KEPT}, which `{COMMAND}` writes"))?;
        toml::from_str(&text).with_context(|| format!("{KEPT} is not what `{COMMAND}` writes"))
    }

    fn standing(&self, id: &str, count: f64) -> Standing {
        let Some(entry) = self.counts.get(id) else { return Standing::New };
        let room = entry * self.tolerance_percent / 100.0;
        match count - entry {
            change if change > room => Standing::Rose,
            change if change < -room => Standing::Fell,
            _ => Standing::Held,
        }
    }

    /// Accepts counts that are new or lower; true when no count rose.
    fn lower(&mut self, counts: &[(&str, f64)]) -> bool {
        let mut well = true;
        for (id, count) in counts {
            let rose = self.standing(id, *count) == Standing::Rose;
            well &= !rose;
            let entry = self.counts.entry((*id).to_owned()).or_insert(f64::INFINITY);
            *entry = entry.min(count.round());
        }
        well
    }

    fn document(&self) -> Result<String> {
        let entries = toml::to_string(self).context("write the counts as TOML")?;
        Ok(format!(
            "# User instructions per request that were reached: they may fall and never rise.\n\
             # Written by `{COMMAND}`; `cargo xtask check --full` fails above an entry.\n\
             # The bars they are on their way to: `cargo xtask prove path --list`.\n\
             {entries}"
        ))
    }
}

/// Counts and prints how each count stands to its entry.
fn count(accepted: &Accepted) -> Result<Vec<(&'static str, f64)>> {
    let rose = |id: &str, count: f64| accepted.standing(id, count) == Standing::Rose;
    let counts = prove::instructions(rose)?;
    print(accepted, &counts);
    Ok(counts)
}

/// Counts and compares; true when no count rose. Changes nothing.
pub fn gate() -> Result<bool> {
    let accepted = Accepted::read(&Repo::find()?.path(KEPT))?;
    let counts = count(&accepted)?;
    let has = |wanted| counts.iter().any(|(id, count)| accepted.standing(id, *count) == wanted);
    if has(Standing::Fell) {
        println!("a count fell: keep the gain with `{COMMAND}` and commit {KEPT}");
    }
    if has(Standing::New) {
        println!("a count has no entry: write it with `{COMMAND}` and commit {KEPT}");
    }
    Ok(prove::calls()? && !has(Standing::Rose) && !has(Standing::New))
}

/// Counts, and lowers the entries to what was reached; true when no count rose.
pub fn lower() -> Result<bool> {
    let path = Repo::find()?.path(KEPT);
    let before = if path.exists() { Accepted::read(&path)? } else { Accepted::none() };
    let mut after = before.clone();
    let well = after.lower(&count(&before)?);
    fs::write(&path, after.document()?).with_context(|| format!("write {KEPT}"))?;
    println!("{KEPT}: {}", if after == before { "unchanged" } else { "lowered" });
    if !well {
        println!("a count rose: its entry stays; find what made requests more expensive");
    }
    Ok(well)
}

fn print(accepted: &Accepted, counts: &[(&str, f64)]) {
    let mut table = Table::new(&["id", "accepted", "counted", "verdict"]);
    for (id, count) in counts {
        let entry = accepted.counts.get(*id).map_or("-".to_owned(), |entry| format!("{entry:.0}"));
        let (word, tone) = match accepted.standing(id, *count) {
            Standing::Held => ("held", Tone::Good),
            Standing::Fell => ("fell", Tone::Good),
            Standing::Rose => ("ROSE", Tone::Bad),
            Standing::New => ("new", Tone::Warn),
        };
        let cells = [(*id).into(), entry.into(), format!("{count:.0}").into()];
        table.row(cells.into_iter().chain([Cell::new(word, tone)]).collect());
    }
    table.print();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted() -> Accepted {
        let counts = [("instr.get.1".to_owned(), 1000.0)].into();
        Accepted { tolerance_percent: 3.0, counts }
    }

    #[test]
    fn a_count_stands_by_its_distance_from_the_entry() {
        let cases = [
            (1030.0, Standing::Held),
            (1031.0, Standing::Rose),
            (970.0, Standing::Held),
            (969.0, Standing::Fell),
        ];
        for (count, expected) in cases {
            assert_eq!(accepted().standing("instr.get.1", count), expected, "{count}");
        }
        assert_eq!(accepted().standing("instr.set.1", 1.0), Standing::New);
    }

    #[test]
    fn entries_only_fall() {
        let mut entries = accepted();
        assert!(entries.lower(&[("instr.get.1", 1010.0), ("instr.set.1", 2000.4)]));
        assert_eq!(entries.counts["instr.get.1"], 1000.0, "within the tolerance it stays");
        assert_eq!(entries.counts["instr.set.1"], 2000.0);
        assert!(!entries.lower(&[("instr.get.1", 1500.0)]));
        assert_eq!(entries.counts["instr.get.1"], 1000.0);
        assert!(entries.lower(&[("instr.get.1", 900.0)]));
        assert_eq!(entries.counts["instr.get.1"], 900.0);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let read: Accepted = toml::from_str(&accepted().document().unwrap()).unwrap();
        assert_eq!(read, accepted());
    }
}
