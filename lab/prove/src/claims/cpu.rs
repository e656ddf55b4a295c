//! Server processor time per request: one worker on one core, beside the newest memcached, beside
//! redis, and beside a server that only moves the bytes.
//!
//! Two generators drive the servers. Ours keeps a pipeline full. memtier sends the next request
//! when a reply arrives, so at depth 16 a server finds fewer requests at once and the kernel's
//! share of each is larger. The ratios to memcached are therefore lower under memtier.

use anyhow::{Context, Result};

use super::engine;
use crate::claim::{Claim, Measured};
use crate::instruments::{
    Asking, Contestant, GET, GETS, Limit, Load, ROOMY_MIB, Shape, Verb, alternated, costs, details,
    pinned, rounds, times, within,
};
use crate::lab::Lab;
use measure::stats::{Series, geometric_mean, mean, median};

/// How many times as many rounds the gap takes: it is a share of a difference, and there noise of
/// the whole falls on a part.
const ROUNDS_OF_SHARE: usize = 3;
/// Gets, sixteen at a time on each connection.
pub(super) const GET_16: Load = Load { depth: 16, limit: Limit::Requests(400_000), ..GET };
const SET_16: Load = Load { ratio: "0:1", ..GET_16 };
const MULTIGET: Load = Load { multiget: 50, limit: Limit::Requests(20_000), ..GET };
/// What memtier requests: bytes of values, the prefix of their keys, SET:GET.
const MEMTIER_SHAPES: [(usize, &str, &str); 4] = [
    (100, "m-100-", "1:9"),
    (100, "m-100-", "1:1"),
    (1000, "m-1k-", "1:9"),
    (1000, "m-1k-", "1:1"),
];
/// Requests of a run of memtier for each request in flight.
const MEMTIER_REQUESTS: u64 = 60_000;

/// What the README says of claims that are one promise.
const BY_MEMTIER: &str = "the same by memtier, GET and SET mixed: one at a time; 16 in flight";
const BESIDE_REDIS: &str = "less CPU per GET than redis-server: one at a time; 16 in flight";

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("cpu.get.1", "GET depth 1: share of the gap to a null server closed")
        .bar(">= 60 %")
        .beside_memcached()
        .promised("less CPU per GET than memcached, one at a time: of what the kernel leaves")
        .explained("0006-shape-of-the-hot-path.md")
        .by(gap),
    Claim::new("cpu.get.16", "GET depth 16: server CPU per request")
        .bar(">= 1.8x better")
        .beside_memcached()
        .promised("less CPU per GET than memcached, 16 in flight")
        .by(|lab| beside(lab, Contestant::memcached(lab)?, GET_16, 1.8)),
    Claim::new("cpu.set.16", "SET depth 16: server CPU per request")
        .bar(">= 1.5x better")
        .beside_memcached()
        .promised("less CPU per SET than memcached, 16 in flight")
        .by(|lab| beside(lab, Contestant::memcached(lab)?, SET_16, 1.5)),
    Claim::new("cpu.multiget", "multiget of 50: server CPU per request")
        .bar(">= 2.5x better")
        .beside_memcached()
        .promised("less CPU per get of 50 keys than memcached")
        .by(|lab| beside(lab, Contestant::memcached(lab)?, MULTIGET, 2.5)),
    Claim::new("cpu.memtier.1", "by memtier, depth 1, four shapes: server CPU per request")
        .bar("mean >= 1.08x better, none below 1.0x")
        .beside_memcached()
        .promised(BY_MEMTIER)
        .by(|lab| memtier(lab, 1, 1.08, 1.0)),
    Claim::new("cpu.memtier.16", "by memtier, depth 16, four shapes: server CPU per request")
        .bar("mean >= 1.25x better, none below 1.15x")
        .beside_memcached()
        .promised(BY_MEMTIER)
        .by(|lab| memtier(lab, 16, 1.25, 1.15)),
    Claim::new("cpu.redis.1", "GET depth 1: server CPU beside redis-server")
        .bar("ahead")
        .promised(BESIDE_REDIS)
        .by(|lab| beside(lab, Contestant::redis()?, GET, 1.0)),
    Claim::new("cpu.redis.16", "GET depth 16: server CPU beside redis-server")
        .bar("ahead")
        .promised(BESIDE_REDIS)
        .by(|lab| beside(lab, Contestant::redis()?, GET_16, 1.0)),
    Claim::new("scale.workers", "two workers: CPU per request of one")
        .bar("<= 1.1x")
        .promised("two workers: CPU per request beside that of one")
        .by(two_workers),
    Claim::new("scale.engine", "engine alone, two threads on two cores against one")
        .bar(">= 1.8x; one hot key with 10 % writes >= 1.0x")
        .promised("two cores do the work of two: the engine alone")
        .explained("0008-the-hot-written-key.md")
        .by(engine::scale),
];

/// GET depth 1 among memcached, ours and the floor.
fn gap(lab: &Lab) -> Result<Measured> {
    let batch = Shape { verb: Verb::Get(1), depth: 1 }.batch(0);
    let floor = Contestant::null(lab, batch.request.len(), batch.reply.len())?;
    let three = [Contestant::memcached(lab)?, Contestant::volvox(lab)?, floor];
    let series =
        costs(lab, &three.map(|one| pinned(lab, one)), GET, ROUNDS_OF_SHARE * rounds(lab))?;
    let closed = |round: usize| {
        let [theirs, ours, floor] = [0, 1, 2].map(|which| series[which][round]);
        (theirs - ours) / (theirs - floor)
    };
    let shares: Series = (0..series[0].len()).map(closed).collect();
    let share = mean(&shares).context("fewer than two rounds were measured")?;
    let [value, low, high] = [share.value, share.low, share.high].map(|share| share * 100.0);
    let text = format!("{value:.0} % ({low:.0} to {high:.0})");
    let names = ["memcached", "volvox", "null server"];
    Ok(Measured::new(text, share.value, share.value >= 0.6).with_details(details(&names, &series)))
}

/// How many times more CPU a request costs a peer than ours.
fn beside(lab: &Lab, peer: Contestant, load: Load, bar: f64) -> Result<Measured> {
    let names = [peer.program().name(), "volvox"];
    let two = [peer, Contestant::volvox(lab)?];
    let series = costs(lab, &two.map(|one| pinned(lab, one)), load, rounds(lab))?;
    judge(&names, &series, bar)
}

/// One worker against two, neither pinned: there are not enough cores to pin both.
fn two_workers(lab: &Lab) -> Result<Measured> {
    let one = Contestant::volvox(lab)?.memory_mib(ROOMY_MIB);
    let two = one.clone().workers(2);
    let series = costs(lab, &[one, two], GET_16, rounds(lab))?;
    let factor = times(&series[1], &series[0])?;
    let details = details(&["one worker", "two workers"], &series);
    Ok(Measured::new(within(factor), factor.value, factor.value <= 1.1).with_details(details))
}

fn judge(names: &[&str], series: &[Series], bar: f64) -> Result<Measured> {
    let factor = times(&series[0], &series[1])?;
    let details = details(names, series);
    Ok(Measured::new(within(factor), factor.value, factor.value >= bar).with_details(details))
}

/// memcached against ours under memtier's load; a round has a run of every shape on each.
fn memtier(lab: &Lab, depth: usize, mean_min: f64, each_min: f64) -> Result<Measured> {
    let requests = MEMTIER_REQUESTS * if depth > 1 { 4 } else { 1 };
    let shapes = MEMTIER_SHAPES.map(|(value_bytes, prefix, ratio)| Asking {
        ratio,
        depth,
        requests,
        value_bytes,
        prefix,
        ..GETS
    });
    let two = [Contestant::memcached(lab)?, Contestant::volvox(lab)?];
    let [theirs, ours]: [Vec<Series>; 2] = alternated(
        lab,
        &two.map(|one| pinned(lab, one)),
        rounds(lab),
        |_, server| shapes.iter().step_by(2).try_for_each(|shape| shape.fill(lab, server)),
        |_, server| shapes.iter().map(|shape| shape.server_us(lab, server)).collect(),
    )?
    .try_into()
    .ok()
    .context("invariant: two contestants have two series")?;
    judge_memtier(&theirs, &ours, mean_min, each_min)
}

/// Costs by round, and within a round by shape.
fn judge_memtier(
    theirs: &[Series],
    ours: &[Series],
    mean_min: f64,
    each_min: f64,
) -> Result<Measured> {
    let all =
        |rounds: &[Series]| -> Series { rounds.iter().map(|one| geometric_mean(one)).collect() };
    let of = |rounds: &[Series], shape: usize| -> Series {
        rounds.iter().map(|round| round[shape]).collect()
    };
    let factor = times(&all(theirs), &all(ours))?;
    let (mut least, mut details) = (f64::INFINITY, Vec::new());
    for (shape, (bytes, _, ratio)) in MEMTIER_SHAPES.iter().enumerate() {
        let (theirs, ours) = (of(theirs, shape), of(ours, shape));
        let each = times(&theirs, &ours)?;
        least = least.min(each.value);
        let [theirs, ours] = [theirs, ours].map(|series| median(&series).unwrap_or(0.0));
        details.push(format!(
            "{bytes} B, SET:GET {ratio}: {}; memcached {theirs:.3} us, volvox {ours:.3} us",
            within(each)
        ));
    }
    let text = format!("{}, least {least:.2}x", within(factor));
    let holds = factor.value >= mean_min && least >= each_min;
    Ok(Measured::new(text, factor.value, holds).with_details(details))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn costly_peers_make_the_factor() {
        let measured = judge(&["a", "b"], &[vec![3.0; 4], vec![1.5; 4]], 1.8).unwrap();
        assert!((measured.number.unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(measured.text, "2.00x (2.00 to 2.00)");
        assert_eq!(measured.details[1], "b: 1.500 us per request, spread 0 %, 4 rounds");
    }

    #[test]
    fn one_shape_below_its_bar_fails_whatever_the_mean() {
        let ours = vec![vec![1.0; 4]; 3];
        let verdict = |theirs: [f64; 4]| {
            let theirs = vec![theirs.to_vec(); 3];
            judge_memtier(&theirs, &ours, 1.25, 1.15).unwrap().verdict
        };
        assert_eq!(verdict([1.2, 1.3, 1.3, 1.3]), Verdict::Pass);
        assert_eq!(verdict([1.2, 1.2, 1.2, 1.2]), Verdict::Fail);
        assert_eq!(verdict([1.1, 1.6, 1.6, 1.6]), Verdict::Fail);
    }
}
