//! What tests of the crates show of a tier: lives with every harm of disk and backend, and commands
//! that answer as a map does.

use crate::claim::Claim;
use crate::claims::parts::{By, Part, run};
use crate::claims::ring::simulator::run_above_a_bucket;

/// Random lives. From 6,000 seeds on each harm must have been done a thousand times.
const LIVES: &[Part] =
    &[Part { by: By::Test("tier", "crashes"), variable: "HARM_SEEDS", sizes: [300, 6_000] }];
/// All histories of as many steps, with crashes at each call, and in the starts after them.
const HISTORIES: &[Part] =
    &[Part { by: By::Test("tier", "histories"), variable: "HISTORIES", sizes: [2, 3] }];
/// Operations of all commands, with evictions, restarts, flushes of all and outages.
const AGREES: &[Part] = &[Part {
    by: By::Test("service", "above_a_tier_as_a_map"),
    variable: "TIER_OPERATIONS",
    sizes: [1_000_000, 1_000_000],
}];
/// Random orders of steps: lookups beside changes and flushes, and one lane that two workers write
/// while it is repaired.
const ORDERS: &[Part] = &[
    Part {
        by: By::Shuttle("tier", "shuttle_lookups"),
        variable: "SHUTTLE_ORDERS",
        sizes: [10_000, 100_000],
    },
    Part {
        by: By::Shuttle("tier", "shuttle_lane"),
        variable: "SHUTTLE_ORDERS",
        sizes: [300, 10_000],
    },
];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::held(
        "simulator",
        "lives with every harm of disk and backend, 300 seeds (6,000, each harm 1,000 times)",
        |lab| run(lab, LIVES),
    ),
    Claim::new(
        "ring.simulator",
        "simulated rings above a bucket: kills, power cuts, lost disks, a bucket that fails, 200 \
         seeds (10,000)",
    )
    .bar("none fails")
    .by(run_above_a_bucket),
    Claim::held(
        "histories",
        "all histories of 2 steps (3) of two keys, crashed at each call and again in the start",
        |lab| run(lab, HISTORIES),
    ),
    Claim::held(
        "semantics",
        "a million operations of all commands agree with a map, levels by prefix",
        |lab| run(lab, AGREES),
    ),
    Claim::held("orders", "lookups, and a lane with a repair, in random orders of steps", |lab| {
        run(lab, ORDERS)
    }),
];
