//! What is known of a segment: eight words outside the pool, all zero while it is uncommitted.
//!
//! ```text
//! word 0  place:    class(8) | pool(8) | state(8)
//! word 1  used:     words taken from the front on; may pass the end of a full segment
//! word 2  dead:     words at the end that nothing fitted in(32) | these, and words of items that
//!                   were removed(32)
//! word 3  expiry:   latest expiry second of its items; u32::MAX once one never expires
//! word 4  stamp:    grace period of sealing, then of entering limbo
//! word 5  links:    next(32) | previous(32) in its queue, as number + 1
//! word 6  order:    how many segments were sealed before it and with it
//! word 7  holders:  spared(1) | changes whose item lies here and stays(31) | readers that send a
//!                   value of it in parts(32); none of these when it is used again
//! ```
//!
//! Words 1 to 3 are changed without a lock by any writer, word 7 by any reader or writer; the
//! others only under the lock of the table.

use super::pool::Pool;
use crate::sync::{AtomicU64, Ordering};

pub(crate) type HeaderWords = [AtomicU64; 8];

/// One change in the word of the holders, above the readers.
const ONE_CHANGE: u64 = 1 << 32;

/// That it is passed over once as the oldest of its queue.
const SPARED: u64 = 1 << 63;

/// Expiry of a segment that holds an item without one.
const NEVER: u64 = u32::MAX as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    Idle = 0,
    Open = 1,
    Sealed = 2,
    Draining = 3,
    Limbo = 4,
}

#[derive(Clone, Copy)]
pub(crate) struct Header<'h>(&'h HeaderWords);

impl<'h> Header<'h> {
    #[inline]
    pub(crate) fn new(words: &'h HeaderWords) -> Self {
        Self(words)
    }

    pub(crate) fn open(self, pool: Pool, class: usize) {
        for word in &self.0[1..] {
            word.store(0, Ordering::Relaxed);
        }
        self.set_place(State::Open, pool, class);
    }

    fn set_place(self, state: State, pool: Pool, class: usize) {
        let place = state as u64 | (pool as u64) << 8 | (class as u64) << 16;
        self.0[0].store(place, Ordering::Release);
    }

    /// Moves it to another pool, in the state that it is in.
    pub(crate) fn set_pool(self, pool: Pool) {
        self.set_place(self.state(), pool, self.class());
    }

    pub(crate) fn set_state(self, state: State) {
        self.set_place(state, self.pool(), self.class());
    }

    pub(crate) fn state(self) -> State {
        match self.0[0].load(Ordering::Acquire) & 0xFF {
            0 => State::Idle,
            1 => State::Open,
            2 => State::Sealed,
            3 => State::Draining,
            _ => State::Limbo,
        }
    }

    #[inline]
    pub(crate) fn pool(self) -> Pool {
        match self.0[0].load(Ordering::Relaxed) >> 8 & 0xFF {
            0 => Pool::Small,
            1 => Pool::Main,
            _ => Pool::Copies,
        }
    }

    pub(crate) fn class(self) -> usize {
        (self.0[0].load(Ordering::Relaxed) >> 16 & 0xFF) as usize
    }

    /// Allocates `words` at the end and returns where they start, which may be past the end.
    #[inline]
    pub(crate) fn take_words(self, words: usize) -> usize {
        self.0[1].fetch_add(words as u64, Ordering::Relaxed) as usize
    }

    pub(crate) fn used_words(self) -> usize {
        self.0[1].load(Ordering::Relaxed) as usize
    }

    #[inline]
    pub(crate) fn add_dead(self, words: usize) {
        self.0[2].fetch_add(words as u64, Ordering::Relaxed);
    }

    pub(crate) fn dead_words(self) -> usize {
        self.0[2].load(Ordering::Relaxed) as u32 as usize
    }

    /// Counts the words at the end, in which nothing fitted, as dead.
    pub(super) fn add_end(self, words: usize) {
        self.0[2].fetch_add((words as u64) << 32 | words as u64, Ordering::Relaxed);
    }

    /// The words at the end, in which nothing fitted.
    pub(super) fn end_words(self) -> usize {
        (self.0[2].load(Ordering::Relaxed) >> 32) as usize
    }

    /// The words of items that were removed.
    pub(super) fn removed_words(self) -> usize {
        self.dead_words() - self.end_words()
    }

    /// Notes that an item expiring at `expiry_s` (0: never) lies here.
    #[inline]
    pub(crate) fn note_expiry(self, expiry_s: u32) {
        let expiry = if expiry_s == 0 { NEVER } else { u64::from(expiry_s) };
        if self.0[3].load(Ordering::Relaxed) < expiry {
            self.0[3].fetch_max(expiry, Ordering::Relaxed);
        }
    }

    /// Whether every item in it has expired by second `now_s`.
    pub(crate) fn all_expired(self, now_s: u32) -> bool {
        let expiry = self.0[3].load(Ordering::Relaxed);
        expiry != 0 && expiry != NEVER && expiry <= u64::from(now_s)
    }

    pub(crate) fn set_stamp(self, stamp: u64) {
        self.0[4].store(stamp, Ordering::Relaxed);
    }

    pub(crate) fn stamp(self) -> u64 {
        self.0[4].load(Ordering::Relaxed)
    }

    pub(super) fn set_order(self, order: u64) {
        self.0[6].store(order, Ordering::Relaxed);
    }

    pub(super) fn order(self) -> u64 {
        self.0[6].load(Ordering::Relaxed)
    }

    /// One more reader holds it; whether it is the first.
    pub(super) fn hold(self) -> bool {
        self.0[7].fetch_add(1, Ordering::Relaxed).is_multiple_of(ONE_CHANGE)
    }

    /// One reader holds it no longer; whether it was the last.
    pub(super) fn release(self) -> bool {
        self.0[7].fetch_sub(1, Ordering::Release) % ONE_CHANGE == 1
    }

    /// Whether a reader holds it.
    pub(super) fn has_readers(self) -> bool {
        !self.0[7].load(Ordering::Relaxed).is_multiple_of(ONE_CHANGE)
    }

    /// Whether a reader or a change holds it.
    pub(super) fn is_held(self) -> bool {
        self.0[7].load(Ordering::Acquire) & !SPARED != 0
    }

    /// One more change keeps an item here.
    pub(super) fn keep_items(self) {
        self.0[7].fetch_add(ONE_CHANGE, Ordering::Relaxed);
    }

    /// One change keeps its item here no longer.
    pub(super) fn end_keep_items(self) {
        self.0[7].fetch_sub(ONE_CHANGE, Ordering::Release);
    }

    /// Whether no item here is evicted, because a change keeps one of them.
    pub(crate) fn keeps_items(self) -> bool {
        self.0[7].load(Ordering::Relaxed) & !SPARED >= ONE_CHANGE
    }

    /// A value of which a part lies here was added to: the part is as new as the value.
    pub(super) fn spare(self) {
        self.0[7].fetch_or(SPARED, Ordering::Relaxed);
    }

    /// Whether it is spared, for the last time.
    pub(super) fn take_spared(self) -> bool {
        let holders = &self.0[7];
        holders.load(Ordering::Relaxed) & SPARED != 0
            && holders.fetch_and(!SPARED, Ordering::Relaxed) & SPARED != 0
    }

    pub(super) fn links(self) -> &'h AtomicU64 {
        &self.0[5]
    }
}
