//! Effects in order, replies that are parked, bad effects: the tests and fuzz targets that show it.

use crate::claim::Claim;
use crate::claims::parts::{By, Part, run};

/// Four threads, every command, three sizes of pool: the order of versions is that of the log, the
/// copy is the source; the same in random orders of steps; and tests that would notice.
const ORDERS: &[Part] = &[
    Part {
        by: By::Test("engine", "order_of_versions"),
        variable: "EFFECTS",
        sizes: [20_000_000, 100_000_000],
    },
    Part {
        by: By::Shuttle("engine", "shuttle_versions"),
        variable: "SHUTTLE_ORDERS",
        sizes: [1_000, 10_000],
    },
    Part { by: By::Breakages(BREAKAGES), variable: "", sizes: [0, 0] },
];
/// The ten breakages, by their names in `tests/mutations/mutations.toml`.
const BREAKAGES: &[&str] = &[
    "a change is stamped though a flush has ended its item",
    "a new item is published without its version",
    "a set in place is published before it is committed",
    "a touch forgets the token",
    "a refused change leaves its words counted",
    "a refused change leaves its chunks counted",
    "a walk passes an item again when its group shrinks",
    "a copy stamps a number of its own",
    "the numbers of a copy do not rise with what it applies",
    "an eviction is not emitted",
];
/// Replies that wait, are released or time out, on all four drivers.
const PARKED: &[Part] = &[Part {
    by: By::Test("drivers", "each_request_has_one_reply_however_it_waits"),
    variable: "WAITS_CONNECTIONS",
    sizes: [5_000, 5_000],
}];
/// Random effects and entries, into `apply` and into the log.
const FUZZED: &[Part] = &[
    // An input is ten effects or more.
    Part { by: By::Fuzz("engine_apply"), variable: "", sizes: [200_000, 200_000] },
    // An input is up to 500 calls, or the entries of a stream.
    Part { by: By::Fuzz("effects_log"), variable: "", sizes: [500_000, 500_000] },
];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::held(
        "effects.orders",
        "20 million effects of four threads: versions in the order of the log, copy = source",
        |lab| run(lab, ORDERS),
    ),
    Claim::held(
        "effects.parked",
        "parked, released, timed out: 5,000 connections, all four drivers",
        |lab| run(lab, PARKED),
    ),
    Claim::held("effects.fuzz", "two million random effects and entries", |lab| run(lab, FUZZED)),
];
