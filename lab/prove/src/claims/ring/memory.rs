//! What a ring holds, and the memory that its cells take.
//!
//! Three cells with two copies are filled beyond their limits, and so is one cell with the sum of
//! their limits. What each holds then is counted by reading every key once. Then a cell is killed.
//! The same kill hits a ring that holds as much as must survive it without an eviction. The peak of
//! resident memory is the kernel's, over the life of each process.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::claim::{Claim, Measured};
use crate::instruments::{Client, Contestant, GET, Limit, Load, Outcome, Ring};
use crate::lab::Lab;
use measure::account::rss_peak_bytes;
use measure::process::accepts;

/// Memory of each cell of the ring; the cell alone has three times as much.
const MEMORY_MIB: u64 = 64;
/// Items that are stored: more than the cell alone can hold.
const ITEMS: u64 = 800_000;
/// The least share of the items of the cell alone.
const SHARE_MIN: f64 = 0.45;
/// The share of the items of the cell alone with which a kill must evict nothing.
const PART: f64 = 0.3;
/// The most memory of a cell above its limit.
const ABOVE_MIB: u64 = 32;
/// Requests at once on a connection.
const DEPTH: usize = 64;
/// Longest one run of the generator may take.
const RUN_MAX: Duration = Duration::from_secs(180);

/// Each key once, one after the other, many at once.
const FILL: Load = Load {
    keys: ITEMS,
    depth: DEPTH,
    connections: 8,
    popularity: "sequential",
    warm_up: "0s",
    limit: Limit::Requests(ITEMS),
    ..GET
};

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("memory.items", "three cells of 64 MiB, two copies, beside one of 192 MiB: items")
        .bar(">= 0.45x")
        .by(|lab| filled(lab).map(|found| found.items())),
    Claim::new("memory.kill", "a cell killed with 0.3x of the items of the one stored")
        .bar("none evicted, all copies again")
        .by(|lab| filled(lab).map(|found| found.kill())),
    Claim::new("memory.rss", "peak RSS of each cell, through failover and catch-up")
        .bar("<= -m + 32 MiB")
        .by(|lab| filled(lab).map(|found| found.rss())),
];

/// What was found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Found {
    /// Items that can be read: of one cell alone, and of the ring.
    alone: u64,
    ring: u64,
    /// As the cells of the ring count them, copies included.
    counted: Vec<u64>,
    /// What the memory of the first cell is used for, as it says itself.
    budgets: Vec<String>,
    full: Kill,
    part: Kill,
}

/// A ring in which a cell was killed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kill {
    /// Items stored before, and items that can be read after it.
    stored: u64,
    after: u64,
    /// Evictions of the cells that survived.
    evicted: u64,
    losses: u64,
    /// Peaks of memory: of the killed cell before its end, then of all cells.
    peaks: Vec<u64>,
    whole_s: f64,
    /// Why not everything had its copies again, if so.
    not_whole: Option<String>,
}

fn filled(lab: &Lab) -> Result<Found> {
    let made = lab.shared("memory", || Ok(serde_json::to_value(fill(lab)?)?))?;
    Ok(serde_json::from_value(made.as_ref().clone())?)
}

fn fill(lab: &Lab) -> Result<Found> {
    let alone = Contestant::volvox(lab)?.memory_mib(3 * MEMORY_MIB).start(lab)?;
    let held_alone = held(lab, alone.address(), alone.pid(), ITEMS)?;
    let mut found = Found { alone: held_alone, ..Found::default() };
    alone.stop()?;
    let ring = Ring::start(lab, MEMORY_MIB, None, accepts)?;
    let first = ring.cells()[0];
    lab.detail("fill the ring");
    found.ring = held(lab, first.address, first.pid, ITEMS)?;
    found.counted = stats(&ring, "curr_items")?;
    let said = Client::connect(first.address)?.stats_of("stats volvox")?.into_iter();
    let budgets = said.filter(|(name, bytes)| name.starts_with("budget_") && bytes != "0");
    found.budgets = budgets.map(|(name, bytes)| format!("{name} {bytes}")).collect();
    found.full = kill(lab, ring, ITEMS)?;
    let ring = Ring::start(lab, MEMORY_MIB, None, accepts)?;
    let (first, items) = (ring.cells()[0], (found.alone as f64 * PART) as u64);
    lab.detail("fill a part of the ring");
    held(lab, first.address, first.pid, items)?;
    found.part = kill(lab, ring, items)?;
    Ok(found)
}

/// Kills the last cell of a ring that holds `items`, and waits until everything has its copies.
fn kill(lab: &Lab, mut ring: Ring, stored: u64) -> Result<Kill> {
    let (victim, map, first) = (ring.cells().len() - 1, ring.map(0)?, ring.cells()[0]);
    let mut peaks = vec![rss_peak_bytes(ring.cells()[victim].pid)?];
    let before = stats(&ring, "evictions")?;
    lab.detail("kill a cell");
    let began = Instant::now();
    ring.signal(victim, Signal::KILL)?;
    ring.restarted(victim)?;
    // A ring without space for its copies is a finding, and no error.
    let not_whole = ring.whole_after(map.version).err().map(|error| format!("{error:#}"));
    let whole_s = began.elapsed().as_secs_f64();
    let after = stats(&ring, "evictions")?;
    let survivors = (0..ring.cells().len()).filter(|cell| *cell != victim);
    let evicted = survivors.map(|cell| after[cell].saturating_sub(before[cell])).sum();
    let losses = ring.map(0)?.losses;
    let after = stored - misses(lab, first.address, first.pid, stored)?;
    for cell in ring.cells() {
        peaks.push(rss_peak_bytes(cell.pid)?);
    }
    ring.stop()?;
    Ok(Kill { stored, after, evicted, losses, peaks, whole_s, not_whole })
}

/// Stores this number of items through a cell, each once.
pub fn store(lab: &Lab, address: SocketAddr, pid: u32, items: u64) -> Result<()> {
    let load = Load { ratio: "0:1", keys: items, limit: Limit::Requests(items), ..FILL };
    let stored: Outcome = lab.generator()?.args(load.words_for(address, pid)).json(RUN_MAX)?;
    stored.clean().map(drop)
}

/// Stores all items through a cell, and counts those that can be read.
fn held(lab: &Lab, address: SocketAddr, pid: u32, items: u64) -> Result<u64> {
    store(lab, address, pid, items)?;
    Ok(items - misses(lab, address, pid, items)?)
}

/// How many items cannot be read through a cell.
fn misses(lab: &Lab, address: SocketAddr, pid: u32, items: u64) -> Result<u64> {
    let load = Load { ratio: "1:0", keys: items, limit: Limit::Requests(items), ..FILL };
    let words = load.words_for(address, pid);
    let read: Outcome = lab.generator()?.args(words).arg("--verify").json(RUN_MAX)?;
    let wrong: Vec<String> =
        read.wrong()?.into_iter().filter(|what| !what.ends_with(" misses")).collect();
    anyhow::ensure!(wrong.is_empty(), "not a measurement: {}", wrong.join(", "));
    Ok(read.number("/misses")? as u64)
}

fn stats(ring: &Ring, name: &str) -> Result<Vec<u64>> {
    ring.cells().iter().map(|cell| Client::connect(cell.address)?.stat(name)).collect()
}

impl Kill {
    fn line(&self, name: &str) -> String {
        let whole = match &self.not_whole {
            None => format!("everything had its copies again after {:.1} s", self.whole_s),
            Some(why) => why.clone(),
        };
        format!(
            "{name}, {} items stored, a cell killed: {whole}; {} can be read; {} evicted by the \
             other two cells; {} ranges lost their last copy",
            self.stored, self.after, self.evicted, self.losses
        )
    }
}

impl Found {
    fn items(&self) -> Measured {
        let share = self.ring as f64 / self.alone.max(1) as f64;
        let text = format!("{share:.3}x: {} items of {}", self.ring, self.alone);
        let details = vec![
            format!("{ITEMS} items of {} bytes were stored", GET.value_bytes),
            format!("items in each cell, copies included: {:?}", self.counted),
            format!("bytes of the first cell: {}", self.budgets.join(", ")),
            self.full.line("full"),
        ];
        Measured::new(text, share, share >= SHARE_MIN).with_details(details)
    }

    fn kill(&self) -> Measured {
        let Kill { stored, after, evicted, not_whole, .. } = &self.part;
        let copies = if not_whole.is_none() { "all copies again" } else { "copies are missing" };
        let text = format!("{evicted} evicted, {after} of {stored} can be read, {copies}");
        let holds = *evicted == 0 && after == stored && not_whole.is_none();
        let details = vec![self.part.line("in part"), self.full.line("full, no bar")];
        Measured::new(text, *evicted as f64, holds).with_details(details)
    }

    fn rss(&self) -> Measured {
        let peaks = || self.full.peaks.iter().chain(&self.part.peaks);
        let most = peaks().max().copied().unwrap_or(0);
        let above = (most >> 20).saturating_sub(MEMORY_MIB);
        let text = format!("-m + {above} MiB: {} MiB", most >> 20);
        let line = |name: &str, kill: &Kill| {
            let peaks: Vec<u64> = kill.peaks.iter().map(|peak| peak >> 20).collect();
            format!("{name}, MiB, of the cell that was killed before, then of all: {peaks:?}")
        };
        let details = vec![line("full", &self.full), line("in part", &self.part)];
        let holds = peaks().count() > 0 && most <= (MEMORY_MIB + ABOVE_MIB) << 20;
        Measured::new(text, above as f64, holds).with_details(details)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn items_and_memory_are_held_against_their_bars() {
        let found = |ring, peak_mib: u64| {
            let full = Kill { peaks: vec![10 << 20, peak_mib << 20], ..Kill::default() };
            Found { alone: 1_000, ring, full, ..Found::default() }
        };
        assert_eq!(found(450, 96).items().verdict, Verdict::Pass);
        assert_eq!(found(449, 96).items().verdict, Verdict::Fail);
        assert_eq!(found(450, 96).rss().verdict, Verdict::Pass);
        assert_eq!(found(450, 97).rss().verdict, Verdict::Fail);
    }

    #[test]
    fn a_kill_evicts_nothing_and_all_copies_return() {
        let verdict = |evicted, after, not_whole: Option<&str>| {
            let not_whole = not_whole.map(str::to_owned);
            let part = Kill { stored: 9, after, evicted, not_whole, ..Kill::default() };
            Found { part, ..Found::default() }.kill().verdict
        };
        assert_eq!(verdict(0, 9, None), Verdict::Pass);
        assert_eq!(verdict(1, 9, None), Verdict::Fail);
        assert_eq!(verdict(0, 8, None), Verdict::Fail);
        assert_eq!(verdict(0, 9, Some("after 60 s")), Verdict::Fail);
    }
}
