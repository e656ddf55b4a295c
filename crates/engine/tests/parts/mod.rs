//! A sink that holds long values, as that of a worker does.

use engine::{HeldValue, ItemView, LongValues, ReadSink};

/// What was read.
#[derive(Default)]
pub struct Parts {
    /// A long value.
    pub held: Option<HeldValue>,
    /// A value that is not long.
    pub bytes: Vec<u8>,
}

impl ReadSink for Parts {
    const LONG: LongValues = LongValues::Held;

    fn open(&mut self, _: &ItemView<'_>) -> Option<&mut Vec<u8>> {
        Some(&mut self.bytes)
    }

    fn rewind(&mut self) {
        self.bytes.clear();
    }

    fn hold(&mut self, value: HeldValue) {
        self.held = Some(value);
    }
}
