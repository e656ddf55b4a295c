//! What a reader receives at once.

use crate::entry::{Broken, Entry, Record, key_of, slice_of};
use base::SliceId;
use std::sync::Arc;

/// Most bytes that are copied at once.
pub const BATCH_BYTES_MAX: usize = 64 << 10;

/// Entries that were copied from a log, in the order of their positions, without a gap.
///
/// The buffer is used again for the next read. A large value is not copied: it is shared with the
/// log, and the batch ends with it. While a batch holds it, its memory stays, even when the log has
/// freed it.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    apart: Option<Arc<Vec<u8>>>,
    first: u64,
    count: u64,
    bytes_max: usize,
    /// The lowest and the highest slice of the items that its entries are about.
    slices: Option<(SliceId, SliceId)>,
    /// Whether an entry is about no item.
    has_others: bool,
}

impl Batch {
    /// A batch that takes `bytes_max` bytes at a time, or one entry that is longer. More than
    /// [`BATCH_BYTES_MAX`] is not used: a log is locked while entries are copied.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max: bytes_max.min(BATCH_BYTES_MAX), ..Self::default() }
    }

    /// Whether there was nothing to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of its entries.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count
    }

    /// The position of its first entry, or of the next one if it is empty.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The position after its last entry: where to read on.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.first + self.count
    }

    /// The lowest and the highest slice of the items that its entries are about, if they are about
    /// any.
    #[must_use]
    pub fn slices(&self) -> Option<(SliceId, SliceId)> {
        self.slices
    }

    /// Whether each of its entries is about an item.
    #[must_use]
    pub fn is_of_items(&self) -> bool {
        !self.has_others
    }

    /// Its bytes, one part after the other, as [`Records`] reads them. They do not contain
    /// [`Batch::first`].
    #[must_use]
    pub fn parts(&self) -> [&[u8]; 2] {
        [&self.bytes, self.apart()]
    }

    /// Its entries.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let records = Records { bytes: &self.bytes, apart: self.apart(), position: self.first };
        records.map(|record| record.expect("invariant: a log holds whole entries"))
    }

    fn apart(&self) -> &[u8] {
        self.apart.as_ref().map_or(&[], |value| value)
    }

    /// Empties it: the next entry is that at `first`.
    pub(crate) fn begin(&mut self, first: u64) {
        self.bytes.clear();
        (self.apart, self.first, self.count) = (None, first, 0);
        (self.slices, self.has_others) = (None, false);
    }

    /// Appends an entry if it fits.
    pub(crate) fn push(&mut self, entry: &[u8], apart: Option<&Arc<Vec<u8>>>) -> bool {
        let fits = self.count == 0 || self.bytes.len() + entry.len() <= self.bytes_max;
        if self.apart.is_some() || !fits {
            return false;
        }
        self.bytes.extend_from_slice(entry);
        self.apart = apart.cloned();
        self.count += 1;
        match slice_of(entry) {
            Some(slice) => {
                let (lowest, highest) = self.slices.unwrap_or((slice, slice));
                self.slices = Some((lowest.min(slice), highest.max(slice)));
            }
            None => self.has_others = true,
        }
        true
    }
}

/// Iterates over the entries in the bytes of a batch, which may have come from another cell. After
/// an error it ends.
#[derive(Clone)]
pub struct Records<'a> {
    bytes: &'a [u8],
    apart: &'a [u8],
    position: u64,
}

impl<'a> Records<'a> {
    /// The entries in `bytes`, the first of which stands at `first`.
    #[must_use]
    pub fn new(first: u64, bytes: &'a [u8]) -> Self {
        Self { bytes, apart: &[], position: first }
    }

    /// The key of the next entry, and goes past that; empty where it is about no item. It is not
    /// checked whether that is an entry. `None` at the end, and at what is too short for one.
    #[inline]
    pub fn next_key(&mut self) -> Option<&'a [u8]> {
        let (key, after) = key_of(self.bytes)?;
        (self.bytes, self.position) = (after, self.position.wrapping_add(1));
        Some(key)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.bytes);
        Some(Entry::decode_parts(bytes, self.apart).map(|(entry, length)| {
            let position = self.position;
            self.bytes = &bytes[length..];
            self.position = self.position.wrapping_add(1);
            Record { position, entry }
        }))
    }
}
