//! Server processor time per request: one worker, one core, beside the newest memcached and beside
//! a server that only moves the bytes.
//!
//! Contestants are started side by side on the same core and take turns; an idle one uses no time.
//! They are started anew half way, so the luck of one start does not decide.

use anyhow::{Context, Result};

use crate::{
    bench::{Lab, SERVER_CORE},
    claim::{Claim, Measured, Peer},
    compare::{Interval, Series, alternate, median, spread, statistic},
    engine,
    fleet::{Shape, Verb},
    generator::{self, Load},
    server::{Launch, Program, Server},
};
use measure::tools;

/// Rounds of the quick form, each with a turn of every contestant; even, for the two starts.
const ROUNDS: usize = 10;
/// Rounds of the full form.
const ROUNDS_LONG: usize = 20;
/// How many times as many it takes where the result is a share of a difference: there, noise of the
/// whole falls on a part.
const ROUNDS_OF_SHARE: usize = 3;
/// How often the contestants are started anew.
const STARTS: usize = 2;
/// Budget of a contestant: all keys fit with room.
const MEMORY_MIB: u64 = 256;

/// Gets, one at a time on each connection.
pub(super) const GET: Load =
    Load { ratio: "1:0", depth: 1, multiget: 1, requests: 100_000, rate: None };
/// Gets, sixteen at a time on each connection.
pub(super) const GET_16: Load = Load { depth: 16, requests: 400_000, ..GET };
const SET_16: Load = Load { ratio: "0:1", ..GET_16 };
const MULTIGET: Load = Load { multiget: 50, requests: 20_000, ..GET };

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    versus("cpu.get.1", "GET depth 1: share of the gap to a null server closed", ">= 60 %", gap),
    versus("cpu.get.16", "GET depth 16: server CPU per request", ">= 1.8x better", |lab| {
        ratio(lab, GET_16, 1.8)
    }),
    versus("cpu.set.16", "SET depth 16: server CPU per request", ">= 1.5x better", |lab| {
        ratio(lab, SET_16, 1.5)
    }),
    versus("cpu.multiget", "multiget of 50: server CPU per request", ">= 2.5x better", |lab| {
        ratio(lab, MULTIGET, 2.5)
    }),
    alone("cpu.redis.1", "GET depth 1: server CPU beside redis-server", "ahead", |lab| {
        redis(lab, GET)
    }),
    alone("cpu.redis.16", "GET depth 16: server CPU beside redis-server", "ahead", |lab| {
        redis(lab, GET_16)
    }),
    alone("scale.workers", "two workers: CPU per request of one", "<= 1.1x", two_workers),
    Claim {
        id: "scale.engine",
        claim: "engine alone, two threads on two cores against one",
        bar: ">= 1.8x; one hot key with 10 % writes >= 1.0x",
        peer: Peer::Nobody,
        measure: engine::scale,
    },
];

type By = fn(&Lab) -> Result<Measured>;

const fn versus(id: &'static str, claim: &'static str, bar: &'static str, by: By) -> Claim {
    Claim { id, claim, bar, peer: Peer::NewestMemcached, measure: by }
}

const fn alone(id: &'static str, claim: &'static str, bar: &'static str, by: By) -> Claim {
    Claim { id, claim, bar, peer: Peer::Nobody, measure: by }
}

/// GET depth 1 among memcached, ours and the floor.
fn gap(lab: &Lab) -> Result<Measured> {
    let batch = Shape { verb: Verb::Get(1), depth: 1 }.batch(0);
    let launches = [
        lab.launch_memcached(),
        lab.launch_volvox()?,
        lab.launch_null(batch.request.len(), batch.reply.len())?,
    ];
    let series = contest_for(lab, &launches.map(pinned), GET, ROUNDS_OF_SHARE * rounds(lab))?;
    let closed = |medians: &[f64]| (medians[0] - medians[1]) / (medians[0] - medians[2]);
    let (share, interval) = statistic(&series, closed);
    let text = format!(
        "{:.0} % ({:.0} to {:.0})",
        share * 100.0,
        interval.low * 100.0,
        interval.high * 100.0
    );
    let names = ["memcached", "volvox", "null server"];
    Ok(Measured::new(text, share, share >= 0.6).with_details(details(&names, &series)))
}

fn ratio(lab: &Lab, load: Load, bar: f64) -> Result<Measured> {
    let launches = [lab.launch_memcached(), lab.launch_volvox()?];
    let series = contest(lab, &launches.map(pinned), load)?;
    Ok(times_better(&["memcached", "volvox"], &series, bar))
}

fn redis(lab: &Lab, load: Load) -> Result<Measured> {
    let redis = Launch::new(Program::Redis(tools::REDIS.need()?));
    let series = contest(lab, &[redis, lab.launch_volvox()?].map(pinned), load)?;
    Ok(times_better(&["redis", "volvox"], &series, 1.0))
}

/// One worker against two, neither pinned: there are not enough cores to pin both.
fn two_workers(lab: &Lab) -> Result<Measured> {
    let one = lab.launch_volvox()?.memory_mib(MEMORY_MIB);
    let two = Launch { workers: 2, ..one.clone() };
    let series = contest(lab, &[one, two], GET_16)?;
    let (factor, interval) = statistic(&series, |medians| medians[1] / medians[0]);
    let text = within(factor, interval);
    let names = ["one worker", "two workers"];
    Ok(Measured::new(text, factor, factor <= 1.1).with_details(details(&names, &series)))
}

/// How many times dearer the first is than the second.
fn times_better(names: &[&str], series: &[Series], bar: f64) -> Measured {
    let (factor, interval) = statistic(series, |medians| medians[0] / medians[1]);
    let details = details(names, series);
    Measured::new(within(factor, interval), factor, factor >= bar).with_details(details)
}

/// A factor with its interval, in words.
pub(super) fn within(factor: f64, interval: Interval) -> String {
    format!("{factor:.2}x ({:.2} to {:.2})", interval.low, interval.high)
}

/// A line for each contestant.
pub(super) fn details(names: &[&str], series: &[Series]) -> Vec<String> {
    let line = |(name, one): (&&str, &Series)| {
        let (middle, spread) = (median(one), spread(one) * 100.0);
        format!("{name}: {middle:.3} us per request, spread {spread:.0} %, {} rounds", one.len())
    };
    names.iter().zip(series).map(line).collect()
}

/// With the budget and on the core of all contestants.
pub(super) fn pinned(launch: Launch) -> Launch {
    launch.memory_mib(MEMORY_MIB).core(SERVER_CORE)
}

/// Lets the servers take turns under the same load; microseconds per request, round by round.
pub(super) fn contest(lab: &Lab, launches: &[Launch], load: Load) -> Result<Vec<Series>> {
    contest_for(lab, launches, load, rounds(lab))
}

fn rounds(lab: &Lab) -> usize {
    if lab.long { ROUNDS_LONG } else { ROUNDS }
}

fn contest_for(lab: &Lab, launches: &[Launch], load: Load, rounds: usize) -> Result<Vec<Series>> {
    let mut all = vec![Series::new(); launches.len()];
    for start in 0..STARTS {
        let servers: Result<Vec<Server>> =
            launches.iter().map(|launch| prepare(lab, launch, load.depth)).collect();
        let servers = servers?;
        let series = alternate(servers.len(), rounds / STARTS, |which, round| {
            lab.detail(&format!("start {} round {}", start + 1, round + 1));
            turn(lab, &launches[which], &servers[which], load)
        })?;
        all.iter_mut().zip(series).for_each(|(all, series)| all.extend(series));
        servers.into_iter().try_for_each(Server::stop)?;
    }
    Ok(all)
}

fn prepare(lab: &Lab, launch: &Launch, depth: usize) -> Result<Server> {
    let server = launch.start(&lab.folder())?;
    match launch.program {
        Program::Null { .. } | Program::Canned { .. } => {}
        Program::Redis(_) => generator::fill_redis(&server, depth)?,
        Program::Volvox(_) | Program::Memcached(_) => generator::populate(lab, &server)?,
    }
    Ok(server)
}

fn turn(lab: &Lab, launch: &Launch, server: &Server, load: Load) -> Result<f64> {
    let cost = match launch.program {
        Program::Redis(_) => generator::drive_redis(server, load.depth, load.requests),
        Program::Null { request_bytes, reply_bytes, .. } => {
            generator::drive_null(lab, server, (request_bytes, reply_bytes), load.depth)
        }
        _ => generator::drive(lab, server, load).and_then(|outcome| outcome.cpu_us()),
    };
    cost.with_context(|| format!("load on {}", launch.program.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dearer_peers_make_the_factor() {
        let measured = times_better(&["a", "b"], &[vec![3.0; 4], vec![1.5; 4]], 1.8);
        assert_eq!(measured.number, Some(2.0));
        assert_eq!(measured.text, "2.00x (2.00 to 2.00)");
        assert_eq!(measured.details[1], "b: 1.500 us per request, spread 0 %, 4 rounds");
    }
}
