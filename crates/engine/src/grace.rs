//! Grace periods: when memory that was unlinked may be used again.
//!
//! A thread that works on the engine pins the current number for the length of a batch. Memory
//! that was unlinked when the number was `n` is free once every pin is of a later number: the
//! grace period has passed. A pin is one store and a fence. The number rises once per segment,
//! not per item. It never falls, and 64 bits do not overflow.
//!
//! ```text
//! worker:    pin ---- reads, allocates, writes ---- unpin
//! reclaimer:      unlink, retire -> n ..... horizon: has n passed? -> reuse
//! ```
//!
//! The fence in `pin` and the one in `horizon` order the two sides: either the reclaimer sees the
//! pin, or the worker sees that the memory is unlinked.

use crate::sync::{AtomicU64, Ordering, fence};

/// Value of a slot between two batches.
const UNPINNED: u64 = u64::MAX;

#[repr(align(64))]
struct Slot(AtomicU64);

pub(crate) struct GracePeriods {
    current: AtomicU64,
    slots: Box<[Slot]>,
}

impl GracePeriods {
    pub(crate) fn new(slots: usize) -> Self {
        let slots = (0..slots).map(|_| Slot(AtomicU64::new(UNPINNED))).collect();
        Self { current: AtomicU64::new(1), slots }
    }

    /// Protects all that is linked now until [`GracePeriods::unpin`]. Pinning again moves the pin
    /// on, which ends a batch: what it wrote must be seen by a thread that then walks or reuses its
    /// memory.
    #[inline]
    pub(crate) fn pin(&self, slot: usize) {
        let number = self.current.load(Ordering::Relaxed);
        self.slots[slot].0.store(number, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn unpin(&self, slot: usize) {
        self.slots[slot].0.store(UNPINNED, Ordering::Release);
    }

    /// Raises the number and returns the old one: the stamp of what was unlinked until now.
    pub(crate) fn retire(&self) -> u64 {
        self.current.fetch_add(1, Ordering::SeqCst)
    }

    /// Looks at all pins. What was retired before, and what the oldest batch began after, has
    /// passed. A caller looks before it takes a lock, and asks about any number of stamps.
    pub(crate) fn horizon(&self) -> Horizon {
        // A stamp that is given later is not below this number.
        let current = self.current.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let pins = self.slots.iter().map(|slot| slot.0.load(Ordering::Acquire));
        Horizon(pins.fold(current, u64::min))
    }
}

/// The grace periods that had passed at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Horizon(u64);

impl Horizon {
    /// Whether every batch that began at `stamp` or before has ended.
    pub(crate) fn has_passed(self, stamp: u64) -> bool {
        stamp < self.0
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_pin_holds_its_number_and_later_ones_only() {
        let grace = GracePeriods::new(2);
        let before = grace.retire();
        assert!(grace.horizon().has_passed(before));
        grace.pin(0);
        assert!(grace.horizon().has_passed(before), "pinned after it was retired");
        let during = grace.retire();
        assert!(!grace.horizon().has_passed(during));
        grace.pin(0);
        assert!(grace.horizon().has_passed(during), "the pin moved on");
        let last = grace.retire();
        grace.unpin(0);
        assert!(grace.horizon().has_passed(last));
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use super::*;
    use loom::thread;
    use std::sync::Arc;

    struct Shared {
        grace: GracePeriods,
        link: AtomicU64,
        item: AtomicU64,
    }

    fn shared(link: u64) -> Arc<Shared> {
        Arc::new(Shared {
            grace: GracePeriods::new(1),
            link: AtomicU64::new(link),
            item: AtomicU64::new(7),
        })
    }

    #[test]
    fn what_a_pin_reaches_is_not_used_again() {
        loom::model(|| {
            let shared = shared(1);
            let reader = shared.clone();
            let thread = thread::spawn(move || {
                reader.grace.pin(0);
                if reader.link.load(Ordering::Relaxed) == 1 {
                    assert_eq!(reader.item.load(Ordering::Relaxed), 7);
                }
                reader.grace.unpin(0);
            });
            shared.link.store(0, Ordering::Relaxed);
            let stamp = shared.grace.retire();
            if shared.grace.horizon().has_passed(stamp) {
                shared.item.store(9, Ordering::Relaxed);
            }
            thread.join().expect("no panic");
        });
    }

    /// A batch may end by pinning again; a thread that finds it ended must see its writes.
    #[test]
    fn what_was_written_before_pinning_again_is_seen() {
        loom::model(|| {
            let shared = shared(0);
            let writer = shared.clone();
            writer.grace.pin(0);
            let stamp = shared.grace.retire();
            let thread = thread::spawn(move || {
                writer.item.store(8, Ordering::Relaxed);
                writer.grace.pin(0);
            });
            if shared.grace.horizon().has_passed(stamp) {
                assert_eq!(shared.item.load(Ordering::Relaxed), 8);
            }
            thread.join().expect("no panic");
        });
    }
}
