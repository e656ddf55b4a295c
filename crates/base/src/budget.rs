//! One budget for all memory: segments, index, ghost, logs, links and connections draw on the
//! same total, so `-m` is a promise and not a hint.
//!
//! A taker asks for bytes and receives a [`Grant`]; dropping the grant gives them back. When the
//! total is lowered, or one owner is asked to make room for another, the difference shows as
//! bytes [`Budget::owed`], which the owner pays back as it works, never all at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Who holds memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Owner {
    /// Segments of items this cell is primary for.
    Primary,
    /// Segments of items kept for another cell.
    Replica,
    /// Buckets and their directories.
    Index,
    /// Memory of evicted keys.
    Ghost,
    /// Frames of volumes.
    Frames,
    /// Logs of effects.
    Log,
    /// Buffers of links between cells.
    Links,
    /// Connections and their buffers.
    Connections,
}

impl Owner {
    /// Every owner, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Primary,
        Self::Replica,
        Self::Index,
        Self::Ghost,
        Self::Frames,
        Self::Log,
        Self::Links,
        Self::Connections,
    ];
}

/// Memory granted to one owner. Dropping it gives the bytes back.
#[must_use = "dropping a grant returns its bytes"]
pub struct Grant {
    budget: Arc<MemoryBudget>,
    owner: Owner,
    bytes: u64,
}

impl Grant {
    /// How many bytes it stands for.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes it stand for `bytes` more; `false`, and nothing changed, when the total or the owner's
    /// share is exhausted.
    #[must_use]
    pub fn extend(&mut self, bytes: u64) -> bool {
        let Some(mut more) = self.budget.take(self.owner, bytes) else { return false };
        self.bytes += std::mem::take(&mut more.bytes);
        true
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.budget.give_back(self.owner, self.bytes);
    }
}

/// Where memory is asked for.
pub trait Budget {
    /// `bytes` for `owner`, or `None` when the total or the owner's share is exhausted.
    fn take(&self, owner: Owner, bytes: u64) -> Option<Grant>;
    /// Sets the share of `owner`: `min` bytes are kept free for it, `max` it never exceeds.
    fn share(&self, owner: Owner, min: u64, max: u64);
    /// Bytes that `owner` holds beyond what is now allowed, to be given back as it works.
    fn owed(&self, owner: Owner) -> u64;
    /// Changes the total. Lowering it below what is held makes [`Owner::Primary`] owe the rest.
    fn resize(&self, total: u64);
}

#[derive(Default)]
struct Account {
    used: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

/// The budget of one cell: plain counters, shared by every thread.
///
/// Taking is one compare-and-swap on the total; it happens per segment, index block or large
/// buffer, never per request.
pub struct MemoryBudget {
    total: AtomicU64,
    used: AtomicU64,
    accounts: [Account; Owner::ALL.len()],
    this: std::sync::Weak<Self>,
}

impl MemoryBudget {
    /// A budget of `total` bytes, with no shares set: every owner may take all of it.
    #[must_use]
    pub fn new(total: u64) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            total: AtomicU64::new(total),
            used: AtomicU64::new(0),
            accounts: std::array::from_fn(|_| Account {
                max: AtomicU64::new(u64::MAX),
                ..Account::default()
            }),
            this: this.clone(),
        })
    }

    /// The total in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Bytes held by `owner`.
    #[must_use]
    pub fn used(&self, owner: Owner) -> u64 {
        self.accounts[owner as usize].used.load(Ordering::Relaxed)
    }

    /// Bytes held by all owners together.
    #[must_use]
    pub fn used_total(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes held by nobody.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.total().saturating_sub(self.used_total())
    }

    /// Bytes that must stay free for owners other than `owner` that are below their minimum.
    fn reserved_for_others(&self, owner: Owner) -> u64 {
        let below_minimum = |other: &Owner| {
            let account = &self.accounts[*other as usize];
            account.min.load(Ordering::Relaxed).saturating_sub(account.used.load(Ordering::Relaxed))
        };
        Owner::ALL.iter().filter(|other| **other != owner).map(below_minimum).sum()
    }

    fn give_back(&self, owner: Owner, bytes: u64) {
        self.accounts[owner as usize].used.fetch_sub(bytes, Ordering::Relaxed);
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Adds `bytes` to `counter` unless the sum would exceed `limit`.
fn add_within(counter: &AtomicU64, bytes: u64, limit: u64) -> bool {
    let sum = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
}

impl Budget for MemoryBudget {
    fn take(&self, owner: Owner, bytes: u64) -> Option<Grant> {
        let account = &self.accounts[owner as usize];
        if !add_within(&account.used, bytes, account.max.load(Ordering::Relaxed)) {
            return None;
        }
        let limit = self.total().saturating_sub(self.reserved_for_others(owner));
        if !add_within(&self.used, bytes, limit) {
            account.used.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        let budget = self.this.upgrade().expect("a budget outlives the call that borrows it");
        Some(Grant { budget, owner, bytes })
    }

    fn share(&self, owner: Owner, min: u64, max: u64) {
        let account = &self.accounts[owner as usize];
        account.min.store(min, Ordering::Relaxed);
        account.max.store(max, Ordering::Relaxed);
    }

    fn owed(&self, owner: Owner) -> u64 {
        let account = &self.accounts[owner as usize];
        let used = account.used.load(Ordering::Relaxed);
        let over_share = used.saturating_sub(account.max.load(Ordering::Relaxed));
        if owner != Owner::Primary {
            return over_share;
        }
        let limit = self.total().saturating_sub(self.reserved_for_others(owner));
        over_share.max(self.used_total().saturating_sub(limit)).min(used)
    }

    fn resize(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_counted_and_returned() {
        let budget = MemoryBudget::new(100);
        let first = budget.take(Owner::Primary, 60).expect("within the total");
        assert!(budget.take(Owner::Index, 41).is_none());
        let second = budget.take(Owner::Index, 40).expect("exactly the rest");
        assert_eq!((budget.used(Owner::Primary), budget.used_total()), (60, 100));
        drop(first);
        assert_eq!(budget.used_total(), second.bytes());
    }

    #[test]
    fn a_grant_grows_as_far_as_there_is_room() {
        let budget = MemoryBudget::new(100);
        let mut grant = budget.take(Owner::Links, 60).expect("within the total");
        assert!(grant.extend(40) && !grant.extend(1));
        assert_eq!((grant.bytes(), budget.used(Owner::Links)), (100, 100));
        drop(grant);
        assert_eq!(budget.used_total(), 0);
    }

    #[test]
    fn a_minimum_is_kept_free_and_a_maximum_holds() {
        let budget = MemoryBudget::new(100);
        budget.share(Owner::Connections, 30, 50);
        assert!(budget.take(Owner::Primary, 71).is_none());
        let _items = budget.take(Owner::Primary, 50).expect("leaves the minimum free");
        assert!(budget.take(Owner::Connections, 51).is_none());
        let _buffers = budget.take(Owner::Connections, 50).expect("up to its maximum");
    }

    #[test]
    fn lowering_the_total_is_owed_by_the_items() {
        let budget = MemoryBudget::new(100);
        let _items = budget.take(Owner::Primary, 80).expect("free");
        budget.resize(50);
        assert_eq!((budget.owed(Owner::Primary), budget.owed(Owner::Index)), (30, 0));
    }

    #[test]
    fn a_share_taken_up_late_is_owed_by_the_items() {
        let budget = MemoryBudget::new(100);
        let _items = budget.take(Owner::Primary, 100).expect("free");
        budget.share(Owner::Connections, 10, 50);
        assert_eq!(budget.owed(Owner::Primary), 10);
    }
}
