//! A range of zeroed words reserved from the kernel, which takes memory only where touched.

use crate::sync::AtomicU64;
use std::io;
use std::ops::Range;

/// Bytes of one word.
const WORD_BYTES: usize = 8;

/// Anonymous memory seen as atomic words. Reserving costs address space only; a page takes memory
/// when it is first written and gives it back on [`Mapping::discard`].
#[cfg(not(any(loom, shuttle)))]
pub(crate) struct Mapping {
    start: std::ptr::NonNull<AtomicU64>,
    words: usize,
}

#[cfg(not(any(loom, shuttle)))]
impl Mapping {
    /// Reserves `bytes` (rounded up to words), asking for huge pages if `huge`.
    pub(crate) fn reserve(bytes: usize, huge: bool) -> io::Result<Self> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let words = bytes.div_ceil(WORD_BYTES).max(1);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let address = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                words * WORD_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        if huge {
            // SAFETY: the range was mapped above; the advice changes page sizes, not contents. A
            // kernel without huge pages refuses it, which costs speed only.
            let _ = unsafe { madvise(address, words * WORD_BYTES, Advice::LinuxHugepage) };
        }
        let start = std::ptr::NonNull::new(address.cast::<AtomicU64>())
            .ok_or_else(|| io::Error::other("the kernel mapped memory at address zero"))?;
        Ok(Self { start, words })
    }

    /// The memory as words.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the range is mapped, page-aligned, zero-initialised and lives as long as `self`;
        // it is only ever accessed as atomic words or by the copies in this module.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// Gives the memory of the whole pages within `range` (in words) back; they read as zero.
    pub(crate) fn discard(&self, range: Range<usize>) {
        use rustix::mm::{Advice, madvise};
        let page = rustix::param::page_size();
        let base = self.start.as_ptr() as usize;
        let end = range.end.min(self.words);
        let from = (base + range.start * WORD_BYTES).next_multiple_of(page);
        let to = (base + end * WORD_BYTES) / page * page;
        if from < to {
            let offset_words = (from - base) / WORD_BYTES;
            // SAFETY: `offset_words` lies within the mapping, as `from < to <= base + length`.
            let address = unsafe { self.start.as_ptr().add(offset_words) };
            // SAFETY: the range lies within this mapping; private anonymous pages that are dropped
            // read as zero, and every word is an atomic, for which zero is a valid value.
            let _ = unsafe { madvise(address.cast(), to - from, Advice::LinuxDontNeed) };
        }
    }
}

#[cfg(not(any(loom, shuttle)))]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `words` borrows `self`, so no reference into the range is left.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.words * WORD_BYTES) };
    }
}

// SAFETY: the memory is owned by the mapping and accessed through atomics only.
#[cfg(not(any(loom, shuttle)))]
unsafe impl Send for Mapping {}
// SAFETY: as above: shared access is atomic.
#[cfg(not(any(loom, shuttle)))]
unsafe impl Sync for Mapping {}

/// The same interface over a vector, for model checkers.
#[cfg(any(loom, shuttle))]
pub(crate) struct Mapping {
    words: Box<[AtomicU64]>,
}

#[cfg(any(loom, shuttle))]
impl Mapping {
    pub(crate) fn reserve(bytes: usize, _huge: bool) -> io::Result<Self> {
        let words = bytes.div_ceil(WORD_BYTES).max(1);
        Ok(Self { words: (0..words).map(|_| AtomicU64::new(0)).collect() })
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    pub(crate) fn discard(&self, _range: Range<usize>) {}
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn discarded_pages_read_as_zero_and_neighbours_stay() {
        let page_words = rustix::param::page_size() / WORD_BYTES;
        let mapping = Mapping::reserve(page_words * 3 * WORD_BYTES, false).expect("memory");
        for word in mapping.words() {
            word.store(7, Ordering::Relaxed);
        }
        mapping.discard(page_words..page_words * 2);
        let at = |index: usize| mapping.words()[index].load(Ordering::Relaxed);
        assert_eq!((at(page_words - 1), at(page_words), at(2 * page_words)), (7, 0, 7));
    }
}
