//! Servers that take turns under one load: what a request costs each of them.
//!
//! Contestants run side by side on the same core, and an idle one uses no time. They are started
//! again half way, so the luck of one start does not decide. Costs are in microseconds of the
//! server's processor time per request, one value a round.

use anyhow::{Context, Result};

use super::contestant::{Contestant, Program, ROOMY_MIB};
use super::generator::{self, Limit, Load};
use crate::lab::Lab;
use measure::process::Server;
use measure::stats::{Estimate, Series, alternate, median, ratio, spread};

/// Rounds of the quick and the full form, each with a turn of every contestant; even, for the two
/// starts.
const ROUNDS: [usize; 2] = [10, 20];
/// How often the contestants are started again.
const STARTS: usize = 2;

/// How many rounds a comparison takes.
pub fn rounds(lab: &Lab) -> usize {
    lab.form(ROUNDS)
}

/// With the budget of all contestants and on their core.
pub fn pinned(lab: &Lab, contestant: Contestant) -> Contestant {
    contestant.memory_mib(ROOMY_MIB).pinned(lab)
}

/// Starts the servers twice; each time they take turns for half of the rounds. `prepare` fills a
/// server that was just started, `turn` measures one.
pub fn alternated<T>(
    lab: &Lab,
    contestants: &[Contestant],
    rounds: usize,
    prepare: impl Fn(&Contestant, &Server) -> Result<()>,
    turn: impl Fn(&Contestant, &Server) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut all: Vec<Vec<T>> = contestants.iter().map(|_| Vec::new()).collect();
    for start in 0..STARTS {
        let begin = |contestant: &Contestant| -> Result<Server> {
            let server = contestant.start(lab)?;
            prepare(contestant, &server)?;
            Ok(server)
        };
        let servers: Vec<Server> = contestants.iter().map(begin).collect::<Result<_>>()?;
        let series = alternate(servers.len(), rounds / STARTS, |which, round| {
            lab.detail(&format!("start {} round {}", start + 1, round + 1));
            let name = contestants[which].program().name();
            turn(&contestants[which], &servers[which]).with_context(|| format!("load on {name}"))
        })?;
        all.iter_mut().zip(series).for_each(|(all, series)| all.extend(series));
        servers.into_iter().try_for_each(Server::stop)?;
    }
    Ok(all)
}

/// What a request of a load costs each of the servers.
pub fn costs(
    lab: &Lab,
    contestants: &[Contestant],
    load: Load,
    rounds: usize,
) -> Result<Vec<Series>> {
    let Limit::Requests(requests) = load.limit else {
        anyhow::bail!("invariant: a contest is over a number of requests")
    };
    let prepare = |contestant: &Contestant, server: &Server| match contestant.program() {
        Program::Null(..) => Ok(()),
        // Keys are drawn at random: ten draws a key leave few out.
        Program::Redis => {
            generator::redis(lab, server, "set", load.depth, 10 * generator::KEYS).map(drop)
        }
        Program::Volvox | Program::Memcached => load.populate(lab, server),
    };
    let turn = |contestant: &Contestant, server: &Server| match contestant.program() {
        Program::Redis => generator::server_us(server, || {
            generator::redis(lab, server, "get", load.depth, requests)
        }),
        Program::Null(request_bytes, reply_bytes) => {
            let request = ["--request-bytes", &request_bytes.to_string()];
            generator::server_us(server, || {
                let done = generator::exchange(lab, server, request, *reply_bytes, load.depth);
                Ok(done?.requests)
            })
        }
        _ => Ok(load.drive(lab, server)?.number("/server/cpu_us_per_request")?),
    };
    alternated(lab, contestants, rounds, prepare, turn)
}

/// How many times the second the first is, by rounds; an error where there are fewer than two.
pub fn times(first: &[f64], second: &[f64]) -> Result<Estimate> {
    ratio(first, second).context("fewer than two rounds were measured")
}

/// A factor with its interval, in words.
pub fn within(factor: Estimate) -> String {
    format!("{:.2}x ({:.2} to {:.2})", factor.value, factor.low, factor.high)
}

/// A line for each contestant.
pub fn details(names: &[&str], series: &[Series]) -> Vec<String> {
    let line = |(name, one): (&&str, &Series)| {
        let (middle, spread) = (median(one).unwrap_or(0.0), spread(one).unwrap_or(0.0) * 100.0);
        format!("{name}: {middle:.3} us per request, spread {spread:.0} %, {} rounds", one.len())
    };
    names.iter().zip(series).map(line).collect()
}
