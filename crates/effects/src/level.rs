//! Levels: what a reply may wait for.

/// Most levels of one log. A cell uses one for each range that it leads, and does not use it again
/// for a while after that: so this is also how often it may begin to lead within that time.
pub const LEVELS: usize = 32;

/// The number of a level. What it means, a log is given by [`crate::Log::set_level`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(u8);

impl Level {
    /// The level with this number. `None` for [`LEVELS`] and above.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < LEVELS { Some(Self(number)) } else { None }
    }

    /// Its number.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        // The mask changes nothing, and shows the compiler the bound.
        self.0 as usize & (LEVELS - 1)
    }
}

const _: () = assert!(LEVELS.is_power_of_two() && LEVELS <= u32::BITS as usize);

/// A set of levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels(u32);

impl Levels {
    /// All levels.
    pub const ALL: Self = Self(u32::MAX);

    /// Whether there are none.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `level` is one of them.
    #[must_use]
    pub fn has(self, level: Level) -> bool {
        self.0 & 1 << level.0 != 0
    }

    /// Each of them, by rising number.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Level> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let level = Level::new(rest.trailing_zeros() as u8)?;
            rest &= rest - 1;
            Some(level)
        })
    }

    /// Adds `level`.
    #[inline(always)]
    pub fn insert(&mut self, level: Level) {
        self.0 |= 1 << level.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_yields_what_was_inserted() {
        let mut levels = Levels::default();
        assert!(levels.is_empty() && levels.iter().next().is_none());
        for number in [7, 0, 3] {
            levels.insert(Level::new(number).expect("below the bound"));
        }
        assert_eq!(levels.iter().map(Level::index).collect::<Vec<_>>(), [0, 3, 7]);
        assert!(levels.has(Level(3)) && !levels.has(Level(4)));
        assert_eq!(Level::new(LEVELS as u8), None);
    }
}
