//! What a request costs in a ring: processor time of all three cells, beside one cell alone.
//!
//! ```text
//! own        client -> cell 1, which leads the key      (a SET goes on to one copy)
//! forwarded  client -> cell 1 -> the cell that leads the key
//! ```
//!
//! The cell alone and the ring take turns under the same keys and connections. All cells share the
//! servers' core, and the generator has its own: its time does not count. What cells do without
//! a request counts with the requests, and is stated beside them. Times are in microseconds for
//! one request.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, Result};

use crate::claim::{Claim, Measured};
use crate::instruments::{
    Contestant, GET, Limit, Load, Outcome, ROOMY_MIB, Ring, RingMap, details, times, within,
};
use crate::lab::Lab;
use measure::account::Account;
use measure::process::{Server, accepts};
use measure::stats::{Series, alternate, median};

/// Rounds of one start, in the quick and the full form.
const ROUNDS: [usize; 2] = [5, 12];
/// How often both are started again.
const STARTS: usize = 2;
/// How long the ring is watched without a request.
const REST: Duration = Duration::from_secs(1);
/// Requests at once when keys are stored.
const FILL_DEPTH: usize = 16;
/// Longest one run of the generator may take.
const RUN_MAX: Duration = Duration::from_secs(120);
/// The most that the primary's own part of a SET may cost.
const PRIMARY_MAX: f64 = 1.6;

/// One at a time on each connection; and sixteen.
const DEPTH_1: Load = Load { warm_up: "0s", limit: Limit::Requests(60_000), ..GET };
const DEPTH_16: Load = Load { depth: 16, limit: Limit::Requests(1_000_000), ..DEPTH_1 };

/// Whose keys are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    /// Those that the connected cell leads.
    Own,
    /// Those that others lead.
    Others,
}

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("cost.get.own.1", "GET at its owner, depth 1: CPU of three cells, of one alone")
        .bar("<= 1.1x")
        .by(|lab| cost(lab, Keys::Own, gets(DEPTH_1), 1.1)),
    Claim::new("cost.get.own.16", "GET at its owner, depth 16")
        .bar("<= 1.1x")
        .by(|lab| cost(lab, Keys::Own, gets(DEPTH_16), 1.1)),
    Claim::new("cost.get.forwarded.1", "GET through another cell, depth 1")
        .bar("<= 2.5x")
        .by(|lab| cost(lab, Keys::Others, gets(DEPTH_1), 2.5)),
    Claim::new("cost.get.forwarded.16", "GET through another cell, depth 16")
        .bar("<= 2x")
        .by(|lab| cost(lab, Keys::Others, gets(DEPTH_16), 2.0)),
    Claim::new("cost.set.own.1", "SET at its primary, one copy, depth 1")
        .bar("<= 2.5x, the primary alone <= 1.6x")
        .by(|lab| cost(lab, Keys::Own, sets(DEPTH_1), 2.5)),
    Claim::new("cost.set.own.16", "SET at its primary, one copy, depth 16")
        .bar("<= 2.2x, the primary alone <= 1.6x")
        .by(|lab| cost(lab, Keys::Own, sets(DEPTH_16), 2.2)),
    Claim::new("cost.set.forwarded.1", "SET through another cell, one copy, depth 1")
        .bar("<= 2.5x")
        .by(|lab| cost(lab, Keys::Others, sets(DEPTH_1), 2.5)),
    Claim::new("cost.set.forwarded.16", "SET through another cell, one copy, depth 16")
        .bar("<= 2.2x")
        .by(|lab| cost(lab, Keys::Others, sets(DEPTH_16), 2.2)),
];

const fn gets(load: Load) -> Load {
    Load { ratio: "1:0", ..load }
}

const fn sets(load: Load) -> Load {
    Load { ratio: "0:1", ..load }
}

/// What one turn used.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// All processes.
    all_us: f64,
    /// The one that the client is connected to.
    first_us: f64,
    /// Times that a thread of them went to sleep, for one request.
    slept: f64,
    per_s: f64,
}

/// A server under the load: its processes, the first one connected to.
struct Side {
    target: SocketAddr,
    pids: Vec<u32>,
}

impl Side {
    fn alone(server: &Server) -> Self {
        Self { target: server.address(), pids: vec![server.pid()] }
    }

    fn ring(ring: &Ring) -> Self {
        let pids = ring.cells().iter().map(|cell| cell.pid).collect();
        Self { target: ring.cells()[0].address, pids }
    }

    fn words(&self, load: Load, numbers: &Path) -> Vec<String> {
        let more = ["--key-numbers".to_owned(), numbers.display().to_string()];
        [load.words_for(self.target, self.pids[0]), more.into()].concat()
    }

    fn fill(&self, lab: &Lab, load: Load, numbers: &Path) -> Result<()> {
        let load = Load { depth: FILL_DEPTH, limit: Limit::Requests(1), ..load };
        let exec = lab.generator()?.args(self.words(load, numbers)).arg("--populate");
        exec.json::<Outcome>(RUN_MAX)?.clean().context("store the keys").map(drop)
    }

    fn accounts(&self) -> Result<Vec<Account>> {
        self.pids.iter().map(|pid| Account::of(*pid)).collect()
    }

    /// What `parts` of something took, the processes in their order.
    fn used(&self, work: impl FnOnce() -> Result<f64>) -> Result<(Vec<Account>, f64)> {
        let before = self.accounts()?;
        let found = work()?;
        let used = self.accounts()?.into_iter().zip(before).map(|(after, before)| after - before);
        Ok((used.collect(), found))
    }

    fn turn(&self, lab: &Lab, load: Load, numbers: &Path) -> Result<Turn> {
        let Limit::Requests(requests) = load.limit else {
            anyhow::bail!("invariant: a turn is a number of requests")
        };
        let exec = lab.generator()?.args(self.words(load, numbers));
        let (used, per_s) =
            self.used(|| exec.json::<Outcome>(RUN_MAX)?.clean()?.number("/rate/achieved_per_s"))?;
        let each = |sum: u64| sum as f64 / requests as f64;
        Ok(Turn {
            all_us: each(used.iter().map(|one| one.cpu_ns).sum()) / 1e3,
            first_us: each(used[0].cpu_ns) / 1e3,
            slept: each(used.iter().map(|one| one.slept).sum()),
            per_s,
        })
    }
}

/// The numbers of the generator's keys that the map gives to `keys`, seen from its cell.
fn numbers(map: &RingMap, keys: Keys) -> Vec<u64> {
    let key = |number: u64| format!("{}{number:017}", GET.prefix);
    let is_own = |number: &u64| map.leads(map.cell, &key(*number)) == (keys == Keys::Own);
    (0..GET.keys).filter(is_own).collect()
}

/// A cell alone and a ring take turns.
fn cost(lab: &Lab, keys: Keys, load: Load, most: f64) -> Result<Measured> {
    let mut turns: [Vec<Turn>; 2] = Default::default();
    let mut rest = Vec::new();
    for start in 0..STARTS {
        let alone = Contestant::volvox(lab)?.memory_mib(ROOMY_MIB).pinned(lab).start(lab)?;
        let ring = Ring::start(lab, ROOMY_MIB, Some(lab.cores().server()), accepts)?;
        let numbers = numbers(&ring.map(0)?, keys);
        let path = lab.folder().join("ring-keys");
        let lines: String = numbers.iter().map(|number| format!("{number}\n")).collect();
        fs::write(&path, lines).context("write the numbers of keys")?;
        let load = Load { keys: numbers.len() as u64, ..load };
        let sides = [Side::alone(&alone), Side::ring(&ring)];
        for side in &sides {
            side.fill(lab, load, &path)?;
            side.turn(lab, load, &path).context("warm up")?;
        }
        let (used, _) = sides[1].used(|| {
            thread::sleep(REST);
            Ok(0.0)
        })?;
        rest.push(used.iter().map(|one| one.cpu_ns as f64 / 1e3).sum::<f64>());
        let taken = alternate(2, lab.form(ROUNDS), |which, round| {
            lab.detail(&format!("start {} round {}", start + 1, round + 1));
            sides[which].turn(lab, load, &path)
        })?;
        turns.iter_mut().zip(taken).for_each(|(turns, taken)| turns.extend(taken));
        ring.stop()?;
        alone.stop()?;
    }
    judge(&turns, &rest, most, keys == Keys::Own && load.ratio == "0:1")
}

fn judge(turns: &[Vec<Turn>; 2], rest: &[f64], most: f64, has_primary: bool) -> Result<Measured> {
    let series = |of: fn(&Turn) -> f64| -> [Series; 2] {
        [0, 1].map(|side| turns[side].iter().map(of).collect())
    };
    let all = series(|turn| turn.all_us);
    let first = series(|turn| turn.first_us);
    let (factor, own) = (times(&all[1], &all[0])?, times(&first[1], &first[0])?);
    let names = ["one cell alone", "three cells", "of these, the one connected to"];
    let mut lines = details(&names, &[all[0].clone(), all[1].clone(), first[1].clone()]);
    lines.push(format!("the one connected to: {} of one alone", within(own)));
    let middle = |series: &Series| median(series).unwrap_or(0.0);
    let [slept, per_s] = [series(|turn| turn.slept), series(|turn| turn.per_s)];
    for (name, side) in ["one cell alone", "three cells"].iter().zip(0..) {
        let (slept, per_s) = (middle(&slept[side]), middle(&per_s[side]));
        lines.push(format!("{name}: {per_s:.0} requests/s, {slept:.2} sleeps for a request"));
    }
    let rest_us = median(rest).unwrap_or(0.0);
    lines.push(format!("three cells without a request: {rest_us:.0} us in a second"));
    let (mut text, mut holds) = (within(factor), factor.value <= most);
    if has_primary {
        text.push_str(&format!(", the primary {:.2}x", own.value));
        holds &= own.value <= PRIMARY_MAX;
    }
    Ok(Measured::new(text, factor.value, holds).with_details(lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;
    use crate::instruments::RangeOf;

    fn turns(all_us: f64, first_us: f64) -> Vec<Turn> {
        vec![Turn { all_us, first_us, slept: 0.5, per_s: 1e5 }; 4]
    }

    #[test]
    fn the_sum_of_all_cells_is_held_against_one_alone() {
        let verdict = |all, first, most, has_primary| {
            judge(&[turns(2.0, 2.0), turns(all, first)], &[9.0], most, has_primary).unwrap().verdict
        };
        assert_eq!(verdict(2.2, 2.0, 1.11, false), Verdict::Pass);
        assert_eq!(verdict(2.4, 2.0, 1.1, false), Verdict::Fail);
        assert_eq!(verdict(5.0, 3.1, 2.5, true), Verdict::Pass);
        assert_eq!(verdict(5.0, 3.3, 2.5, true), Verdict::Fail, "the primary alone");
    }

    #[test]
    fn keys_are_divided_by_who_leads_them() {
        let range = |first, last, cell| RangeOf {
            slices: first..=last,
            primary: Some(cell),
            copies: Vec::new(),
            learner: None,
        };
        let ranges = vec![range(0, 5460, 1), range(5461, 16383, 2)];
        let map = RingMap { cell: 1, version: 1, ranges, ..RingMap::default() };
        let [own, others] = [Keys::Own, Keys::Others].map(|keys| numbers(&map, keys));
        assert_eq!((own.len() + others.len()) as u64, GET.keys);
        let third = GET.keys as usize / 3;
        assert!(own.len().abs_diff(third) < third / 20, "{}", own.len());
    }
}
