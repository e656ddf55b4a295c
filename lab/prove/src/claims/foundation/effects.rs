//! Effects in order, replies that are parked, bad effects: the tests and fuzz targets that show it.
//!
//! They are those of the crates. Here they run at the size of the bar, which a variable of their
//! environment sets. A claim has several parts. A part that is not in the repository makes its
//! claim "not measured", and the others run all the same.

use std::fs;
use std::time::Duration;

use anyhow::Result;

use crate::claim::{Claim, Measured};
use crate::claims::engine_tests::{all, apart, test};
use crate::lab::Lab;
use measure::exec::{Exec, tail};
use measure::tools;

/// How a part is run.
enum By {
    /// A test target of a package.
    Test(&'static str, &'static str),
    /// The same under shuttle.
    Shuttle(&'static str, &'static str),
    /// A fuzz target.
    Fuzz(&'static str),
    /// Deliberate breakages of `tests/mutations`, each caught by its test.
    Breakages(&'static [&'static str]),
}

/// A part of a claim.
struct Part {
    by: By,
    /// The variable that sets the size.
    variable: &'static str,
    /// The size in the quick and in the full form.
    sizes: [u64; 2],
}

/// Four threads, every command, three sizes of pool: the order of versions is that of the log, the
/// copy is the source; the same in random orders of steps; and tests that would notice.
const ORDERS: &[Part] = &[
    Part {
        by: By::Test("engine", "order_of_versions"),
        variable: "EFFECTS",
        sizes: [20_000_000, 100_000_000],
    },
    Part {
        by: By::Shuttle("engine", "shuttle_versions"),
        variable: "SHUTTLE_ORDERS",
        sizes: [1_000, 10_000],
    },
    Part { by: By::Breakages(BREAKAGES), variable: "", sizes: [0, 0] },
];
/// The ten breakages, by their names in `tests/mutations/mutations.toml`.
const BREAKAGES: &[&str] = &[
    "a change is stamped though a flush has ended its item",
    "a new item is published without its version",
    "a set in place is published before it is committed",
    "a touch forgets the token",
    "a refused change leaves its words counted",
    "a refused change leaves its chunks counted",
    "a walk passes an item again when its group shrinks",
    "a copy stamps a number of its own",
    "the numbers of a copy do not rise with what it applies",
    "an eviction is not emitted",
];
/// Replies that wait, are released or time out, on all four drivers.
const PARKED: &[Part] = &[Part {
    by: By::Test("drivers", "each_request_has_one_reply_however_it_waits"),
    variable: "WAITS_CONNECTIONS",
    sizes: [5_000, 5_000],
}];
/// Random effects and entries, into `apply` and into the log.
const FUZZED: &[Part] = &[
    // Ten effects or more for each input.
    Part { by: By::Fuzz("engine_apply"), variable: "", sizes: [200_000, 300_000] },
    Part { by: By::Fuzz("effects_log"), variable: "", sizes: [2_000_000, 20_000_000] },
];

/// Longest a fuzz target may take, in seconds; it ends before when it has made its runs.
const FUZZ_S: u64 = 900;
/// Longest any part may take, building included.
const PART_MAX: Duration = Duration::from_secs(2400);
/// What the line begins with in which a target states its runs.
const UNITS: &str = "stat::number_of_executed_units:";

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::held(
        "effects.orders",
        "20 million effects of four threads: versions in the order of the log, copy = source",
        |lab| run(lab, ORDERS),
    ),
    Claim::held(
        "effects.parked",
        "parked, released, timed out: 5,000 connections, all four drivers",
        |lab| run(lab, PARKED),
    ),
    Claim::held("effects.fuzz", "two million random effects and entries", |lab| run(lab, FUZZED)),
];

impl Part {
    /// Why it cannot run, if it cannot.
    fn missing(&self, lab: &Lab) -> Option<String> {
        let is_file = |path: &str| lab.repo().path(path).is_file();
        match self.by {
            By::Test(package, target) | By::Shuttle(package, target) => {
                let base = format!("crates/{package}/tests/{target}");
                let is_there =
                    is_file(&format!("{base}.rs")) || is_file(&format!("{base}/main.rs"));
                (!is_there).then(|| format!("{package} has no test {target}"))
            }
            By::Fuzz(target) => {
                let is_there = is_file(&format!("fuzz/fuzz_targets/{target}.rs"));
                (!is_there).then(|| format!("there is no fuzz target {target}"))
            }
            By::Breakages([]) => Some("no breakage is named".to_owned()),
            By::Breakages(names) => {
                let table = lab.repo().path("tests/mutations/mutations.toml");
                let table = fs::read_to_string(table).unwrap_or_default();
                let is_missing = |name: &&&str| !table.contains(&format!("name = \"{name}\""));
                let missing = names.iter().find(is_missing);
                missing.map(|name| format!("there is no breakage {name:?}"))
            }
        }
    }

    /// Runs it; what failed.
    fn carry_out(&self, lab: &Lab) -> Result<Vec<String>> {
        let size = lab.form(self.sizes);
        if let By::Fuzz(target) = self.by {
            return fuzz(lab, target, size);
        }
        let measured = all(lab, String::new(), self.commands(lab)?, PART_MAX)?;
        Ok(measured.details)
    }

    /// The commands that run it.
    fn commands(&self, lab: &Lab) -> Result<Vec<Exec>> {
        let size = lab.form(self.sizes).to_string();
        Ok(match self.by {
            By::Test(package, target) => {
                vec![test(package, &[target]).arg("--release").env(self.variable, size)]
            }
            By::Shuttle(package, target) => {
                let exec = test(package, &[target]).env(self.variable, size);
                let exec = exec.env("SHUTTLE_SILENCE_WARNINGS", "1");
                vec![apart(lab.repo(), exec, "shuttle", "--cfg shuttle")]
            }
            By::Fuzz(_) => Vec::new(),
            By::Breakages(names) => {
                let path = lab.repo().path("tests/mutations/run.py");
                let run = Exec::new(tools::PYTHON.need()?).arg(path);
                names.iter().map(|name| run.clone().args(["--only", name])).collect()
            }
        })
    }

    fn line(&self, size: u64) -> String {
        match self.by {
            By::Test(_, target) | By::Shuttle(_, target) | By::Fuzz(target) => {
                format!("{target}: {size}")
            }
            By::Breakages(names) => format!("{} breakages", names.len()),
        }
    }
}

/// Runs a fuzz target; what it found, or that it made fewer runs than it should.
fn fuzz(lab: &Lab, target: &str, runs: u64) -> Result<Vec<String>> {
    let [seconds, runs_text] = [FUZZ_S, runs].map(|number| number.to_string());
    let words = ["xtask", "fuzz", target, "--seconds", &seconds, "--runs", &runs_text];
    let exec = Exec::new("cargo").args(words).cwd(lab.repo().root());
    lab.detail(&exec.to_string());
    let said = exec.said(PART_MAX)?;
    let all = format!("{}\n{}", said.output, said.complaints);
    Ok(if !said.status.success() {
        vec![format!("{target}: {}", tail(&all))]
    } else if units(&all) < runs {
        vec![format!("{target} made {} runs of {runs} in {FUZZ_S} s", units(&all))]
    } else {
        Vec::new()
    })
}

/// How many inputs a target ran, by what it says.
fn units(said: &str) -> u64 {
    let stated = said.lines().filter_map(|line| line.trim().strip_prefix(UNITS));
    stated.filter_map(|number| number.trim().parse::<u64>().ok()).sum()
}

fn run(lab: &Lab, parts: &[Part]) -> Result<Measured> {
    let (mut failed, mut missing, mut ran) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        match part.missing(lab) {
            Some(why) => missing.push(why),
            None => {
                failed.extend(part.carry_out(lab)?);
                ran.push(part.line(lab.form(part.sizes)));
            }
        }
    }
    Ok(judge(ran.join(", "), failed, &missing))
}

/// What failed has failed, whatever is missing.
fn judge(ran: String, failed: Vec<String>, missing: &[String]) -> Measured {
    if !failed.is_empty() {
        return Measured::new(format!("{} failed", failed.len()), 0.0, false).with_details(failed);
    }
    if missing.is_empty() {
        return Measured::new(ran, 1.0, true);
    }
    let held = if ran.is_empty() { Vec::new() } else { vec![format!("these hold: {ran}")] };
    Measured::not(missing.join("; ")).with_details(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn what_is_missing_proves_nothing_and_hides_no_failure() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let judged = |failed: Vec<String>, missing: Vec<String>| {
            judge("a: 5".to_owned(), failed, &missing).verdict
        };
        assert_eq!(judged(texts(&[]), texts(&[])), Verdict::Pass);
        assert_eq!(judged(texts(&["b"]), texts(&["c"])), Verdict::Fail);
        assert_eq!(judged(texts(&[]), texts(&["c"])), Verdict::NotMeasured("c".to_owned()));
    }

    #[test]
    fn the_runs_of_a_target_are_those_that_it_states() {
        let said = "#9\tDONE\nstat::number_of_executed_units: 2000000\nstat::peak_rss_mb: 5\n";
        assert_eq!((units(said), units("killed")), (2_000_000, 0));
    }
}
