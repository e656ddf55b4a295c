//! The generator against a server whose delays are known.
//!
//! `volvox load honesty` starts such a server, measures it and prints statements about what it
//! reported. A claim passes only if there are statements and all of them are true.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::claim::{Claim, Measured};
use crate::lab::Lab;
use measure::exec::Exec;

/// Longest one run of the generator may take.
const RUN_MAX: Duration = Duration::from_secs(300);
/// What the README says of both claims.
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
    .by(|lab| measured(lab, "frozen")),
    Claim::new(
        "honesty.delays",
        "a double that delays by stated 5 to 50 ms: p50 to p99 as reported",
    )
    .bar("within 2 % or 0.3 ms")
    .promised(SEEN)
    .by(|lab| measured(lab, "delays")),
];

/// One part of `volvox load honesty`, which holds its reports against what it served itself.
fn measured(lab: &Lab, part: &str) -> Result<Measured> {
    // The double needs a core beside the generator's, so neither is pinned.
    let words = ["load", "honesty", "--json", "--part", part];
    let exec = Exec::new(lab.volvox()?).args(words);
    lab.detail(&exec.to_string());
    Ok(judge(&exec.json(RUN_MAX)?))
}

fn judge(report: &Value) -> Measured {
    let claims = report["conclusion"]["claims"].as_array().map_or(&[][..], Vec::as_slice);
    let holds = claims.iter().filter(|claim| claim["holds"].as_bool() == Some(true)).count();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let line = |claim: &Value| {
        let [what, expected, seen] =
            ["claim", "expected", "reported"].map(|name| text(&claim[name]));
        format!("{what}: expected {expected}, reported {seen}")
    };
    let mut details: Vec<String> = claims.iter().map(line).collect();
    details.extend(report["warnings"].as_array().into_iter().flatten().map(text));
    let sum = format!("{holds} of {} statements true", claims.len());
    let all = holds == claims.len() && holds > 0;
    Measured::new(sum, holds as f64, all).with_details(details)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn one_untrue_statement_fails() {
        let claim = |holds: bool| json!({ "claim": "p99", "reported": "6", "holds": holds });
        for (claims, expected) in [
            (vec![claim(true), claim(true)], Verdict::Pass),
            (vec![claim(true), claim(false)], Verdict::Fail),
            (vec![], Verdict::Fail),
        ] {
            let report = json!({ "conclusion": { "claims": claims }, "warnings": ["busy"] });
            assert_eq!(judge(&report).verdict, expected);
        }
    }
}
