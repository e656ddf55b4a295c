//! What clients find after a cell of a ring has ended that was nearly full.
//!
//! ```text
//! as many items as 90 % of what the ring can hold
//!   --gets, a set for each miss--> before |-- a cell is killed --| after
//! ```
//!
//! The killed cell is started again, or a spare takes its place, or nobody does: then the others
//! have too little memory for two copies of everything, and evict. A miss is well where an item was
//! evicted: between two misses of a key it was stored again, so there may be no more misses than
//! evictions.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::Signal;

use crate::claim::{Claim, Measured};
use crate::claims::ring::memory::store;
use crate::instruments::{Client, GET, Given, Limit, Load, Outcome, Ring};
use crate::lab::Lab;
use measure::exec::Exec;
use measure::process::accepts;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("memory.failover", "a cell of five is killed that is 90 % full: gets that hit")
        .bar("within 2 points of before; no more misses than items evicted, no range lost")
        .by(failover),
    Claim::new("memory.absorb", "a cell of five is to be absorbed that is 90 % full")
        .bar("refused, naming the bytes that are missing; nothing is evicted")
        .by(absorb),
];

const CELLS: u16 = 5;
const MEMORY_MIB: u64 = 64;
/// Items that are stored to find how many such a ring holds: more than that.
const TOO_MANY: u64 = 500_000;
/// The part of what it holds that is stored.
const FULL: f64 = 0.9;
/// How many points of a hundred fewer gets may hit.
const POINTS_MAX: f64 = 2.0;
/// How long gets are counted, in the quick and the full form.
const COUNTED: [&str; 2] = ["20s", "60s"];
/// Gets in a second.
const RATE: u64 = 20_000;
const RUN_MAX: Duration = Duration::from_secs(180);
/// What is said of a cell, with its number and how many bytes it lacks.
const SHORT: &str = "memory is short: cell ";
const ORDER_MAX: Duration = Duration::from_secs(30);

/// Who is there instead of the killed cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instead {
    Itself,
    Spare,
    Nobody,
}

impl Instead {
    const ALL: [Self; 3] = [Self::Itself, Self::Spare, Self::Nobody];

    fn name(self) -> &'static str {
        match self {
            Self::Itself => "started again",
            Self::Spare => "a spare instead",
            Self::Nobody => "nobody instead",
        }
    }
}

/// What clients have found.
#[derive(Clone, Copy, Debug)]
struct Found {
    instead: Instead,
    items: u64,
    /// Gets that hit, of a hundred, before and after.
    hits: [f64; 2],
    /// Misses after the kill, and items that the cells that go on have evicted since.
    misses: u64,
    evicted: u64,
    losses: u64,
}

impl Found {
    fn points(&self) -> f64 {
        self.hits[0] - self.hits[1]
    }

    fn is_well(&self) -> bool {
        self.points() <= POINTS_MAX && self.misses <= self.evicted && self.losses == 0
    }

    fn line(&self) -> String {
        let Self { instead, items, hits: [before, after], misses, evicted, losses } = self;
        format!(
            "{}, {items} items: {before:.2} % hit before, {after:.2} % after; {misses} misses, \
             {evicted} evicted, {losses} ranges lost",
            instead.name()
        )
    }
}

fn failover(lab: &Lab) -> Result<Measured> {
    let items = (held(lab)? as f64 * FULL) as u64;
    let found = Instead::ALL.map(|instead| {
        lab.detail(instead.name());
        kill(lab, items, instead)
    });
    Ok(judge(&found.into_iter().collect::<Result<Vec<_>>>()?))
}

/// A ring of five cells, and spares, that holds these items.
fn start(lab: &Lab, spares: u16, items: u64) -> Result<Ring> {
    let given = Given { cells: Some(CELLS), spares, ..Given::default() };
    let ring = Ring::start_with(lab, MEMORY_MIB, None, &given, accepts)?;
    let first = ring.cells()[0];
    store(lab, first.address, first.pid, items)?;
    Ok(ring)
}

/// How many items a ring holds that was filled beyond that, each once.
fn held(lab: &Lab) -> Result<u64> {
    let ring = start(lab, 0, TOO_MANY)?;
    let all = stats(&ring, "curr_items", None)?;
    ring.stop()?;
    Ok(all / 2)
}

/// The sum of a count of all cells but one.
fn stats(ring: &Ring, name: &str, without: Option<usize>) -> Result<u64> {
    let cells = ring.cells().iter().enumerate().filter(|(place, _)| Some(*place) != without);
    cells.map(|(_, cell)| Client::connect(cell.address)?.stat(name)).sum()
}

/// Kills the last of the cells that have formed a ring which holds `items`.
fn kill(lab: &Lab, items: u64, instead: Instead) -> Result<Found> {
    let ring = start(lab, u16::from(instead == Instead::Spare), items)?;
    let victim = usize::from(CELLS) - 1;
    let (before, _) = gets(lab, &ring, items, 1)?;
    let evicted = stats(&ring, "evictions", Some(victim))?;
    if instead != Instead::Itself {
        ring.signal_up(Signal::STOP)?;
    }
    ring.signal(victim, Signal::KILL)?;
    let (after, misses) = gets(lab, &ring, items, 2)?;
    let evicted = stats(&ring, "evictions", Some(victim))? - evicted;
    let losses = ring.map(0)?.losses;
    ring.signal_up(Signal::CONT)?;
    ring.stop()?;
    Ok(Found { instead, items, hits: [before, after], misses, evicted, losses })
}

/// Gets through the first cell, and a set for each miss. Returns how many of a hundred hit, and how
/// many missed.
fn gets(lab: &Lab, ring: &Ring, items: u64, seed: u64) -> Result<(f64, u64)> {
    let limit = Limit::Duration(lab.form(COUNTED));
    let load = Load {
        keys: items,
        popularity: "zipf:0.99",
        warm_up: "0s",
        connections: 16,
        rate: Some(RATE),
        limit,
        ..GET
    };
    let cell = ring.cells()[0];
    let exec = lab.generator()?.args(load.words_for(cell.address, cell.pid));
    let exec = exec.args(["--refill", "--seed", &seed.to_string()]);
    let outcome: Outcome = exec.json(RUN_MAX)?;
    let wrong = outcome.wrong()?.into_iter().filter(|what| !what.ends_with(" misses"));
    let wrong: Vec<_> = wrong.collect();
    ensure!(wrong.is_empty(), "not a measurement: {}", wrong.join(", "));
    Ok((outcome.number("/hit_ratio")? * 100.0, outcome.number("/misses")? as u64))
}

fn judge(found: &[Found]) -> Measured {
    let points = found.iter().map(Found::points).reduce(f64::max);
    let Some(points) = points else { return Measured::not("no cell was killed") };
    let mut text = String::new();
    for it in found {
        let comma = if text.is_empty() { "" } else { "; " };
        let (name, fewer) = (it.instead.name(), it.points());
        let _ = write!(text, "{comma}{name}: {fewer:.2} points fewer");
    }
    let (misses, evicted) =
        found.iter().fold((0, 0), |sum, it| (sum.0 + it.misses, sum.1 + it.evicted));
    let _ = write!(text, "; {misses} misses, {evicted} evicted");
    Measured::new(text, points, found.iter().all(Found::is_well))
        .with_details(found.iter().map(Found::line).collect())
}

fn absorb(lab: &Lab) -> Result<Measured> {
    let items = (held(lab)? as f64 * FULL) as u64;
    let ring = start(lab, 0, items)?;
    let evicted = stats(&ring, "evictions", None)?;
    let address = ring.cells()[0].address.to_string();
    let words = ["ctl", "--server", &address, "absorb", &CELLS.to_string()];
    let said = Exec::new(lab.volvox()?).args(words).said(ORDER_MAX)?;
    let evicted = stats(&ring, "evictions", None)? - evicted;
    ring.stop()?;
    Ok(judge_absorb(said.status.success(), &said.complaints, evicted))
}

fn judge_absorb(is_done: bool, complaints: &str, evicted: u64) -> Measured {
    let line = complaints.lines().find(|line| line.contains(SHORT)).map(str::trim);
    let verb = if is_done { "carried out" } else { "refused" };
    let text = format!("{verb}, {evicted} evicted: {}", line.unwrap_or("no bytes are named"));
    Measured::new(text, evicted as f64, !is_done && line.is_some() && evicted == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn fewer_hits_misses_without_an_eviction_and_lost_ranges_fail() {
        let well = Found {
            instead: Instead::Nobody,
            items: 100,
            hits: [100.0, 98.0],
            misses: 2,
            evicted: 2,
            losses: 0,
        };
        assert_eq!(judge(&[well, well]).verdict, Verdict::Pass);
        for wrong in [
            Found { hits: [100.0, 97.9], ..well },
            Found { misses: 3, ..well },
            Found { losses: 1, ..well },
        ] {
            assert_eq!(judge(&[well, wrong]).verdict, Verdict::Fail, "{wrong:?}");
        }
        assert!(matches!(judge(&[]).verdict, Verdict::NotMeasured(_)));
    }

    #[test]
    fn an_absorption_that_evicts_or_names_no_bytes_fails() {
        let verdict =
            |is_done, complaints, evicted| judge_absorb(is_done, complaints, evicted).verdict;
        assert_eq!(
            verdict(false, "cell 5: memory is short: cell 1 by 17.2M: items would be evicted\n", 0),
            Verdict::Pass
        );
        assert_eq!(verdict(false, "error: no\n", 0), Verdict::Fail);
        assert_eq!(verdict(true, "memory is short: cell 1 by 17.2M\n", 0), Verdict::Fail);
        assert_eq!(verdict(false, "memory is short: cell 1 by 17.2M\n", 1), Verdict::Fail);
    }
}
