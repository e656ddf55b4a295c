//! For each slice: its lane, and the last position and the last version that its log gave it.
//!
//! ```text
//! writer, under the lock of the log:   position   then   version
//! reader, without a lock:              version    then   position
//! ```
//!
//! So a reader that sees a version sees a position that is not before the one of that version.
//! Versions of a slice rise by one from change to change, and positions by at least one. The change
//! to version `v` therefore stands at `position - (version - v)` or before.
//!
//! Where a version rises by more, that bound would be too low for versions before the jump. So the
//! log publishes, before the version, the last position of the slice before the jump
//! ([`Jump`]). Up to there, all has passed, or the bound is not used.

use crate::sync::{AtomicU8, AtomicU64, MODEL, Ordering};
use base::{SLICES, SliceId, SliceRange, Version};
use std::array;
use std::ops::BitXor;
use std::sync::OnceLock;

/// Slices that are distinguished: a model checker keeps few atomics.
const COUNT: usize = if MODEL { 4 } else { SLICES };

const _: () = assert!(COUNT.is_power_of_two());

/// The end of what a slice has in its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) position: u64,
    pub(crate) version: u64,
}

#[repr(align(16))]
struct Place {
    position: AtomicU64,
    version: AtomicU64,
}

/// The last position, in any slice of a log, before a jump of its versions.
pub(crate) struct Jump(AtomicU64);

impl Jump {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Read it after the version of a slice.
    pub(crate) fn position(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Forgets all jumps, for a log that begins again.
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn raise(&self, position: u64) {
        self.0.store(position.max(self.position()), Ordering::Relaxed);
    }
}

/// All slices of a cell.
pub(crate) struct Slices {
    lanes: [AtomicU8; COUNT],
    places: [Place; COUNT],
    all_spend: OnceLock<()>,
}

/// Bytes of the tables: a lane and a place for each slice.
pub(crate) const SLICES_BYTES: u64 = SLICES as u64 * (1 + 16);

/// Most bytes that a flag takes beside the tables.
const BESIDE_BYTES: u64 = 16;
const _: () = assert!(MODEL || size_of::<Slices>() as u64 <= SLICES_BYTES + BESIDE_BYTES);

impl Slices {
    /// Slices that are divided evenly among lanes, in runs.
    pub(crate) fn new(lanes: usize) -> Self {
        let lane = |slice| AtomicU8::new((slice * lanes / COUNT) as u8);
        let place = |_| Place { position: AtomicU64::new(0), version: AtomicU64::new(0) };
        let (lanes, places) = (array::from_fn(lane), array::from_fn(place));
        Self { lanes, places, all_spend: OnceLock::new() }
    }

    /// Removals, touches and barriers take room of the readers, too, from now on.
    pub(crate) fn have_all_spend(&self) {
        let _ = self.all_spend.set(());
    }

    /// Whether they do.
    pub(crate) fn all_spend(&self) -> bool {
        self.all_spend.get().is_some()
    }

    /// The lane of `slice`.
    #[inline(always)]
    pub(crate) fn lane(&self, slice: SliceId) -> u8 {
        self.lanes[slice.index() & (COUNT - 1)].load(Ordering::Relaxed)
    }

    /// Sets the lane of `slice`, in whose new log it has nothing yet. Both logs are locked.
    pub(crate) fn set_lane(&self, slice: SliceId, lane: u8) {
        self.lanes[slice.index() & (COUNT - 1)].store(lane, Ordering::Relaxed);
        self.place(slice).position.store(0, Ordering::Release);
    }

    /// The last version and position of `slice`, in the order in which a reader needs them.
    #[inline]
    pub(crate) fn last(&self, slice: SliceId) -> Last {
        let place = self.place(slice);
        let version = place.version.load(Ordering::Acquire);
        Last { version, position: place.position.load(Ordering::Acquire) }
    }

    /// Reads what the next change of each of `slices` needs, so that the processor has it then: it
    /// fetches for all of them at once.
    #[inline]
    pub(crate) fn look_ahead(&self, slices: impl Iterator<Item = SliceId>) {
        let read = |slice| {
            let version = self.place(slice).version.load(Ordering::Relaxed);
            version ^ u64::from(self.lane(slice))
        };
        std::hint::black_box(slices.map(read).fold(0, BitXor::bitxor));
    }

    /// Publishes a change. The log is locked.
    #[inline(always)]
    pub(crate) fn publish(&self, slice: SliceId, position: u64, version: Version, jump: &Jump) {
        let place = self.place(slice);
        if version.raw() != place.version.load(Ordering::Relaxed).wrapping_add(1) {
            jump.raise(place.position.load(Ordering::Relaxed));
        }
        place.position.store(position, Ordering::Release);
        place.version.store(version.raw(), Ordering::Release);
    }

    /// Publishes what is no change, but is seen in each of `range` that is in `lane`, whose log is
    /// locked.
    pub(crate) fn publish_barrier(
        &self,
        range: SliceRange,
        lane: u8,
        position: u64,
        mut each: impl FnMut(SliceId),
    ) {
        for slice in range.iter().take(COUNT).filter(|slice| self.lane(*slice) == lane) {
            each(slice);
            self.place(slice).position.store(position, Ordering::Release);
        }
    }

    /// The versions of `slice` rise to `version` without a change. Its log is locked.
    pub(crate) fn advance(&self, slice: SliceId, version: Version, jump: &Jump) {
        let place = self.place(slice);
        if version.raw() > place.version.load(Ordering::Relaxed) {
            jump.raise(place.position.load(Ordering::Relaxed));
            place.version.store(version.raw(), Ordering::Release);
        }
    }

    /// The slices of `lane` have nothing in its log, which begins again and is locked.
    pub(crate) fn forget(&self, lane: u8) {
        for slice in SliceId::all().take(COUNT).filter(|slice| self.lane(*slice) == lane) {
            self.place(slice).position.store(0, Ordering::Release);
        }
    }

    #[inline(always)]
    fn place(&self, slice: SliceId) -> &Place {
        &self.places[slice.index() & (COUNT - 1)]
    }
}
