//! What the generator costs, beside a bare exchange of the same bytes and beside memtier, and
//! whether one thread of it is enough for memcached.
//!
//! Contestants take turns on the generator's core, against the same server on the other.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::claim::{Claim, Measured};
use crate::instruments::{
    CONNECTIONS, Contestant, Duel, Fleet, GET, Limit, Load, NAMES, Shape, Verb, details, exchange,
    pinned, times, within,
};
use crate::lab::Lab;
use measure::account::Account;
use measure::stats::{Series, alternate, median};

/// Rounds of a comparison, and in the full form.
const ROUNDS: [usize; 2] = [8, 20];
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
pub(super) const WORKER_ALONE: &[&str] = &["-o", "no_lru_maintainer,no_lru_crawler"];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("cost.depth1", "the generator's CPU per request beside a bare ping-pong, depth 1")
        .bar("<= 1.5x")
        .promised("its CPU per request beside a bare exchange of the same bytes, one at a time")
        .by(|lab| floor(lab, 1)),
    Claim::new("cost.depth16", "the generator's CPU per request beside memtier's, depth 16")
        .bar("<= 0.6x; without --memtier <= 1.5x a bare ping-pong's")
        .promised("its CPU per request beside memtier's, 16 in flight")
        .by(|lab| if lab.memtier().is_ok() { beside_memtier(lab) } else { floor(lab, 16) }),
    Claim::new("cost.saturates", "one thread saturates one worker of memcached at depth 16")
        .bar("core >= 95 % busy")
        .beside_memcached()
        .promised("one thread keeps one worker of memcached busy")
        .by(saturates),
];

/// How many rounds this form compares by.
pub(super) fn rounds(lab: &Lab) -> usize {
    lab.form(ROUNDS)
}

/// The generator against a bare exchange of the same request and reply, on one server.
fn floor(lab: &Lab, depth: usize) -> Result<Measured> {
    let batch = Shape { verb: Verb::Get(1), depth: 1 }.batch(0);
    let server = pinned(lab, Contestant::volvox(lab)?).start(lab)?;
    Fleet::connect(server.address(), 1)?.fill()?;
    let load = Load { depth, limit: Limit::Duration("1s"), ..GET };
    load.populate(lab, &server)?;
    let request = String::from_utf8(batch.request.clone()).context("a request is text")?;
    let series = alternate(2, rounds(lab), |which, round| {
        lab.detail(&format!("round {}", round + 1));
        if which == 0 {
            let request = ["--request", request.trim_end()];
            return Ok(
                exchange(lab, &server, request, batch.reply.len(), depth)?.cpu_us_per_request
            );
        }
        load.drive(lab, &server)?.number("/generator/cpu_us_per_request")
    })?;
    server.stop()?;
    judge_cost(&["ping-pong", "volvox load"], &series, FLOOR_MAX)
}

fn beside_memtier(lab: &Lab) -> Result<Measured> {
    let server = pinned(lab, Contestant::volvox(lab)?).start(lab)?;
    let duel = Duel::new(lab, &server, CONNECTIONS, 16, REQUESTS)?;
    let costs = alternate(2, rounds(lab), |which, round| {
        lab.detail(&format!("round {}", round + 1));
        Ok(duel.run(which)?.cpu_us)
    })?;
    server.stop()?;
    judge_cost(&NAMES, &costs, MEMTIER_MAX)
}

/// How many times more the second costs than the first, held against the most it may be.
fn judge_cost(names: &[&str; 2], costs: &[Series], most: f64) -> Result<Measured> {
    let factor = times(&costs[1], &costs[0])?;
    let text = format!("{} {}'s", within(factor), names[0]);
    Ok(Measured::new(text, factor.value, factor.value <= most).with_details(details(names, costs)))
}

fn saturates(lab: &Lab) -> Result<Measured> {
    let contestant = pinned(lab, Contestant::memcached(lab)?).more(WORKER_ALONE);
    let server = contestant.start(lab)?;
    let load = Load { depth: 16, limit: Limit::Duration("3s"), ..GET };
    load.populate(lab, &server)?;
    let mut shares = Vec::new();
    for round in 0..rounds(lab) / 2 {
        lab.detail(&format!("round {}", round + 1));
        let (began, before) = (Instant::now(), Account::of(server.pid())?);
        let outcome = load.drive(lab, &server)?;
        let waited_ns = (Account::of(server.pid())? - before).waited_ns;
        let waited = waited_ns as f64 / began.elapsed().as_nanos() as f64;
        shares.push((outcome.number("/server/cores")?, waited));
    }
    server.stop()?;
    Ok(judge_saturated(&shares))
}

/// Shares of the time that the server ran and that it waited for its core, round by round. If other
/// programs used the core, nothing is known of how busy the server would have kept it.
fn judge_saturated(shares: &[(f64, f64)]) -> Measured {
    let series = |of: fn(&(f64, f64)) -> f64| -> Series { shares.iter().map(of).collect() };
    let middle = |of: fn(&(f64, f64)) -> f64| median(&series(of)).unwrap_or(0.0);
    let (ran, waited) = (middle(|share| share.0), middle(|share| share.1));
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
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn the_factor_is_held_against_its_bar() {
        let costs = [vec![2.0; 4], vec![1.0; 4]];
        let measured = judge_cost(&NAMES, &costs, MEMTIER_MAX).unwrap();
        assert!((measured.number.unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(measured.verdict, Verdict::Pass);
        assert!(measured.text.ends_with("memtier's"), "{}", measured.text);
        let dear = judge_cost(&["ping-pong", "ours"], &[vec![1.0; 4], vec![1.6; 4]], FLOOR_MAX);
        let dear = dear.unwrap();
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
