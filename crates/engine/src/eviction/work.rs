//! What every piece of work on the items needs: a writer's, and a walker's.

use super::ghosts::GhostClock;
use super::stopped::Stopped;
use crate::items::Items;
use crate::local::{Pin, Scratch};
use base::Now;

/// The parts that a change works with, in whose batch, when, and where its effects go.
pub(crate) struct Work<'w, S> {
    pub(crate) items: &'w Items,
    pub(crate) ghosts: &'w GhostClock,
    pub(crate) pin: &'w mut Pin,
    pub(crate) now: Now,
    pub(crate) sink: &'w mut S,
    /// Whether items may be evicted for it. If not, space comes from dead words only.
    pub(crate) may_evict: bool,
    /// Whether it may take the segments that were promised to copies.
    pub(crate) is_copying: bool,
}

impl<S> Work<'_, S> {
    /// The same work, with another sink.
    pub(crate) fn with_sink<'s, T>(&'s mut self, sink: &'s mut T) -> Work<'s, T> {
        let Self { items, ghosts, now, may_evict, is_copying, .. } = *self;
        Work { items, ghosts, pin: &mut *self.pin, now, sink, may_evict, is_copying }
    }

    /// The arena whose open segments it fills.
    pub(crate) fn arena(&self) -> usize {
        self.items.segments().arena_of(self.pin.number())
    }

    /// An empty buffer for an old value of `bytes` on its way to a new place. What is long is taken
    /// from the budget. [`Work::keep`] gives it back.
    pub(crate) fn scratch(&mut self, bytes: usize) -> Result<Scratch, Stopped> {
        let mut scratch = self.pin.take_scratch();
        if scratch.reserve(self.items.segments().budget(), bytes) {
            return Ok(scratch);
        }
        self.pin.keep_scratch(scratch);
        Err(Stopped::NeedBuffer { bytes: bytes as u64 })
    }

    /// Keeps a buffer for the next attempt or request.
    pub(crate) fn keep(&mut self, scratch: Scratch) {
        self.pin.keep_scratch(scratch);
    }
}
