//! The slowest requests: what housekeeping and batching do to the last of a thousand.

use anyhow::Result;

use crate::{
    bench::{Lab, SERVER_CORE},
    claim::{Claim, Measured, Peer},
    compare::{alternate, median, statistic},
    engine,
    generator::{self, Load},
    server::Server,
};

/// Rounds, each with a turn of both servers.
const ROUNDS: usize = 6;
/// Requests by which the peak is found.
const PEAK_REQUESTS: u64 = 200_000;
/// Seconds that one turn at the set rate lasts.
const TURN_S: u64 = 3;
/// Seconds of a turn in the full form.
const TURN_S_LONG: u64 = 20;
/// The rate, in hundredths of the slower server's peak.
const RATE_PERCENT: u64 = 70;
/// Budget of both: all keys fit with room.
const MEMORY_MIB: u64 = 256;
/// Room for the noise of a tail, as a factor; the interval is printed beside it.
const NO_WORSE: f64 = 1.0;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "tail.p999",
        claim: "p99.9 at 70 % of the slower server's peak, open loop",
        bar: "no worse than memcached's",
        peer: Peer::NewestMemcached,
        measure: p999,
    },
    Claim {
        id: "tail.engine",
        claim: "engine service time p99.999, preempted samples apart",
        bar: "<= 1 ms, preempted <= 0.1 %",
        peer: Peer::Nobody,
        measure: engine::churn,
    },
];

fn p999(lab: &Lab) -> Result<Measured> {
    let launches = [lab.launch_memcached(), lab.launch_volvox()?];
    let start = |launch: super::server::Launch| -> Result<Server> {
        let server = launch.memory_mib(MEMORY_MIB).core(SERVER_CORE).start(&lab.folder())?;
        generator::populate(lab, &server)?;
        Ok(server)
    };
    let [theirs, ours] = launches.map(start);
    let servers = [theirs?, ours?];
    let load = Load { ratio: "9:1", depth: 1, multiget: 1, requests: PEAK_REQUESTS, rate: None };
    let mut peak = f64::MAX;
    for server in &servers {
        lab.detail("finding the peak");
        peak = peak.min(generator::drive(lab, server, load)?.rate());
    }
    let rate = peak as u64 * RATE_PERCENT / 100;
    let seconds = if lab.long { TURN_S_LONG } else { TURN_S };
    let load = Load { requests: rate * seconds, rate: Some(rate), ..load };
    let series = alternate(servers.len(), ROUNDS, |which, round| {
        lab.detail(&format!("round {} at {rate} requests/s", round + 1));
        generator::drive(lab, &servers[which], load)?.p999_us()
    })?;
    servers.into_iter().try_for_each(Server::stop)?;
    let (factor, interval) = statistic(&series, |medians| medians[1] / medians[0]);
    let (theirs, ours) = (median(&series[0]), median(&series[1]));
    let text = format!("{ours:.0} us against {theirs:.0} us at {rate}/s");
    let detail = format!("{factor:.2}x memcached's ({:.2} to {:.2})", interval.low, interval.high);
    Ok(Measured::new(text, factor, factor <= NO_WORSE).with_details(vec![detail]))
}
