//! The command line of `load`, and the hidden tools that measure the floor.
//!
//! The binary mounts [`Args`] as a subcommand and calls [`run()`]. The result says whether
//! everything that was checked was right, and becomes the exit code.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::clients::{self, ClientsArgs};
use super::compare::{self, CompareArgs};
use super::honesty::{self, HonestyArgs};
use super::lambda_max::{self, LambdaMaxArgs};
use super::matrix::{self, MatrixArgs};
use super::populate::{self, PopulateArgs};
use super::run::{self as one, RunArgs};
use crate::conclusion::{Outputs, Study};
use crate::drive::Watch;
use crate::replay::{self, HitRatioArgs, ReplayArgs};
use doubles::null_server::NullServerArgs;
use doubles::pingpong::PingPongArgs;
use measure::Error;

/// Everything after `load`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The tools of the generator.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Load a server and report rates, latencies, hits, errors and CPU per request.
    #[command(after_help = one::EXAMPLES)]
    Run(Box<RunArgs>),
    /// Store every key once.
    #[command(after_help = populate::EXAMPLES)]
    Populate(Box<PopulateArgs>),
    /// Measure the same load over more and more connections.
    #[command(after_help = clients::EXAMPLES)]
    Clients(Box<ClientsArgs>),
    /// Raise the rate until throughput flattens: the most that a server answers.
    #[command(after_help = lambda_max::EXAMPLES)]
    LambdaMax(Box<LambdaMaxArgs>),
    /// Measure several servers in alternating rounds.
    #[command(after_help = compare::EXAMPLES)]
    Compare(Box<CompareArgs>),
    /// Measure sizes x mixes x rates.
    #[command(after_help = matrix::EXAMPLES)]
    Matrix(Box<MatrixArgs>),
    /// Replay a trace as a cache-aside client, and report the hit ratio.
    #[command(after_help = replay::EXAMPLES)]
    Replay(ReplayArgs),
    /// Check the generator against servers whose behaviour is known.
    #[command(after_help = honesty::EXAMPLES)]
    Honesty(HonestyArgs),
    /// Exchange fixed bytes with a null server: the floor for the generator.
    #[command(hide = true)]
    PingPong(PingPongArgs),
    /// Answer fixed bytes to fixed bytes: the floor for a server.
    #[command(hide = true)]
    NullServer(NullServerArgs),
    /// Replay a committed stream as a cache-aside client, and report the hit ratio.
    #[command(hide = true)]
    HitRatio(HitRatioArgs),
}

/// Carries a command out; `false` when something that was checked was wrong.
///
/// # Errors
/// When it cannot be started or carried through.
pub fn run(args: &Args) -> Result<bool, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_signals(&stop)?;
    let watch = Watch::new(Arc::clone(&stop), std::io::stderr().is_terminal());
    match &args.command {
        Command::Run(args) => args.report(&watch),
        Command::Populate(args) => put(&args.subject.outputs, || args.carry_out(&watch)),
        Command::Clients(args) => put(&args.subject.outputs, || args.carry_out(&watch)),
        Command::LambdaMax(args) => put(&args.subject.outputs, || args.carry_out(&watch)),
        Command::Compare(args) => put(&args.outputs, || args.carry_out(&watch)),
        Command::Matrix(args) => put(&args.subject.outputs, || args.carry_out(&watch)),
        Command::Replay(args) => put(&args.outputs, || args.carry_out(&watch)),
        Command::Honesty(args) => put(&args.outputs, || args.carry_out(&watch)),
        Command::PingPong(args) => print(&args.carry_out(&stop)?),
        Command::HitRatio(args) => print(args.carry_out()?.trim_end()),
        Command::NullServer(args) => print(&args.carry_out(&stop, &mut std::io::stderr())?),
    }
}

/// Makes a study and writes it. The files are opened before, so that a path that cannot be written
/// costs no measurement.
fn put(outputs: &Outputs, carry_out: impl FnOnce() -> Result<Study, Error>) -> Result<bool, Error> {
    let sinks = outputs.open()?;
    let study = carry_out()?;
    sinks.put(&study, || study.to_json(), || study.to_csv(), || study.page())?;
    Ok(study.clean)
}

fn print(text: &str) -> Result<bool, Error> {
    writeln!(std::io::stdout(), "{text}").map_err(|error| Error::io("cannot print", error))?;
    Ok(true)
}

/// The first signal ends the run with its report, the second ends the process.
///
/// # Errors
/// When signals cannot be handled.
pub fn stop_on_signals(stop: &Arc<AtomicBool>) -> Result<(), Error> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(stop)))
            .map_err(|error| Error::io("cannot watch for Ctrl-C", error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn every_command_shows_how_it_is_used() {
        let mut line = Line::command();
        let shown = line.get_subcommands_mut().filter(|command| !command.is_hide_set());
        let mut count = 0;
        for command in shown {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:\n"), "{}", command.get_name());
            count += 1;
        }
        assert_eq!(count, 8);
    }
}
