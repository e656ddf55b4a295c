//! A share of the processors, by a group of the kernel (cgroup), in periods of 10 ms.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result};

/// The period in which a group may use its share.
const PERIOD_US: u64 = 10_000;
/// Where groups are that the first version of the interface divides the processor among.
const OLD: &str = "/sys/fs/cgroup/cpu";
/// The same of the second version.
const NEW: &str = "/sys/fs/cgroup";

/// A group of processes that use no more than their share together.
pub struct Quota {
    folder: PathBuf,
    parent: PathBuf,
}

impl Quota {
    /// A group that may use this number of processors, in parts.
    ///
    /// # Errors
    /// Where this process may make no group.
    pub fn new(name: &str, cores: f64) -> Result<Self> {
        let is_old = Path::new(OLD).join("cpu.cfs_quota_us").is_file();
        let parent = PathBuf::from(if is_old { OLD } else { NEW });
        let folder = parent.join(format!("volvox-{}-{name}", process::id()));
        let quota_us = (cores * PERIOD_US as f64) as u64;
        fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
        let group = Self { folder, parent };
        if is_old {
            group.set("cpu.cfs_period_us", &PERIOD_US.to_string())?;
            group.set("cpu.cfs_quota_us", &quota_us.to_string())?;
        } else {
            group.set("cpu.max", &format!("{quota_us} {PERIOD_US}"))?;
        }
        Ok(group)
    }

    /// Has a process, with all its threads, be one of the group.
    pub fn add(&self, pid: u32) -> Result<()> {
        self.set("cgroup.procs", &pid.to_string())
    }

    /// How many periods there were in which a process of the group wanted to run, and in how many
    /// of them the share was used up.
    pub fn periods(&self) -> Result<[u64; 2]> {
        let stat = fs::read_to_string(self.folder.join("cpu.stat")).context("read cpu.stat")?;
        let number = |name: &str| {
            let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|number| number.parse().ok()).with_context(|| format!("no {name}"))
        };
        Ok([number("nr_periods")?, number("nr_throttled")?])
    }

    fn set(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("write {text} to {}", path.display()))
    }
}

impl Drop for Quota {
    /// What runs still goes back to the group above.
    fn drop(&mut self) {
        let left = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        for pid in left.lines() {
            // One that has ended meanwhile is in no group.
            let _ = fs::write(self.parent.join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.folder);
    }
}
