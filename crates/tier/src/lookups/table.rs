//! What workers and the threads that look up below use.

use super::shared::{Finished, Outcome, Shared, Started};
use super::ticket::Ticket;
use super::waiters::Waiters;
use crate::key::KeyHash;
use std::sync::Arc;

/// What follows from wanting a key.
#[derive(Debug)]
#[must_use = "it may hold a ticket"]
pub enum Begun {
    /// The caller carries out the lookup. First it looks for the key in the log and the dirty index
    /// once more, after this: a change before that cancelled nothing.
    Started(Ticket),
    /// A lookup is under way; the worker is among its waiters.
    Joined,
    /// The key is known to be missing.
    Missing,
    /// As many lookups are under way as may be.
    Busy,
}

/// The lookups of one cell. Shared by threads; a clone is the same table.
///
/// ```
/// use base::SliceId;
/// use tier::{Begun, KeyHasher, Lookups, Outcome};
///
/// let lookups = Lookups::new(100, 1000);
/// let hash = KeyHasher::new([7; 16]).hash(SliceId::of(b"key"), b"key");
/// let Begun::Started(ticket) = lookups.begin(hash, 0, 1) else { panic!("the first one") };
/// assert!(matches!(lookups.begin(hash, 3, 2), Begun::Joined));
///
/// // Under the lock of the bucket:
/// assert!(lookups.admit(&ticket), "what was loaded may be installed");
/// lookups.changed(hash);
/// assert!(!lookups.admit(&ticket), "it is older than the change");
///
/// let finished = lookups.finish(ticket, Outcome::Missing, 3);
/// assert!(finished.is_cancelled && finished.waiters.iter().eq([0, 3]));
/// assert!(!lookups.is_missing(hash, 4), "it was there after the change");
/// ```
#[derive(Clone)]
pub struct Lookups {
    shared: Arc<Shared>,
}

impl Lookups {
    /// At most `loading_max` lookups under way at a time, and about `missing_max` keys that are
    /// known to be missing: a multiple of 256, or of 2048 from there on, not less than that.
    #[must_use]
    pub fn new(loading_max: usize, missing_max: usize) -> Self {
        Self { shared: Arc::new(Shared::new(loading_max, missing_max)) }
    }

    /// Wants the value of a key from below. `waiter`: the worker to wake when the lookup ends, also
    /// if it is the caller. The lock of the bucket may be held, and need not.
    pub fn begin(&self, hash: KeyHash, waiter: u16, now_ns: u64) -> Begun {
        match self.shared.begin(hash, waiter, now_ns) {
            Started::Generation(generation) => {
                Begun::Started(Ticket::new(self.shared.clone(), hash, generation))
            }
            Started::Joined => Begun::Joined,
            Started::Missing => Begun::Missing,
            Started::Busy => Begun::Busy,
        }
    }

    /// Says that a key has been changed: its lookup is cancelled, and it is not missing any more.
    /// Called for every change, after the change is in the log, under the lock of its bucket. It
    /// costs a fence and a load where the shard of the key has neither lookups nor missing keys.
    #[inline]
    pub fn changed(&self, hash: KeyHash) {
        self.shared.changed(hash);
    }

    /// Says that any key may have been changed, after that is in the log. Takes the lock of each
    /// shard that has anything, one after the other.
    pub fn changed_all(&self) {
        self.shared.changed_all();
    }

    /// Whether a key is known to be missing. Asked under the lock of its bucket, so that no change
    /// comes between the answer and what follows from it.
    #[inline]
    #[must_use]
    pub fn is_missing(&self, hash: KeyHash, now_ns: u64) -> bool {
        self.shared.is_missing(hash, now_ns)
    }

    /// Whether what this lookup loaded may be installed: the key was not changed since it began.
    /// Asked under the lock of the bucket, right before that.
    #[must_use]
    pub fn admit(&self, ticket: &Ticket) -> bool {
        ticket.is_current(&self.shared)
    }

    /// Ends a lookup, after what it loaded was installed. A key that is missing is remembered for
    /// [`MISSING_NS`](super::MISSING_NS), unless it was changed meanwhile.
    pub fn finish(&self, mut ticket: Ticket, outcome: Outcome, now_ns: u64) -> Finished {
        let finished = ticket.end(outcome, now_ns);
        finished.unwrap_or(Finished { waiters: Waiters::default(), is_cancelled: true })
    }

    /// The workers to wake of lookups whose tickets were dropped without an end, as after a panic.
    /// They are returned once.
    pub fn take_abandoned(&self) -> Waiters {
        self.shared.take_abandoned()
    }

    /// Forgets the missing keys of one shard whose time is over, another shard at each call. Called
    /// some hundred times a second, it keeps changes cheap after many keys were missing.
    pub fn forget_old(&self, now_ns: u64) {
        self.shared.forget_old(now_ns);
    }

    /// How many lookups are under way, cancelled ones included.
    #[must_use]
    pub fn loading(&self) -> u64 {
        self.shared.loading()
    }

    /// Bytes that it has allocated from the beginning on: all but the lookups themselves.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.bytes()
    }
}
