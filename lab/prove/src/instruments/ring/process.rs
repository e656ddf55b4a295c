//! The processes of a ring: `volvox up` and its cells, which it starts again when they end.
//!
//! ```text
//! start -> up prints its cells -> kill of a cell -> up prints its new process -> stop
//! ```
//!
//! A cell is named by its place, from 0 on, in what `up` prints. The directory of the ring lies
//! with the files of the measurement and is removed at the end. Invariant: `up` and all cells end
//! with the ring, also those that are stopped by a signal.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::map::RingMap;
use crate::instruments::wire::Client;
use crate::lab::Lab;
use measure::process::{CoreSet, Launch, Server};

/// Cells of a ring.
pub const CELLS: usize = 3;
/// Longest the ring may take to form, to start a cell again, or to have all copies again.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How often it is looked.
const POLL: Duration = Duration::from_millis(20);

/// A ring that runs.
pub struct Ring {
    up: Option<Server>,
    directory: PathBuf,
    cells: Vec<Cell>,
}

/// A cell that runs.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Where clients connect.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
}

impl Ring {
    /// A ring of cells with one worker each and this much memory, on these cores if they are given.
    /// `ready` is called until it returns no error.
    pub fn start(
        lab: &Lab,
        memory_mib: u64,
        cores: Option<CoreSet>,
        ready: impl FnMut(SocketAddr) -> io::Result<()>,
    ) -> Result<Self> {
        let launch = Launch::new().more_ports(CELLS as u16 - 1);
        let launch = cores.into_iter().fold(launch, Launch::cores);
        let volvox = lab.volvox()?.display().to_string();
        let directory = lab.folder().join("ring");
        if directory.is_dir() {
            fs::remove_dir_all(&directory).context("empty the directory of the ring")?;
        }
        let words = |port: u16| {
            let path = directory.display().to_string();
            let flags = format!("{volvox} up --cells {CELLS} --json --port {port}");
            let flags = format!("{flags} --directory {path} -- --workers 1");
            let flags = format!("{flags} --memory-limit {memory_mib}M");
            flags.split(' ').map(str::to_owned).collect()
        };
        let up = launch.start("ring", &lab.folder(), words, ready)?;
        let mut ring = Self { up: Some(up), directory: directory.clone(), cells: Vec::new() };
        let cells = until("the ring has not formed", || {
            Ok(ring.printed()?.iter().find_map(|line| line["cells"].as_array().cloned()))
        })?;
        ring.cells = cells.iter().map(read_cell).collect::<Result<_>>()?;
        ring.whole()?;
        Ok(ring)
    }

    /// Its cells.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The map that a cell goes by.
    pub fn map(&self, cell: usize) -> Result<RingMap> {
        RingMap::read(&Client::connect(self.cells[cell].address)?.stats_of("stats ring")?)
    }

    /// Waits until every cell says that each range has its copies; the map of each.
    pub fn whole(&self) -> Result<Vec<RingMap>> {
        until("not every range has its copies", || {
            // A cell that starts again takes no clients yet.
            let maps = (0..self.cells.len()).map(|cell| self.map(cell).ok());
            let maps: Option<Vec<RingMap>> = maps.collect();
            let is_same = |maps: &Vec<RingMap>| {
                maps.iter().all(|map| map.is_whole() && map.version == maps[0].version)
            };
            Ok(maps.filter(is_same))
        })
    }

    /// Sends a signal to a cell.
    pub fn signal(&self, cell: usize, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.cells[cell].pid).ok().and_then(Pid::from_raw);
        let pid = pid.context("a cell has no process")?;
        kill_process(pid, signal).with_context(|| format!("signal cell {}", cell + 1))
    }

    /// Ends all processes.
    pub fn stop(mut self) -> Result<()> {
        self.up.take().map_or(Ok(()), Server::stop)
    }

    /// The lines of JSON that `up` has printed.
    fn printed(&self) -> Result<Vec<Value>> {
        let up = self.up.as_ref().context("the ring has ended")?;
        let said = up.said();
        let lines = said.lines().filter(|line| line.starts_with('{'));
        Ok(lines.filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for cell in 0..self.cells.len() {
            // One that has ended already is no error, nor one that was not stopped.
            let _ = self.signal(cell, Signal::CONT);
        }
        let ended = self.up.take().map(Server::stop);
        if ended.is_some_and(|ended| ended.is_err()) {
            (0..self.cells.len()).for_each(|cell| drop(self.signal(cell, Signal::KILL)));
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Calls `look` until it finds something; an error with `what` after the longest wait.
pub(super) fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
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

fn read_cell(row: &Value) -> Result<Cell> {
    let address = row["clients"].as_str().and_then(|at| at.parse().ok());
    let pid = row["process"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    let (address, pid) = address.zip(pid).with_context(|| format!("no cell: {row}"))?;
    Ok(Cell { address, pid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_read_from_what_up_prints() {
        let row = serde_json::json!({ "cell": 1, "clients": "127.0.0.1:30000", "process": 7 });
        let cell = read_cell(&row).unwrap();
        assert_eq!((cell.address.port(), cell.pid), (30_000, 7));
        assert!(read_cell(&serde_json::json!({ "cell": 1 })).is_err());
    }
}
