//! Simulated rings, each from its seed: `sim --seeds A..B`, one process for each core. Most runs
//! have faults for some seconds; some have them for ten minutes, and 10,000 requests at least.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::claim::{Claim, Measure, Measured};
use crate::lab::Lab;
use measure::exec::{Exec, Running, Said, tail};

/// Seeds, in the quick and the full form, and those of one claim about runs of [`MINUTES`].
pub(in crate::claims) const SEEDS: [u64; 2] = [200, 10_000];
const LONG_SEEDS: [u64; 2] = [2, 125];
/// How long the long runs are in simulated time, and how many requests each has at least.
const MINUTES: u64 = 10;
const REQUESTS_MIN: u64 = 10_000;
/// Longest the build may take, and the runs in the quick and the full form.
const BUILD_MAX: Duration = Duration::from_secs(900);
const RUN_MAX: [Duration; 2] = [Duration::from_secs(600), Duration::from_secs(12 * 3600)];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("simulator", "simulated rings under faults, real cores, 200 seeds (10,000)")
        .bar("none fails")
        .by(run),
    // A thousand seeds in parts, which can be run one by one: all take hours.
    long("simulator_long.1", run_long::<0>),
    long("simulator_long.2", run_long::<1>),
    long("simulator_long.3", run_long::<2>),
    long("simulator_long.4", run_long::<3>),
    long("simulator_long.5", run_long::<4>),
    long("simulator_long.6", run_long::<5>),
    long("simulator_long.7", run_long::<6>),
    long("simulator_long.8", run_long::<7>),
];

const fn long(id: &'static str, measure: Measure) -> Claim {
    let claim =
        "simulated rings for ten minutes, 10,000 requests and more each: 2 more seeds (125)";
    Claim::new(id, claim).bar("none fails").by(measure)
}

fn run(lab: &Lab) -> Result<Measured> {
    let seeds = lab.form(SEEDS);
    judge(said(lab, 0..seeds, &[])?.iter().map(outcome), seeds)
}

/// Rings above a bucket, each cell with a journal on a simulated disk.
pub(in crate::claims) fn run_above_a_bucket(lab: &Lab) -> Result<Measured> {
    let seeds = lab.form(SEEDS);
    judge(said(lab, 0..seeds, &["--tier"])?.iter().map(outcome), seeds)
}

fn run_long<const PART: u64>(lab: &Lab) -> Result<Measured> {
    let (seeds, minutes) = (lab.form(LONG_SEEDS), MINUTES.to_string());
    let said = said(lab, PART * seeds..(PART + 1) * seeds, &["--minutes", &minutes])?;
    let short = said.iter().find(|one| !is_long(&one.output));
    if let Some(short) = short {
        return Ok(Measured::not("a run was too short").with_details(vec![tail(&short.output)]));
    }
    judge(said.iter().map(outcome), seeds)
}

pub(in crate::claims) fn outcome(said: &Said) -> (bool, &str) {
    (said.status.success(), said.output.as_str())
}

/// The command that runs the simulator, which it builds first.
pub(in crate::claims) fn built(lab: &Lab) -> Result<Exec> {
    let cargo = Exec::new("cargo").cwd(lab.repo().root());
    lab.detail("build");
    // Optimised without the long link of a release.
    let build = ["build", "--quiet", "--package", "sim"];
    cargo.clone().args(build).capture(BUILD_MAX)?;
    Ok(cargo.args(["run", "--quiet", "--package", "sim", "--"]))
}

/// What the simulator says of `seeds`, of which each core runs a part.
pub(in crate::claims) fn said(lab: &Lab, seeds: Range<u64>, options: &[&str]) -> Result<Vec<Said>> {
    let sim = built(lab)?;
    let count = seeds.end - seeds.start;
    let parts = (lab.cores().count().max(1) as u64).min(count);
    let first = |part: u64| seeds.start + count * part / parts;
    let begin = |part: u64| -> Result<Running> {
        let range = format!("{}..{}", first(part), first(part + 1));
        sim.clone().args(["--seeds", &range]).args(options).start(lab.form(RUN_MAX))
    };
    lab.detail(&format!("{count} seeds"));
    let running: Vec<Running> = (0..parts).map(begin).collect::<Result<_>>()?;
    running.into_iter().map(Running::said).collect()
}

/// Whether each run of a part was as long as it should be, and had as many requests. A part of
/// which a run has failed may be shorter.
fn is_long(output: &str) -> bool {
    let numbers = |line: &str| -> Option<[u64; 2]> {
        let (seconds, rest) = line.strip_prefix("each run has ")?.split_once(" s of")?;
        let (requests, _) = rest.split_once(" time and ")?.1.split_once(' ')?;
        Some([seconds.parse().ok()?, requests.parse().ok()?])
    };
    let has_failed = output.lines().any(|line| line.starts_with("seed "));
    has_failed
        || output
            .lines()
            .find_map(numbers)
            .is_some_and(|[seconds, requests]| seconds >= MINUTES * 60 && requests >= REQUESTS_MIN)
}

/// What the parts said: whether each ended well, and its output.
pub(in crate::claims) fn judge<'a>(
    parts: impl Iterator<Item = (bool, &'a str)>,
    seeds: u64,
) -> Result<Measured> {
    let (mut runs, mut failed, mut details) = (0, 0, Vec::new());
    for (is_well, output) in parts {
        let Some(line) = output.lines().find(|line| line.contains(" runs in ")) else {
            return Ok(Measured::not("a part has printed no sum").with_details(vec![tail(output)]));
        };
        let numbers = counts(line).with_context(|| format!("the simulator says {line:?}"))?;
        runs += numbers[0];
        failed += numbers[1].max(u64::from(!is_well));
        details.extend(output.lines().map(str::to_owned));
    }
    let text = format!("{failed} of {runs} seeds fail");
    Ok(Measured::new(text, failed as f64, failed == 0 && runs == seeds).with_details(details))
}

/// Runs and failures in `N runs in S s, M failed; ...`.
fn counts(line: &str) -> Option<[u64; 2]> {
    let (runs, rest) = line.split_once(" runs in ")?;
    let (_, rest) = rest.split_once(" s, ")?;
    let (failed, _) = rest.split_once(" failed")?;
    Some([runs.parse().ok()?, failed.parse().ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn short_runs_are_not_taken_for_long_ones() {
        let output = |seconds: u64, requests: u64| {
            format!(
                "8 runs in 3.2 s, 0 failed; 9 requests\neach run has {seconds} s of simulated \
                 time and {requests} requests at least\nfaults: {{}}\n"
            )
        };
        assert!(is_long(&output(601, 10_000)));
        assert!(!is_long(&output(599, 10_000)) && !is_long(&output(601, 9_999)));
        assert!(!is_long("") && is_long("seed 3: a lost write\n"));
    }

    #[test]
    fn all_parts_count() {
        let well = "100 runs in 3.2 s, 0 failed; 9 requests\nfaults: {}\n";
        let bad = "seed 107: a lost write\n100 runs in 3.2 s, 1 failed; 9 requests\n";
        let verdict = |parts: [(bool, &str); 2]| {
            judge(parts.into_iter(), 200).map(|measured| measured.verdict).unwrap()
        };
        assert_eq!(verdict([(true, well), (true, well)]), Verdict::Pass);
        assert_eq!(verdict([(true, well), (false, bad)]), Verdict::Fail);
        assert_eq!(verdict([(true, well), (false, well)]), Verdict::Fail);
        assert!(matches!(verdict([(true, well), (false, "")]), Verdict::NotMeasured(_)));
        let short = "50 runs in 3.2 s, 0 failed; 9 requests\n";
        assert_eq!(verdict([(true, well), (true, short)]), Verdict::Fail);
    }
}
