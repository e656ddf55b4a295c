//! The command line: `volvox lab`.
//!
//! It measures, writes the report into a folder, and prints the conclusions. Nothing is printed on
//! standard output but those, so that `--json` can be piped.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, anyhow};
use load::drive::Watch;
use measure::account::machine::Machine;
use measure::process::{instrument::Instrument, tools::find};
use measure::{repo::Repo, screen::Table};
use report::table::aligned;

use crate::findings::{Folder, Subject, fingerprint};
use crate::pages::{Document, cost_table, csv_table, lambda_table, page, win_table};
use crate::plan::{Form, contestants};
use crate::running::{Programs, Runner, measure_all};

const EXAMPLES: &str = "Examples:
  A few cells of every driver, in minutes:
    volvox lab
  The whole table with a memcached, in hours, into a folder of its own:
    volvox lab --full --memcached /usr/bin/memcached --out lab-full
  The table above a journal and a database, of which memory holds a quarter:
    volvox lab --tier redb --out lab-tier
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
    /// Measure our servers above a tier with this database: redb or files.
    #[arg(
        long,
        value_name = "DATABASE",
        value_parser = ["redb", "files"],
        conflicts_with = "memcached"
    )]
    pub tier: Option<String>,
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
/// If a setting is out of range, or if the folder cannot be used. The text holds all causes.
pub fn run(args: &LabArgs, volvox: &Path) -> Result<bool> {
    carry_out(args, volvox).map_err(|error| anyhow!("{error:#}"))
}

fn carry_out(args: &LabArgs, volvox: &Path) -> Result<bool> {
    let stop = Arc::new(AtomicBool::new(false));
    load::cli::stop_on_signals(&stop)?;
    let watch = Watch::new(stop, false);
    let programs = Programs::find(volvox, args.memcached.as_deref())?.above(args.tier.clone());
    let cores = programs.cores().count();
    let form = if args.full { Form::full(cores) } else { Form::quick(cores) };
    let form = if args.tier.is_some() { form.above_a_tier() } else { form };
    let who = contestants(args.memcached.is_some());
    let binary = std::fs::read(volvox).with_context(|| format!("read {}", volvox.display()))?;
    let subject = Subject {
        form: form.name.to_string(),
        date: Repo::today()?,
        version: env!("CARGO_PKG_VERSION").to_string(),
        build: fingerprint(&binary),
        memcached: programs.memcached_version()?,
        database: args.tier.clone(),
        machine: Machine::here(),
    };
    // What the threads of a tier do would be counted too.
    let installed = |one: &Instrument| args.tier.is_none() && find(one.tool().program).is_some();
    let instruments: Vec<Instrument> = Instrument::ALL.into_iter().filter(installed).collect();
    let (folder, subject, mut found) = Folder::open(&args.out, subject, args.resume)?;
    let mut runner = Runner::new(&form, &programs, &folder, &watch);
    let all = measure_all(&mut runner, &who, &instruments, &mut found)?;
    let document = Document::new(&form, &who, subject, &found);
    let page = page(&document, &command(args));
    folder.write("lab.json", &document.to_json())?;
    folder.write("lab.csv", &report::table::csv(&csv_table(&document)))?;
    folder.write("lab.md", &report::markdown::page(&page))?;
    folder.write("lab.html", &page.to_html())?;
    let mut text = if args.json { document.to_json() } else { summary(&document, &args.out) };
    if !all && !args.json {
        text.push_str("; stopped: --resume continues");
    }
    writeln!(std::io::stdout(), "{}", text.trim_end()).context("print the report")?;
    Ok(all && document.is_whole())
}

/// The command that writes such a report again, without the paths of this machine.
fn command(args: &LabArgs) -> String {
    let form = if args.full { "--full" } else { "--quick" };
    let memcached = if args.memcached.is_some() { " --memcached PATH" } else { "" };
    let tier = args.tier.iter().map(|database| format!(" --tier {database}"));
    format!("volvox lab {form}{memcached}{}", tier.collect::<String>())
}

fn summary(document: &Document, out: &Path) -> String {
    let tables = [lambda_table, cost_table].map(|table| aligned(&table(document)));
    let wins = win_table(document);
    let mut winners = Table::new(&wins.head.iter().map(String::as_str).collect::<Vec<_>>());
    wins.rows.into_iter().for_each(|row| winners.row(row.into_iter().map(Into::into).collect()));
    let mut text = tables.join("\n") + "\n" + &winners.render();
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
            ("--tier redb", "volvox lab --quick --tier redb"),
        ] {
            assert_eq!(command(&args(words).unwrap()), expected);
        }
        assert!(args("--quick --full").is_err());
        assert!(args("--tier redb --memcached /x/y").is_err() && args("--tier s3").is_err());
    }

    #[test]
    fn the_summary_names_winner_and_file() {
        let text = summary(&document(), Path::new("x"));
        assert!(text.contains("epoll, 1000/s") && text.ends_with("x/lab.html"), "{text}");
    }
}
