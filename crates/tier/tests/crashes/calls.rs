//! A disk that calls something once, at a moment that a test chooses.

use crate::ring_cell::COPIED;
use faulty::disk::SimDisk;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tier::{Disk, File};

/// Where the first batch of a segment begins.
const SEGMENT_HEAD_BYTES: u64 = 512;

/// When it calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A file was synced that has a batch.
    Synced,
    /// A value that was copied is being written.
    Writes,
    /// Something is being read.
    Reads,
}

type Call = Option<(Moment, Box<dyn FnOnce() + Send>)>;

/// The disk.
pub struct Calls {
    disk: SimDisk,
    call: Arc<Mutex<Call>>,
}

struct FileOf {
    file: Arc<dyn File>,
    call: Arc<Mutex<Call>>,
}

impl Calls {
    /// Another way to a disk.
    pub fn on(disk: &SimDisk) -> Arc<Self> {
        Arc::new(Self { disk: disk.clone(), call: Arc::default() })
    }

    /// Has something called at the next such moment.
    pub fn call(&self, at: Moment, call: impl FnOnce() + Send + 'static) {
        *lock(&self.call) = Some((at, Box::new(call)));
    }
}

impl FileOf {
    fn comes_to(&self, moment: Moment) {
        let call = lock(&self.call).take_if(|(at, _)| *at == moment);
        call.into_iter().for_each(|(_, call)| call());
    }
}

impl Disk for Calls {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let (file, call) = (self.disk.open(name)?, self.call.clone());
        Ok(Arc::new(FileOf { file, call }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }
}

impl File for FileOf {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.windows(COPIED.len()).any(|some| some == COPIED.as_bytes()) {
            self.comes_to(Moment::Writes);
        }
        self.file.write_at(at, bytes)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.comes_to(Moment::Reads);
        self.file.read_at(at, into)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.file.set_bytes(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()?;
        let mut batch = [0; 4];
        if self.file.read_at(SEGMENT_HEAD_BYTES, &mut batch).is_ok() && batch == *b"VXB1" {
            self.comes_to(Moment::Synced);
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
