//! A range of zeroed places reserved from the kernel, which takes memory only where touched.
//!
//! All places are atomics, so any thread may read and write them at any time. A page that is given
//! back reads as zero again. Counts and ranges are in places, not in bytes.

use crate::sync::{AtomicU32, AtomicU64};
use std::io;
use std::ops::Range;

/// What a mapping consists of: atomics and nothing else.
///
/// # Safety
/// All bytes zero are a value of the type, which is aligned to a page at most; any number of
/// threads may hold references to it, and it needs no drop.
pub(crate) unsafe trait Place {
    /// The value of all zeroes.
    #[cfg(any(loom, shuttle))]
    fn zero() -> Self;
}

// SAFETY: an atomic of zero.
unsafe impl Place for AtomicU64 {
    #[cfg(any(loom, shuttle))]
    fn zero() -> Self {
        Self::new(0)
    }
}

// SAFETY: as many places as it has.
unsafe impl<T: Place, const N: usize> Place for [T; N] {
    #[cfg(any(loom, shuttle))]
    fn zero() -> Self {
        std::array::from_fn(|_| T::zero())
    }
}

/// A word, and halves of words after it.
#[repr(C)]
pub(crate) struct WordAndHalves<const N: usize> {
    pub(crate) word: AtomicU64,
    pub(crate) halves: [AtomicU32; N],
}

// SAFETY: atomics of zero.
unsafe impl<const N: usize> Place for WordAndHalves<N> {
    #[cfg(any(loom, shuttle))]
    fn zero() -> Self {
        Self { word: AtomicU64::new(0), halves: std::array::from_fn(|_| AtomicU32::new(0)) }
    }
}

/// Anonymous memory seen as places. Reserving costs address space only; a page takes memory when
/// it is first written and gives it back on [`Mapping::discard`].
#[cfg(not(any(loom, shuttle)))]
pub(crate) struct Mapping<T: Place> {
    start: std::ptr::NonNull<T>,
    count: usize,
}

#[cfg(not(any(loom, shuttle)))]
impl<T: Place> Mapping<T> {
    /// Reserves `count` places, at least one, asking for huge pages if `huge`.
    pub(crate) fn reserve(count: usize, huge: bool) -> io::Result<Self> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let count = count.max(1);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let address = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                count * size_of::<T>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        if huge {
            // SAFETY: the range was mapped above; the advice changes page sizes, not contents. A
            // kernel without huge pages refuses it, which costs speed only.
            let _ = unsafe { madvise(address, count * size_of::<T>(), Advice::LinuxHugepage) };
        }
        let start = std::ptr::NonNull::new(address.cast::<T>())
            .ok_or_else(|| io::Error::other("the kernel mapped memory at address zero"))?;
        Ok(Self { start, count })
    }

    /// All places.
    #[inline]
    pub(crate) fn places(&self) -> &[T] {
        // SAFETY: the range is mapped, page-aligned, zero-initialised and lives as long as `self`;
        // it is only ever accessed as places or by the copies in this module.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }

    /// Gives the memory of the whole pages within `range` back; they read as zero.
    pub(crate) fn discard(&self, range: Range<usize>) {
        use rustix::mm::{Advice, madvise};
        let page = rustix::param::page_size();
        let base = self.start.as_ptr() as usize;
        let end = range.end.min(self.count);
        let from = (base + range.start * size_of::<T>()).next_multiple_of(page);
        let to = (base + end * size_of::<T>()) / page * page;
        if from < to {
            // SAFETY: `from` lies within the mapping, as `from < to <= base + length`.
            let address = unsafe { self.start.as_ptr().byte_add(from - base) };
            // SAFETY: the range lies within this mapping; private anonymous pages that are dropped
            // read as zero, which is a value of every place.
            let gone = unsafe { madvise(address.cast(), to - from, Advice::LinuxDontNeed) };
            if gone.is_err() {
                // SAFETY: as above. Pages locked against swapping go only when asked like this.
                let _ = unsafe { madvise(address.cast(), to - from, Advice::LinuxDontneedLocked) };
            }
        }
    }
}

#[cfg(not(any(loom, shuttle)))]
impl Mapping<AtomicU64> {
    /// Makes the kernel back `range`, which is not used yet, by memory. All cores do it at once,
    /// because the kernel clears each page.
    pub(crate) fn touch(&self, range: Range<usize>) {
        use crate::sync::Ordering::Relaxed;
        let page_words = rustix::param::page_size() / size_of::<AtomicU64>();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let words = range.len().div_ceil(cores).next_multiple_of(page_words);
        std::thread::scope(|scope| {
            for part in self.places()[range].chunks(words.max(page_words)) {
                let clear = move || {
                    part.iter().step_by(page_words).for_each(|word| {
                        word.store(0, Relaxed);
                    });
                };
                if std::thread::Builder::new().spawn_scoped(scope, clear).is_err() {
                    clear();
                }
            }
        });
    }
}

#[cfg(not(any(loom, shuttle)))]
impl<T: Place> Drop for Mapping<T> {
    fn drop(&mut self) {
        let bytes = self.count * size_of::<T>();
        // SAFETY: `places` borrows `self`, so no reference into the range is left.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), bytes) };
    }
}

// SAFETY: the memory is owned by the mapping and accessed through atomics only.
#[cfg(not(any(loom, shuttle)))]
unsafe impl<T: Place> Send for Mapping<T> {}
// SAFETY: as above: shared access is atomic.
#[cfg(not(any(loom, shuttle)))]
unsafe impl<T: Place> Sync for Mapping<T> {}

/// The same interface over a vector, for model checkers.
#[cfg(any(loom, shuttle))]
pub(crate) struct Mapping<T: Place> {
    places: Box<[T]>,
}

#[cfg(any(loom, shuttle))]
impl<T: Place> Mapping<T> {
    pub(crate) fn reserve(count: usize, _huge: bool) -> io::Result<Self> {
        Ok(Self { places: (0..count.max(1)).map(|_| T::zero()).collect() })
    }

    pub(crate) fn places(&self) -> &[T] {
        &self.places
    }

    pub(crate) fn discard(&self, _range: Range<usize>) {}

    pub(crate) fn touch(&self, _range: Range<usize>) {}
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn discarded_pages_read_as_zero_and_neighbours_stay() {
        let page_places = rustix::param::page_size() / size_of::<AtomicU64>();
        let mapping = Mapping::<AtomicU64>::reserve(page_places * 3, false).expect("memory");
        for place in mapping.places() {
            place.store(7, Ordering::Relaxed);
        }
        let at = |index: usize| mapping.places()[index].load(Ordering::Relaxed);
        mapping.discard(page_places..page_places * 2);
        assert_eq!((at(page_places - 1), at(page_places), at(2 * page_places)), (7, 0, 7));
        let last = &mapping.places()[2 * page_places..];
        // SAFETY: the range lies within the mapping; locking it changes no contents.
        unsafe { rustix::mm::mlock(last.as_ptr().cast_mut().cast(), size_of_val(last)) }
            .expect("a page may be locked");
        mapping.discard(page_places * 2..page_places * 3);
        assert_eq!((at(page_places - 1), at(2 * page_places)), (7, 0), "locked or not");
    }
}
