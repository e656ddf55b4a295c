//! `cargo xtask COMMAND`: the one entry point for every task of a developer or of the CI.
//!
//! `check` never writes to the sources, `fix` does; `tidy` holds the house style; `prove`
//! measures the promises of the README on this machine. Reports go to standard output, progress
//! to standard error, so a script may read one without the other.
//!
//! It never links the code that it judges: servers under test are processes, started on a free port
//! of the loopback and stopped by their own id.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `check` | `ratchet`, `tidy` | the check |
//! | `fuzz` | nothing | runs the fuzz targets |
//! | `ratchet` | nothing | holds the instructions per request |
//! | `sim` | nothing | runs the simulator of rings |
//! | `tidy` | nothing | the rules of the house |
#![forbid(unsafe_code)]

mod check;
mod fuzz;
mod ratchet;
mod sim;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  cargo xtask check                    formatting, lints, tidy, documentation, tests
  cargo xtask check --full             the above, then clients, server alone, buckets, instructions
  cargo xtask fix                      format, apply what clippy can fix by itself, renew lock files
  cargo xtask prove path --list        the claims, without measuring them
  cargo xtask prove path --only cpu    measure the claims about CPU per request
  cargo xtask fuzz memcache_parse --seconds 60   one fuzz target for a minute";

/// The front door of the repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Judge the tree without changing it; every part runs, the table tells which failed.
    Check(check::Args),
    /// Format the sources, apply what clippy can fix, and renew the lock files that stand alone.
    Fix,
    /// Hold the house style: arrows between crates, sizes, names, links of the documents.
    Tidy(tidy::Args),
    /// Measure the promises of the README: claim, bar, measured, verdict.
    Prove(prove::Args),
    /// Count instructions per request and lower the accepted counts where they fell.
    Ratchet,
    /// Run the fuzz targets, each for a bounded time.
    Fuzz(fuzz::Args),
    /// Simulate rings of cells with faults: one from its seed, or many.
    Sim(sim::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Check(args) => check::check(&args),
        Command::Fix => check::fix(),
        Command::Tidy(args) => tidy::run(&args),
        Command::Prove(args) => prove::run(&args),
        Command::Ratchet => ratchet::lower(),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Sim(args) => sim::run(&args),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
