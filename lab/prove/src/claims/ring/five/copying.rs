//! How fast a range is copied again on a ring without requests.
//!
//! ```text
//! SIGKILL     a range begins to be learned              all copies in sync
//!    |<--- noticed --->|<--------- copied at MB/s ------------->|
//! ```
//!
//! Bytes are those of keys and values alone.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::instruments::{Joined, Keys, map_of};
use measure::account::Account;
use measure::rng::Rng;

/// How often it is looked.
const POLL: Duration = Duration::from_millis(2);
/// Longest the copies may take.
const COPIED_MAX: Duration = Duration::from_secs(60);

/// One kill on an idle ring.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Copying {
    /// Bytes of keys and values that were copied.
    pub bytes: u64,
    /// Ranges that were.
    pub ranges: usize,
    /// From the kill to the first range that is learned.
    pub noticed_ms: f64,
    /// From there to the last copy in sync.
    pub copied_ms: f64,
    /// Processor time of the cells that survive, from the kill on.
    pub cpu_ms: f64,
}

impl Copying {
    /// Millions of bytes in a second.
    pub fn mb_per_s(&self) -> f64 {
        self.bytes as f64 / 1e3 / self.copied_ms.max(1.0)
    }
}

/// Kills a cell that leads a range, and starts it again when everything has its copies.
pub fn copying(ring: &mut Joined, keys: &Keys, rng: &mut Rng) -> Result<Copying> {
    let maps = ring.whole_after(0)?;
    let leads =
        |place: &usize| maps[0].ranges.iter().any(|range| range.primary == Some(maps[*place].cell));
    let leading: Vec<usize> = (0..maps.len()).filter(leads).collect();
    let victim = leading[rng.below(leading.len() as u64) as usize];
    let number = maps[victim].cell;
    let other = (0..maps.len()).find(|place| *place != victim).context("one cell")?;
    let watched = ring.cells()[other];
    let ranges = maps[0].ranges.iter().enumerate().filter(|(_, range)| range.has(number));
    let ranges: Vec<usize> = ranges.map(|(place, _)| place).collect();
    let others: Vec<u32> = (0..maps.len())
        .filter(|place| *place != victim)
        .map(|place| ring.cells()[place].pid)
        .collect();
    let cpu_ns = || -> Result<u64> { others.iter().map(|pid| Ok(Account::of(*pid)?.cpu_ns)).sum() };
    let (before_ns, began) = (cpu_ns()?, Instant::now());
    ring.signal(victim, Signal::KILL)?;
    let (mut noticed_ms, now_ms) = (None, || began.elapsed().as_secs_f64() * 1e3);
    let whole_ms = loop {
        let map = map_of(watched)?;
        if map.ranges.iter().any(|range| range.learner.is_some()) {
            noticed_ms.get_or_insert_with(now_ms);
        }
        let is_gone = map.ranges.iter().all(|range| !range.has(number));
        if is_gone && map.is_whole() {
            break now_ms();
        }
        if began.elapsed() > COPIED_MAX {
            bail!("not every range has its copies after {} s", COPIED_MAX.as_secs());
        }
        thread::sleep(POLL);
    };
    let cpu_ms = (cpu_ns()? - before_ns) as f64 / 1e6;
    ring.ended(victim)?;
    ring.start_again(victim)?;
    ring.serves(victim)?;
    ring.whole_after(maps[0].version)?;
    let noticed_ms = noticed_ms.context("no cell has learned a range")?;
    let bytes = ranges.iter().map(|place| keys.bytes_of(&maps[0], *place)).sum();
    let copied_ms = whole_ms - noticed_ms;
    Ok(Copying { bytes, ranges: ranges.len(), noticed_ms, copied_ms, cpu_ms })
}
