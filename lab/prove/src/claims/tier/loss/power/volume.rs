//! File systems on images, and on a disk that records what is written to it.
//!
//! ```text
//! server -> ext4 or XFS -> loop device -> nbdfuse -> nbdkit with recorder.py -> image, record
//! ```
//!
//! A file system that is dropped is unmounted, and its loop device is given back.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::geteuid;

use crate::lab::Lab;
use measure::exec::{Exec, Running, WAIT_MAX};
use measure::tools::{self, Missing};

/// Bytes of a disk: XFS needs 300 MiB.
const DISK_BYTES: u64 = 512 << 20;
/// Longest that a disk may record.
const RECORD_MAX: Duration = Duration::from_secs(600);
/// How often a disk that begins is looked for.
const POLL: Duration = Duration::from_millis(5);
/// What serves a disk and records it.
const RECORDER: &str = "tests/power_cut/recorder.py";
/// What must be there, beside the privilege to mount.
const DEVICES: [&str; 2] = ["/dev/fuse", "/dev/loop-control"];

/// Which file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// The one of most machines.
    Ext4,
    /// Another, which orders its writes differently.
    Xfs,
}

impl FileSystem {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// Makes an empty one in a file.
    pub fn make(self, image: &Path) -> Result<()> {
        let file = fs::File::create(image).context("make an image")?;
        file.set_len(DISK_BYTES).context("make an image")?;
        let (tool, flags) = match self {
            // All of it is written now, and nothing later while it is recorded.
            Self::Ext4 => (tools::MKFS_EXT4, "-q -F -E nodiscard,lazy_itable_init=0"),
            Self::Xfs => (tools::MKFS_XFS, "-q -f -K"),
        };
        Exec::new(tool.need()?).args(flags.split(' ')).arg(image).capture(WAIT_MAX).map(drop)
    }
}

/// Why disks cannot be cut here, if they cannot.
pub fn need() -> Result<()> {
    let devices = DEVICES.iter().find(|device| !Path::new(device).exists());
    if let Some(device) = devices {
        bail!(Missing(format!("power cuts need {device}: run them where it is")));
    }
    if !geteuid().is_root() {
        bail!(Missing("power cuts mount file systems: run them as the administrator".to_owned()));
    }
    tools::NBDFUSE.need()?;
    tools::need_nbdkit_python().map(drop)
}

/// A file system that is mounted.
pub struct Mounted {
    device: String,
    at: PathBuf,
    is_mounted: bool,
}

impl Mounted {
    /// Mounts the one in a file.
    pub fn new(file: &Path, at: &Path) -> Result<Self> {
        fs::create_dir_all(at).context("make the place of a file system")?;
        let device = Exec::new("losetup").args(["--find", "--show"]).arg(file).capture(WAIT_MAX)?;
        let device = device.trim().to_owned();
        let mut mounted = Self { device, at: at.to_owned(), is_mounted: false };
        Exec::new("mount").arg(&mounted.device).arg(at).capture(WAIT_MAX)?;
        mounted.is_mounted = true;
        Ok(mounted)
    }

    /// Unmounts it.
    pub fn end(mut self) -> Result<()> {
        self.release()
    }

    fn release(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_mounted) {
            Exec::new("umount").arg(&self.at).capture(WAIT_MAX)?;
        }
        match std::mem::take(&mut self.device) {
            device if device.is_empty() => Ok(()),
            device => Exec::new("losetup").arg("-d").arg(device).capture(WAIT_MAX).map(drop),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Nothing is left to report to.
        let _ = self.release();
    }
}

/// A disk that records what is written to it.
pub struct Disk {
    at: PathBuf,
    running: Option<Running>,
}

impl Disk {
    /// The disk of an image, as a file in a folder of its own.
    pub fn new(lab: &Lab, image: &Path, record: &Path, at: &Path) -> Result<Self> {
        fs::create_dir_all(at).context("make the place of a disk")?;
        let exec = Exec::new(tools::NBDFUSE.need()?).arg(at.join("disk")).arg("--command");
        let exec = exec.arg(tools::need_nbdkit_python()?).args(["-s", "--exit-with-parent"]);
        let exec = exec.arg("python").arg(lab.repo().path(RECORDER));
        let exec = exec.arg(format!("image={}", image.display()));
        let running = exec.arg(format!("record={}", record.display())).start(RECORD_MAX)?;
        let mut disk = Self { at: at.to_owned(), running: Some(running) };
        let until = Instant::now() + WAIT_MAX;
        while !disk.file().exists() {
            let is_alive = disk.running.as_mut().is_some_and(Running::is_alive);
            if !is_alive || Instant::now() >= until {
                let said = disk.running.take().map(Running::said).transpose()?;
                bail!("no disk is served: {}", said.map(|it| it.complaints).unwrap_or_default());
            }
            thread::sleep(POLL);
        }
        Ok(disk)
    }

    /// The file that is the disk.
    pub fn file(&self) -> PathBuf {
        self.at.join("disk")
    }

    /// Ends it; its record is whole then.
    pub fn end(mut self) -> Result<()> {
        Exec::new("umount").arg(&self.at).capture(WAIT_MAX)?;
        let running = self.running.take().context("invariant: it runs until it ends")?;
        let said = running.said()?;
        if !said.status.success() {
            bail!("the recorder ended with {}: {}", said.status, said.complaints);
        }
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // Nothing is left to report to.
            let _ = Exec::new("umount").arg("--lazy").arg(&self.at).capture(WAIT_MAX);
            drop(running);
        }
    }
}
