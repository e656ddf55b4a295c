//! Claims that are shown by tests of the crates, fuzz targets, deliberate breakages and histories.
//!
//! Here they run at the size of the bar, which a variable of their environment sets. A claim has
//! several parts. A part that is not in the repository makes its claim "not measured", and the
//! others run all the same.

use std::fs;
use std::time::Duration;

use anyhow::Result;

use super::engine_tests::{all, apart, test};
use crate::claim::Measured;
use crate::lab::Lab;
use measure::exec::{Exec, tail};
use measure::tools;

/// How a part is run.
pub(in crate::claims) enum By {
    /// A test target of a package.
    Test(&'static str, &'static str),
    /// The same under shuttle.
    Shuttle(&'static str, &'static str),
    /// A fuzz target.
    Fuzz(&'static str),
    /// Deliberate breakages of `tests/mutations`, each caught by its test.
    Breakages(&'static [&'static str]),
    /// Histories of real processes under faults, checked for linearizability, with these words.
    Histories(&'static [&'static str]),
}

/// A part of a claim.
pub(in crate::claims) struct Part {
    pub by: By,
    /// The variable that sets the size of a test.
    pub variable: &'static str,
    /// The size in the quick and in the full form.
    pub sizes: [u64; 2],
}

/// Longest a fuzz target may take, in seconds; it ends before when it has made its runs.
const FUZZ_S: u64 = 1800;
/// Longest any part may take, building included.
const PART_MAX: Duration = Duration::from_secs(2400);
/// Longest all histories may take.
const HISTORIES_MAX: Duration = Duration::from_secs(4 * 3600);
/// What makes and checks histories.
const HISTORIES: &str = "tests/linearizability/run.sh";
/// What the line begins with in which a target states its runs.
const UNITS: &str = "stat::number_of_executed_units:";

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
            By::Histories(_) => (!is_file(HISTORIES)).then(|| format!("there is no {HISTORIES}")),
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
        let most = if let By::Histories(_) = self.by { HISTORIES_MAX } else { PART_MAX };
        let measured = all(lab, String::new(), self.commands(lab)?, most)?;
        Ok(measured.details)
    }

    /// The command with its size.
    fn sized(&self, exec: Exec, size: &str) -> Exec {
        if self.variable.is_empty() { exec } else { exec.env(self.variable, size) }
    }

    /// The commands that run it.
    fn commands(&self, lab: &Lab) -> Result<Vec<Exec>> {
        let size = lab.form(self.sizes).to_string();
        Ok(match self.by {
            By::Test(package, target) => {
                vec![self.sized(test(package, &[target]).arg("--release"), &size)]
            }
            By::Shuttle(package, target) => {
                let exec = self.sized(test(package, &[target]), &size);
                let exec = exec.env("SHUTTLE_SILENCE_WARNINGS", "1");
                vec![apart(lab.repo(), exec, "shuttle", "--cfg shuttle")]
            }
            By::Histories(words) => {
                tools::IP.need()?;
                let exec = Exec::new(lab.repo().path(HISTORIES)).args(["--histories", &size]);
                vec![exec.args(words).arg("--volvox").arg(lab.repo().volvox())]
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
            By::Histories(_) => format!("histories: {size}"),
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

/// Runs all parts.
pub(in crate::claims) fn run(lab: &Lab, parts: &[Part]) -> Result<Measured> {
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
