//! `cargo xtask sim`: replays a simulated ring from its seed, or runs many.

use std::process::Command;

use anyhow::Result;

/// Arguments of `cargo xtask sim`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask sim 17 --trace\n  cargo xtask sim --seeds 0..1000"
)]
pub struct Args {
    /// What the simulator is given: a seed, `--trace`, `--seeds A..B`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    given: Vec<String>,
}

/// Runs the simulator. It ends by itself: each run has a bound of steps.
pub fn run(args: &Args) -> Result<bool> {
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--package", "sim", "--"]).args(&args.given);
    Ok(cargo.status()?.success())
}
