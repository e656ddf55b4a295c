//! Who wins where, and why, by rules that a reader can check.
//!
//! ```text
//! who    the highest lambda-max; nobody, if the 95 % interval of another one meets its interval
//! why    the costs of a request that are more than a tenth higher than the leader's, in order of
//!        the ratio
//! ```
//!
//! Latencies are compared only at a rate that is the same for all.

use std::collections::BTreeMap;

use serde::Serialize;

use super::rows::{Cell, Peak};

/// A cost explains something if it is higher than the leader's by this factor.
const HIGHER: f64 = 1.1;
/// A cost below this is none.
const COST_MIN: f64 = 0.01;

/// A cost of a request: its name, and where it is read.
type Cost = (&'static str, fn(&Peak) -> Option<f64>);

const COSTS: [Cost; 7] = [
    ("CPU us", |peak| peak.counters.map(|of| of.cpu_us_per_request)),
    ("sleeps", |peak| peak.counters.map(|of| of.sleeps_per_request)),
    ("receives", |peak| peak.counters.and_then(|of| of.receives_per_request)),
    ("sends", |peak| peak.counters.and_then(|of| of.sends_per_request)),
    ("system calls", |peak| peak.system_calls_per_request),
    ("preemptions", |peak| peak.counters.map(|of| of.preemptions_per_request)),
    ("instructions", |peak| peak.instructions_per_request),
];

/// Who answers most at one size and mix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Win {
    /// Bytes of a value.
    pub size: u32,
    /// Gets to sets.
    pub mix: &'static str,
    /// The contestant with the highest lambda-max; absent if none was measured.
    pub leader: Option<&'static str>,
    /// Its lambda-max.
    pub per_s: Option<f64>,
    /// Contestants whose intervals meet the leader's; if there is one, nobody wins.
    pub equals: Vec<&'static str>,
    /// The others, the fastest first.
    pub losers: Vec<Loser>,
    /// Whether others used the machine at the same time: then nothing is decided.
    pub crowded: bool,
}

/// A contestant that answers less than the leader.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Loser {
    /// The server.
    pub contestant: &'static str,
    /// The leader's lambda-max over its own.
    pub factor: f64,
    /// The costs of a request that are higher than the leader's; empty if no counted cost is.
    pub costs: Vec<HigherCost>,
}

/// A cost of a request that is higher than the leader's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct HigherCost {
    /// Its name, with the unit.
    pub cost: &'static str,
    /// The loser's.
    pub own: f64,
    /// The leader's.
    pub leader: f64,
}

/// The p99 of a contestant's gets at the highest common rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CommonP99 {
    /// The server.
    pub contestant: &'static str,
    /// The rate, as a share.
    pub rate: String,
    /// The geometric mean over sizes and mixes.
    pub get_p99_us: f64,
}

/// Who answers most, for every size and mix.
pub(super) fn wins(peaks: &[Peak]) -> Vec<Win> {
    peaks.chunk_by(Peak::same_workload).map(win).collect()
}

fn win(group: &[Peak]) -> Win {
    let mut ranked: Vec<_> =
        group.iter().filter_map(|peak| Some((peak, peak.lambda_max?))).collect();
    ranked.sort_by(|a, b| b.1.per_s.total_cmp(&a.1.per_s));
    let leader = ranked.first().copied();
    let (mut equals, mut losers) = (Vec::new(), Vec::new());
    for (peak, lambda) in ranked.iter().skip(1) {
        let (best, highest) = leader.expect("invariant: the second comes after a first");
        if lambda.high_per_s >= highest.low_per_s {
            equals.push(peak.contestant);
        } else {
            let factor = highest.per_s / lambda.per_s;
            let costs = higher_costs(peak, best);
            losers.push(Loser { contestant: peak.contestant, factor, costs });
        }
    }
    Win {
        size: group[0].size,
        mix: group[0].mix,
        leader: leader.map(|(peak, _)| peak.contestant),
        per_s: leader.map(|(_, lambda)| lambda.per_s),
        equals,
        losers,
        crowded: group.iter().any(|peak| peak.crowded),
    }
}

/// What a request costs the loser more than the leader, the largest ratio first.
fn higher_costs(loser: &Peak, leader: &Peak) -> Vec<HigherCost> {
    let both = |(cost, of): &Cost| Some(HigherCost { cost, own: of(loser)?, leader: of(leader)? });
    let mut costs: Vec<HigherCost> = COSTS.iter().filter_map(both).collect();
    costs.retain(|cost| cost.own > cost.leader * HIGHER && cost.own >= COST_MIN);
    // A cost that the leader does not have at all would have an infinite ratio.
    let ratio = |cost: &HigherCost| cost.own / cost.leader.max(1e-3);
    costs.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    costs
}

/// The p99 of gets at the highest common rate, the lowest first. A contestant without a figure at
/// one size and mix has no mean that can be compared, and is left out.
pub(super) fn common_p99(cells: &[Cell]) -> Vec<CommonP99> {
    let is_common = |cell: &&Cell| cell.rate.ends_with("common") && cell.op == "GET";
    let Some(highest) = cells.iter().find(is_common) else { return Vec::new() };
    let at_highest = cells.iter().filter(|cell| is_common(cell) && cell.rate == highest.rate);
    let mut groups: BTreeMap<&'static str, Vec<&Cell>> = BTreeMap::new();
    at_highest.for_each(|cell| groups.entry(cell.contestant).or_default().push(cell));
    let most = groups.values().map(Vec::len).max().unwrap_or(0);
    let mean = |(contestant, cells): (&'static str, Vec<&Cell>)| {
        let logs = cells.iter().filter_map(|cell| cell.p99_us.filter(|us| *us > 0.0)).map(f64::ln);
        let logs: Vec<f64> = logs.collect();
        let mean = logs.iter().sum::<f64>() / most as f64;
        let row = CommonP99 { contestant, rate: highest.rate.clone(), get_p99_us: mean.exp() };
        (logs.len() == most).then_some(row)
    };
    let mut means: Vec<CommonP99> = groups.into_iter().filter_map(mean).collect();
    means.sort_by(|a, b| a.get_p99_us.total_cmp(&b.get_p99_us));
    means
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::rows;
    use super::*;
    use crate::findings::{Findings, lambda};
    use crate::plan::{Contestant, DRIVERS, Form, Workload};

    /// Lambda-max of a form with one size and mix, by rate and CPU per request.
    pub fn peaks(of: &[(Contestant, f64, f64)]) -> Vec<Peak> {
        let form = Form { mixes: vec!["9:1"], ..Form::quick(2) };
        let workload = Workload::all(&form)[0];
        let mut found = Findings::default();
        of.iter().for_each(|(who, per_s, cpu)| found.put(lambda(*who, workload, *per_s, *cpu)));
        rows::peaks(&form, &DRIVERS, &found)
    }

    #[test]
    fn the_winner_is_named_with_what_a_request_costs_the_others() {
        let peaks = peaks(&[(Contestant::Epoll, 200.0, 4.0), (Contestant::Threads, 100.0, 9.0)]);
        let costs = vec![
            HigherCost { cost: "CPU us", own: 9.0, leader: 4.0 },
            HigherCost { cost: "sleeps", own: 0.9, leader: 0.4 },
        ];
        let expected = Win {
            size: 1_000,
            mix: "9:1",
            leader: Some("epoll"),
            per_s: Some(200.0),
            equals: Vec::new(),
            losers: vec![Loser { contestant: "threads", factor: 2.0, costs }],
            crowded: false,
        };
        assert_eq!(wins(&peaks), [expected]);
    }

    #[test]
    fn within_the_intervals_nobody_wins() {
        let peaks = peaks(&[(Contestant::Epoll, 200.0, 4.0), (Contestant::Uring, 199.0, 4.0)]);
        let win = &wins(&peaks)[0];
        assert_eq!((win.leader, &win.equals[..]), (Some("epoll"), &["uring"][..]));
        assert!(win.losers.is_empty());
        let nothing = &wins(&super::tests::peaks(&[]))[0];
        assert_eq!((nothing.size, nothing.leader, nothing.per_s), (1_000, None, None));
    }

    #[test]
    fn latencies_are_compared_at_the_same_rate_only() {
        let cell = |contestant, rate: &str, p99_us| Cell {
            contestant,
            size: 100,
            mix: "9:1",
            rate: rate.to_string(),
            offered_per_s: Some(1.0),
            achieved_per_s: Some(1.0),
            op: "GET",
            p50_us: Some(1.0),
            p95_us: Some(1.0),
            p99_us: Some(p99_us),
            wrong: Some(0),
            cpu_us_per_request: None,
        };
        let cells = [
            cell("epoll", "90 % own", 1.0),
            cell("epoll", "90 % common", 50.0),
            cell("threads", "90 % common", 40.0),
            cell("threads", "30 % common", 7.0),
        ];
        let means = |cells: &[Cell]| -> Vec<(&str, f64)> {
            let rows = common_p99(cells).into_iter();
            rows.map(|row| (row.contestant, row.get_p99_us.round())).collect()
        };
        assert_eq!(means(&cells), [("threads", 40.0), ("epoll", 50.0)]);
        assert_eq!(common_p99(&cells)[0].rate, "90 % common");
        assert!(means(&cells[..1]).is_empty());
        let elsewhere = Cell { size: 10_000, ..cell("threads", "90 % common", 900.0) };
        let some = [cells[1].clone(), cells[2].clone(), elsewhere];
        assert_eq!(means(&some), [("threads", 190.0)], "epoll has no figure of the other size");
    }
}
