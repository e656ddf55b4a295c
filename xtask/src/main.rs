//! `cargo xtask COMMAND`: the one entry point for every task of a developer or of the CI.
//!
//! `check` never writes to the sources, `fix` does; `tidy` checks the house style; `prove` measures
//! the promises of the README on this machine. Reports go to standard output and progress to
//! standard error, so a script can read one without the other.
//!
//! It never links the code it judges: servers under test are processes, started on a free
//! loopback port and stopped by their own id.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `bench` | `exec`, `repo` | runs the benchmarks |
//! | `check` | `exec`, `fuzz`, `prove`, `ratchet`, `repo`, `stages`, `tidy`, `tools` | the check |
//! | `exec` | nothing | child processes with deadlines |
//! | `fuzz` | `exec`, `repo`, `tools` | runs the fuzz targets |
//! | `prove` | `exec`, `fuzz`, `repo`, `screen`, `tools` | measures the claims |
//! | `ratchet` | `prove`, `repo`, `screen` | holds the instructions per request |
//! | `repo` | `exec` | facts about the tree and the machine |
//! | `screen` | nothing | tables and colours of the terminal |
//! | `stages` | `repo`, `screen`, `tools` | runs parts and sums up how they ended |
//! | `tidy` | `repo`, `screen` | the rules of the house |
//! | `tools` | `exec` | programs that must be installed |
#![forbid(unsafe_code)]

mod bench;
mod check;
mod exec;
mod fuzz;
mod prove;
mod ratchet;
mod repo;
mod screen;
mod stages;
mod tidy;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  cargo xtask check                    formatting, lints, tidy, documentation, tests
  cargo xtask check --full             the above, then real clients, instruction gate, fuzzing
  cargo xtask fix                      format, and apply what clippy can correct
  cargo xtask tidy --lines             lines of production code, by crate
  cargo xtask prove path --list        the claims, without measuring them
  cargo xtask prove path --only cpu    measure the claims about CPU per request
  cargo xtask fuzz text --seconds 60   one fuzz target for a minute";

/// The tasks of the repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check the tree without changing it; every part runs, a table shows which failed.
    Check(check::Args),
    /// Format the sources and apply what clippy can correct.
    Fix,
    /// Check the house style: arrows between crates, rooms and files, sizes, words, links.
    Tidy(tidy::Args),
    /// Run the benchmarks of one crate, or of all.
    Bench(bench::Args),
    /// Measure the promises of the README: claim, bar, measured, verdict.
    Prove(prove::Args),
    /// Count instructions per request and lower the accepted counts where they fell.
    Ratchet,
    /// Run the fuzz targets, each for a bounded time.
    Fuzz(fuzz::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Check(args) => check::check(&args),
        Command::Fix => check::fix(),
        Command::Tidy(args) => tidy::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Prove(args) => prove::run(&args),
        Command::Ratchet => ratchet::lower(),
        Command::Fuzz(args) => fuzz::run(&args),
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
