//! The commands that load and measure servers. They serve no clients themselves, and no other
//! command needs them: they are one variant of the grammar, one branch of the dispatch, and this
//! file.

use std::env;
use std::error::Error;

use clap::Subcommand;

use super::fill::{self, FillArgs};

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Measure {
    /// Load a server and measure it
    Load(load::cli::Args),
    /// Measure the four drivers, and a memcached, side by side
    Lab(table::LabArgs),
    /// Prepare a tier
    #[command(subcommand)]
    Tier(Tier),
}

/// What is done to a tier, by a load on its cell.
#[derive(Debug, Subcommand)]
pub enum Tier {
    /// Fill a tier through its cell: store every key once
    #[command(after_help = fill::EXAMPLES)]
    Fill(FillArgs),
}

impl Measure {
    /// Measures; `false` if the result misses what was required.
    ///
    /// # Errors
    /// Why nothing could be measured.
    pub fn run(&self) -> Result<bool, Box<dyn Error>> {
        Ok(match self {
            Self::Load(args) => load::cli::run(args)?,
            Self::Lab(args) => table::run(args, &env::current_exe()?)?,
            Self::Tier(Tier::Fill(args)) => fill::fill(args)?,
        })
    }
}
