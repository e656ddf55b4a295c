//! `cargo xtask bench`: the benchmarks that live beside the code they measure.
//!
//! Comparisons with other servers are claims, not benchmarks: see `cargo xtask prove`.

use std::time::Duration;

use anyhow::{Result, bail};

use measure::{exec::Exec, repo::Repo};

/// Longest a benchmark run may take.
const BENCH_MAX: Duration = Duration::from_secs(3600);

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  cargo xtask bench\n  cargo xtask bench engine -- read")]
pub struct Args {
    /// The crate whose benchmarks to run; all when absent.
    package: Option<String>,
    /// Passed on to the benchmark itself.
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Runs the benchmarks in release mode.
pub fn run(args: &Args) -> Result<bool> {
    let repo = Repo::find()?;
    let with_benches = repo.crates_with("benches")?;
    let chosen: Vec<&String> = match &args.package {
        Some(name) => with_benches.iter().filter(|have| *have == name).collect(),
        None => with_benches.iter().collect(),
    };
    if chosen.is_empty() {
        let wanted = args.package.as_deref().unwrap_or("any crate");
        bail!(
            "no benchmarks in {wanted}: crates with a benches folder are [{}]",
            with_benches.join(", ")
        );
    }
    let mut exec = Exec::new("cargo").arg("bench").cwd(repo.root());
    for name in chosen {
        exec = exec.args(["--package", name]);
    }
    if !args.rest.is_empty() {
        exec = exec.arg("--").args(&args.rest);
    }
    exec.status(BENCH_MAX)
}
