//! `cargo xtask bench`: the benchmarks that stand beside the code they measure.
//!
//! Comparisons with other servers are claims, not benchmarks: see `cargo xtask prove`.

use std::time::Duration;

use anyhow::Result;

use measure::{exec::Exec, repo::Repo};

/// Longest a benchmark run may take.
const BENCH_MAX: Duration = Duration::from_secs(3600);

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  cargo xtask bench\n  cargo xtask bench engine -- read")]
pub struct Args {
    /// The crate whose benchmarks to run; all when absent.
    package: Option<String>,
    /// Arguments of the benchmark itself.
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Runs the benchmarks in release mode.
pub fn run(args: &Args) -> Result<bool> {
    let exec = Exec::new("cargo").arg("bench").cwd(Repo::find()?.root());
    let exec = match &args.package {
        Some(name) => exec.args(["--package", name]),
        None => exec.arg("--workspace"),
    };
    exec.args(["--bench", "*", "--"]).args(&args.rest).status(BENCH_MAX)
}
