//! What a ring promises whose ranges move, and whose cells come and go, while clients go on.

pub mod cells;
pub mod copies;
pub mod discovery;
pub mod kills;
pub mod memory;
pub mod pause;
pub mod quotas;
pub mod restart_time;
pub mod restarting;
pub mod rules;
pub mod scale;
pub mod simulator;

use crate::claim::Claim;

/// All of them, in the order of the report.
pub const THEMES: &[&[Claim]] = &[
    pause::CLAIMS,
    cells::CLAIMS,
    restarting::CLAIMS,
    restart_time::CLAIMS,
    kills::CLAIMS,
    memory::CLAIMS,
    simulator::CLAIMS,
    rules::CLAIMS,
    discovery::CLAIMS,
    copies::CLAIMS,
    scale::CLAIMS,
    quotas::CLAIMS,
];
