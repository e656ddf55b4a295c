//! Power cuts on real file systems: a load on a disk that records, cut at many points afterwards.
//!
//! ```text
//! make, start, fill, sync   |<------ load ------>|   kill, unmount
//!                               cut    cut cut       each: image, mount, start, read all, judge
//! ```
//!
//! The times of the record and of the answers are of one clock. A change counts as answered if its
//! answer was read before the cut, and nothing counts that reached the disk after it.

mod record;
mod volume;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::load::{Tally, Writers};
use super::system::{System, kill};
use crate::lab::Lab;
use measure::clock::mono_ns;
use measure::exec::{Exec, WAIT_MAX};
use measure::rng::Rng;
use record::{Follower, Record};
use volume::{Disk, FileSystem, Mounted};

/// How long a load is.
const LOAD: Duration = Duration::from_secs(4);
/// Cuts of one load, at most.
const CUTS_MAX: usize = 25;

/// What cuts have shown of a system.
#[derive(Debug, Default)]
pub struct Cut {
    /// What was lost.
    pub tally: Tally,
    /// The longest sync that was recorded.
    pub sync_max_ns: u64,
    /// Blocks that were not flushed: those that the cuts kept, and those that they dropped.
    pub blocks: [u64; 2],
}

/// Why power cannot be cut here, if it cannot.
pub fn need() -> Result<()> {
    volume::need()
}

/// Cuts the power of a system as often, half of it on each file system.
pub fn cuts(lab: &Lab, system: System, cuts: usize) -> Result<Cut> {
    need()?;
    let mut all = Cut::default();
    for (file_system, cuts) in [(FileSystem::Ext4, cuts.div_ceil(2)), (FileSystem::Xfs, cuts / 2)] {
        let mut done = 0;
        while done < cuts {
            let some = (cuts - done).min(CUTS_MAX);
            let bench = Bench::new(lab, system, file_system)?;
            let load = bench.load()?;
            bench.cuts(&load, some, &mut all).with_context(|| {
                format!("{} on {}, seed {}", system.name(), file_system.name(), load.seed)
            })?;
            fs::remove_dir_all(&bench.folder).context("remove the images")?;
            done += some;
        }
    }
    Ok(all)
}

/// One system on one file system.
struct Bench<'a> {
    lab: &'a Lab,
    system: System,
    file_system: FileSystem,
    folder: PathBuf,
}

/// A load, and what was recorded of it.
struct Load {
    seed: u64,
    writers: Writers,
    record: Record,
    began_ns: u64,
    ended_ns: u64,
}

impl<'a> Bench<'a> {
    fn new(lab: &'a Lab, system: System, file_system: FileSystem) -> Result<Self> {
        let folder = lab.folder().join("tier-power");
        if folder.exists() {
            fs::remove_dir_all(&folder).context("empty the folder of the images")?;
        }
        fs::create_dir_all(&folder).context("make the folder of the images")?;
        Ok(Self { lab, system, file_system, folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn detail(&self, what: &str) {
        self.lab.detail(&format!("{}, {}, {what}", self.system.name(), self.file_system.name()));
    }

    /// Runs the load on a disk that records. `image` is left as the disk was before.
    fn load(&self) -> Result<Load> {
        self.detail("load");
        let [image, disk, record] = ["image", "disk", "record"].map(|name| self.path(name));
        self.file_system.make(&image)?;
        copy(&image, &disk)?;
        let recorder = Disk::new(self.lab, &disk, &record, &self.path("served"))?;
        let mounted = Mounted::new(&recorder.file(), &self.path("mount"))?;
        let directory = self.path("mount").join("data");
        self.system.prepare(&directory)?;
        let server = self.system.start(self.lab, &directory, &self.folder)?;
        let (seed, address) = (mono_ns(), server.address());
        let mut writers = Writers::new(self.system, seed);
        writers.fill(address)?;
        Exec::new("sync").arg("--file-system").arg(&directory).capture(WAIT_MAX)?;
        let began_ns = mono_ns();
        writers.load(address, &AtomicBool::new(false), || {
            // It is as long as this: nothing is waited for.
            thread::sleep(LOAD);
            Ok(())
        })?;
        let ended_ns = mono_ns();
        kill(server)?;
        mounted.end()?;
        recorder.end()?;
        let record = Record::open(&record)?;
        Ok(Load { seed, writers, record, began_ns, ended_ns })
    }

    /// Cuts a load at some points.
    fn cuts(&self, load: &Load, count: usize, all: &mut Cut) -> Result<()> {
        let mut rng = Rng::new(load.seed, u64::MAX);
        let mut follower = Follower::new(&load.record, &self.path("image"))?;
        let (began_ns, ended_ns) = (load.began_ns, load.ended_ns);
        all.sync_max_ns = all.sync_max_ns.max(load.record.sync_max_ns(began_ns, ended_ns));
        for (number, cut_ns) in points(load, count, &mut rng).into_iter().enumerate() {
            self.detail(&format!("cut {}", number + 1));
            follower.advance(cut_ns)?;
            let copied = self.path("cut");
            copy(&self.path("image"), &copied)?;
            let blocks = follower.tear(&copied, cut_ns, &mut rng)?;
            (0..2).for_each(|at| all.blocks[at] += blocks[at]);
            all.tally.add(&self.after(load, &copied, cut_ns)?);
        }
        Ok(())
    }

    /// Starts the system on what a cut has left, and judges what it holds.
    fn after(&self, load: &Load, image: &Path, cut_ns: u64) -> Result<Tally> {
        let mounted = Mounted::new(image, &self.path("mount")).context("mount after a cut")?;
        let directory = self.path("mount").join("data");
        let tally = match self.system.start(self.lab, &directory, &self.folder) {
            Ok(server) => {
                let found = load.writers.read(server.address());
                kill(server)?;
                load.writers.judge(&found.context("read after a cut")?, load.began_ns, cut_ns)
            }
            Err(error) => {
                let mut tally = Tally { cuts: 1, unstarted: 1, ..Tally::default() };
                tally.complain(&format!("{error:#}"));
                tally
            }
        };
        mounted.end()?;
        Ok(tally)
    }
}

/// When the power is cut, in order: one half at any time, the other where the disk was written to.
fn points(load: &Load, count: usize, rng: &mut Rng) -> Vec<u64> {
    let writes = load.record.times(load.began_ns, load.ended_ns);
    let mut point = |number: usize| {
        if number.is_multiple_of(2) && !writes.is_empty() {
            return writes[rng.below(writes.len() as u64) as usize];
        }
        let ms = (load.ended_ns - load.began_ns) / 1_000_000;
        load.began_ns + rng.below(ms.max(1)) * 1_000_000
    };
    let mut points: Vec<u64> = (0..count).map(&mut point).collect();
    points.sort_unstable();
    points
}

/// Copies an image; what was never written takes no room.
fn copy(from: &Path, to: &Path) -> Result<()> {
    Exec::new("cp").arg("--sparse=always").arg(from).arg(to).capture(WAIT_MAX).map(drop)
}
