//! The four drivers under one contract: their suite, their shapes, their crowds.
//!
//! The tests are the drivers' own, and each runs on all four. Here they are a claim: the table that
//! compares drivers means something only if all answer alike. Where io_uring is forbidden the suite
//! leaves its driver out. Here that fails.

use std::time::Duration;

use anyhow::Result;

use crate::claim::{Claim, Measured};
use crate::lab::Lab;
use measure::exec::{Exec, tail};

/// Longest one run of tests may take, building included.
const RUN_MAX: Duration = Duration::from_secs(1200);

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::held(
        "drivers.conformance",
        "one suite for all four drivers: identical bytes, gates, delays, fairness",
        |lab| tests(lab, &["--test", "every_driver", "conformance::"]),
    ),
    Claim::held(
        "drivers.crowds",
        "5,000 connections, clients killed mid-request: nothing lost, no descriptor leaked",
        |lab| tests(lab, &["--test", "descriptors"]),
    ),
    Claim::held("drivers.signals", "a full queue of signals loses no request", |lab| {
        tests(lab, &["--test", "a_full_queue_of_signals_loses_no_request"])
    }),
];

fn tests(lab: &Lab, which: &[&str]) -> Result<Measured> {
    let exec = Exec::new("cargo").args(["test", "--locked", "--package", "drivers"]).args(which);
    lab.detail(&exec.to_string());
    // With this in its environment the suite fails where a driver cannot run.
    let said = exec.env("CI", "true").cwd(lab.repo().root()).said(RUN_MAX)?;
    Ok(judge(said.status.success(), &said.output, &said.complaints))
}

fn judge(ended_well: bool, output: &str, complaints: &str) -> Measured {
    let (passed, failed) = counts(output);
    if passed + failed == 0 {
        let reason = tail(&format!("{complaints}\n{output}"));
        return Measured::not(format!("no test was run:\n{reason}"));
    }
    let holds = ended_well && passed > 0 && failed == 0;
    let text = format!("{passed} tests pass, {failed} fail");
    let details = if holds { Vec::new() } else { vec![tail(&format!("{complaints}\n{output}"))] };
    Measured::new(text, passed as f64, holds).with_details(details)
}

/// How many tests passed and failed, by what the test programs say.
fn counts(said: &str) -> (u64, u64) {
    let mut counts = (0, 0);
    for line in said.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        let mut parts = line.split([';', '.']).map(str::trim);
        let mut number = |what: &str| -> u64 {
            let part = parts.find_map(|part| part.strip_suffix(what));
            part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
        };
        counts = (counts.0 + number("passed"), counts.1 + number("failed"));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn tests_that_fail_or_do_not_run_prove_nothing() {
        let ran = |failed: u32| format!("test result: ok. 4 passed; {failed} failed; 0 ignored\n");
        assert_eq!(judge(true, &ran(0), "").verdict, Verdict::Pass);
        assert_eq!(judge(false, &ran(0), "killed").verdict, Verdict::Fail);
        assert_eq!(judge(false, &ran(1), "").verdict, Verdict::Fail);
        let unbuilt = judge(false, "", "error: could not compile");
        assert!(matches!(unbuilt.verdict, Verdict::NotMeasured(_)));
    }

    #[test]
    fn tests_are_counted_over_all_programs() {
        let said = "test result: ok. 12 passed; 0 failed; 1 ignored\nrunning\n\
                    test result: FAILED. 3 passed; 2 failed; 0 ignored\n";
        assert_eq!(counts(said), (15, 2));
        assert_eq!(counts("error: could not compile"), (0, 0));
    }
}
