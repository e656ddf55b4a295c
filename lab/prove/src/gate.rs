//! What `cargo xtask check --full` holds of the claims: the same measurements, without a report.

use std::path::PathBuf;

use anyhow::Result;

use crate::claims::moving::discovery;
use crate::claims::{clients, engine_tests, instructions, tier};
use crate::lab::{Given, Lab};

fn lab() -> Result<Lab> {
    Lab::open(Given::default(), 0)
}

/// Runs the engine in random orders of its steps; true when every promise held.
pub fn shuttle() -> Result<bool> {
    engine_tests::shuttle_holds(&lab()?)
}

/// User instructions per request of our server, by the id of the claim; `is_high` says which one is
/// counted again.
pub fn instructions(is_high: impl Fn(&str, f64) -> bool) -> Result<Vec<(&'static str, f64)>> {
    instructions::counts(&lab()?, is_high)
}

/// Whether our server makes at most one call of a kind for each readable event; prints the calls.
pub fn calls() -> Result<bool> {
    instructions::calls_hold(&lab()?)
}

/// Cuts the power of our server at level `disk`, on ext4 and XFS; an error where something is lost.
pub fn power_cuts() -> Result<()> {
    tier::loss::holds(&lab()?)
}

/// Runs the clients in use against our server with one driver; true when all pass. `server` is the
/// binary to start in place of the release binary.
pub fn clients(driver: &str, server: Option<PathBuf>) -> Result<bool> {
    clients::run(&Lab::open(Given { volvox: server, ..Given::default() }, 0)?, driver)
}

/// Runs clients with auto discovery on a ring that changes; true when all follow it.
pub fn discovery() -> Result<bool> {
    discovery::follows(&lab()?)
}
