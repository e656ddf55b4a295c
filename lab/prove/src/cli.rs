//! The command: which claims are measured, in which form, and where the report goes.
//!
//! The status is success only if every chosen claim passed. Results are kept only in the full form;
//! the pages made of them are written at the same time, and can be written again without measuring.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::claim::Claim;
use crate::claims::{
    agree, build, clients, connections, correctness, cost, cpu, drivers, engine_tests, foundation,
    hit_ratio, honesty, instructions, libcachesim, memory, memory_bound, moving, ring, table, tail,
    tier, uring,
};
use crate::lab::{Given, Lab};
use crate::report::kept::Kept;
use crate::report::readme;
use crate::report::run::{Report, Row, list};

/// Where the results of the full bars are kept.
const KEPT: &str = "docs/proof";

/// What can be proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// One cell: the path from socket to memory.
    Path,
    /// The four drivers, the generator, and the table that compares them.
    Lab,
    /// Limits that change, walks that are bounded, effects in order.
    Foundation,
    /// Three cells that share one memory and survive the end of one.
    Ring,
    /// A journal and a database below the memory of one cell.
    Tier,
    /// Ranges that move between cells while clients go on.
    Move,
}

impl Subject {
    /// As it is written, also in the names of files.
    fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Lab => "lab",
            Self::Foundation => "foundation",
            Self::Ring => "ring",
            Self::Tier => "tier",
            Self::Move => "move",
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
                memory_bound::CLAIMS,
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
                cost::CLAIMS,
                agree::CLAIMS,
                connections::CLAIMS,
                uring::CLAIMS,
                libcachesim::CLAIMS,
            ],
            Self::Foundation => &[
                foundation::resize::CLAIMS,
                foundation::walks::CLAIMS,
                foundation::engine::CLAIMS,
                foundation::vivify::CLAIMS,
                foundation::log::CLAIMS,
                foundation::effects::CLAIMS,
            ],
            Self::Ring => &[
                ring::up::CLAIMS,
                ring::clients::CLAIMS,
                ring::kept::CLAIMS,
                ring::failover::CLAIMS,
                ring::redis::CLAIMS,
                ring::leader::CLAIMS,
                ring::busy::CLAIMS,
                ring::five::CLAIMS,
                ring::cost::CLAIMS,
                ring::memory::CLAIMS,
                ring::simulator::CLAIMS,
                ring::rules::CLAIMS,
                build::CLAIMS,
            ],
            Self::Tier => &[
                tier::kill::CLAIMS,
                tier::ring::CLAIMS,
                tier::loss::CLAIMS,
                tier::price::CLAIMS,
                tier::disk::CLAIMS,
                tier::pressure::CLAIMS,
                tier::outage::CLAIMS,
                tier::clients::CLAIMS,
                tier::table::CLAIMS,
                tier::size::CLAIMS,
                tier::recovery::CLAIMS,
                tier::reads::CLAIMS,
                tier::tests::CLAIMS,
            ],
            Self::Move => moving::THEMES,
        };
        themes.concat()
    }

    /// The claims of its table in the README: a claim of both subjects is promised once.
    fn promised(self) -> Vec<Claim> {
        let mut claims = self.claims();
        if self == Self::Lab {
            let path = Self::Path.claims();
            claims.retain(|claim| path.iter().all(|other| other.id != claim.id));
        }
        claims
    }

    /// Whether the README has a table of it.
    fn is_promised(self) -> bool {
        self.promised().iter().any(|claim| !claim.promise.is_empty())
    }

    /// The claims whose id is one of `only`, or begins with one that is no id; all where there is
    /// none.
    fn chosen(self, only: &[String]) -> Result<Vec<Claim>> {
        let mut chosen = self.claims();
        let is_id = |start: &str| self.claims().iter().any(|claim| claim.id == start);
        let is_chosen = |claim: &Claim, start: &str| match is_id(start) {
            true => claim.id == start,
            false => claim.id.starts_with(start),
        };
        chosen.retain(|claim| only.is_empty() || only.iter().any(|start| is_chosen(claim, start)));
        if chosen.is_empty() {
            let ids: Vec<&str> = self.claims().iter().map(|claim| claim.id).collect();
            bail!("no claim begins with {}: the claims are {}", only.join(" or "), ids.join(", "));
        }
        Ok(chosen)
    }
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask prove path --list
  cargo xtask prove path --memcached ~/memcached-1.6.45/memcached --memtier ~/memtier_benchmark
  cargo xtask prove path --only memory --json
  cargo xtask prove path --long --only bad.fuzz
  cargo xtask prove lab --memcached ~/memcached-1.6.45/memcached --memtier ~/memtier_benchmark
  cargo xtask prove foundation --only resize --memcached ~/memcached-1.6.45/memcached
  cargo xtask prove ring --only cost
  cargo xtask prove path --readme";

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
    /// memtier_benchmark, a second generator; without it the lines measured by it count as not
    /// measured.
    #[arg(long, value_name = "PATH")]
    memtier: Option<PathBuf>,
    /// Only the claim of this id, or those whose ids begin so; may be given several times.
    #[arg(long, value_name = "PREFIX")]
    only: Vec<String>,
    /// Print the claims and their bars without measuring.
    #[arg(long)]
    list: bool,
    /// Write the pages made of the kept results, README included, without measuring.
    #[arg(long)]
    readme: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Measures and reports; true when every claim passed.
pub fn run(args: &Args) -> Result<bool> {
    let claims = args.subject.chosen(&args.only)?;
    if args.list {
        list(&claims);
        return Ok(true);
    }
    let (memcached, memtier) = (args.memcached.clone(), args.memtier.clone());
    let given = Given { memcached, memtier, long: args.long, ..Given::default() };
    let lab = Lab::open(given, claims.len())?;
    if args.readme {
        keep(&lab, args.subject)?;
        return Ok(true);
    }
    // A wrong path is an error now, not after hours.
    lab.memcached()?;
    let report = measure(&lab, args.subject, &claims)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.print();
    }
    if args.long {
        keep(&lab, args.subject)?;
    }
    Ok(report.holds())
}

/// Measures the claims. In the full form each result is kept at once: a run takes hours.
fn measure(lab: &Lab, subject: Subject, claims: &[Claim]) -> Result<Report> {
    let mut rows = Vec::with_capacity(claims.len());
    for claim in claims {
        lab.begin(claim.id);
        let row = Row::new(claim, claim.measured(lab));
        if lab.is_long() {
            let report = Report::new(lab, vec![row.clone()])?;
            keep_results(lab, subject, Some(report))?;
        }
        rows.push(row);
    }
    lab.quiet();
    Report::new(lab, rows)
}

/// Writes the kept results with those of `report`.
fn keep_results(lab: &Lab, subject: Subject, report: Option<Report>) -> Result<Kept> {
    let folder = lab.repo().path(KEPT);
    let mut kept = Kept::read(&folder, subject.name())?;
    if let Some(report) = report {
        kept.take(report);
    }
    kept.write(&folder, subject.name(), &subject.claims())?;
    Ok(kept)
}

/// Writes the pages that are made of the kept results.
fn keep(lab: &Lab, subject: Subject) -> Result<()> {
    let kept = keep_results(lab, subject, None)?;
    if subject.is_promised() {
        readme::write(lab.repo(), subject.name(), &subject.promised(), &kept)?;
    }
    eprintln!("kept in {KEPT}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;
    use measure::repo::Repo;

    const ALL: [Subject; 6] = [
        Subject::Path,
        Subject::Lab,
        Subject::Foundation,
        Subject::Ring,
        Subject::Tier,
        Subject::Move,
    ];

    #[test]
    fn every_claim_has_an_id_of_its_own() {
        for subject in ALL {
            let claims = subject.claims();
            let ids: BTreeSet<&str> = claims.iter().map(|claim| claim.id).collect();
            assert_eq!(ids.len(), claims.len(), "{}", subject.name());
        }
    }

    #[test]
    fn claims_are_chosen_by_the_beginning_of_their_id() {
        let chosen_ids = |only: &str| Subject::Path.chosen(&[only.to_owned()]).map(|all| all.len());
        assert!(chosen_ids("cpu").unwrap() >= 4);
        let simulator = Subject::Ring.chosen(&["simulator".to_owned()]).unwrap();
        assert_eq!(simulator.len(), 1, "a whole id is that claim alone");
        assert!(chosen_ids("no-such").is_err());
        assert!(Subject::Lab.chosen(&["cost.".to_owned()]).unwrap().len() >= 3);
        assert_eq!(Subject::Lab.chosen(&[]).unwrap().len(), Subject::Lab.claims().len());
    }

    #[test]
    fn the_tables_of_the_readme_are_those_of_the_kept_results() {
        let repo = Repo::find().unwrap();
        let readme = fs::read_to_string(repo.path("README.md")).unwrap();
        for subject in ALL.into_iter().filter(|subject| subject.is_promised()) {
            let name = subject.name();
            let kept = Kept::read(&repo.path(KEPT), name).unwrap();
            let current = readme::with_table(&readme, name, &subject.promised(), &kept).unwrap();
            assert!(current == readme, "README.md is stale: cargo xtask prove {name} --readme");
        }
    }

    #[test]
    fn decisions_that_claims_name_exist() {
        let decisions = Repo::find().unwrap().path("docs/decisions");
        for claim in ALL.map(Subject::claims).concat() {
            let page = claim.decision;
            assert!(page.is_empty() || decisions.join(page).is_file(), "{}: {page}", claim.id);
        }
    }
}
