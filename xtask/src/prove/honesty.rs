//! The generator held against the truth: servers whose delays are known, and its own limits.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    claim::{Claim, Measured},
    lab::{CLIENT_CORE, Lab, SERVER_CORE},
    server::Server,
};
use crate::exec::{Exec, tail};

/// Longest one run of the generator may take.
const RUN_MAX: Duration = Duration::from_secs(300);
/// The share of its own CPU below which the generator must not be what limits a run.
const FAULTLESS_BELOW: f64 = 0.8;
/// Words in the warning of a generator that is the bottleneck.
const BOTTLENECK: &str = "the generator may be the bottleneck";
/// Words in the warning of a generator that sends late.
const DELAYED: &str = "the generator delayed due requests";
/// Large values that are compared: dearer to check than to serve, so the generator is the slower.
const HEAVY: [&str; 10] = [
    "--keys",
    "500",
    "--value-bytes",
    "200000",
    "--ratio",
    "1:0",
    "--pipeline",
    "4",
    "--verify",
    "--populate",
];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::alone(
        "honesty.frozen",
        "a server frozen for 1 s in every 10: the open loop's p99 shows it, a closed loop beside",
        "shown, and hidden by the closed loop",
        |lab| told(lab, "frozen"),
    ),
    Claim::alone(
        "honesty.delays",
        "a double that delays by stated 5 to 50 ms: p50 to p99 as reported",
        "within 2 % or 0.3 ms",
        |lab| told(lab, "delays"),
    ),
    Claim::alone(
        "honesty.bottleneck",
        "the generator warns when it is the bottleneck, and is not at fault below 80 % of its CPU",
        "a warning in overload, none below",
        bottleneck,
    ),
];

/// The generator on its core; what it printed as JSON, however it ended.
fn load(binary: &Path, words: &[&str]) -> Result<Value> {
    let core = CLIENT_CORE.to_string();
    let exec = Exec::new("taskset").args(["-c", &core]).arg(binary).arg("load").args(words);
    let said = exec.said(RUN_MAX)?;
    serde_json::from_str(&said.output)
        .with_context(|| format!("`{exec}` printed no report:\n{}", tail(&said.complaints)))
}

/// One part of `volvox load honesty`, which holds its reports against what it served itself.
fn told(lab: &Lab, part: &str) -> Result<Measured> {
    lab.built()?;
    // The double needs a core beside the generator's, so neither is pinned.
    let words = ["load", "honesty", "--json", "--part", part];
    let exec = Exec::new(&lab.volvox).args(words);
    lab.detail(&exec.to_string());
    let said = exec.said(RUN_MAX)?;
    let report: Value = serde_json::from_str(&said.output)
        .with_context(|| format!("`{exec}` printed no report:\n{}", tail(&said.complaints)))?;
    Ok(judge_told(&report))
}

fn judge_told(report: &Value) -> Measured {
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

/// What a run says of the generator itself.
struct Own {
    per_s: f64,
    offered_per_s: f64,
    busy: f64,
    blames_itself: bool,
    text: String,
}

fn own(report: &Value, name: &str) -> Own {
    let number = |part: &str, field: &str| report[part][field].as_f64().unwrap_or(0.0);
    let warnings: Vec<&str> =
        report["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let (per_s, offered_per_s) =
        (number("rate", "achieved_per_s"), number("rate", "offered_per_s"));
    let busy = number("generator", "busiest_thread");
    let blames = |text: &&str| text.contains(BOTTLENECK) || text.contains(DELAYED);
    let text = format!(
        "{name}: {per_s:.0} of {offered_per_s:.0} requests/s, its thread {:.0} % busy and {:.0} % \
         without a core, the server {:.2} cores; it says: {}",
        busy * 100.0,
        number("generator", "starved_thread") * 100.0,
        number("server", "cores"),
        if warnings.is_empty() { "nothing".to_owned() } else { warnings.join("; ") }
    );
    let blames_itself = warnings.iter().any(blames);
    Own { per_s, offered_per_s, busy, blames_itself, text }
}

fn bottleneck(lab: &Lab) -> Result<Measured> {
    let server = lab.launch_volvox()?.memory_mib(512).core(SERVER_CORE).start(&lab.folder())?;
    let closed = heavy(lab, &server, None)?["rate"]["achieved_per_s"].as_f64().unwrap_or(0.0);
    let over = own(&heavy(lab, &server, Some(closed * 1.5))?, "beyond its limit");
    let below = own(&heavy(lab, &server, Some(closed * 0.5))?, "at half of it");
    server.stop()?;
    Ok(judge_bottleneck(&over, &below))
}

fn heavy(lab: &Lab, server: &Server, rate_per_s: Option<f64>) -> Result<Value> {
    let target = server.address().to_string();
    let pid = server.pid().to_string();
    let mut words = vec!["run", "--json", "--target", &target, "--server-pid", &pid];
    words.extend(["--warmup", "500ms", "--duration", "3s"]);
    words.extend(HEAVY);
    let rate = rate_per_s.map(|rate| format!("{rate:.0}"));
    if let Some(rate) = &rate {
        words.extend(["--rate", rate]);
    }
    lab.detail(rate.as_deref().unwrap_or("closed loop"));
    load(&lab.volvox, &words)
}

fn judge_bottleneck(over: &Own, below: &Own) -> Measured {
    /// A rate that is reached is reached to this share.
    const REACHED: f64 = 0.95;
    let details = vec![over.text.clone(), below.text.clone()];
    if below.busy >= FAULTLESS_BELOW {
        return Measured::not("half of what it can do kept it busy").with_details(details);
    }
    let faultless = !below.blames_itself && below.per_s >= below.offered_per_s * REACHED;
    let text = format!(
        "{} beyond its limit, {} at {:.0} % of its CPU",
        if over.blames_itself { "warns" } else { "silent" },
        if faultless { "faultless" } else { "at fault" },
        below.busy * 100.0
    );
    Measured::new(text, below.busy, over.blames_itself && faultless).with_details(details)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::claim::Verdict;
    use super::*;

    #[test]
    fn one_untrue_statement_fails() {
        let claim = |holds: bool| json!({ "claim": "p99", "reported": "6", "holds": holds });
        for (claims, expected) in [
            (vec![claim(true), claim(true)], Verdict::Pass),
            (vec![claim(true), claim(false)], Verdict::Fail),
            (vec![], Verdict::Fail),
        ] {
            let report = json!({ "conclusion": { "claims": claims }, "warnings": ["busy"] });
            assert_eq!(judge_told(&report).verdict, expected);
        }
    }

    #[test]
    fn a_generator_is_judged_by_what_it_says_of_itself() {
        let run = |busy: f64, per_s: f64, warnings: Value| {
            own(
                &json!({
                    "rate": { "achieved_per_s": per_s, "offered_per_s": 100.0 },
                    "generator": { "busiest_thread": busy }, "warnings": warnings,
                }),
                "x",
            )
        };
        let warned = || run(0.99, 60.0, json!(["the generator may be the bottleneck: 99 %"]));
        let silent = || run(0.4, 99.0, json!([]));
        let pass = judge_bottleneck(&warned(), &silent());
        assert_eq!((pass.verdict, pass.details.len()), (Verdict::Pass, 2));
        assert_eq!(judge_bottleneck(&silent(), &silent()).verdict, Verdict::Fail);
        let late = run(0.4, 99.0, json!(["the generator delayed due requests by 2 ms"]));
        assert_eq!(judge_bottleneck(&warned(), &late).verdict, Verdict::Fail);
        let busy = judge_bottleneck(&warned(), &run(0.9, 99.0, json!([])));
        assert!(matches!(busy.verdict, Verdict::NotMeasured(_)));
    }
}
