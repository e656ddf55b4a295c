//! What is used of a log without its lock: its end, what each level has passed, how far entries
//! may be freed, and how much may still be appended.

use crate::account::Account;
use crate::level::{LEVELS, Level, Levels};
use crate::readers::{ReaderId, Readers};
use crate::sync::{AtomicU64, Ordering};

/// Memory is freed at once where more than this part of a log is used, else when blocks are full.
const PART_KEPT: u64 = 4;

pub(crate) struct Shared {
    ends: Ends,
    bounds: Bounds,
    pub(crate) account: Account,
}

/// What every reply reads.
#[repr(align(64))]
struct Ends {
    /// The last position.
    end: AtomicU64,
    /// What each level has passed: everything, if it has no marks.
    passed: [AtomicU64; LEVELS],
}

/// How far entries may be freed. Readers set it under their lock.
struct Bounds {
    /// The last position that no reader wants.
    unwanted: AtomicU64,
    /// The last position that no reader holds back.
    unheld: AtomicU64,
    /// How many values lie apart.
    apart: AtomicU64,
}

impl Shared {
    pub(crate) fn new(capacity: u64) -> Self {
        let passed = std::array::from_fn(|_| AtomicU64::new(u64::MAX));
        let bounds = Bounds {
            unwanted: AtomicU64::new(u64::MAX),
            unheld: AtomicU64::new(u64::MAX),
            apart: AtomicU64::new(0),
        };
        let ends = Ends { end: AtomicU64::new(0), passed };
        Self { ends, bounds, account: Account::new(capacity) }
    }

    #[inline(always)]
    pub(crate) fn end(&self) -> u64 {
        self.ends.end.load(Ordering::Acquire)
    }

    /// The position after the last. The log is locked, so nothing else writes it.
    #[inline(always)]
    pub(crate) fn next(&self) -> u64 {
        self.ends.end.load(Ordering::Relaxed) + 1
    }

    /// Publishes a position, after what shows it for each slice. The log is locked.
    #[inline(always)]
    pub(crate) fn set_end(&self, position: u64) {
        self.ends.end.store(position, Ordering::Release);
    }

    /// The last position that `level` has passed.
    #[inline(always)]
    pub(crate) fn passed(&self, level: Level) -> u64 {
        self.ends.passed[level.index()].load(Ordering::Acquire)
    }

    /// The last position that no reader wants, none of which may be after `end`.
    pub(crate) fn unwanted(&self) -> u64 {
        self.bounds.unwanted.load(Ordering::Acquire).min(self.end())
    }

    /// The last position that no reader holds back, likewise.
    pub(crate) fn unheld(&self) -> u64 {
        self.bounds.unheld.load(Ordering::Acquire).min(self.end())
    }

    /// Notes how many values lie apart. The log is locked.
    pub(crate) fn set_apart(&self, count: usize) {
        self.bounds.apart.store(count as u64, Ordering::Relaxed);
    }

    /// Whether what is unwanted should be freed now.
    #[inline]
    pub(crate) fn should_free(&self) -> bool {
        self.bounds.apart.load(Ordering::Relaxed) > 0
            || self.account.used() > self.account.capacity() / PART_KEPT
    }

    /// Spends `charge` of the room of one reader, if it is there and has some left. Returns whether
    /// that is so. The readers are locked.
    pub(crate) fn spend_of_one(&self, readers: &mut Readers, of: ReaderId, charge: u64) -> bool {
        let before = readers.granted();
        let Some((left, own)) = readers.left_of(of) else { return false };
        if self.account.spent() >= left {
            return false;
        }
        *own += charge;
        if self.account.limit(readers.granted()) < left {
            self.account.spend_of_one(charge);
            return true;
        }
        // Changes have spent the rest meanwhile.
        if let Some((_, own)) = readers.left_of(of) {
            *own -= charge;
        }
        self.account.limit(before);
        false
    }

    /// Publishes how far entries may be freed. The readers are locked.
    #[inline]
    pub(crate) fn set_bounds(&self, readers: &Readers) {
        let bounds = readers.bounds();
        self.bounds.unwanted.store(bounds.unwanted, Ordering::Release);
        self.bounds.unheld.store(bounds.unheld, Ordering::Release);
    }

    /// Publishes what `level` has passed, whose marks have changed. What had passed stays passed.
    /// The readers are locked, here and below.
    pub(crate) fn set_level(&self, level: Level, readers: &Readers) {
        let passed = readers.passed(level).max(self.passed(level).min(self.end()));
        self.ends.passed[level.index()].store(passed, Ordering::Release);
    }

    /// Publishes what `levels` have passed. Returns those that rose.
    #[inline]
    pub(crate) fn raise(&self, levels: Levels, readers: &Readers) -> Levels {
        let mut rose = Levels::default();
        for level in levels.iter() {
            let passed = readers.passed(level);
            if passed > self.passed(level) {
                self.ends.passed[level.index()].store(passed, Ordering::Release);
                rose.insert(level);
            }
        }
        rose
    }
}
