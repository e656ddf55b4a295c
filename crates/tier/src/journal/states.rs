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
//!
//! A second ceiling is kept below, far above, beside the barriers. No ceiling of the journal passes
//! it, so a new journal above the same database repeats no version either: it begins there.

use super::format::SliceState;
use base::{SLICES, SliceId, Version};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// How far a ceiling is set above the last version. Less than 2^20, by which a promotion raises the
/// counters of a slice.
pub(crate) const CEILING_STEP: u64 = 1 << 16;

/// How far the ceiling that is kept below is set above the last version. When half of that is used
/// a higher one is written there. Where what lies below does not answer, a journal of 4 GiB, of
/// which a record takes 32 bytes at least, is full before one slice has used the other half.
pub(crate) const BELOW_STEP: u64 = 1 << 28;

type Table = Box<[AtomicU64]>;

pub(crate) struct States {
    last: Table,
    barrier: Table,
    /// The second in which all items of each slice die, or 0.
    due_s: Box<[AtomicU32]>,
    /// In a ring: the number of the delayed flush that was carried out last.
    flushed: Box<[AtomicU32]>,
    /// Slices of which segments may say barriers of a part that is over.
    forgotten: Box<[AtomicBool]>,
    /// The highest version of all records that are in the journal, or were.
    recorded: Table,
    /// In a ring: versions that other cells have shown, of which there are no records.
    known: Table,
    /// The durable ceilings.
    ceiling: Table,
    /// Those that are durable, or on their way to be.
    asked: Table,
    /// A bit for each slice whose last version is near its ceiling.
    near: Table,
    is_any_near: AtomicBool,
    /// The ceilings that are kept below.
    below: Table,
    /// Whether barriers have changed since they were kept below, or a ceiling is near that there.
    is_unkept: AtomicBool,
}

/// The states of slices of a new journal, above versions that begin at `first`.
pub(crate) fn first_state(first: Version) -> SliceState {
    let ceiling = Version::from_raw(first.raw() + CEILING_STEP);
    SliceState { last: first, ceiling, ..SliceState::default() }
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
            flushed: states.iter().map(|state| AtomicU32::new(state.flushed)).collect(),
            forgotten: states.iter().map(|_| AtomicBool::new(false)).collect(),
            recorded: table(|_| Version::ZERO),
            known: table(|_| Version::ZERO),
            ceiling: table(|state| state.last),
            asked: table(|state| state.ceiling),
            near: (0..SLICES / 64).map(|_| AtomicU64::new(0)).collect(),
            is_any_near: AtomicBool::new(false),
            below: table(|_| Version::ZERO),
            is_unkept: AtomicBool::new(true),
        }
    }

    /// An entry of the slice has this version. Entries of a slice come in their order, by one
    /// thread at a time.
    pub(crate) fn saw(&self, slice: SliceId, version: Version) {
        // What is written once more comes again.
        for table in [&self.last, &self.recorded] {
            if version.raw() > table[slice.index()].load(Ordering::Relaxed) {
                table[slice.index()].store(version.raw(), Ordering::Release);
            }
        }
    }

    /// What came before is dead, and nothing is due any more. `number`: that of the delayed flush,
    /// which is carried out once in each slice; 0: it was none.
    pub(crate) fn saw_barrier(&self, slice: SliceId, number: u32) {
        if number > 0 && number <= self.flushed[slice.index()].load(Ordering::Relaxed) {
            return;
        }
        let last = self.last(slice);
        self.ends(slice, last, number);
        self.saw_due(slice, 0);
    }

    /// Items with this version or an older one are dead, by the flush of this `number`.
    pub(crate) fn ends(&self, slice: SliceId, barrier: Version, number: u32) {
        self.barrier[slice.index()].fetch_max(barrier.raw(), Ordering::AcqRel);
        self.flushed[slice.index()].fetch_max(number, Ordering::AcqRel);
    }

    /// The part that the cell had in the slice is over: another one has barriers of its own.
    pub(crate) fn forget_barrier(&self, slice: SliceId) {
        let barrier = self.barrier[slice.index()].swap(0, Ordering::AcqRel);
        let flushed = self.flushed[slice.index()].swap(0, Ordering::AcqRel);
        if barrier > 0 || flushed > 0 {
            self.forgotten[slice.index()].store(true, Ordering::Release);
        }
    }

    /// The slices of which segments may say barriers that are forgotten.
    pub(crate) fn forgotten(&self) -> Vec<SliceId> {
        let is_forgotten = |slice: &SliceId| self.forgotten[slice.index()].load(Ordering::Acquire);
        SliceId::all().filter(is_forgotten).collect()
    }

    /// A start does not read those any more.
    pub(crate) fn are_void(&self, slices: &[SliceId]) {
        let forgotten = slices.iter().map(|slice| &self.forgotten[slice.index()]);
        forgotten.for_each(|it| it.store(false, Ordering::Release));
    }

    /// The last version that is known.
    fn last(&self, slice: SliceId) -> Version {
        let of = |table: &Table| table[slice.index()].load(Ordering::Acquire);
        Version::from_raw(of(&self.last).max(of(&self.known)))
    }

    /// Another cell has shown this version, of which there is no record.
    pub(crate) fn learn(&self, slice: SliceId, version: Version) {
        self.known[slice.index()].fetch_max(version.raw(), Ordering::AcqRel);
    }

    /// The highest version of all records that are in the journal, or were.
    pub(crate) fn recorded(&self, slice: SliceId) -> Version {
        Version::from_raw(self.recorded[slice.index()].load(Ordering::Acquire))
    }

    /// What an earlier start has recorded.
    pub(crate) fn set_recorded(&self, versions: &[Version]) {
        for (recorded, version) in self.recorded.iter().zip(versions) {
            recorded.store(version.raw(), Ordering::Release);
        }
    }

    /// A ceiling above `version` is needed: the slice goes on there.
    pub(crate) fn goes_on_at(&self, slice: SliceId, version: Version) {
        self.asked[slice.index()].fetch_max(version.raw(), Ordering::AcqRel);
        self.note_near(slice);
    }

    /// In this second all items of the slice die; 0: in none.
    pub(crate) fn saw_due(&self, slice: SliceId, due_s: u32) {
        self.due_s[slice.index()].store(due_s, Ordering::Release);
        self.is_unkept.store(true, Ordering::Release);
    }

    /// Items with this version or an older one are dead.
    pub(crate) fn barrier(&self, slice: SliceId) -> Version {
        Version::from_raw(self.barrier[slice.index()].load(Ordering::Acquire))
    }

    /// The state to write into a checkpoint.
    pub(crate) fn state(&self, slice: SliceId) -> SliceState {
        let of = |table: &Table| Version::from_raw(table[slice.index()].load(Ordering::Acquire));
        let number = |of: &[AtomicU32]| of[slice.index()].load(Ordering::Acquire);
        let (due_s, flushed) = (number(&self.due_s), number(&self.flushed));
        let (last, ceiling, barrier) = (self.last(slice), of(&self.asked), of(&self.barrier));
        SliceState { last, ceiling, barrier, due_s, flushed }
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
    /// are written, made durable, and then [`States::set_durable`] is called for each. One whose
    /// ceiling below is in the way is left out: its writers ask again.
    pub(crate) fn take_near(&self) -> Vec<(SliceId, SliceState)> {
        self.is_any_near.store(false, Ordering::Release);
        let mut chosen = Vec::new();
        for (word, near) in self.near.iter().enumerate() {
            let mut bits = near.swap(0, Ordering::AcqRel);
            while bits != 0 {
                let slice = SliceId::new(word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
                let slice = slice.expect("invariant: a bit for each slice");
                let below = self.below[slice.index()].load(Ordering::Acquire);
                let asked = self.asked[slice.index()].load(Ordering::Acquire);
                let ceiling = (asked + CEILING_STEP).min(below);
                if ceiling + BELOW_STEP / 2 > below {
                    self.is_unkept.store(true, Ordering::Release);
                }
                if ceiling > self.ceiling[slice.index()].load(Ordering::Acquire) {
                    self.asked[slice.index()].fetch_max(ceiling, Ordering::AcqRel);
                    let ceiling = Version::from_raw(ceiling);
                    chosen.push((slice, SliceState { ceiling, ..self.state(slice) }));
                }
            }
        }
        chosen
    }

    /// What is to be kept below of each slice, if that has changed: its barrier, and a ceiling far
    /// above its own. It is written there, and then [`States::set_kept`] is called. Called by one
    /// thread.
    pub(crate) fn take_unkept(&self) -> Option<Vec<SliceState>> {
        // Before they are read: what changes later is taken the next time.
        self.is_unkept.swap(false, Ordering::AcqRel).then(|| {
            let states = SliceId::all().map(|slice| self.state(slice));
            let ceiling = |state: &SliceState| state.ceiling.max(state.last).raw() + BELOW_STEP;
            let far =
                states.map(|it| SliceState { ceiling: Version::from_raw(ceiling(&it)), ..it });
            far.collect()
        })
    }

    /// These are kept below now, if that `has_succeeded`; else they are to be taken again.
    pub(crate) fn set_kept(&self, states: &[SliceState], has_succeeded: bool) {
        if !has_succeeded {
            self.is_unkept.store(true, Ordering::Release);
            return;
        }
        for (below, state) in self.below.iter().zip(states) {
            below.store(state.ceiling.raw(), Ordering::Release);
        }
    }

    /// In a ring nothing is kept below of what was given out: each new primary begins an epoch,
    /// whose versions are above all of those before.
    pub(crate) fn are_bounded_by_epochs(&self) {
        self.below.iter().for_each(|below| below.store(u64::MAX, Ordering::Release));
        self.is_unkept.store(false, Ordering::Release);
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
        let kept = states.take_unkept().expect("nothing is kept yet");
        states.set_kept(&kept, true);
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
    fn no_ceiling_passes_the_one_below_and_that_is_raised_when_half_of_it_is_used() {
        let first = first_state(Version::from_raw(1000));
        let states = States::new(&vec![first; SLICES]);
        let slice = SliceId::of(b"key");
        let keep = |has_succeeded| {
            let kept = states.take_unkept()?;
            states.set_kept(&kept, has_succeeded);
            Some(kept[slice.index()].ceiling.raw())
        };
        let ask = |version: u64| {
            let _ = states.allows(slice, Version::from_raw(version));
            let asked = states.take_near();
            asked.iter().for_each(|(slice, it)| states.set_durable(*slice, it.ceiling));
            asked.first().map(|(_, state)| state.ceiling.raw())
        };
        assert_eq!(ask(1001), None, "nothing is kept below");
        let below = keep(true).expect("nothing is kept yet");
        assert_eq!(below, first.ceiling.raw() + BELOW_STEP);
        assert_eq!((ask(1001).is_some(), keep(true)), (true, None), "that is far below half");
        assert!(ask(below - BELOW_STEP / 2).is_some_and(|it| it <= below));
        assert!(keep(false).is_some(), "half is used");
        assert_eq!(ask(below), Some(below), "what lies below has refused a higher one");
        assert_eq!(ask(below + 1), None);
        assert!(!states.allows(slice, Version::from_raw(below + 1)));
        let higher = keep(true).expect("it is tried again");
        assert!(higher > below + BELOW_STEP);
        assert!(ask(below + 1).is_some_and(|it| it > below && it <= higher));
        states.saw(slice, Version::from_raw(below));
        states.saw_barrier(slice, 0);
        assert!(keep(true).is_some(), "a barrier is new");
        assert_eq!(keep(true), None);
    }

    #[test]
    fn a_barrier_stands_at_the_last_version_before_it() {
        let states = States::new(&vec![SliceState::default(); SLICES]);
        let slice = SliceId::of(b"key");
        states.saw(slice, Version::from_raw(7));
        states.saw_barrier(slice, 0);
        states.saw(slice, Version::from_raw(8));
        assert_eq!(states.barrier(slice), Version::from_raw(7));
        assert_eq!(states.state(slice).last, Version::from_raw(8));
        states.saw_due(slice, 9);
        assert_eq!(states.state(slice).due_s, 9);
        states.saw_barrier(slice, 0);
        assert_eq!(states.state(slice).due_s, 0, "what was due is done, or was called off");
    }
}
