//! `cargo xtask sim SEED`: replays one seed of the cluster simulator.
//!
//! The simulator runs a whole ring in one process; one cell alone has nothing to simulate, so
//! until the ring exists the command says so and fails rather than passing an empty run.

use anyhow::{Result, bail};

/// Arguments of `cargo xtask sim`.
#[derive(clap::Args)]
pub struct Args {
    /// The seed to replay, as printed by a failing run.
    seed: u64,
}

/// Refuses: there is no ring to simulate yet.
pub fn run(args: &Args) -> Result<bool> {
    bail!(
        "seed {} cannot be replayed: the simulator arrives with the ring, and this tree has one \
         cell. `cargo xtask check` runs the model tests of that cell",
        args.seed
    );
}
