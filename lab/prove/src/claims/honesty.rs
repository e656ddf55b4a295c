//! The generator against the truth: servers whose behaviour is known, and its own limit.
//!
//! `volvox load honesty` serves what it measures and states what it found. A statement that the
//! machine did not allow to be judged is not held against it, unless too few are left.
//!
//! ```text
//! frozen       p99 of an open loop shows the freeze, p99 of a closed loop hides it
//! delays       each reported percentile is the stated one
//! bottleneck   closed loop: its thread is full; overload: it warns, and shows both rates;
//!              30 to 80 % busy: no warning, the rate reached, no delay by its own work
//! ```
//!
//! A due request can be late because the generator works, or because another program or the
//! hypervisor has its core. Only the first is the generator's fault. The kernel's account of the
//! thread's CPU time distinguishes them on any machine: see `drive/open_loop.rs` in `load`.

use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;

use crate::claim::{Claim, Measured};
use crate::lab::Lab;
use measure::exec::Exec;

/// Longest one part may take.
const RUN_MAX: Duration = Duration::from_secs(300);
/// What the README says of the claims about known servers.
const SEEN: &str =
    "a server that stops for 1 s in 10 is seen; one that delays by stated 5 to 50 ms is too";

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new(
        "honesty.frozen",
        "a server frozen for 1 s in every 10: the open loop's p99 shows it, a closed loop beside",
    )
    .bar("shown, and hidden by the closed loop")
    .promised(SEEN)
    .by(|lab| stated(lab, "frozen", "frozen:", 2)),
    Claim::new(
        "honesty.delays",
        "a double that delays by stated 5 to 50 ms: p50 to p99 as reported",
    )
    .bar("within 2 % or 0.3 ms")
    .promised(SEEN)
    .by(|lab| stated(lab, "delays", "delays:", 4)),
    // The overload, and three of the four rates: one of them keeps it 60 to 80 % busy.
    Claim::new(
        "honesty.bottleneck",
        "the generator warns when it is the bottleneck, and is not at fault below 80 % of its CPU",
    )
    .bar("a warning in overload; none, and the rate reached, at 30 to 80 %")
    .promised("it warns when it is itself the bottleneck, and only then")
    .by(|lab| stated(lab, "bottleneck", "bottleneck:", 4)),
    Claim::new("honesty.rates", "offered and achieved rates of an overloaded run")
        .bar("both shown, in the JSON and on the screen")
        .by(|lab| stated(lab, "bottleneck", "overload:", 1)),
];

#[derive(Deserialize)]
struct Report {
    conclusion: Conclusion,
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Conclusion {
    claims: Vec<Statement>,
}

#[derive(Deserialize)]
struct Statement {
    claim: String,
    expected: String,
    reported: String,
    holds: Option<bool>,
}

/// Runs a part and judges the statements that begin with `topic`.
fn stated(lab: &Lab, part: &str, topic: &str, fewest: usize) -> Result<Measured> {
    let exec = Exec::new(lab.volvox()?).args(["load", "honesty", "--json", "--part", part]);
    lab.detail(&exec.to_string());
    Ok(judge(exec.json(RUN_MAX)?, topic, fewest))
}

fn judge(report: Report, topic: &str, fewest: usize) -> Measured {
    let mut statements = report.conclusion.claims;
    statements.retain(|statement| statement.claim.starts_with(topic));
    let line = |it: &Statement| {
        let holds = it.holds.map_or("disturbed".to_owned(), |holds| holds.to_string());
        format!("{}: expected {}, reported {}: {holds}", it.claim, it.expected, it.reported)
    };
    let details = statements.iter().map(line).chain(report.warnings).collect();
    let judged: Vec<bool> = statements.iter().filter_map(|it| it.holds).collect();
    let (count, true_ones) = (judged.len(), judged.iter().filter(|holds| **holds).count());
    let measured = if count < fewest && true_ones == count {
        Measured::not(format!("{count} statements could be judged, at least {fewest} must be"))
    } else {
        let text = format!("{true_ones} of {count} statements true");
        Measured::new(text, true_ones as f64, true_ones == count)
    };
    measured.with_details(details)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn every_statement_that_could_be_judged_must_be_true() {
        let judged = |holds: &[Option<bool>]| {
            let statement = |claim: &str, holds: Option<bool>| {
                let [expected, reported] = ["c", "d"];
                json!({ "claim": claim, "expected": expected, "reported": reported,
                        "holds": holds })
            };
            let claims = holds.iter().map(|holds| statement("a: b", *holds));
            let claims: Vec<Value> = claims.chain([statement("other", Some(false))]).collect();
            let report = json!({ "conclusion": { "claims": claims }, "warnings": ["busy"] });
            let measured = judge(serde_json::from_value(report).unwrap(), "a:", 2);
            assert_eq!(measured.details.len(), holds.len() + 1);
            measured.verdict
        };
        let [yes, no] = [Some(true), Some(false)];
        assert_eq!(judged(&[yes, yes]), Verdict::Pass);
        assert_eq!(judged(&[yes, None, yes]), Verdict::Pass);
        assert_eq!(judged(&[yes, no, yes]), Verdict::Fail);
        assert_eq!(judged(&[None, no]), Verdict::Fail);
        assert!(matches!(judged(&[yes, None]), Verdict::NotMeasured(_)));
        assert!(matches!(judged(&[]), Verdict::NotMeasured(_)));
    }
}
