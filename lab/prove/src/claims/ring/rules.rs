//! The rules that guard data: the agreement under kills, a bounded model, breakages that the
//! simulator catches, and histories of real processes.

use crate::claim::Claim;
use crate::claims::parts::{By, Part, run};

/// One suite for the agreement and its model; and kills and changes of voters in simulated time, as
/// many as the variable says, beside those of real time.
const AGREEMENT: &[Part] =
    &[Part { by: By::Test("quorum", "group"), variable: "QUORUM_FAULTS", sizes: [100, 1_000] }];
/// All states of few cells within bounds, and each rule left out.
const MODEL: &[Part] = &[Part {
    by: By::Test("ring", "leases_hold_in_a_bounded_model"),
    variable: "MODEL_STATES",
    sizes: [400_000, 4_000_000],
}];
/// What the simulator must catch, and three breakages that histories show.
const BROKEN: &[Part] = &[Part { by: By::Breakages(BREAKAGES), variable: "", sizes: [0, 0] }];
/// By their names in `tests/mutations/mutations.toml`.
const BREAKAGES: &[&str] = &[
    "a miss or a refusal does not wait for what its slice has emitted",
    "a copy of an earlier time does not begin empty",
    "a copy acknowledges the last entry of a frame without applying it",
    "a copy does not learn how far a slice has come",
    "a copy does not keep the ids of changes",
    "a new primary begins before the tails are exchanged",
    "a lease is checked only when a batch begins",
    "what waits for a leadership that has ended is not in doubt",
    "a proposal of unknown outcome is taken as refused",
    "a map that shows nothing of a proposal settles it",
    "a fence is acknowledged by a cell that follows another primary",
    "a range is emptied because its last copy is silent",
    "nothing is held back after a promotion",
    "a copy joins before its acknowledgements count",
    "a cas stores whatever its token is",
    "a change is acknowledged before the copies have it",
    "a primary answers when its lease has ended",
];
const HISTORIES: &[Part] = &[Part { by: By::Histories(&[]), variable: "", sizes: [10, 100] }];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::held(
        "agreement",
        "kills and changes of voters in simulated time, 100 (1,000), one suite with the model",
        |lab| run(lab, AGREEMENT),
    ),
    Claim::held(
        "model",
        "leases, drops, promotion and tails in a bounded model, each rule left out found",
        |lab| run(lab, MODEL),
    ),
    Claim::held("breakages", "rules broken on purpose, each caught", |lab| run(lab, BROKEN)),
    Claim::held(
        "histories",
        "histories of real processes under faults, linearizable by key: 10 (100)",
        |lab| run(lab, HISTORIES),
    ),
];
