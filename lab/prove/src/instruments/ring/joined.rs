//! A ring of `volvox join`: a configuration file and a network namespace for each cell.
//!
//! ```text
//! target/prove/five/secret
//!                   1.toml  1.log  1/      of the first cell, which founds the ring
//!                   2.toml  2.log  2/      ...
//! ```
//!
//! A cell is named by its place, from 0 on; the number that the ring gives it may be another one.
//! The disk of the last cell that founds the ring is small, so that it can be filled. Invariant:
//! no cell outlives the ring, also none that is stopped by a signal.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::map::RingMap;
use super::waits::{Cell, halted, map_of, send, until, whole_after};
use crate::lab::Lab;
use measure::namespaces::Network;
use measure::process::accepts;

/// Ports of every cell: of clients, of heartbeats and agreement, of requests between cells.
const PORTS: [u16; 3] = [11_211, 12_211, 13_211];
/// What cells prove to each other that they know.
const SECRET: &str = "a secret of this measurement alone";
/// Bytes of the small disk.
const DISK_BYTES: u64 = 4 << 20;
/// Bytes that are written at once to fill it.
const PAGE: usize = 4096;

/// A ring that runs.
pub struct Joined {
    volvox: PathBuf,
    folder: PathBuf,
    memory_mib: u64,
    founders: usize,
    children: Vec<Child>,
    /// The small disk, as this process sees it.
    disk: PathBuf,
    network: Network,
}

impl Joined {
    /// A ring of `founders` cells with one worker each and this much memory, and places for more.
    pub fn start(lab: &Lab, founders: usize, more: usize, memory_mib: u64) -> Result<Self> {
        let (volvox, folder) = (lab.volvox()?, lab.folder().join("five"));
        if folder.is_dir() {
            fs::remove_dir_all(&folder).context("empty the directory of the ring")?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        fs::write(folder.join("secret"), SECRET)?;
        let network = Network::new(founders + more)?;
        let small = folder.join(founders.to_string());
        fs::create_dir(&small)?;
        let disk = network.mount(founders - 1, &small, DISK_BYTES)?;
        let children = Vec::new();
        let mut ring = Self { volvox, folder, memory_mib, founders, children, disk, network };
        for _ in 0..founders {
            ring.add()?;
        }
        ring.whole_after(0)?;
        Ok(ring)
    }

    /// Starts one more cell; its place.
    pub fn add(&mut self) -> Result<usize> {
        let place = self.children.len();
        let child = self.spawn(place)?;
        self.children.push(child);
        Ok(place)
    }

    /// Starts a cell again that has ended.
    pub fn start_again(&mut self, place: usize) -> Result<()> {
        self.children[place] = self.spawn(place)?;
        Ok(())
    }

    /// The place of the cell with the small disk.
    pub fn small_disk(&self) -> usize {
        self.founders - 1
    }

    /// Fills the small disk.
    pub fn fill_disk(&self) -> Result<()> {
        use std::io::Write;
        let path = self.disk.join("fill");
        let mut file = File::create(&path).with_context(|| format!("make {}", path.display()))?;
        for _ in 0..=DISK_BYTES / PAGE as u64 {
            if file.write_all(&[b'x'; PAGE]).is_err() {
                return Ok(());
            }
        }
        anyhow::bail!("{} has more than {DISK_BYTES} bytes", path.display())
    }

    /// Frees what [`Joined::fill_disk`] has taken.
    pub fn free_disk(&self) -> Result<()> {
        fs::remove_file(self.disk.join("fill")).context("free the disk")
    }

    /// All cells.
    pub fn cells(&self) -> Vec<Cell> {
        let cell = |(place, child): (usize, &Child)| Cell {
            address: address(place, PORTS[0]),
            pid: child.id(),
        };
        self.children.iter().enumerate().map(cell).collect()
    }

    /// The map that a cell goes by.
    pub fn map(&self, place: usize) -> Result<RingMap> {
        map_of(self.cells()[place])
    }

    /// Waits until all cells say that every range has its copies, by one map that is newer than
    /// this version; the map of each.
    pub fn whole_after(&self, version: u64) -> Result<Vec<RingMap>> {
        whole_after(&self.cells(), version)
    }

    /// Waits until a cell takes clients.
    pub fn serves(&self, place: usize) -> Result<()> {
        let address = address(place, PORTS[0]);
        until("the cell takes no clients", || Ok(accepts(address).ok()))
    }

    /// Sends a signal to a cell.
    pub fn signal(&self, place: usize, signal: Signal) -> Result<()> {
        let sent = send(self.children[place].id(), signal);
        sent.with_context(|| format!("signal the cell at place {}", place + 1))
    }

    /// Waits until no thread of a cell runs any more, after a signal that ends or stops it.
    pub fn halted(&self, place: usize) -> Result<()> {
        halted(self.children[place].id())
    }

    /// Waits until a cell has ended of itself, or by a signal.
    pub fn ended(&mut self, place: usize) -> Result<()> {
        until("the cell runs", || Ok(self.children[place].try_wait()?.map(drop)))
    }

    /// What a cell has logged, in all its lives.
    pub fn log(&self, place: usize) -> Result<String> {
        let path = self.folder.join(format!("{}.log", place + 1));
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    }

    /// The network between cells.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Ends all cells: an error if one has ended before.
    pub fn stop(mut self) -> Result<()> {
        for place in 0..self.children.len() {
            let early = self.children[place].try_wait()?;
            ensure!(early.is_none(), "the cell at place {} has ended by itself", place + 1);
        }
        Ok(())
    }

    fn spawn(&self, place: usize) -> Result<Child> {
        let own = self.folder.join((place + 1).to_string());
        let [file, log] = ["toml", "log"].map(|end| own.with_extension(end));
        fs::write(&file, self.settings(place)).with_context(|| format!("{}", file.display()))?;
        let log = File::options().create(true).append(true).open(log)?;
        let words = self.network.words(place);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(&self.volvox).args(["join", "--config"]).arg(&file);
        // A setting of the environment would be one of the cell.
        let settings =
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("VOLVOX_"));
        for (name, _) in settings {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // By this thread: the child is killed when it ends.
        command.spawn().with_context(|| format!("start the cell at place {}", place + 1))
    }

    /// The configuration file of a cell. The first one founds the ring.
    fn settings(&self, place: usize) -> String {
        let [clients, control, links] = PORTS.map(|port| address(place, port));
        let directory = self.folder.join((place + 1).to_string());
        let of = match place {
            0 => format!("seeds = []\ncells = {}\ncopies = 2", self.founders),
            _ => format!("seeds = [\"{}\"]", address(0, PORTS[1])),
        };
        format!(
            "[server]\ndriver = \"epoll\"\nworkers = 1\nlisten = [\"{clients}\"]\n\
             [memory]\nlimit = \"{}M\"\n\
             [ring]\ndirectory = {directory:?}\nlisten = [\"{control}\"]\nlinks = [\"{links}\"]\n\
             secret_file = {:?}\n{of}\n",
            self.memory_mib,
            self.folder.join("secret")
        )
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        for child in &mut self.children {
            // One that has ended already is no error. SIGKILL ends one that is stopped, too.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn address(place: usize, port: u16) -> SocketAddr {
    (Network::address(place), port).into()
}
