//! Simulated rings, each from its seed: `sim --seeds A..B`, one process for each core.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::claim::{Claim, Measured};
use crate::lab::Lab;
use measure::exec::{Exec, Running, Said, tail};

/// Seeds, in the quick and the full form.
const SEEDS: [u64; 2] = [200, 10_000];
/// Longest the build may take, and the runs in the quick and the full form.
const BUILD_MAX: Duration = Duration::from_secs(900);
const RUN_MAX: [Duration; 2] = [Duration::from_secs(600), Duration::from_secs(12 * 3600)];

/// The claims of this theme.
pub const CLAIMS: &[Claim] =
    &[Claim::new("simulator", "simulated rings under faults, real cores, 200 seeds (10,000)")
        .bar("none fails")
        .by(run)];

fn run(lab: &Lab) -> Result<Measured> {
    let cargo = Exec::new("cargo").cwd(lab.repo().root());
    lab.detail("build");
    // Optimised without the long link of a release.
    let build = ["build", "--quiet", "--package", "sim"];
    cargo.clone().args(build).capture(BUILD_MAX)?;
    let (seeds, parts) = (lab.form(SEEDS), lab.cores().count().max(1) as u64);
    let begin = |part: u64| -> Result<Running> {
        let range = format!("{}..{}", seeds * part / parts, seeds * (part + 1) / parts);
        let words = ["run", "--quiet", "--package", "sim", "--", "--seeds", &range];
        cargo.clone().args(words).start(lab.form(RUN_MAX))
    };
    lab.detail(&format!("{seeds} seeds"));
    let running: Vec<Running> = (0..parts).map(begin).collect::<Result<_>>()?;
    let said: Vec<Said> = running.into_iter().map(Running::said).collect::<Result<_>>()?;
    judge(said.iter().map(|one| (one.status.success(), one.output.as_str())), seeds)
}

/// What the parts said: whether each ended well, and its output.
fn judge<'a>(parts: impl Iterator<Item = (bool, &'a str)>, seeds: u64) -> Result<Measured> {
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
