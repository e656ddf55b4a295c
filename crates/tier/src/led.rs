//! Which slices a cell of a ring leads, as far as its tier must know.

use crate::sync::{AtomicU8, Ordering};
use base::{SLICES, SliceId, SliceRange};
use effects::Level;

const NOT_LED: u8 = u8::MAX;

/// By slice, the level of the logs at which this cell leads it, if it does.
pub(crate) struct Led(Box<[AtomicU8]>);

impl Led {
    /// None is led.
    pub(crate) fn new() -> Self {
        Self((0..SLICES).map(|_| AtomicU8::new(NOT_LED)).collect())
    }

    /// The level of a slice that is led.
    pub(crate) fn level(&self, slice: SliceId) -> Option<Level> {
        // Any number but that of a level is that of a slice which is not led.
        Level::new(self.0[slice.index()].load(Ordering::Acquire))
    }

    /// Sets that of some slices.
    pub(crate) fn set(&self, slices: SliceRange, level: Option<Level>) {
        let number = level.map_or(NOT_LED, |level| level.index() as u8);
        slices.iter().for_each(|slice| self.0[slice.index()].store(number, Ordering::Release));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_that_of_its_slices_alone() {
        let (led, level) = (Led::new(), Level::new(31));
        led.set(SliceRange::new(3..6), level);
        led.set(SliceRange::new(5..7), None);
        let of = |slice| led.level(SliceId::new(slice).expect("there is one"));
        assert_eq!([2, 3, 4, 5, 6].map(of), [None, level, level, None, None]);
        led.set(SliceRange::ALL, None);
        assert_eq!(of(3), None);
    }
}
