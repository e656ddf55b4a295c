//! The rules of ranges that move: breakages that are caught, and histories of real processes.

use crate::claim::Claim;
use crate::claims::parts::{By, Part, run};

/// What tests and simulated rings must catch.
const BROKEN: &[Part] = &[Part { by: By::Breakages(BREAKAGES), variable: "", sizes: [0, 0] }];
/// By their names in `tests/mutations/mutations.toml`.
const BREAKAGES: &[&str] = &[
    "a range that is sealed is served",
    "a range is sealed while workers serve it",
    "a range is sealed before its copies have all of its log",
    "a range whose hand-over is in doubt is served again",
    "who has missed a hand-over goes on as if it had all",
    "a range is handed over to a cell that has not all of it",
    "a divided range stays in the epoch of before",
    "a range is divided before its primary has stopped",
    "two ranges become one before both are sealed",
    "a merged range takes the lower epoch",
    "a union stands where one half has changed",
    "who has one half of a merged range counts as having both",
    "what a cell has led lies anywhere in its journal when it copies the range",
    "what a cell has copied lies anywhere in its journal when it leads the range",
    "what is sealed is written back",
    "a copy answers after its lease",
    "what a connection has read does not count for what it reads next",
];
const HISTORIES: &[Part] =
    &[Part { by: By::Histories(&["--moves"]), variable: "", sizes: [10, 100] }];
const OF_COPIES: &[Part] = &[Part {
    by: By::Histories(&["--moves", "--copy-reads", "250", "--rate", "300", "--ops", "3000"]),
    variable: "",
    sizes: [3, 20],
}];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::held("breakages", "rules broken on purpose, each caught", |lab| run(lab, BROKEN)),
    Claim::held(
        "histories",
        "histories of real processes whose ranges move under faults, linearizable: 10 (100)",
        |lab| run(lab, HISTORIES),
    ),
    Claim::held(
        "histories.copies",
        "the same where copies answer reads that are 250 ms old at most: 3 (20)",
        |lab| run(lab, OF_COPIES),
    ),
];
