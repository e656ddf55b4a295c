//! Buffers that go round: the texts of requests to other cells.

use engine::prefetch_bytes;

/// Most buffers that are kept.
const SPARES_MAX: usize = 1024;
/// A buffer that has grown beyond this is freed.
const SPARE_BYTES_MAX: usize = 1024;

/// When one is taken, the one that is taken this number of times later is fetched into the cache of
/// the processor: it was written long ago, before all requests that wait now.
const AHEAD: usize = 2;

/// Buffers, for what comes next, with what they held last. They take a mebibyte at most.
#[derive(Default)]
pub(crate) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// An empty buffer, which may have memory already.
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let mut buffer = self.0.pop().unwrap_or_default();
        buffer.clear();
        if let Some(at) = self.0.len().checked_sub(AHEAD) {
            prefetch_bytes(&self.0[at]);
        }
        buffer
    }

    /// Keeps the memory of `buffer`, which is of no use any more.
    #[inline]
    pub(crate) fn give(&mut self, buffer: Vec<u8>) {
        if (1..=SPARE_BYTES_MAX).contains(&buffer.capacity()) && self.0.len() < SPARES_MAX {
            self.0.push(buffer);
        }
    }
}
