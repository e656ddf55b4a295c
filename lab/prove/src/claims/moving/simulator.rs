//! Simulated rings whose ranges move while faults come: how often each kind of fault has come
//! during each step of each operation.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::claim::{Claim, Measured, Verdict};
use crate::claims::ring::simulator::{SEEDS, judge, outcome, said};
use crate::lab::Lab;

/// How often each kind of fault has come during each step, in the full form.
const TIMES_MIN: u64 = 100;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("simulator", "simulated rings whose ranges move, 200 seeds (10,000)")
        .bar("none fails (each kind of fault >= 100 times during each step of each operation)")
        .by(|lab| interrupted(lab, &[])),
    Claim::new("simulator.tier", "the same above a bucket, with power cuts of the whole ring")
        .bar("none fails (each kind of fault >= 100 times during each step of each operation)")
        .by(|lab| interrupted(lab, &["--tier"])),
];

fn interrupted(lab: &Lab, options: &[&str]) -> Result<Measured> {
    let seeds = lab.form(SEEDS);
    let said = said(lab, 0..seeds, options)?;
    let measured = judge(said.iter().map(outcome), seeds)?;
    let times = times(said.iter().map(|one| one.output.as_str()))?;
    let (of, least) = times.into_iter().min_by_key(|(_, times)| *times).context("no step")?;
    let text = format!("{}; {least} times at least, {of}", measured.text);
    let is_often = least >= if lab.is_long() { TIMES_MIN } else { 0 };
    let holds = matches!(measured.verdict, Verdict::Pass) && is_often;
    Ok(Measured::new(text, least as f64, holds).with_details(measured.details))
}

/// How often each kind of fault has come during each step: by lines `during STEP: KIND N, ...`.
fn times<'a>(outputs: impl Iterator<Item = &'a str>) -> Result<BTreeMap<String, u64>> {
    let mut times = BTreeMap::new();
    for line in outputs.flat_map(str::lines) {
        let Some((step, kinds)) = line.strip_prefix("during ").and_then(|it| it.split_once(": "))
        else {
            continue;
        };
        for of_kind in kinds.split(", ") {
            let (kind, count) = of_kind.split_once(' ').context("a kind without a number")?;
            let count: u64 = count.parse().with_context(|| format!("{of_kind} of {step}"))?;
            *times.entry(format!("{kind} during {step}")).or_default() += count;
        }
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_all_parts_are_added() {
        let parts = ["x\nduring Divides: Crash 2, Pause 0\n", "during Divides: Crash 3, Pause 1\n"];
        let times = times(parts.into_iter()).expect("it is well formed");
        let expected = [("Crash during Divides", 5), ("Pause during Divides", 1)];
        assert_eq!(times, expected.map(|(of, count)| (of.to_owned(), count)).into());
        assert!(super::times(["during Divides: Crash\n"].into_iter()).is_err());
    }
}
