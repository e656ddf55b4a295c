//! The command line: `volvox lab`.
//!
//! It measures, writes the report into a folder, and prints the conclusions. Nothing is printed on
//! standard output but those, so that `--json` can be piped.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use load::drive::Watch;
use load::report::pictures::aligned;
use measure::Error;

use crate::findings::{Folder, Machine, Subject, fingerprint, today};
use crate::pages::{Document, cost_table, lambda_table, page, win_table};
use crate::plan::{Form, INSTRUMENTS, Instrument, contestants};
use crate::running::{Cores, Programs, Runner, find, measure_all, version_of};

const EXAMPLES: &str = "Examples:
  A few cells of every driver, in minutes:
    volvox lab
  The whole table with a memcached, in hours, into a folder of its own:
    volvox lab --full --memcached /usr/bin/memcached --out lab-full
  To continue after an interruption:
    volvox lab --full --memcached /usr/bin/memcached --out lab-full --resume
The lab starts every server itself, on a free port of the loopback, and ends it.
Exit code: 0 if every cell has its figures and nothing went wrong, else 1.";

/// Everything after `lab`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct LabArgs {
    /// Measure a few cells, each for a short time: minutes; the default.
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Measure the whole table: at most three hours.
    #[arg(long)]
    pub full: bool,
    /// The folder of the report; every finding is written there when it is made.
    #[arg(long, value_name = "DIR", default_value = "volvox-lab")]
    pub out: PathBuf,
    /// A memcached to measure in the same columns.
    #[arg(long, value_name = "PATH")]
    pub memcached: Option<PathBuf>,
    /// Continue the report in the folder: what was measured is not measured again.
    #[arg(long)]
    pub resume: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Measures and reports; `volvox` is the binary whose servers are measured.
///
/// `false` if a cell is empty, or if something that was checked was wrong.
///
/// # Errors
/// If a setting is out of range, or if the folder cannot be used.
pub fn run(args: &LabArgs, volvox: &Path) -> Result<bool, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    load::cli::stop_on_signals(&stop)?;
    let watch = Watch::new(stop, false);
    let cores =
        Cores::find().map_err(|error| Error::io("cannot read which cores may be used", error))?;
    let form = if args.full { Form::full(cores.count()) } else { Form::quick(cores.count()) };
    let who = contestants(args.memcached.is_some());
    let binary = std::fs::read(volvox)
        .map_err(|error| Error::io(format!("cannot read {}", volvox.display()), error))?;
    let subject = Subject {
        form: form.name.to_string(),
        date: today(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        build: fingerprint(&binary),
        memcached: args.memcached.as_deref().map(version_of).transpose()?,
        machine: Machine::here(cores.count()),
    };
    let instruments: Vec<Instrument> =
        INSTRUMENTS.into_iter().filter(|one| find(*one).is_some()).collect();
    let programs = Programs { volvox: volvox.to_owned(), memcached: args.memcached.clone() };
    let (folder, subject, mut found) = Folder::open(&args.out, subject, args.resume)?;
    let mut runner = Runner::new(&form, &programs, &cores, &folder, &watch);
    let all = measure_all(&mut runner, &who, &instruments, &mut found)?;
    let document = Document::new(&form, &who, subject, &found);
    let page = page(&document, &command(args));
    folder.write("lab.json", &document.to_json())?;
    folder.write("lab.csv", &document.to_csv())?;
    folder.write("lab.md", &report::markdown::page(&page))?;
    folder.write("lab.html", &page.to_html())?;
    let mut text = if args.json { document.to_json() } else { summary(&document, &args.out) };
    if !all && !args.json {
        text.push_str("; stopped: --resume continues");
    }
    writeln!(std::io::stdout(), "{}", text.trim_end())
        .map_err(|error| Error::io("cannot print", error))?;
    Ok(all && document.is_whole())
}

/// The command that writes such a report again, without the paths of this machine.
fn command(args: &LabArgs) -> String {
    let form = if args.full { "--full" } else { "--quick" };
    let memcached = if args.memcached.is_some() { " --memcached PATH" } else { "" };
    format!("volvox lab {form}{memcached}")
}

fn summary(document: &Document, out: &Path) -> String {
    let tables = [lambda_table, cost_table, win_table].map(|table| aligned(&table(document)));
    let mut text = tables.join("\n");
    for line in document.warnings() {
        text.push_str(&format!("warning: {line}\n"));
    }
    let (filled, all) = document.filled();
    let report = out.join("lab.html");
    text + &format!("{filled} of {all} cells filled; the report: {}", report.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::document;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: LabArgs,
    }

    fn args(words: &str) -> Result<LabArgs, clap::Error> {
        let words = std::iter::once("lab").chain(words.split_whitespace());
        <Line as clap::Parser>::try_parse_from(words).map(|line| line.args)
    }

    #[test]
    fn the_form_is_quick_unless_full_is_given() {
        for (words, expected) in [
            ("", "volvox lab --quick"),
            ("--full", "volvox lab --full"),
            ("--memcached /x/y", "volvox lab --quick --memcached PATH"),
        ] {
            assert_eq!(command(&args(words).unwrap()), expected);
        }
        assert!(args("--quick --full").is_err());
    }

    #[test]
    fn the_summary_names_winner_and_file() {
        let text = summary(&document(), Path::new("x"));
        assert!(text.contains("epoll, 1000/s") && text.ends_with("x/lab.html"), "{text}");
    }
}
