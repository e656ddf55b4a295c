//! Up to which version the records of each slice are void, and up to which segment its barriers:
//! those of a part that the cell had in a range, and has no more.
//!
//! ```text
//! a copy of the range | not in sync | a copy again
//! records: v1 ... v9  |             | v20 ...
//!                  floor 9: kept in a file, before the first record of the new part
//! ```
//!
//! A start passes over records up to the floor of their slice. What comes later from a primary has
//! higher versions than all that it had given before, so no record of a new part is void.
//!
//! What a primary says of barriers may be older than the floor, so versions do not tell those of a
//! new part from those of the one before. Where there were some, the journal begins another segment
//! in each lane, and a start passes over barriers in segments before that.
//!
//! ```text
//! magic (8) | ring (8) | cell (4) | versions (8 a slice) | segments (4 a slice) | CRC (4)
//! ```
//!
//! All numbers are little-endian.

use crate::disk::Disk;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock};
use base::{SLICES, SliceId, Version};
use std::io;
use std::sync::Arc;

/// The file, and what it is written as before it takes that name.
const FILE: &str = "floors";
const NEW_FILE: &str = "floors.new";

const MAGIC: [u8; 8] = *b"VXFLOOR2";
const CRC_BYTES: usize = 4;
/// The ring and the cell whose journal it is; 0 where that is not known.
const OWNER_BYTES: usize = 12;
const VERSIONS_BYTES: usize = SLICES * 8;
const BYTES: usize = MAGIC.len() + OWNER_BYTES + VERSIONS_BYTES + SLICES * 4 + CRC_BYTES;

/// The floors of all slices.
pub(crate) struct Floors {
    disk: Arc<dyn Disk>,
    of: Box<[AtomicU64]>,
    segments: Box<[AtomicU32]>,
    /// The ring and the cell that have used the journal since it was new, or last not whole.
    owner: Mutex<Option<(u64, u32)>>,
    /// How often some were raised, and as of which of these times they are on the disk.
    raised: AtomicU64,
    saved: AtomicU64,
}

impl Floors {
    /// Those that are on the disk; zero for all slices where none are.
    ///
    /// # Errors
    /// When the disk refuses, or the file is not what was written.
    pub(crate) fn load(disk: &Arc<dyn Disk>) -> io::Result<Self> {
        let of = (0..SLICES).map(|_| AtomicU64::new(0)).collect();
        let segments = (0..SLICES).map(|_| AtomicU32::new(0)).collect();
        let [raised, saved] = [0, 0].map(AtomicU64::new);
        let owner = Mutex::new(None);
        let this = Self { disk: disk.clone(), of, segments, owner, raised, saved };
        if !disk.list()?.iter().any(|name| name == FILE) {
            return Ok(this);
        }
        let file = disk.open(FILE)?;
        let mut bytes = vec![0; BYTES];
        // One of another length stays zeros, which are refused below.
        if file.bytes()? == BYTES as u64 {
            file.read_at(0, &mut bytes)?;
        }
        let (whole, crc) = bytes.split_at(BYTES - CRC_BYTES);
        if !whole.starts_with(&MAGIC) || crc32fast::hash(whole).to_le_bytes() != crc {
            let what = format!("{FILE} is not what was written");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let (owner, rest) = whole[MAGIC.len()..].split_at(OWNER_BYTES);
        let (versions, segments) = rest.split_at(VERSIONS_BYTES);
        let (ring, cell) = owner.split_at(8);
        let ring = ring.try_into().map_or(0, u64::from_le_bytes);
        let cell = cell.try_into().map_or(0, u32::from_le_bytes);
        *lock(&this.owner) = (cell != 0).then_some((ring, cell));
        let (versions, _) = versions.as_chunks();
        for (floor, version) in this.of.iter().zip(versions) {
            floor.store(u64::from_le_bytes(*version), Ordering::Relaxed);
        }
        let (segments, _) = segments.as_chunks();
        for (floor, segment) in this.segments.iter().zip(segments) {
            floor.store(u32::from_le_bytes(*segment), Ordering::Relaxed);
        }
        Ok(this)
    }

    /// The ring and the cell whose journal it is, where that has been whole since.
    pub(crate) fn owner(&self) -> Option<(u64, u32)> {
        *lock(&self.owner)
    }

    /// It is the journal of this cell of this ring, which the map knows. It is saved soon.
    pub(crate) fn set_owner(&self, ring: u64, cell: u32) {
        let before = lock(&self.owner).replace((ring, cell));
        if before != Some((ring, cell)) {
            self.raised.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether the disk says whose journal it is.
    pub(crate) fn is_owned(&self) -> bool {
        self.owner().is_some() && !self.are_behind()
    }

    /// The journal is new, or not whole: what the cell has led is not in it. One that `is_new` has
    /// none of the segments of before.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn disown(&self, is_new: bool) -> io::Result<()> {
        let mut changes = lock(&self.owner).take().is_some();
        for segment in self.segments.iter().filter(|_| is_new) {
            changes |= segment.swap(0, Ordering::AcqRel) > 0;
        }
        if !changes {
            return Ok(());
        }
        self.raised.fetch_add(1, Ordering::AcqRel);
        self.save()
    }

    /// Records of `slice` with this version or an older one are void.
    pub(crate) fn of(&self, slice: SliceId) -> Version {
        Version::from_raw(self.of[slice.index()].load(Ordering::Acquire))
    }

    /// Barriers of `slice` in this segment or an earlier one are void.
    pub(crate) fn segment_of(&self, slice: SliceId) -> u32 {
        self.segments[slice.index()].load(Ordering::Acquire)
    }

    /// Barriers of these slices in `segment` or an earlier one are void: once the next versions
    /// that are raised are on the disk.
    pub(crate) fn raise_segments(&self, slices: &[SliceId], segment: u32) {
        let floors = slices.iter().map(|slice| &self.segments[slice.index()]);
        floors.for_each(|floor| _ = floor.fetch_max(segment, Ordering::AcqRel));
    }

    /// Raises those of some slices. Returns a number: they are on the disk when that
    /// [`Floors::is_saved`].
    pub(crate) fn raise(&self, floors: impl Iterator<Item = (SliceId, Version)>) -> u64 {
        for (slice, version) in floors {
            self.of[slice.index()].fetch_max(version.raw(), Ordering::AcqRel);
        }
        self.raised.fetch_add(1, Ordering::AcqRel) + 1
    }

    pub(crate) fn is_saved(&self, number: u64) -> bool {
        self.saved.load(Ordering::Acquire) >= number
    }

    /// Whether some were raised that are not on the disk.
    pub(crate) fn are_behind(&self) -> bool {
        !self.is_saved(self.raised.load(Ordering::Acquire))
    }

    /// Writes them to the disk, if some were raised. Called by one thread; it waits for the disk.
    ///
    /// # Errors
    /// When the disk refuses: those from before are there then, or these.
    pub(crate) fn save(&self) -> io::Result<()> {
        let number = self.raised.load(Ordering::Acquire);
        if self.is_saved(number) {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(BYTES);
        let (ring, cell) = self.owner().unwrap_or_default();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&ring.to_le_bytes());
        bytes.extend_from_slice(&cell.to_le_bytes());
        for floor in &self.of {
            bytes.extend_from_slice(&floor.load(Ordering::Acquire).to_le_bytes());
        }
        for segment in &self.segments {
            bytes.extend_from_slice(&segment.load(Ordering::Acquire).to_le_bytes());
        }
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        let file = self.disk.open(NEW_FILE)?;
        file.set_bytes(0)?;
        file.write_at(0, &bytes)?;
        file.sync()?;
        self.disk.rename(NEW_FILE, FILE)?;
        self.disk.sync_directory()?;
        self.saved.fetch_max(number, Ordering::AcqRel);
        Ok(())
    }
}
