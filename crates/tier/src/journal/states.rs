//! What the journal knows of each slice: its last version, its barrier, and its ceiling.
//!
//! ```text
//! given out ... last      half     ceiling          asked
//!                |----------|---------|---------------|
//!                           ^ from here on a higher one is asked for, which counts when it is
//!                             durable
//! ```
//!
//! No version above a durable ceiling is given out, so a start after a crash repeats none: it
//! begins at the ceiling.

use super::format::SliceState;
use base::{SLICES, SliceId, Version};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// How far a ceiling is set above the last version. Less than 2^20, by which a promotion raises the
/// counters of a slice.
pub(crate) const CEILING_STEP: u64 = 1 << 16;

type Table = Box<[AtomicU64]>;

pub(crate) struct States {
    last: Table,
    barrier: Table,
    /// The second in which all items of each slice die, or 0.
    due_s: Box<[AtomicU32]>,
    /// The durable ceilings.
    ceiling: Table,
    /// Those that are durable, or on their way to be.
    asked: Table,
    /// A bit for each slice whose last version is near its ceiling.
    near: Table,
    is_any_near: AtomicBool,
}

impl States {
    /// Begins with `states`, of which the ceilings are durable only when [`States::set_durable`]
    /// says so.
    pub(crate) fn new(states: &[SliceState]) -> Self {
        let table = |of: fn(&SliceState) -> Version| -> Table {
            (0..SLICES).map(|slice| AtomicU64::new(of(&states[slice]).raw())).collect()
        };
        Self {
            last: table(|state| state.last),
            barrier: table(|state| state.barrier),
            due_s: states.iter().map(|state| AtomicU32::new(state.due_s)).collect(),
            ceiling: table(|state| state.last),
            asked: table(|state| state.ceiling),
            near: (0..SLICES / 64).map(|_| AtomicU64::new(0)).collect(),
            is_any_near: AtomicBool::new(false),
        }
    }

    /// An entry of the slice has this version. Entries of a slice come in their order, by one
    /// thread at a time.
    pub(crate) fn saw(&self, slice: SliceId, version: Version) {
        self.last[slice.index()].store(version.raw(), Ordering::Relaxed);
    }

    /// What came before is dead, and nothing is due any more.
    pub(crate) fn saw_barrier(&self, slice: SliceId) {
        let last = self.last[slice.index()].load(Ordering::Relaxed);
        self.barrier[slice.index()].store(last, Ordering::Release);
        self.saw_due(slice, 0);
    }

    /// In this second all items of the slice die; 0: in none.
    pub(crate) fn saw_due(&self, slice: SliceId, due_s: u32) {
        self.due_s[slice.index()].store(due_s, Ordering::Release);
    }

    /// Items with this version or an older one are dead.
    pub(crate) fn barrier(&self, slice: SliceId) -> Version {
        Version::from_raw(self.barrier[slice.index()].load(Ordering::Acquire))
    }

    /// The state to write into a checkpoint.
    pub(crate) fn state(&self, slice: SliceId) -> SliceState {
        let of = |table: &Table| Version::from_raw(table[slice.index()].load(Ordering::Acquire));
        let due_s = self.due_s[slice.index()].load(Ordering::Acquire);
        let (last, ceiling, barrier) = (of(&self.last), of(&self.asked), of(&self.barrier));
        SliceState { last, ceiling, barrier, due_s }
    }

    /// Whether `version` may be given out. Notes that a higher ceiling is needed, or will soon be.
    #[inline]
    pub(crate) fn allows(&self, slice: SliceId, version: Version) -> bool {
        let ceiling = self.ceiling[slice.index()].load(Ordering::Acquire);
        if version.raw() + CEILING_STEP / 2 > ceiling {
            self.note_near(slice);
        }
        let is_below = version.raw() <= ceiling;
        if !is_below {
            // What is refused has taken numbers, too.
            self.asked[slice.index()].fetch_max(version.raw(), Ordering::AcqRel);
        }
        is_below
    }

    #[cold]
    fn note_near(&self, slice: SliceId) {
        let bit = 1 << (slice.index() % 64);
        let near = &self.near[slice.index() / 64];
        if near.load(Ordering::Relaxed) & bit == 0 {
            near.fetch_or(bit, Ordering::Release);
            self.is_any_near.store(true, Ordering::Release);
        }
    }

    /// Whether a slice needs a higher ceiling.
    pub(crate) fn needs_ceilings(&self) -> bool {
        self.is_any_near.load(Ordering::Acquire)
    }

    /// The slices that need a higher ceiling, which is chosen here, and their states with it. They
    /// are written, made durable, and then [`States::set_durable`] is called for each.
    pub(crate) fn take_near(&self) -> Vec<(SliceId, SliceState)> {
        self.is_any_near.store(false, Ordering::Release);
        let mut chosen = Vec::new();
        for (word, near) in self.near.iter().enumerate() {
            let mut bits = near.swap(0, Ordering::AcqRel);
            while bits != 0 {
                let slice = SliceId::new(word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
                let slice = slice.expect("invariant: a bit for each slice");
                self.asked[slice.index()].fetch_add(CEILING_STEP, Ordering::AcqRel);
                chosen.push((slice, self.state(slice)));
            }
        }
        chosen
    }

    /// A ceiling of the slice is durable.
    pub(crate) fn set_durable(&self, slice: SliceId, ceiling: Version) {
        self.ceiling[slice.index()].fetch_max(ceiling.raw(), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_version_is_given_out_above_a_durable_ceiling() {
        let start = Version::from_raw(1000);
        let ceiling = Version::from_raw(1000 + CEILING_STEP);
        let begin = SliceState { last: start, ceiling, ..SliceState::default() };
        let states = States::new(&vec![begin; SLICES]);
        let slice = SliceId::of(b"key");
        let next = Version::from_raw(1001);
        assert!(!states.allows(slice, next), "the first ceiling is not durable yet");
        states.set_durable(slice, ceiling);
        assert!(states.allows(slice, next));
        let _ = states.take_near();
        assert!(states.allows(slice, ceiling));
        assert!(states.needs_ceilings(), "it is near");
        let asked = states.take_near();
        let [(of, state)] = asked[..] else { panic!("one slice: {asked:?}") };
        assert_eq!(of, slice);
        assert!(state.ceiling > ceiling && !states.needs_ceilings());
        let above = Version::from_raw(ceiling.raw() + 1);
        assert!(!states.allows(slice, above), "asked for, but not durable");
        states.set_durable(slice, state.ceiling);
        assert!(states.allows(slice, above));
    }

    #[test]
    fn a_barrier_stands_at_the_last_version_before_it() {
        let states = States::new(&vec![SliceState::default(); SLICES]);
        let slice = SliceId::of(b"key");
        states.saw(slice, Version::from_raw(7));
        states.saw_barrier(slice);
        states.saw(slice, Version::from_raw(8));
        assert_eq!(states.barrier(slice), Version::from_raw(7));
        assert_eq!(states.state(slice).last, Version::from_raw(8));
        states.saw_due(slice, 9);
        assert_eq!(states.state(slice).due_s, 9);
        states.saw_barrier(slice);
        assert_eq!(states.state(slice).due_s, 0, "what was due is done, or was called off");
    }
}
