//! Where a report goes: to the screen, and to files.

use std::io::Write as _;

use super::Report;
use crate::Error;

/// The forms of a report.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Outputs {
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

impl Outputs {
    /// Writes the report of one run.
    ///
    /// # Errors
    /// When a file or the screen cannot be written.
    pub fn put(&self, report: &Report) -> Result<(), Error> {
        let text = if self.json { report.to_json() } else { report.to_string() };
        print(text.trim_end())
    }
}

fn print(text: &str) -> Result<(), Error> {
    writeln!(std::io::stdout(), "{text}").map_err(|error| Error::io("cannot print", error))
}
