//! All shards of the lookups, their locks and counts, and how a lookup ends.

use super::loading::Loading;
use super::missing::Missing;
use super::waiters::Waiters;
use crate::key::KeyHash;
use crate::sync::{AtomicU64, MODEL, Mutex, Ordering, fence, lock};

/// Bits of the hash that name a shard.
const SHARD_BITS: u32 = if MODEL { 1 } else { 8 };
const SHARDS: usize = 1 << SHARD_BITS;

/// What a lookup found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The key is there below.
    Loaded,
    /// The key is not there below.
    Missing,
    /// That could not be found out. Nothing is remembered.
    Failed,
}

/// What follows from the end of a lookup.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "its waiters have to be woken"]
pub struct Finished {
    /// The workers to wake. Their requests look in memory again, and begin again if they must.
    pub waiters: Waiters,
    /// Whether the key was changed meanwhile. Then nothing is remembered of the outcome.
    pub is_cancelled: bool,
}

/// What is known of the keys of one shard.
struct State {
    loading: Loading,
    missing: Missing,
}

/// One shard, in cache lines of its own.
#[repr(align(64))]
struct Shard {
    /// How many lookups and missing keys it has: changed under the lock, read without it.
    count: AtomicU64,
    state: Mutex<State>,
}

impl Shard {
    /// Changes the state under its lock, and counts it again.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.state);
        let done = change(&mut state);
        let count = (state.loading.len() + state.missing.len()) as u64;
        self.count.store(count, Ordering::Relaxed);
        done
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }
}

/// How a beginning went.
pub(super) enum Started {
    /// A lookup of this generation has begun.
    Generation(u64),
    Joined,
    Missing,
    Busy,
}

/// What callers and tickets share.
pub(super) struct Shared {
    shards: Box<[Shard]>,
    /// Tickets that have not ended.
    loading: AtomicU64,
    loading_max: u64,
    /// The shard that forgets its old keys next.
    oldest: AtomicU64,
    /// Waiters of lookups whose tickets were dropped.
    abandoned: Mutex<Waiters>,
}

impl Shared {
    pub(super) fn new(loading_max: usize, missing_max: usize) -> Self {
        let shard = |_| {
            let missing = Missing::new(missing_max.div_ceil(SHARDS));
            let state = Mutex::new(State { loading: Loading::default(), missing });
            Shard { count: AtomicU64::new(0), state }
        };
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            loading: AtomicU64::new(0),
            loading_max: loading_max as u64,
            oldest: AtomicU64::new(0),
            abandoned: Mutex::new(Waiters::default()),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let missing = |shard: &Shard| lock(&shard.state).missing.bytes();
        let places: usize = self.shards.iter().map(missing).sum();
        (places + size_of_val(&*self.shards)) as u64
    }

    pub(super) fn loading(&self) -> u64 {
        self.loading.load(Ordering::Relaxed)
    }

    /// Joins a lookup, or begins one. What begins has raised the count of its shard when this
    /// returns, before anything that the caller reads after that.
    pub(super) fn begin(&self, hash: KeyHash, waiter: u16, now_ns: u64) -> Started {
        let started = self.shard(hash).change(|state| {
            if state.missing.has(hash, now_ns) {
                Started::Missing
            } else if state.loading.join(hash, waiter) {
                Started::Joined
            } else if !self.take_one() {
                Started::Busy
            } else {
                Started::Generation(state.loading.start(hash, waiter))
            }
        });
        fence(Ordering::SeqCst);
        started
    }

    #[inline]
    pub(super) fn changed(&self, hash: KeyHash) {
        fence(Ordering::SeqCst);
        let shard = self.shard(hash);
        if !shard.is_empty() {
            Self::cancel(shard, hash);
        }
    }

    #[cold]
    fn cancel(shard: &Shard, hash: KeyHash) {
        shard.change(|state| {
            state.loading.cancel(hash);
            state.missing.forget(hash);
        });
    }

    pub(super) fn changed_all(&self) {
        fence(Ordering::SeqCst);
        for shard in self.shards.iter().filter(|shard| !shard.is_empty()) {
            shard.change(|state| {
                state.loading.cancel_all();
                state.missing.clear();
            });
        }
    }

    #[inline]
    pub(super) fn is_missing(&self, hash: KeyHash, now_ns: u64) -> bool {
        let shard = self.shard(hash);
        !shard.is_empty() && lock(&shard.state).missing.has(hash, now_ns)
    }

    pub(super) fn is_current(&self, hash: KeyHash, generation: u64) -> bool {
        lock(&self.shard(hash).state).loading.is_current(hash, generation)
    }

    /// Ends the lookup of this generation. A missing key is remembered from `now_ns` on.
    pub(super) fn end(
        &self,
        hash: KeyHash,
        generation: u64,
        outcome: Outcome,
        now_ns: u64,
    ) -> Finished {
        let ended = self.shard(hash).change(|state| {
            let ended = state.loading.end(hash, generation);
            if outcome == Outcome::Missing && !ended.is_cancelled {
                state.missing.add(hash, now_ns);
            }
            ended
        });
        self.loading.fetch_sub(1, Ordering::Relaxed);
        Finished { waiters: ended.waiters, is_cancelled: ended.is_cancelled }
    }

    /// Keeps the waiters of a lookup whose ticket was dropped.
    pub(super) fn abandon(&self, waiters: &Waiters) {
        lock(&self.abandoned).add_all(waiters);
    }

    pub(super) fn take_abandoned(&self) -> Waiters {
        std::mem::take(&mut *lock(&self.abandoned))
    }

    /// Forgets the old missing keys of the next shard.
    pub(super) fn forget_old(&self, now_ns: u64) {
        let next = self.oldest.fetch_add(1, Ordering::Relaxed) as usize % SHARDS;
        let shard = &self.shards[next];
        if !shard.is_empty() {
            shard.change(|state| state.missing.forget_old(now_ns));
        }
    }

    #[inline]
    fn shard(&self, hash: KeyHash) -> &Shard {
        &self.shards[hash.top(SHARD_BITS)]
    }

    /// Counts a ticket, if there may be one more.
    fn take_one(&self) -> bool {
        let more = |now| (now < self.loading_max).then_some(now + 1);
        self.loading.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}
