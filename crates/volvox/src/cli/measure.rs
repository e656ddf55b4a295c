//! The commands that measure: they serve nobody, and the server does not need them.

use std::env;
use std::error::Error;

use clap::Subcommand;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Measure {
    /// Load a server and measure it
    Load(load::cli::Args),
    /// Measure the four drivers, and a memcached, side by side
    Lab(table::LabArgs),
}

impl Measure {
    /// Measures; `false` if what was measured missed what was required of it.
    ///
    /// # Errors
    /// Why nothing could be measured.
    pub fn run(&self) -> Result<bool, Box<dyn Error>> {
        Ok(match self {
            Self::Load(args) => load::cli::run(args)?,
            Self::Lab(args) => table::run(args, &env::current_exe()?)?,
        })
    }
}
