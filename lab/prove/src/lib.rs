//! `cargo xtask prove path|lab`: the promises, measured on this machine.
//!
//! A list of claims, each with its bar and the function that measures it; the report says claim,
//! bar, measured, verdict. Nothing is assumed: what was not measured fails the proof as surely as
//! what fell short. The quick form ends within 25 minutes; `--long` runs the full bars and keeps
//! what it measured under `docs/proof/`, line by line, with commit, date and machine.
//!
//! The themes (`clients`, `cpu`, ...) hold the claims. Below them stand the instruments: `server`
//! starts and stops processes, `wire` and `fleet` speak to them, `generator` and `memtier` load
//! them, `slope` counts per request, `procfs` reads the kernel's accounts, `compare` holds series
//! side by side.
#![forbid(unsafe_code)]

mod agree;
mod bench;
mod bottleneck;
mod build;
mod claim;
mod clients;
mod compare;
mod connections;
mod correctness;
mod cost;
mod cpu;
mod drivers;
mod engine;
mod engine_tests;
mod fleet;
mod generator;
mod hit_ratio;
mod honesty;
mod instructions;
mod kept;
mod libcachesim;
mod memory;
mod memory_bound;
mod memtier;
mod procfs;
mod report;
mod server;
mod slope;
mod table;
mod tail;
mod uring;
mod wire;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::ValueEnum;

use bench::Lab;
use claim::Claim;
use kept::Kept;
use measure::repo::Repo;
use report::{Report, Row};

/// Where the results of the full bars are kept.
const KEPT: &str = "docs/proof";

/// What can be proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// One cell: the path from socket to memory.
    Path,
    /// The four drivers, the generator, and the table that compares them.
    Lab,
}

impl Subject {
    /// As it is written, also in the names of files.
    fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Lab => "lab",
        }
    }

    /// Every claim, in the order of the report.
    fn claims(self) -> Vec<Claim> {
        let themes: &[&[Claim]] = match self {
            Self::Path => &[
                clients::CLAIMS,
                cpu::CLAIMS,
                instructions::CLAIMS,
                memory::CLAIMS,
                hit_ratio::CLAIMS,
                tail::CLAIMS,
                correctness::CLAIMS,
                engine_tests::CLAIMS,
                build::CLAIMS,
            ],
            Self::Lab => &[
                drivers::CLAIMS,
                clients::CLAIMS,
                table::CLAIMS,
                honesty::CLAIMS,
                bottleneck::CLAIMS,
                cost::CLAIMS,
                agree::CLAIMS,
                connections::CLAIMS,
                uring::CLAIMS,
                libcachesim::CLAIMS,
            ],
        };
        themes.concat()
    }
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask prove path --list
  cargo xtask prove path --memcached ~/memcached-1.6.45/memcached
  cargo xtask prove path --only memory --json
  cargo xtask prove path --long --memcached ~/memcached-1.6.45/memcached
  cargo xtask prove path --long --only bad.fuzz
  cargo xtask prove lab --memcached ~/memcached-1.6.45/memcached --memtier ~/memtier_benchmark";

/// Arguments of `cargo xtask prove`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What to prove.
    #[arg(value_enum)]
    subject: Subject,
    /// Run the full bars and keep the lines measured under docs/proof/.
    #[arg(long)]
    long: bool,
    /// The newest memcached (1.6.40 or later); without it the distribution's stands in and the
    /// lines that compare with it count as not measured.
    #[arg(long, value_name = "PATH")]
    memcached: Option<PathBuf>,
    /// memtier_benchmark, the generator that ours is compared with (subject lab).
    #[arg(long, value_name = "PATH")]
    memtier: Option<PathBuf>,
    /// Only the claims whose id begins so; may be given several times.
    #[arg(long, value_name = "PREFIX")]
    only: Vec<String>,
    /// Print the claims and their bars without measuring.
    #[arg(long)]
    list: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn chosen(subject: Subject, only: &[String]) -> Result<Vec<Claim>> {
    let wanted = |claim: &Claim| {
        only.is_empty() || only.iter().any(|prefix| claim.id.starts_with(prefix.as_str()))
    };
    let chosen: Vec<Claim> = subject.claims().into_iter().filter(wanted).collect();
    if chosen.is_empty() {
        let ids: Vec<&str> = subject.claims().iter().map(|claim| claim.id).collect();
        bail!("no claim begins with {}: the claims are {}", only.join(" or "), ids.join(", "));
    }
    Ok(chosen)
}

/// Measures and reports; true when every claim passed.
pub fn run(args: &Args) -> Result<bool> {
    let claims = chosen(args.subject, &args.only)?;
    if args.list {
        report::list(&claims);
        return Ok(true);
    }
    let mut lab = Lab::open(args.memcached.as_deref(), args.long, claims.len())?;
    lab.memtier.clone_from(&args.memtier);
    let report = measure(&lab, &claims)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.print();
    }
    let holds = report.holds();
    if args.long {
        let folder = lab.repo.path(KEPT);
        let subject = args.subject.name();
        let mut kept = Kept::read(&folder, subject)?;
        kept.take(report);
        kept.write(&folder, subject, &args.subject.claims())?;
        eprintln!("kept in {KEPT}");
    }
    Ok(holds)
}

/// Runs the engine in random orders of its steps; true when every promise held.
pub fn shuttle(repo: &Repo) -> Result<bool> {
    engine_tests::shuttle_holds(repo)
}

/// User instructions per request of our server, by the id of the claim; `is_high` tells which one
/// is to be counted again.
pub fn instructions(
    repo: &Repo,
    is_high: impl Fn(&str, f64) -> bool,
) -> Result<Vec<(&'static str, f64)>> {
    instructions::counts(repo, is_high)
}

/// Whether our server makes at most one call of a kind for each readable event; prints the calls.
pub fn calls(repo: &Repo) -> Result<bool> {
    instructions::calls_hold(repo)
}

/// Runs the clients of the field against our server with one driver.
pub fn clients(repo: &Repo, driver: &str) -> Result<bool> {
    clients::run(repo, driver)
}

fn measure(lab: &Lab, claims: &[Claim]) -> Result<Report> {
    let mut rows = Vec::with_capacity(claims.len());
    for claim in claims {
        lab.begin(claim.id);
        rows.push(Row::new(claim, claim.measured(lab)));
    }
    lab.quiet();
    Report::new(lab, rows)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_claim_has_an_id_of_its_own() {
        for subject in [Subject::Path, Subject::Lab] {
            let claims = subject.claims();
            let ids: BTreeSet<&str> = claims.iter().map(|claim| claim.id).collect();
            assert_eq!(ids.len(), claims.len(), "{}", subject.name());
        }
    }

    #[test]
    fn claims_are_chosen_by_the_beginning_of_their_id() {
        let chosen_ids =
            |only: &str| chosen(Subject::Path, &[only.to_owned()]).map(|all| all.len());
        assert!(chosen_ids("cpu").unwrap() >= 4);
        assert!(chosen_ids("no-such").is_err());
        assert!(chosen(Subject::Lab, &["cost.".to_owned()]).unwrap().len() >= 3);
        assert_eq!(chosen(Subject::Lab, &[]).unwrap().len(), Subject::Lab.claims().len());
    }
}
