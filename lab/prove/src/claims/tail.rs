//! The slowest requests: what housekeeping and batching do to the last of a thousand.
//!
//! Both servers get the same rate in an open loop, where latency counts from the moment a request
//! is due. The rate follows from the peak of the slower server, found in a closed loop before.

use anyhow::{Context, Result};

use super::engine;
use crate::claim::{Claim, Measured};
use crate::instruments::{Contestant, GET, Limit, Load, pinned, times, within};
use crate::lab::Lab;
use measure::process::Server;
use measure::stats::{alternate, median};

/// Rounds, each with a turn of both servers; with ten, two disturbed ones decide nothing.
const ROUNDS: usize = 10;
/// Requests by which the peak is found.
const PEAK: Load = Load { ratio: "9:1", limit: Limit::Requests(200_000), ..GET };
/// Seconds that one turn at the set rate lasts, and in the full form.
const TURN_S: [u64; 2] = [3, 20];
/// The rate, in hundredths of the slower server's peak.
const RATE_PERCENT: u64 = 70;
/// The most that ours may be beside memcached's, as a factor.
const NO_WORSE: f64 = 1.0;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("tail.p999", "p99.9 at 70 % of the slower server's peak, open loop")
        .bar("no worse than memcached's")
        .beside_memcached()
        .promised("the slowest of a thousand requests, at 70 % of the slower server's peak")
        .by(p999),
    Claim::new("tail.engine", "engine service time p99.999, preempted samples apart")
        .bar("<= 1 ms, preempted <= 0.1 %")
        .promised("the slowest of 100,000 requests to the engine, in ten minutes of evictions")
        .by(engine::churn),
];

fn p999(lab: &Lab) -> Result<Measured> {
    let start = |contestant: Contestant| -> Result<Server> {
        let server = pinned(lab, contestant).start(lab)?;
        PEAK.populate(lab, &server)?;
        Ok(server)
    };
    let servers = [start(Contestant::memcached(lab)?)?, start(Contestant::volvox(lab)?)?];
    let mut peak = f64::MAX;
    for server in &servers {
        lab.detail("finding the peak");
        peak = peak.min(PEAK.drive(lab, server)?.number("/rate/achieved_per_s")?);
    }
    let rate = peak as u64 * RATE_PERCENT / 100;
    let seconds = lab.form(TURN_S);
    let load = Load { limit: Limit::Requests(rate * seconds), rate: Some(rate), ..PEAK };
    let series = alternate(servers.len(), ROUNDS, |which, round| {
        lab.detail(&format!("round {} at {rate} requests/s", round + 1));
        load.drive(lab, &servers[which])?.number("/get_latency/p999_us")
    })?;
    servers.into_iter().try_for_each(Server::stop)?;
    let factor = times(&series[1], &series[0])?;
    let (theirs, ours) = median(&series[0]).zip(median(&series[1])).context("no round")?;
    let text = format!("{} memcached's at {rate}/s", within(factor));
    let details = vec![format!("in the middle {ours:.0} us against {theirs:.0} us")];
    Ok(Measured::new(text, factor.value, factor.value <= NO_WORSE).with_details(details))
}
