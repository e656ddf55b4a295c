//! What is kept of the time of the ring, and what is said of wrong clocks.
//!
//! The kept second matters only where all cells start again: then the ring begins where it was, or
//! later, even if the wall clock has gone back.

use ring::{APART_S, CellId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Between two warnings about the same clock.
const AGAIN_NS: u64 = 600_000_000_000;

/// The file of the second.
#[derive(Clone, Debug)]
pub(crate) struct KeptTime(PathBuf);

impl KeptTime {
    /// That of a cell's `directory`.
    pub(crate) fn of(directory: &Path) -> Self {
        Self(directory.join("ring-time"))
    }

    /// The second, if there is one that can be read.
    pub(crate) fn read(&self) -> Option<u32> {
        fs::read_to_string(&self.0).ok()?.trim().parse().ok()
    }

    /// Keeps `second`. The file is whole or as before.
    pub(crate) fn write(&self, second: u32) -> io::Result<()> {
        let new = self.0.with_extension("new");
        fs::write(&new, format!("{second}\n"))?;
        fs::rename(new, &self.0)
    }
}

/// The clocks that were said to be wrong, and when.
#[derive(Default)]
pub(crate) struct Warnings(BTreeMap<Option<CellId>, u64>);

impl Warnings {
    /// The warnings that are due: about `cells` whose seconds are so far ahead of this one's, and
    /// about the wall clock of this machine.
    pub(crate) fn due(&mut self, cells: &[(CellId, i64)], wall: i64, now_ns: u64) -> Vec<String> {
        let wall = (wall.unsigned_abs() > u64::from(APART_S)).then_some((None, wall));
        let cells = cells.iter().map(|(cell, ahead)| (Some(*cell), *ahead));
        let wrong: BTreeMap<_, _> = cells.chain(wall).collect();
        self.0.retain(|clock, _| wrong.contains_key(clock));
        let mut lines = Vec::new();
        for (clock, ahead) in wrong {
            let said_ns = self.0.get(&clock);
            if said_ns.is_none_or(|at_ns| now_ns.saturating_sub(*at_ns) >= AGAIN_NS) {
                self.0.insert(clock, now_ns);
                lines.push(line(clock, ahead));
            }
        }
        lines
    }
}

fn line(clock: Option<CellId>, ahead: i64) -> String {
    let (seconds, side) = (ahead.unsigned_abs(), if ahead > 0 { "ahead of" } else { "behind" });
    match clock {
        Some(cell) => format!(
            "the time of cell {cell} is {seconds} s {side} that of this cell; cells follow each \
             other within {APART_S} s: start the one again that is wrong"
        ),
        None => format!(
            "the clock of this machine is {seconds} s {side} the time of the ring, at most \
             {APART_S} is well; items expire by the time of the ring: set the clock"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_clock_is_said_once_in_a_while_and_again_when_it_returns() {
        let mut warnings = Warnings::default();
        let far = [(CellId(2), 3_600)];
        assert_eq!(warnings.due(&[], -2, 0), Vec::<String>::new());
        let lines = warnings.due(&far, -60, 1);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("clock of this machine is 60 s behind"), "{lines:?}");
        assert!(lines[1].contains("cell 2 is 3600 s ahead of"), "{lines:?}");
        assert!(warnings.due(&far, -60, AGAIN_NS).is_empty());
        assert_eq!(warnings.due(&far, -60, 1 + AGAIN_NS).len(), 2);
        assert!(warnings.due(&[], 0, 2 + AGAIN_NS).is_empty());
        assert_eq!(warnings.due(&far, 0, 3 + AGAIN_NS).len(), 1);
    }
}
