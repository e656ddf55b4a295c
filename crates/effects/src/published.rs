//! What is read of a log without its lock: its end, and what each level has passed.

use crate::level::{LEVELS, Level, Levels};
use crate::readers::Readers;
use crate::sync::{AtomicU64, Ordering};

#[repr(align(64))]
pub(crate) struct Published {
    /// The last position.
    end: AtomicU64,
    /// What each level has passed: everything, if it has no marks.
    passed: [AtomicU64; LEVELS],
}

impl Published {
    pub(crate) fn new() -> Self {
        let passed = std::array::from_fn(|_| AtomicU64::new(u64::MAX));
        Self { end: AtomicU64::new(0), passed }
    }

    #[inline(always)]
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Publishes a position, after what shows it for each slice. The log is locked.
    #[inline(always)]
    pub(crate) fn set_end(&self, position: u64) {
        self.end.store(position, Ordering::Release);
    }

    /// The last position that `level` has passed.
    #[inline(always)]
    pub(crate) fn passed(&self, level: Level) -> u64 {
        self.passed[level.index()].load(Ordering::Acquire)
    }

    /// Publishes what `level` has passed, also where that is less than before.
    pub(crate) fn set(&self, level: Level, readers: &Readers) {
        self.passed[level.index()].store(readers.passed(level), Ordering::Release);
    }

    /// Publishes what `levels` have passed. Returns those that rose.
    pub(crate) fn raise(&self, levels: Levels, readers: &Readers) -> Levels {
        let mut rose = Levels::default();
        for level in levels.iter() {
            let passed = readers.passed(level);
            if passed > self.passed(level) {
                self.passed[level.index()].store(passed, Ordering::Release);
                rose.insert(level);
            }
        }
        rose
    }
}
