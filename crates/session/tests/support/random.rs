//! Random numbers for tests.

/// A small generator whose whole state is its seed.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    /// A number from 0 to below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) % bound as u64) as usize
    }
}
