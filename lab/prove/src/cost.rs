//! What the generator costs, beside a bare exchange of the same bytes and beside memtier, and
//! whether one thread of it is enough for memcached.
//!
//! Contestants take turns on the generator's core, against the same server on the other.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    bench::{Lab, SERVER_CORE},
    claim::{Claim, Measured, Peer},
    compare::{Series, alternate, median, statistic},
    cpu::{details, pinned, within},
    fleet::{Fleet, Shape, Verb},
    generator::CONNECTIONS,
    memtier::{self, Duel, clean, fill, number, on_core, run_words},
    procfs,
    server::Launch,
};

/// Longest one run may take.
const RUN_MAX: Duration = Duration::from_secs(300);
/// Rounds of a comparison.
const ROUNDS: usize = 8;
/// The same, in the full form.
const ROUNDS_LONG: usize = 20;
/// How long requests flow before they are measured.
const WARM_UP: [&str; 2] = ["--warmup", "200ms"];
/// How long one exchange lasts.
const RUN_S: &str = "1.0";
/// Requests of a run that memtier makes too.
const REQUESTS: u64 = 600_000;
/// The dearest a request may be beside a bare exchange.
const FLOOR_MAX: f64 = 1.5;
/// The dearest beside memtier's.
const MEMTIER_MAX: f64 = 0.6;
/// The share of its core that a saturated server uses.
const SATURATED: f64 = 0.95;
/// The share of the time that a server may wait for a core that is its own.
const WAITED_MAX: f64 = 0.05;
/// Keeps memcached's housekeeping, which works now and then, off the core of its worker.
pub(super) const WORKER_ALONE: [&str; 2] = ["-o", "no_lru_maintainer,no_lru_crawler"];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::alone(
        "cost.depth1",
        "the generator's CPU per request beside a bare ping-pong, depth 1",
        "<= 1.5x",
        |lab| floor(lab, 1),
    ),
    Claim::alone(
        "cost.depth16",
        "the generator's CPU per request beside memtier's, depth 16",
        "<= 0.6x; without --memtier <= 1.5x a bare ping-pong's",
        |lab| if lab.memtier.is_some() { beside_memtier(lab) } else { floor(lab, 16) },
    ),
    Claim {
        id: "cost.saturates",
        claim: "one thread saturates one worker of memcached at depth 16",
        bar: "core >= 95 % busy",
        peer: Peer::NewestMemcached,
        measure: saturates,
    },
];

/// How many rounds this form compares by.
pub(super) fn rounds(lab: &Lab) -> usize {
    if lab.long { ROUNDS_LONG } else { ROUNDS }
}

/// The generator against a bare exchange of the same request and reply, on one server.
fn floor(lab: &Lab, depth: usize) -> Result<Measured> {
    let batch = Shape { verb: Verb::Get(1), depth: 1 }.batch(0);
    let server = pinned(lab.launch_volvox()?).start(&lab.folder())?;
    Fleet::connect(server.address(), 1)?.fill()?;
    fill(lab, &server)?;
    let request = String::from_utf8(batch.request.clone()).context("a request is text")?;
    let (target, reply_bytes) = (server.address().to_string(), batch.reply.len().to_string());
    let (connections, pipeline) = (CONNECTIONS.to_string(), depth.to_string());
    let bare = ["load", "ping-pong", "--target", &target, "--request", request.trim_end()];
    let bare = bare.into_iter().chain(["--reply-bytes", &reply_bytes, "--duration-s", RUN_S]);
    let bare = on_core(&lab.volvox).args(bare).args(["--connections", &connections]);
    let bare = bare.args(["--pipeline", &pipeline]);
    let words = run_words(&server, CONNECTIONS, depth);
    let checked = on_core(&lab.volvox).args(&words).args(WARM_UP).args(["--duration", "1s"]);
    let series = alternate(2, rounds(lab), |which, round| {
        lab.detail(&format!("round {}", round + 1));
        if which == 0 {
            let played: Value = serde_json::from_str(&bare.capture(RUN_MAX)?)?;
            return number(&played, "", "cpu_us_per_request");
        }
        number(&clean(&checked)?, "generator", "cpu_us_per_request")
    })?;
    server.stop()?;
    Ok(judge_cost(&["ping-pong", "volvox load"], &series, FLOOR_MAX))
}

fn beside_memtier(lab: &Lab) -> Result<Measured> {
    let server = pinned(lab.launch_volvox()?).start(&lab.folder())?;
    let duel = Duel::new(lab, &server)?;
    let shape = memtier::Shape { connections: CONNECTIONS, depth: 16, requests: REQUESTS };
    let costs = alternate(2, rounds(lab), |which, round| {
        lab.detail(&format!("round {}", round + 1));
        Ok(duel.run(which, shape)?.cpu_us)
    })?;
    server.stop()?;
    Ok(judge_cost(&memtier::NAMES, &costs, MEMTIER_MAX))
}

/// How many times dearer the second is than the first, held against the most it may be.
fn judge_cost(names: &[&str; 2], costs: &[Series], most: f64) -> Measured {
    let (factor, interval) = statistic(costs, |medians| medians[1] / medians[0]);
    let text = format!("{} {}'s", within(factor, interval), names[0]);
    Measured::new(text, factor, factor <= most).with_details(details(names, costs))
}

fn saturates(lab: &Lab) -> Result<Measured> {
    let launch = lab.launch_memcached().memory_mib(256).core(SERVER_CORE);
    let server = Launch { more: WORKER_ALONE.into(), ..launch }.start(&lab.folder())?;
    fill(lab, &server)?;
    let words = run_words(&server, CONNECTIONS, 16);
    let exec = on_core(&lab.volvox).args(&words).args(WARM_UP).args(["--duration", "3s"]);
    let mut shares = Vec::new();
    for round in 0..rounds(lab) / 2 {
        lab.detail(&format!("round {}", round + 1));
        let (began, before_ns) = (Instant::now(), procfs::scheduled(server.pid())?);
        let report = clean(&exec)?;
        let waited_ns = procfs::scheduled(server.pid())?.1.saturating_sub(before_ns.1);
        let waited = waited_ns as f64 / began.elapsed().as_nanos() as f64;
        shares.push((number(&report, "server", "cores")?, waited));
    }
    server.stop()?;
    Ok(judge_saturated(&shares))
}

/// Shares of the time that the server ran and that it waited for its core, round by round. A core
/// that others used does not tell how busy the server would have kept it.
fn judge_saturated(shares: &[(f64, f64)]) -> Measured {
    let series = |of: fn(&(f64, f64)) -> f64| -> Series { shares.iter().map(of).collect() };
    let (ran, waited) = (median(&series(|share| share.0)), median(&series(|share| share.1)));
    let line = |(ran, waited): &(f64, f64)| {
        format!("ran {:.0} %, waited {:.0} %", ran * 100.0, waited * 100.0)
    };
    let details = shares.iter().map(line).collect();
    if ran < SATURATED && waited > WAITED_MAX {
        let reason = format!("others used the server's core: it waited {:.0} %", waited * 100.0);
        return Measured::not(reason).with_details(details);
    }
    let text = format!("{:.0} % busy", ran * 100.0);
    Measured::new(text, ran, ran >= SATURATED).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::super::claim::Verdict;
    use super::*;

    #[test]
    fn the_factor_is_held_against_its_bar() {
        let costs = [vec![2.0; 4], vec![1.0; 4]];
        let measured = judge_cost(&memtier::NAMES, &costs, MEMTIER_MAX);
        assert_eq!((measured.number, measured.verdict), (Some(0.5), Verdict::Pass));
        assert!(measured.text.ends_with("memtier's"), "{}", measured.text);
        let dear = judge_cost(&["ping-pong", "ours"], &[vec![1.0; 4], vec![1.6; 4]], FLOOR_MAX);
        assert_eq!(dear.verdict, Verdict::Fail);
    }

    #[test]
    fn a_server_is_saturated_by_what_it_ran() {
        assert_eq!(judge_saturated(&[(0.97, 0.01), (0.99, 0.02)]).verdict, Verdict::Pass);
        assert_eq!(judge_saturated(&[(0.90, 0.01), (0.92, 0.02)]).verdict, Verdict::Fail);
        let shared = judge_saturated(&[(0.60, 0.30), (0.70, 0.25)]);
        assert!(matches!(shared.verdict, Verdict::NotMeasured(_)));
    }
}
