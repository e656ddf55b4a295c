//! Where a report goes: to the screen, and to files.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::{Labelled, Report, Study, csv};
use crate::Error;

/// The forms of a report.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Outputs {
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write a line for every run to this file, as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write a page with plots to this file: one HTML file that needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Outputs {
    /// Puts the report of one run everywhere it shall go.
    ///
    /// # Errors
    /// When a file or the screen cannot be written.
    pub fn put(&self, report: &Report) -> Result<(), Error> {
        if let Some(path) = &self.csv {
            let run = Labelled { labels: Vec::new(), report: report.clone() };
            write(path, &csv::csv(&[run]))?;
        }
        if let Some(path) = &self.html {
            write(path, &report.page().to_html())?;
        }
        print(&if self.json { report.to_json() } else { report.to_string() })
    }

    /// Puts a study everywhere it shall go.
    ///
    /// # Errors
    /// When a file or the screen cannot be written.
    pub fn put_study(&self, study: &Study) -> Result<(), Error> {
        if let Some(path) = &self.csv {
            write(path, &study.to_csv())?;
        }
        if let Some(path) = &self.html {
            write(path, &study.page().to_html())?;
        }
        if self.json {
            return print(&study.to_json());
        }
        let warnings = study.warnings.iter().map(|text| format!("warning: {text}\n"));
        print(&format!("{}\n{}", study.text.trim_end(), warnings.collect::<String>()))
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text)
        .map_err(|error| Error::io(format!("cannot write {}", path.display()), error))
}

fn print(text: &str) -> Result<(), Error> {
    writeln!(std::io::stdout(), "{}", text.trim_end())
        .map_err(|error| Error::io("cannot print", error))
}
