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
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::Value;

use super::map::RingMap;
use super::waits::{Cell, halted, map_of, send, until, whole_after};
use crate::lab::Lab;
use measure::process::{CoreSet, Launch, Server};

/// Cells of a ring.
pub const CELLS: usize = 3;

/// A ring that runs.
pub struct Ring {
    up: Option<Server>,
    directory: PathBuf,
    cells: Vec<Cell>,
}

/// What the cells of a ring are given beside their workers and their memory.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// More flags, between single spaces.
    pub flags: String,
    /// Cells that form it; `None`: [`CELLS`].
    pub cells: Option<u16>,
    /// Cells that join once the ring has formed.
    pub spares: u16,
    /// Variables of their environment.
    pub environment: Vec<(&'static str, String)>,
    /// The program; `None`: our binary.
    pub program: Option<PathBuf>,
    /// Which of several rings it is that run at the same time.
    pub nth: usize,
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
        Self::start_with(lab, memory_mib, cores, &Given::default(), ready)
    }

    /// The same, with more than that given to each cell.
    pub fn start_with(
        lab: &Lab,
        memory_mib: u64,
        cores: Option<CoreSet>,
        given: &Given,
        ready: impl FnMut(SocketAddr) -> io::Result<()>,
    ) -> Result<Self> {
        let cells = given.cells.unwrap_or(CELLS as u16);
        let launch = Launch::new().more_ports(cells + given.spares - 1);
        let launch = cores.into_iter().fold(launch, Launch::cores);
        let variables = given.environment.iter();
        let launch = variables.fold(launch, |launch, (name, value)| launch.env(name, value));
        let program = given.program.clone().map_or_else(|| lab.volvox(), Ok)?;
        let volvox = program.display().to_string();
        let name = match given.nth {
            0 => "ring".to_owned(),
            nth => format!("ring-{nth}"),
        };
        let directory = lab.folder().join(&name);
        if directory.is_dir() {
            fs::remove_dir_all(&directory).context("empty the directory of the ring")?;
        }
        let words = |port: u16| {
            let path = directory.display().to_string();
            let flags = format!("{volvox} up --cells {cells} --json --port {port}");
            let flags = match given.spares {
                0 => flags,
                spares => format!("{flags} --spares {spares}"),
            };
            let flags = format!("{flags} --directory {path} -- --workers 1");
            let flags = format!("{flags} --memory-limit {memory_mib}M {}", given.flags);
            flags.trim_end().split(' ').map(str::to_owned).collect()
        };
        let up = launch.start(&name, &lab.folder(), words, ready)?;
        let mut ring = Self { up: Some(up), directory: directory.clone(), cells: Vec::new() };
        let formed = until("the ring has not formed", || {
            Ok(ring.printed()?.iter().find_map(|line| line["cells"].as_array().cloned()))
        })?;
        ring.cells = formed.iter().map(read_cell).collect::<Result<_>>()?;
        ring.whole()?;
        Ok(ring)
    }

    /// Its cells.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Where cells keep what they must not forget.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The map that a cell goes by.
    pub fn map(&self, cell: usize) -> Result<RingMap> {
        map_of(self.cells[cell])
    }

    /// Waits until every cell says that each range has its copies; the map of each.
    pub fn whole(&self) -> Result<Vec<RingMap>> {
        self.whole_after(0)
    }

    /// The same, by a map that is newer than this version.
    pub fn whole_after(&self, version: u64) -> Result<Vec<RingMap>> {
        whole_after(&self.cells, version)
    }

    /// Sends a signal to a cell.
    pub fn signal(&self, cell: usize, signal: Signal) -> Result<()> {
        send(self.cells[cell].pid, signal).with_context(|| format!("signal cell {}", cell + 1))
    }

    /// Sends a signal to `volvox up`: while it is stopped, no cell is started again.
    pub fn signal_up(&self, signal: Signal) -> Result<()> {
        send(self.up.as_ref().context("the ring has ended")?.pid(), signal).context("signal up")
    }

    /// Waits until no thread of a cell runs any more, after a signal that ends or stops it.
    pub fn halted(&self, cell: usize) -> Result<()> {
        halted(self.cells[cell].pid)
    }

    /// Waits until a cell that has ended runs again.
    pub fn restarted(&mut self, cell: usize) -> Result<()> {
        let before = self.cells[cell].pid;
        let pid = until("the cell was not started again", || {
            let lines = self.printed()?;
            let mut own = lines.iter().filter(|line| line["cell"] == cell + 1);
            let pid = own.next_back().and_then(|line| line["process"].as_u64());
            Ok(pid.filter(|pid| *pid != u64::from(before)))
        })?;
        self.cells[cell].pid = u32::try_from(pid).context("no process")?;
        Ok(())
    }

    /// The cell that leads the agreement, by the votes on disk, if they name one.
    pub fn leader(&self) -> Option<u16> {
        let logs = (1..=self.cells.len())
            .filter_map(|cell| fs::read(self.directory.join(cell.to_string()).join("log")).ok());
        logs.filter_map(|log| last_leader(&String::from_utf8_lossy(&log))).max().map(|it| it.1)
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
        let _ = self.signal_up(Signal::CONT);
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

fn read_cell(row: &Value) -> Result<Cell> {
    let address = row["clients"].as_str().and_then(|at| at.parse().ok());
    let pid = row["process"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    let (address, pid) = address.zip(pid).with_context(|| format!("no cell: {row}"))?;
    Ok(Cell { address, pid })
}

/// The latest term in which a leader was elected, and that leader, in the log of a voter.
fn last_leader(log: &str) -> Option<(u64, u16)> {
    let votes = log.split("{\"term\":").skip(1).filter_map(|rest| {
        let (term, rest) = rest.split_once(",\"node_id\":")?;
        let (cell, rest) = rest.split_once('}')?;
        let is_elected = rest.starts_with(",\"committed\":true");
        is_elected.then_some((term.parse().ok()?, cell.parse().ok()?))
    });
    votes.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_is_the_one_that_was_elected_last() {
        let vote = |term: u64, cell: u16, committed: bool| {
            format!(
                "\u{1}{{\"Vote\":{{\"leader_id\":{{\"term\":{term},\"node_id\":{cell}}},\
                 \"committed\":{committed}}}}}"
            )
        };
        let log = [vote(1, 1, true), vote(3, 2, true), vote(4, 3, false)].concat();
        assert_eq!(last_leader(&log), Some((3, 2)));
        assert_eq!(last_leader("{\"term\":7"), None);
    }

    #[test]
    fn a_cell_is_read_from_what_up_prints() {
        let row = serde_json::json!({ "cell": 1, "clients": "127.0.0.1:30000", "process": 7 });
        let cell = read_cell(&row).unwrap();
        assert_eq!((cell.address.port(), cell.pid), (30_000, 7));
        assert!(read_cell(&serde_json::json!({ "cell": 1 })).is_err());
    }
}
