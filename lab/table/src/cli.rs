//! The command line of the lab.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use load::drive::Watch;
use report::table::aligned;

use crate::Error;
use crate::contestant::contestants;
use crate::count;
use crate::document::Document;
use crate::form::Form;
use crate::host::Programs;
use crate::instrument::{INSTRUMENTS, Instrument};
use crate::machine::{Machine, today};
use crate::pictures::{cost_table, lambda_table};
use crate::pin::Cores;
use crate::run::{Lab, version_of};
use crate::store::Store;
use crate::subject::{Subject, fingerprint};

const EXAMPLES: &str = "Examples:
  A few cells of every driver, in minutes:
    volvox lab
  The whole table beside a memcached, in hours, into a folder of its own:
    volvox lab --full --memcached /usr/bin/memcached --out lab-full
  Going on after an interruption:
    volvox lab --full --memcached /usr/bin/memcached --out lab-full --resume
It starts every server itself, on free ports of the loopback, and ends them.
Exit code: 0 when every cell is filled and nothing went wrong, 1 otherwise.";

/// Everything after `lab`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct LabArgs {
    /// A few cells, briefly: minutes; the default.
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// The whole table: at most three hours.
    #[arg(long)]
    pub full: bool,
    /// The folder of the report; findings are kept there as they are made.
    #[arg(long, value_name = "DIR", default_value = "volvox-lab")]
    pub out: PathBuf,
    /// A memcached to measure in the same columns.
    #[arg(long, value_name = "PATH")]
    pub memcached: Option<PathBuf>,
    /// Go on with the report in the folder: what was measured is not measured again.
    #[arg(long)]
    pub resume: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Measures and reports; `volvox` is the binary whose servers are measured.
///
/// `false` when a cell is empty or something that was checked was wrong.
///
/// # Errors
/// When a setting is out of range, or the folder cannot be used.
pub fn run(args: &LabArgs, volvox: &Path) -> Result<bool, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    load::cli::stop_on_signals(&stop)?;
    let watch = Watch::new(stop, false);
    let cores = Cores::find()
        .map_err(|error| Error::Setting(format!("cannot tell which cores may be used: {error}")))?;
    let form = if args.full { Form::full(cores.count()) } else { Form::quick(cores.count()) };
    let who = contestants(args.memcached.is_some());
    let memcached = args.memcached.as_deref().map(version_of).transpose()?;
    let instruments: Vec<Instrument> =
        INSTRUMENTS.into_iter().filter(|one| count::find(*one).is_some()).collect();
    let programs = Programs { volvox: volvox.to_owned(), memcached: args.memcached.clone() };
    let subject = Subject {
        form: form.name.to_string(),
        date: today(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        build: fingerprint(&std::fs::read(volvox).map_err(|error| Error::file(volvox, error))?),
        memcached,
        machine: Machine::here(cores.count()),
    };
    let (store, subject, mut found) = Store::open(&args.out, subject, args.resume)?;
    let lab = Lab {
        form: &form,
        who: &who,
        instruments: &instruments,
        programs: &programs,
        cores: &cores,
        store: &store,
        watch: &watch,
    };
    let all = lab.measure(&mut found)?;
    let document = lab.report(subject, &found, &command(args))?;
    let mut text = if args.json { document.to_json() } else { summary(&document, &args.out) };
    if !all && !args.json {
        text.push_str("; stopped, --resume goes on");
    }
    say(&text)?;
    Ok(all && document.whole)
}

/// The command that makes the report again, without places of this machine.
fn command(args: &LabArgs) -> String {
    let form = if args.full { "--full" } else { "--quick" };
    let memcached = if args.memcached.is_some() { " --memcached PATH" } else { "" };
    format!("volvox lab {form}{memcached}")
}

fn summary(document: &Document, out: &Path) -> String {
    let mut text = aligned(&lambda_table(document));
    text.push('\n');
    text.push_str(&aligned(&cost_table(document)));
    text.push('\n');
    for line in &document.verdict {
        text.push_str(&format!("{line}\n"));
    }
    for line in document.doubts.iter().chain(&document.missing) {
        text.push_str(&format!("warning: {line}\n"));
    }
    let filled = document.cells.len() - document.empty_cells.len();
    text.push_str(&format!(
        "{filled} of {} cells filled; the report: {}",
        document.cells.len(),
        out.join("lab.html").display()
    ));
    text
}

fn say(text: &str) -> Result<(), Error> {
    writeln!(std::io::stdout(), "{}", text.trim_end())
        .map_err(|error| Error::file("standard output", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::tests::document;

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
    fn the_form_is_quick_unless_full_is_asked_for() {
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
        assert!(text.contains("epoll answers most") && text.ends_with("x/lab.html"), "{text}");
    }
}
