//! Buffers that go round: the texts of requests to other cells, and their replies.

/// Most buffers that are kept.
const SPARES_MAX: usize = 1024;
/// A buffer that has grown beyond this is freed.
const SPARE_BYTES_MAX: usize = 1024;

/// Empty buffers, for what comes next. They take a mebibyte at most.
#[derive(Default)]
pub(crate) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// An empty buffer, which may have memory already.
    #[inline]
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps the memory of `buffer`, which is of no use any more.
    #[inline]
    pub(super) fn give(&mut self, mut buffer: Vec<u8>) {
        if (1..=SPARE_BYTES_MAX).contains(&buffer.capacity()) && self.0.len() < SPARES_MAX {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}
