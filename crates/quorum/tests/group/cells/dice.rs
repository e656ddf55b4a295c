//! Numbers that depend on a seed alone.

use ring::CellId;

/// Numbers that depend on the seed alone.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 33) % u64::from(end)) as u32
    }

    /// One of this many cells.
    pub fn cell(&mut self, cells: u32) -> CellId {
        CellId(1 + self.below(cells))
    }
}
