//! How often this cell executes something for each slice, as its primary. Where a range is divided
//! so that both halves have as much to do follows from it.

use base::{SLICES, SliceId, SliceRange};
use session::WorkerId;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// Most tables of counts. Workers beyond that share them, and some of their counts are lost.
const TABLES: usize = 16;

/// Most parts of a range that are counted apart.
pub(crate) const PARTS_MAX: usize = 64;

/// What the workers have counted.
#[derive(Default)]
pub(crate) struct Loads([OnceLock<Arc<Load>>; TABLES]);

/// By slice, how often something was executed; after 2^32 times it begins again.
pub(crate) struct Load(Box<[AtomicU32]>);

impl Load {
    /// Something is executed for `slice`. The table has one writer: none waits for another.
    #[inline]
    pub(crate) fn count(&self, slice: SliceId) {
        let count = &self.0[slice.index()];
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

impl Loads {
    /// Where this worker counts.
    pub(crate) fn of_worker(&self, worker: WorkerId) -> Arc<Load> {
        let new = || Arc::new(Load((0..SLICES).map(|_| AtomicU32::new(0)).collect()));
        self.0[usize::from(worker.0) % TABLES].get_or_init(new).clone()
    }

    /// How often something was executed for each part of `slices`, modulo 2^32. Part `n` of `of`
    /// ends before slice `len * (n + 1) / of`.
    pub(crate) fn parts(&self, slices: SliceRange) -> impl Iterator<Item = u32> {
        let (len, first) = (slices.len(), slices.numbers().start);
        let of = len.min(PARTS_MAX);
        let sum = move |numbers: std::ops::Range<usize>| {
            let tables = self.0.iter().filter_map(OnceLock::get);
            let counts = tables.flat_map(|table| &table.0[numbers.clone()]);
            counts.fold(0_u32, |sum, count| sum.wrapping_add(count.load(Ordering::Relaxed)))
        };
        (0..of).map(move |part| sum(first + len * part / of..first + len * (part + 1) / of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_range_add_up_what_all_workers_have_counted() {
        let loads = Loads::default();
        let slice = |number| SliceId::new(number).expect("there are as many");
        let [one, other] = [0, 1].map(|worker| loads.of_worker(WorkerId(worker)));
        [100, 101, 163, 164, 227].iter().for_each(|number| one.count(slice(*number)));
        [100, 227, 228, 99].iter().for_each(|number| other.count(slice(*number)));
        // 64 parts of two slices each.
        let parts: Vec<_> = loads.parts(SliceRange::new(100..228)).collect();
        assert_eq!(parts.len(), PARTS_MAX);
        assert_eq!((parts[0], parts[31], parts[32], parts[63]), (3, 1, 1, 2));
        assert_eq!(parts.iter().sum::<u32>(), 7);
        assert!(loads.parts(SliceRange::new(227..230)).eq([2, 1, 0]));
        assert_eq!(loads.parts(SliceRange::NONE).count(), 0);
        // The last part of a length that no 64 parts of one length make up ends with it.
        let uneven: Vec<_> = loads.parts(SliceRange::new(99..229)).collect();
        assert_eq!((uneven.len(), uneven.iter().sum::<u32>()), (PARTS_MAX, 9));
    }

    #[test]
    fn a_count_that_is_full_begins_again() {
        let loads = Loads::default();
        let (load, slice) = (loads.of_worker(WorkerId(0)), SliceId::of(b"key"));
        load.0[slice.index()].store(u32::MAX, Ordering::Relaxed);
        load.count(slice);
        assert!(loads.parts(SliceRange::of(slice)).eq([0]));
        loads.of_worker(WorkerId(16)).count(slice);
        assert!(loads.parts(SliceRange::of(slice)).eq([1]), "a table is shared");
    }
}
