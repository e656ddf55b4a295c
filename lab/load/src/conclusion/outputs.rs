//! Where a report goes: to the screen, and to files.
//!
//! Files are opened before the first run, so that a path that cannot be written costs no
//! measurement. Invariant: they keep their contents until there is a report. The screen comes
//! first, so that a full disk loses no report.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use measure::Error;
use report::html::Page;

/// The forms of a report beside the text on the screen.
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
    /// Opens every file.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn open(&self) -> Result<Sinks, Error> {
        let open = |path: &Option<PathBuf>| path.as_deref().map(Sink::open).transpose();
        Ok(Sinks { json: self.json, csv: open(&self.csv)?, html: open(&self.html)? })
    }
}

/// The outputs of one command, ready to be written.
#[derive(Debug)]
pub struct Sinks {
    json: bool,
    csv: Option<Sink>,
    html: Option<Sink>,
}

impl Sinks {
    /// Writes a report, the screen first, then every file, even if one before failed. The second
    /// argument is the JSON.
    ///
    /// # Errors
    /// The first one, when a file or the screen cannot be written.
    pub fn put(
        self,
        text: &dyn fmt::Display,
        json: impl FnOnce() -> String,
        csv: impl FnOnce() -> String,
        page: impl FnOnce() -> Page,
    ) -> Result<(), Error> {
        let text = if self.json { json() } else { text.to_string() };
        let printed = writeln!(io::stdout(), "{}", text.trim_end())
            .map_err(|error| Error::io("cannot print", error));
        let csv = self.csv.map_or(Ok(()), |sink| sink.write(&csv()));
        let html = self.html.map_or(Ok(()), |sink| sink.write(&page().to_html()));
        printed.and(csv).and(html)
    }
}

/// An open file.
#[derive(Debug)]
struct Sink {
    path: PathBuf,
    file: File,
}

impl Sink {
    fn open(path: &Path) -> Result<Self, Error> {
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|error| cannot_write(path, error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Replaces the contents of the file.
    fn write(mut self, text: &str) -> Result<(), Error> {
        let mut replace = || {
            // Pipes and terminals have no length.
            if self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            self.file.write_all(text.as_bytes())
        };
        replace().map_err(|error| cannot_write(&self.path, error))
    }
}

fn cannot_write(path: &Path, error: io::Error) -> Error {
    Error::io(format!("cannot write {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conclusion::report::tests::{observed, report};
    use crate::conclusion::{Labelled, Report, csv, page};

    fn put(outputs: &Outputs, report: &Report) -> Result<(), Error> {
        let runs = [Labelled { labels: Vec::new(), report: report.clone() }];
        outputs.open().unwrap().put(report, || report.to_json(), || csv(&runs), || page(report))
    }

    #[test]
    fn a_path_is_tried_before_and_a_full_disk_loses_no_other_file() {
        let path = |name: &str| {
            std::env::temp_dir().join(format!("load-outputs-{}-{name}", std::process::id()))
        };
        let (kept, html) = (path("kept"), path("html"));
        std::fs::write(&kept, "what was there before, longer than nothing").unwrap();
        let nowhere = Outputs { html: Some("/nowhere/at/all".into()), ..Outputs::default() };
        let text = nowhere.open().unwrap_err().to_string();
        assert!(text.contains("cannot write /nowhere/at/all"), "{text}");
        // Opening alone takes nothing away, and writing leaves no rest of what was there.
        let outputs = Outputs { csv: Some(kept.clone()), ..Outputs::default() };
        drop(outputs.open().unwrap());
        assert!(std::fs::read_to_string(&kept).unwrap().starts_with("what was there"));
        let report = report(&[], &observed());
        put(&outputs, &report).unwrap();
        assert!(std::fs::read_to_string(&kept).unwrap().starts_with("target,"));
        // A device that is always full.
        let full = Outputs { csv: Some("/dev/full".into()), html: Some(html.clone()), json: true };
        let text = put(&full, &report).unwrap_err().to_string();
        assert!(text.contains("cannot write /dev/full"), "{text}");
        assert!(std::fs::read_to_string(&html).unwrap().ends_with("</html>\n"));
        for path in [kept, html] {
            std::fs::remove_file(path).unwrap();
        }
    }
}
