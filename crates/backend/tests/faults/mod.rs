//! A simulated disk of one file: it fails as a test says, has a limit, and forgets at a power cut
//! what was not synced.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use tier::{Disk, File};

/// The unit that is durable or not, in bytes.
const SECTOR: usize = 512;

/// Clones are the same disk.
#[derive(Clone, Default)]
pub struct FaultyDisk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// The sectors that the next sync writes.
    dirty: BTreeSet<usize>,
    bytes_max: Option<usize>,
    /// What fails, and with which number of the system.
    fault: Option<(Call, i32)>,
    /// How many calls may still pass before `fault` begins.
    passes: u32,
    /// How many calls the fault has ended.
    failed: u32,
}

/// A call of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Read,
    Write,
    Extend,
    Sync,
}

impl FaultyDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Makes all calls of one kind fail, after the next `passes` of them.
    pub fn fail(&self, call: Call, number: i32, passes: u32) {
        let mut state = self.state();
        (state.fault, state.passes, state.failed) = (Some((call, number)), passes, 0);
    }

    /// Ends the fault. Returns how many calls it has ended.
    pub fn repair(&self) -> u32 {
        let mut state = self.state();
        state.fault = None;
        state.failed
    }

    /// The file cannot become longer than this.
    pub fn limit(&self, bytes: Option<usize>) {
        self.state().bytes_max = bytes;
    }

    /// Forgets what is not durable.
    pub fn cut_power(&self) {
        let mut state = self.state();
        state.bytes = state.durable.clone();
        state.dirty.clear();
    }

    /// What the file holds.
    pub fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    /// A disk whose file holds this.
    pub fn holding(bytes: Vec<u8>) -> Self {
        let disk = Self::default();
        disk.state().durable.clone_from(&bytes);
        disk.state().bytes = bytes;
        disk
    }
}

impl State {
    fn check(&mut self, call: Call) -> io::Result<()> {
        match self.fault {
            Some((failing, _)) if failing == call && self.passes > 0 => self.passes -= 1,
            Some((failing, number)) if failing == call => {
                self.failed += 1;
                return Err(io::Error::from_raw_os_error(number));
            }
            _ => {}
        }
        Ok(())
    }

    fn extend(&mut self, bytes: usize) -> io::Result<()> {
        if bytes > self.bytes.len() && self.bytes_max.is_some_and(|max| bytes > max) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let before = self.bytes.len();
        self.bytes.resize(bytes, 0);
        self.dirty.extend(before.min(bytes) / SECTOR..bytes.div_ceil(SECTOR));
        Ok(())
    }
}

impl Disk for FaultyDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(vec!["file".to_owned()])
    }

    fn open(&self, _: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(self.clone()))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

impl File for FaultyDisk {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.check(Call::Write)?;
        let begin = usize::try_from(at).unwrap();
        let end = begin + bytes.len();
        if end > state.bytes.len() {
            state.extend(end)?;
        }
        state.bytes[begin..end].copy_from_slice(bytes);
        state.dirty.extend(begin / SECTOR..end.div_ceil(SECTOR));
        Ok(())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let mut state = self.state();
        state.check(Call::Read)?;
        let begin = usize::try_from(at).unwrap();
        let found = state.bytes.get(begin..begin + into.len());
        into.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.state().bytes.len() as u64)
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        state.check(Call::Extend)?;
        state.extend(usize::try_from(bytes).unwrap())
    }

    /// A sync that fails loses what it was to write: the next one succeeds without it.
    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        let dirty = std::mem::take(&mut state.dirty);
        state.check(Call::Sync)?;
        let State { bytes, durable, .. } = &mut *state;
        durable.resize(bytes.len(), 0);
        for sector in dirty {
            let end = bytes.len().min((sector + 1) * SECTOR);
            let begin = end.min(sector * SECTOR);
            durable[begin..end].copy_from_slice(&bytes[begin..end]);
        }
        Ok(())
    }
}
