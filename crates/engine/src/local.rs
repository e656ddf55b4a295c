//! What one thread of work owns: its slot among the readers, its counters and its scratch memory.
//!
//! Locals are made with the engine and leased by its user: a worker keeps one, a thousand client
//! threads share a few. There is no thread-local state, so one thread can play many workers.
//!
//! A [`Local`] is pinned to become a [`Pin`]. Every call of the engine that looks at items takes a
//! pin, so no such call can be made outside a batch. A batch cannot be left open by mistake:
//! dropping the pin ends it too. Both types are one pointer, which is moved and never copied.

use crate::grace::GracePeriods;
use base::{Grant, MemoryBudget, Owner};
use std::sync::Arc;

/// The largest buffer, in bytes, that a pin keeps from one request to the next. A larger one is
/// taken from the budget.
const SCRATCH_BYTES_MAX: usize = 8 << 10;

/// A buffer for names, and for old values on their way to a new place.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) bytes: Vec<u8>,
    grant: Option<Grant>,
}

impl Scratch {
    /// Makes it hold `bytes`. False if the budget has no memory for them.
    pub(crate) fn reserve(&mut self, budget: &MemoryBudget, bytes: usize) -> bool {
        let granted = self.grant.as_ref().map_or(SCRATCH_BYTES_MAX, |grant| grant.bytes() as usize);
        if bytes > granted {
            let Some(grant) = budget.take(Owner::Connections, bytes as u64) else { return false };
            self.grant = Some(grant);
        }
        self.bytes.reserve_exact(bytes);
        true
    }
}

/// One lease on the engine, between batches.
///
/// ```
/// # let budget = base::MemoryBudget::new(1 << 20);
/// let config = engine::EngineConfig { locals: 1, ..engine::EngineConfig::new(1 << 20) };
/// let (_engine, mut locals) = engine::Engine::new(config, budget)?;
/// let pin = locals.remove(0).pin();
/// // Reads and writes of one batch go here.
/// let _local = pin.unpin();
/// # Ok::<(), engine::EngineError>(())
/// ```
pub struct Local(Option<Box<State>>);

/// A lease on the engine during a batch: what is linked now stays readable until the pin is moved
/// on, given back by [`Pin::unpin`] or dropped.
///
/// A pin that is held for long delays those who need space, because the memory that it may read
/// cannot be used again.
pub struct Pin(Box<State>);

struct State {
    grace: Arc<GracePeriods>,
    counters: Arc<LocalCounters>,
    slot: usize,
    debt_words: usize,
    scratch: Scratch,
}

/// A moment that passes: see [`Pin::moment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(u64);

impl Drop for State {
    /// Ends the batch of a pin that was dropped; between batches it changes nothing.
    fn drop(&mut self) {
        self.grace.unpin(self.slot);
    }
}

impl Local {
    /// One local for each slot of `grace`.
    pub(crate) fn all(grace: &Arc<GracePeriods>, counters: &[Arc<LocalCounters>]) -> Vec<Self> {
        let local = |(slot, counters): (usize, &Arc<LocalCounters>)| {
            let (grace, counters) = (grace.clone(), counters.clone());
            let state = State { grace, counters, slot, debt_words: 0, scratch: Scratch::default() };
            Self(Some(Box::new(state)))
        };
        counters.iter().enumerate().map(local).collect()
    }

    /// Begins a batch.
    #[inline]
    #[must_use]
    pub fn pin(mut self) -> Pin {
        self.begin()
    }

    /// Runs a batch, for an owner who cannot give the local away.
    pub fn batch<T>(&mut self, work: impl FnOnce(&mut Pin) -> T) -> T {
        let mut pin = self.begin();
        let result = work(&mut pin);
        *self = pin.unpin();
        result
    }

    #[inline]
    fn begin(&mut self) -> Pin {
        let state = self.0.take().expect("a local is lost only in a batch that panicked");
        state.grace.pin(state.slot);
        Pin(state)
    }
}

impl Pin {
    /// Ends the batch.
    #[inline]
    #[must_use]
    pub fn unpin(self) -> Local {
        self.0.grace.unpin(self.0.slot);
        Local(Some(self.0))
    }

    /// Ends the batch and begins another: the pin moves on.
    #[inline]
    pub fn renew(&mut self) {
        self.0.grace.pin(self.0.slot);
    }

    /// Ends the batch, waits by `wait`, and begins another.
    pub(crate) fn pause(&mut self, wait: impl FnOnce()) {
        self.0.grace.unpin(self.0.slot);
        wait();
        self.renew();
    }

    /// The present moment. It has passed when every batch has ended that has begun before it, but
    /// for the one of this pin: what is changed before it, all others see then.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment(self.grace().retire())
    }

    /// Whether a moment of an earlier batch has passed.
    #[must_use]
    pub fn has_passed(&self, moment: Moment) -> bool {
        self.grace().horizon().has_passed(moment.0)
    }

    #[inline(always)]
    pub(crate) fn grace(&self) -> &GracePeriods {
        &self.0.grace
    }

    /// Which of the locals it is, from zero on.
    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.0.slot
    }

    /// The counters that the holder of this pin alone writes.
    #[inline(always)]
    pub(crate) fn counters(&self) -> &LocalCounters {
        &self.0.counters
    }

    /// Words of eviction owed for what was written.
    pub(crate) fn debt_words(&mut self) -> &mut usize {
        &mut self.0.debt_words
    }

    /// An empty buffer that has been used before. [`Pin::keep_scratch`] gives it back.
    pub(crate) fn take_scratch(&mut self) -> Scratch {
        let mut scratch = std::mem::take(&mut self.0.scratch);
        scratch.bytes.clear();
        scratch
    }

    /// Keeps a buffer for the next use.
    pub(crate) fn keep_scratch(&mut self, scratch: Scratch) {
        self.0.scratch = scratch;
    }

    /// Gives up the buffer if it is large: the request has ended.
    #[inline]
    pub(crate) fn trim_scratch(&mut self) {
        if self.0.scratch.bytes.capacity() > SCRATCH_BYTES_MAX {
            self.0.scratch = Scratch::default();
        }
    }
}

base::counters! {
    /// Counters of the engine since it was made, summed over its locals.
    Counters of
    /// The part of one local: only its holder writes it, any thread reads it.
    LocalCounters;
    /// Items held. A local that removes what another added counts below zero, so only the sum is
    /// meaningful.
    items,
    /// Words those items take.
    item_words,
    /// Items written in new space: those stored first, and those that did not fit in place.
    stored,
    /// Overwrites in place.
    overwritten,
    /// Items evicted.
    evicted,
    /// Of these, how many had never been read.
    evicted_unread,
    /// Items removed because they were past their expiry or at or below a barrier.
    expired,
    /// Of these, how many had never been read.
    expired_unread,
    /// Items kept by eviction: moved to the main pool or to its end.
    kept,
    /// Items moved out of mostly dead segments.
    compacted,
    /// Keys found among the ghosts when they were stored again.
    ghost_hits,
    /// Segments drained.
    drained,
    /// Reads that found an item past its expiry.
    read_expired,
    /// Reads that found an item at or below a barrier.
    read_flushed,
    /// Reads that met a change and started over.
    torn,
    /// Times that a read wrote to a cache line which other threads read: it counted a use, or
    /// renewed the time of access.
    shared_writes,
    /// Times that a request found no space and had to make some before it could continue.
    rooms_made,
    /// Rounds of making space that let the threads of other batches run.
    waits,
    /// Buckets that walks through slices have looked at.
    walked_buckets,
    /// Effects of other engines that were malformed.
    malformed,
}
