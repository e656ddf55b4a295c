//! Ten thousand connections of the generator at once, every value compared.
//!
//! Neither process is pinned: the claim is about what is answered, not about time. Every connection
//! makes at least one request; fewer requests than connections fail the claim.

use std::time::Duration;

use anyhow::Result;

use crate::claim::{Claim, Measured};
use crate::instruments::{Contestant, Outcome};
use crate::lab::Lab;
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
)
.bar("all served, no error, nothing lost, no wrong value")
.promised("10,000 connections at once, every value compared")
.by(connections)];

fn connections(lab: &Lab) -> Result<Measured> {
    let contestant = Contestant::volvox(lab)?.memory_mib(MEMORY_MIB);
    let server = contestant.connections_max(SERVED_MAX).files_max(FILES_MAX).start(lab)?;
    let limit = format!("--nofile={FILES_MAX}:{FILES_MAX}");
    let (target, connections) = (server.address().to_string(), CONNECTIONS.to_string());
    let exec = Exec::new("prlimit").arg(limit).arg(lab.volvox()?).args(["load", "run", "--json"]);
    let exec = exec.args(["--target", &target, "--connections", &connections, "--verify"]);
    let exec = exec.args(["--populate", "--keys", KEYS, "--ratio", "9:1", "--duration", "4s"]);
    lab.detail(&exec.to_string());
    let outcome = exec.json(RUN_MAX)?;
    server.stop()?;
    judge(&outcome)
}

fn judge(outcome: &Outcome) -> Result<Measured> {
    let wrong = outcome.wrong()?;
    let opened = outcome.number("/setup/connections")?;
    let answered = outcome.number("/requests/gets")? + outcome.number("/requests/sets")?;
    let text = format!("{opened} connections, {answered} requests, {} wrong", wrong.len());
    // Fewer requests than connections leave some without one.
    let holds = opened >= CONNECTIONS as f64 && answered >= opened && wrong.is_empty();
    Ok(Measured::new(text, opened, holds).with_details(wrong))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::claim::Verdict;

    fn report(connections: u64, gets: u64, lost: u64, wrong_values: u64) -> Outcome {
        let report = json!({
            "setup": { "connections": connections }, "misses": 0, "wrong_values": wrong_values,
            "requests": {
                "gets": gets, "sets": 10, "errors": 0, "lost": lost, "unanswered": 0,
                "unsent": 0, "not_stored": 0,
            },
        });
        serde_json::from_value(report).unwrap()
    }

    #[test]
    fn every_connection_is_served_and_nothing_goes_wrong() {
        assert_eq!(judge(&report(10_000, 90_000, 0, 0)).unwrap().verdict, Verdict::Pass);
        for spoiled in [
            report(1_000, 90_000, 0, 0),
            report(10_000, 9_000, 0, 0),
            report(10_000, 90_000, 1, 0),
            report(10_000, 90_000, 0, 1),
        ] {
            assert_eq!(judge(&spoiled).unwrap().verdict, Verdict::Fail, "{spoiled:?}");
        }
        let nothing = serde_json::from_value(json!({})).unwrap();
        assert!(judge(&nothing).is_err(), "an error is not measured");
    }
}
