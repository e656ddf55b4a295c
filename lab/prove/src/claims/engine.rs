//! The engine alone, without a server around it: benches of its crate that measure and print JSON.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::claim::Measured;
use crate::lab::Lab;
use measure::exec::Exec;

/// Longest building the benches may take.
const BUILD_MAX: Duration = Duration::from_secs(900);
/// Longest a bench may take beyond its measurement.
const BESIDE_MAX: Duration = Duration::from_secs(120);
/// Turns of one thread and of two, and in the full form.
const ROUNDS: [u64; 2] = [9, 31];
/// Longest one turn of every workload may take, filling included.
const ROUND_MAX_S: u64 = 30;
/// Seconds of churn, and in the full form.
const CHURN_S: [u64; 2] = [60, 600];
/// The bar of the slowest of a hundred thousand requests, in nanoseconds.
const P99999_NS_MAX: u64 = 1_000_000;
/// The bar of the samples that may be set aside, as a share.
const PREEMPTED_MAX: f64 = 0.001;

/// Longest a bench of a few workloads may take beyond building.
pub(super) const BENCH_MAX: Duration = Duration::from_secs(300);

/// What the bench `scale` prints.
#[derive(Deserialize)]
pub(super) struct Scale {
    workloads: Vec<Workload>,
}

#[derive(Deserialize)]
struct Workload {
    name: String,
    one_per_s: f64,
    two_per_s: f64,
    factor: f64,
    /// Absent where no engine takes part, as is the next.
    shared_writes_per_hit: Option<f64>,
    torn_per_hit: Option<f64>,
}

impl Workload {
    /// How much longer a request takes where two threads make requests, in ns.
    fn sharing_ns(&self) -> f64 {
        (2.0 / self.two_per_s - 1.0 / self.one_per_s) * 1e9
    }

    fn line(&self) -> String {
        let mut line = format!(
            "{}: {:.2} then {:.2} million requests/s, {:.2}x, {:.1} ns more a request",
            self.name,
            self.one_per_s / 1e6,
            self.two_per_s / 1e6,
            self.factor,
            self.sharing_ns(),
        );
        if let (Some(shared), Some(torn)) = (self.shared_writes_per_hit, self.torn_per_hit) {
            let counted = format!(
                "; writes to shared lines per hit {shared:.4}, reads repeated per hit {torn:.4}"
            );
            line.push_str(&counted);
        }
        line
    }
}

/// The factor each workload must reach; the control, and a value without an engine, say what the
/// machine allows.
const FACTORS_MIN: [(&str, f64); 3] = [("zipf", 1.8), ("hot_read", 1.8), ("hot_write", 1.0)];

impl Scale {
    /// How many times as much as one thread two threads do of a workload.
    pub(super) fn factor(&self, name: &str) -> Result<f64> {
        let found = self.workloads.iter().find(|workload| workload.name == name);
        Ok(found.with_context(|| format!("the bench has no workload {name}"))?.factor)
    }

    /// A line for each workload.
    pub(super) fn lines(&self) -> Vec<String> {
        self.workloads.iter().map(Workload::line).collect()
    }
}

/// Measures the claim `scale.engine`.
pub fn scale(lab: &Lab) -> Result<Measured> {
    let rounds = lab.form(ROUNDS);
    let longest = Duration::from_secs(rounds * ROUND_MAX_S);
    let words = [&rounds.to_string(), "control", "zipf", "hot_read", "hot_write", "bare"];
    let scale: Scale = bench(lab, "scale", &words, longest)?;
    let (mut texts, mut holds, mut least) = (Vec::new(), true, f64::MAX);
    for (name, factor_min) in FACTORS_MIN {
        let factor = scale.factor(name)?;
        texts.push(format!("{name} {factor:.2}x"));
        holds &= factor >= factor_min;
        least = least.min(factor / factor_min);
    }
    Ok(Measured::new(texts.join(", "), least, holds).with_details(scale.lines()))
}

/// What the bench `churn` prints.
#[derive(Deserialize)]
struct Churn {
    samples: u64,
    preempted: u64,
    p99999_ns: u64,
    /// Other latencies, and what requests paid for: shown.
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

impl Churn {
    fn judged(&self) -> Measured {
        let share = self.preempted as f64 / self.samples as f64;
        let slowest_us = self.p99999_ns as f64 / 1e3;
        let text = format!("{slowest_us:.0} us, {:.4} % preempted", share * 100.0);
        let holds = self.p99999_ns <= P99999_NS_MAX && share <= PREEMPTED_MAX;
        let more = self.more.iter().map(|(name, value)| format!("{name}: {value}"));
        let details = [format!("samples: {}", self.samples)].into_iter().chain(more).collect();
        Measured::new(text, slowest_us, holds).with_details(details)
    }
}

/// Measures the claim `tail.engine`.
pub fn churn(lab: &Lab) -> Result<Measured> {
    let seconds = lab.form(CHURN_S);
    let words = [&seconds.to_string()[..]];
    let churn: Churn = bench(lab, "churn", &words, Duration::from_secs(seconds))?;
    Ok(churn.judged())
}

/// Builds and runs a bench of the engine with these words, and reads what it prints.
pub(super) fn bench<T: DeserializeOwned>(
    lab: &Lab,
    name: &str,
    words: &[&str],
    longest: Duration,
) -> Result<T> {
    bench_of(lab, ("engine", name), words, longest)
}

/// The same of any package.
pub(super) fn bench_of<T: DeserializeOwned>(
    lab: &Lab,
    (package, name): (&str, &str),
    words: &[&str],
    longest: Duration,
) -> Result<T> {
    lab.detail(&format!("building the bench {name}"));
    let bench = ["bench", "--quiet", "--locked", "--package", package, "--bench", name];
    let cargo = || Exec::new("cargo").args(bench).cwd(lab.repo().root());
    cargo().arg("--no-run").capture(BUILD_MAX)?;
    lab.detail(&format!("running the bench {name}"));
    cargo().arg("--").args(words).json(longest + BESIDE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    fn churn() -> Churn {
        let said = r#"{"samples": 1000000, "preempted": 1000, "p99999_ns": 400000, "evicted": 1}"#;
        serde_json::from_str(said).unwrap()
    }

    #[test]
    fn the_tail_holds_only_with_few_samples_set_aside() {
        assert_eq!(churn().judged().verdict, Verdict::Pass);
        let preempted = Churn { preempted: 1_001, ..churn() };
        assert_eq!(preempted.judged().verdict, Verdict::Fail);
        let slow = Churn { p99999_ns: 1_000_001, ..churn() };
        assert_eq!(slow.judged().verdict, Verdict::Fail);
    }

    #[test]
    fn a_workload_that_is_missing_is_no_measurement() {
        let scale: Scale = serde_json::from_str(r#"{"workloads": []}"#).unwrap();
        assert!(scale.factor("zipf").is_err());
    }
}
