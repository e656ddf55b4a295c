//! Epochs: when memory that was unlinked may be used again.
//!
//! Whoever works on the engine pins the current epoch for the length of a batch. Memory that was
//! unlinked in epoch `e` is free once every pin is of a later epoch. A pin is one store and a
//! fence; advancing happens once per segment, not per item.
//!
//! ```text
//! worker:    pin ---- reads, carves, writes ---- unpin
//! reclaimer:      unlink, retire -> e ......... passed(e)? -> reuse
//! ```
//!
//! The fence in `pin` and the one in `passed` order the two sides: either the reclaimer sees the
//! pin, or the worker sees the unlinking.

use crate::sync::{AtomicU64, Ordering, fence};

/// Value of a slot whose worker is between batches.
const UNPINNED: u64 = u64::MAX;

#[repr(align(64))]
struct Slot(AtomicU64);

pub(crate) struct Epochs {
    current: AtomicU64,
    slots: Box<[Slot]>,
}

impl Epochs {
    pub(crate) fn new(slots: usize) -> Self {
        let slots = (0..slots).map(|_| Slot(AtomicU64::new(UNPINNED))).collect();
        Self { current: AtomicU64::new(1), slots }
    }

    /// Protects all that is linked now until [`Epochs::unpin`]. Pinning again moves the pin on,
    /// which ends a batch: what it wrote must be seen by whoever then walks or reuses its ground.
    #[inline]
    pub(crate) fn pin(&self, slot: usize) {
        let epoch = self.current.load(Ordering::Relaxed);
        self.slots[slot].0.store(epoch, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn unpin(&self, slot: usize) {
        self.slots[slot].0.store(UNPINNED, Ordering::Release);
    }

    /// Closes the current epoch and returns it: the stamp of what was unlinked in it.
    pub(crate) fn retire(&self) -> u64 {
        self.current.fetch_add(1, Ordering::SeqCst)
    }

    /// Whether every batch that began in epoch `stamp` or before has ended.
    pub(crate) fn passed(&self, stamp: u64) -> bool {
        fence(Ordering::SeqCst);
        self.slots.iter().all(|slot| slot.0.load(Ordering::Acquire) > stamp)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_pin_holds_its_epoch_and_later_ones_only() {
        let epochs = Epochs::new(2);
        let before = epochs.retire();
        assert!(epochs.passed(before));
        epochs.pin(0);
        assert!(epochs.passed(before), "pinned after it was retired");
        let during = epochs.retire();
        assert!(!epochs.passed(during));
        epochs.pin(0);
        assert!(epochs.passed(during), "the pin moved on");
        let last = epochs.retire();
        epochs.unpin(0);
        assert!(epochs.passed(last));
    }
}
