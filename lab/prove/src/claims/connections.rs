//! Ten thousand connections of the generator at once, every value compared.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::{
    claim::{Claim, Measured},
    instruments::contestant::Contestant,
    lab::Lab,
};
use measure::exec::Exec;

/// Longest the run may take.
const RUN_MAX: Duration = Duration::from_secs(120);
/// What the generator promises.
const CONNECTIONS: u64 = 10_000;
/// Connections that the server allows: a few more, for those that read its statistics.
const SERVED_MAX: usize = 10_100;
/// Descriptors that each of the two may hold: the connections and what else a process has open.
const FILES_MAX: usize = 12_000;
/// The server's budget: ten thousand connections with their buffers, and the items.
const MEMORY_MIB: u64 = 512;
/// How many keys are stored and requested.
const KEYS: &str = "20000";

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::new(
    "load.connections",
    "10,000 connections of the generator at once, every value compared",
    "all served, no error, nothing lost, no wrong value",
    connections,
)
.promised("10,000 connections at once, every value compared")];

fn connections(lab: &Lab) -> Result<Measured> {
    let contestant = Contestant::volvox(lab)?.memory_mib(MEMORY_MIB);
    let server = contestant.connections_max(SERVED_MAX).files_max(FILES_MAX).start(lab)?;
    let limit = format!("--nofile={FILES_MAX}:{FILES_MAX}");
    let (target, connections) = (server.address().to_string(), CONNECTIONS.to_string());
    let exec = Exec::new("prlimit").arg(limit).arg(lab.volvox()?).args(["load", "run", "--json"]);
    let exec = exec.args(["--target", &target, "--connections", &connections, "--verify"]);
    let exec = exec.args(["--populate", "--keys", KEYS, "--ratio", "9:1", "--duration", "4s"]);
    lab.detail(&exec.to_string());
    let report = exec.json(RUN_MAX)?;
    server.stop()?;
    Ok(judge(&report))
}

fn judge(report: &Value) -> Measured {
    const WRONG: [&str; 5] = ["errors", "lost", "unanswered", "unsent", "not_stored"];
    let requests = &report["requests"];
    let count = |value: &Value| value.as_u64();
    let kinds = [count(&requests["gets"]), count(&requests["sets"])];
    let wrong = WRONG.map(|kind| count(&requests[kind]));
    let values = [count(&report["misses"]), count(&report["wrong_values"])];
    let sum = |counts: &[Option<u64>]| counts.iter().copied().sum::<Option<u64>>();
    let Some((wrong, answered)) = sum(&wrong).zip(sum(&values)).zip(sum(&kinds)) else {
        return Measured::not("the report does not say what went wrong");
    };
    let wrong = wrong.0 + wrong.1;
    let opened = report["setup"]["connections"].as_u64().unwrap_or(0);
    let text = format!("{opened} connections, {answered} requests, {wrong} wrong");
    // Fewer requests than connections leave some without one.
    let holds = opened >= CONNECTIONS && answered >= opened && wrong == 0;
    let warnings = report["warnings"].as_array().into_iter().chain(report["complaints"].as_array());
    let details = warnings.flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    Measured::new(text, opened as f64, holds).with_details(details)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::claim::Verdict;

    fn report(connections: u64, gets: u64, lost: u64, wrong_values: u64) -> Value {
        json!({
            "setup": { "connections": connections }, "misses": 0, "wrong_values": wrong_values,
            "requests": {
                "gets": gets, "sets": 10, "errors": 0, "lost": lost, "unanswered": 0,
                "unsent": 0, "not_stored": 0,
            },
        })
    }

    #[test]
    fn every_connection_is_served_and_nothing_goes_wrong() {
        assert_eq!(judge(&report(10_000, 90_000, 0, 0)).verdict, Verdict::Pass);
        for spoiled in [
            report(1_000, 90_000, 0, 0),
            report(10_000, 9_000, 0, 0),
            report(10_000, 90_000, 1, 0),
            report(10_000, 90_000, 0, 1),
        ] {
            assert_eq!(judge(&spoiled).verdict, Verdict::Fail, "{spoiled}");
        }
        assert!(matches!(judge(&json!({})).verdict, Verdict::NotMeasured(_)));
    }
}
