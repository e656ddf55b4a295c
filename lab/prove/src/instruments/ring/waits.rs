//! Cells that run, signals to them, and what is waited for until they have done it.
//!
//! Every wait has the same longest time, and an error says what did not happen.

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::map::RingMap;
use crate::instruments::wire::Client;

/// Longest the ring may take to form, to start a cell again, or to have all copies again.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How often it is looked.
const POLL: Duration = Duration::from_millis(20);

/// A cell that runs.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Where clients connect.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
}

/// The map that a cell goes by.
pub fn map_of(cell: Cell) -> Result<RingMap> {
    RingMap::read(&Client::connect(cell.address)?.stats_of("stats ring")?)
}

/// Waits until every cell says that each range has its copies, by one map that is newer than this
/// version; the map of each.
pub fn whole_after(cells: &[Cell], version: u64) -> Result<Vec<RingMap>> {
    until("not every range has its copies", || {
        // A cell that starts again takes no clients yet.
        let maps: Option<Vec<RingMap>> = cells.iter().map(|cell| map_of(*cell).ok()).collect();
        let is_same = |maps: &Vec<RingMap>| {
            let first = maps[0].version;
            first > version && maps.iter().all(|map| map.is_whole() && map.version == first)
        };
        Ok(maps.filter(is_same))
    })
}

/// Waits until no thread of a process runs any more, after a signal that ends or stops it.
pub fn halted(pid: u32) -> Result<()> {
    let folder = format!("/proc/{pid}/task");
    until("the cell runs", || {
        // A process that has ended has no such folder, and a thread no such file.
        let tasks = fs::read_dir(&folder).into_iter().flatten().flatten();
        let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
        let mut states = stats.filter_map(|stat| state(&stat));
        Ok(states.all(|state| "TZX".contains(state)).then_some(()))
    })
}

/// Calls `look` until it finds something; an error with `what` after the longest wait.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if began.elapsed() > WAIT_MAX {
            bail!("{what} after {} s", WAIT_MAX.as_secs());
        }
        thread::sleep(POLL);
    }
}

/// Sends a signal to a process.
pub fn send(pid: u32, signal: Signal) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no process")?;
    Ok(kill_process(pid, signal)?)
}

/// The letter of a thread's state in its `stat`: it follows the name, which ends with a bracket.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_thread_follows_its_name() {
        assert_eq!(state("7 (a) b) T 1 7 7"), Some('T'));
        assert_eq!(state("7"), None);
    }
}
