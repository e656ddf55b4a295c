//! The budget of a cell: every part of it that holds memory takes it from one total, which is `-m`.
//!
//! An owner takes bytes and receives a [`Grant`]. Dropping the grant returns the bytes. When the
//! total is lowered, or an owner's reserved minimum is raised, an owner may hold more than it may
//! keep. The difference is what it [owes](MemoryBudget::owed). It returns that little by little as
//! it works, never all at once. Nobody waits for it: while the total is exceeded, owners other than
//! the items still take what they need within their maximum, and the items owe that too.
//!
//! The budget counts; it allocates nothing, never blocks and never takes back a grant by force.
//!
//! Invariants:
//! - `used` of the budget is the sum of `used` over all owners, once no call is in progress.
//! - A grant never lifts an owner above its maximum, nor `used` above the total. Only a total or a
//!   maximum that is lowered later leaves them above; and the total, once exceeded, may be exceeded
//!   further by the owners that hold no items.
//!
//! All numbers are bytes.
//!
//! ```
//! use base::{MemoryBudget, Owner};
//!
//! let budget = MemoryBudget::new(1000);
//! let grant = budget.take(Owner::Index, 600).expect("600 of 1000 bytes");
//! assert!(budget.take(Owner::Primary, 500).is_none());
//! drop(grant);
//! assert!(budget.take(Owner::Primary, 500).is_some());
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What memory is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Owner {
    /// Segments of items that this cell orders the writes of.
    Primary,
    /// Segments of items that are copies of another cell's.
    Replica,
    /// Buckets of the index and their directories.
    Index,
    /// Frames of volumes.
    Frames,
    /// Logs of effects.
    Log,
    /// Buffers of links between cells.
    Links,
    /// Input and output that connections must keep.
    Connections,
    /// What a tier keeps in memory: its index, what is on its way below, the cache of a database.
    Tier,
}

impl Owner {
    /// Every owner, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Primary,
        Self::Replica,
        Self::Index,
        Self::Frames,
        Self::Log,
        Self::Links,
        Self::Connections,
        Self::Tier,
    ];
}

/// Bytes that one owner holds. Dropping the grant returns them.
#[must_use = "dropping a grant returns its bytes"]
pub struct Grant {
    budget: Arc<MemoryBudget>,
    owner: Owner,
    bytes: u64,
}

impl Grant {
    /// The number of bytes granted.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes it a grant of `owner`. The maximum of that owner does not count: nothing is taken from
    /// the total.
    pub fn assign(&mut self, owner: Owner) {
        self.budget.accounts[self.owner as usize].used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.budget.accounts[owner as usize].used.fetch_add(self.bytes, Ordering::Relaxed);
        self.owner = owner;
    }

    /// Adds `bytes` to the grant. Returns `false`, and changes nothing, if the total or the maximum
    /// of the owner does not allow it.
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

/// What one owner holds, and its share of the total.
#[derive(Default)]
struct Account {
    used: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

/// The budget of one cell: plain counters, shared by all threads.
///
/// A take is two compare-and-swaps. It happens per segment, index block or large buffer, never per
/// request.
pub struct MemoryBudget {
    total: AtomicU64,
    used: AtomicU64,
    accounts: [Account; Owner::ALL.len()],
    /// The budget itself, for the grants.
    this: std::sync::Weak<Self>,
}

impl MemoryBudget {
    /// A budget of `total` bytes, in which no owner has a minimum and each may take all.
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

    /// The total.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Bytes that `owner` holds.
    #[must_use]
    pub fn used(&self, owner: Owner) -> u64 {
        self.accounts[owner as usize].used.load(Ordering::Relaxed)
    }

    /// Bytes that all owners hold together.
    #[must_use]
    pub fn used_total(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The most that `owner` may hold.
    #[must_use]
    pub fn max(&self, owner: Owner) -> u64 {
        self.accounts[owner as usize].max.load(Ordering::Relaxed)
    }

    /// Whether more is held than the total, because the total was lowered.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.used_total() > self.total()
    }

    /// Bytes of the total that no owner holds.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.total().saturating_sub(self.used_total())
    }

    /// Takes `bytes` for `owner`. `None` if the maximum of `owner`, the total or the minimum of
    /// another owner does not allow it. While the total is [exceeded](Self::is_exceeded), only the
    /// maximum counts for an owner that holds no items.
    #[must_use]
    pub fn take(&self, owner: Owner, bytes: u64) -> Option<Grant> {
        let account = &self.accounts[owner as usize];
        if !add_within(&account.used, bytes, account.max.load(Ordering::Relaxed)) {
            return None;
        }
        let holds_items = matches!(owner, Owner::Primary | Owner::Replica);
        let limit = if self.is_exceeded() && !holds_items {
            u64::MAX
        } else {
            self.total().saturating_sub(self.reserved_for_others(owner))
        };
        if !add_within(&self.used, bytes, limit) {
            account.used.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        let budget = self.this.upgrade().expect("a budget outlives the call that borrows it");
        Some(Grant { budget, owner, bytes })
    }

    /// Makes `grant` at least `bytes`, in steps of `step` bytes. `false`, and nothing changes,
    /// where [`MemoryBudget::take`] does not allow it.
    #[must_use]
    pub fn cover(&self, grant: &mut Option<Grant>, owner: Owner, bytes: u64, step: u64) -> bool {
        let has = grant.as_ref().map_or(0, Grant::bytes);
        let lacks = bytes.saturating_sub(has).next_multiple_of(step);
        match grant {
            _ if lacks == 0 => true,
            Some(grant) => grant.extend(lacks),
            None => {
                *grant = self.take(owner, lacks);
                grant.is_some()
            }
        }
    }

    /// Sets the share of `owner`: `min` bytes are kept free for it, and it never takes more than
    /// `max`.
    pub fn share(&self, owner: Owner, min: u64, max: u64) {
        let account = &self.accounts[owner as usize];
        account.min.store(min, Ordering::Relaxed);
        account.max.store(max, Ordering::Relaxed);
    }

    /// Bytes that `owner` holds beyond what it may keep: beyond its maximum, and for
    /// [`Owner::Primary`] also beyond what the total leaves it. Items are the one thing that can be
    /// evicted, so they make way for all others.
    #[must_use]
    pub fn owed(&self, owner: Owner) -> u64 {
        let account = &self.accounts[owner as usize];
        let used = account.used.load(Ordering::Relaxed);
        let over_share = used.saturating_sub(account.max.load(Ordering::Relaxed));
        if owner != Owner::Primary {
            return over_share;
        }
        let limit = self.total().saturating_sub(self.reserved_for_others(owner));
        over_share.max(self.used_total().saturating_sub(limit)).min(used)
    }

    /// Changes the total, and returns what it was. If more is held, [`Owner::Primary`] owes the
    /// rest.
    pub fn resize(&self, total: u64) -> u64 {
        self.total.swap(total, Ordering::Relaxed)
    }

    /// Bytes to keep free for the owners other than `owner` that hold less than their minimum.
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

/// Adds `bytes` to `counter`, unless the sum would exceed `limit`.
fn add_within(counter: &AtomicU64, bytes: u64, limit: u64) -> bool {
    let sum = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
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
    fn a_grant_grows_up_to_the_total() {
        let budget = MemoryBudget::new(100);
        let mut grant = budget.take(Owner::Links, 60).expect("within the total");
        assert!(grant.extend(40) && !grant.extend(1));
        assert_eq!((grant.bytes(), budget.used(Owner::Links)), (100, 100));
        drop(grant);
        assert_eq!(budget.used_total(), 0);
    }

    #[test]
    fn a_grant_may_pass_to_another_owner() {
        let budget = MemoryBudget::new(100);
        let mut grant = budget.take(Owner::Primary, 60).expect("within the total");
        grant.assign(Owner::Replica);
        assert_eq!((budget.used(Owner::Primary), budget.used(Owner::Replica)), (0, 60));
        drop(grant);
        assert_eq!((budget.used(Owner::Replica), budget.used_total()), (0, 0));
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
    fn a_lowered_total_is_owed_by_the_items() {
        let budget = MemoryBudget::new(100);
        let _items = budget.take(Owner::Primary, 80).expect("free");
        budget.resize(50);
        assert_eq!((budget.owed(Owner::Primary), budget.owed(Owner::Index)), (30, 0));
    }

    #[test]
    fn while_the_total_is_exceeded_only_items_are_refused() {
        let budget = MemoryBudget::new(100);
        budget.share(Owner::Connections, 0, 20);
        let items = budget.take(Owner::Primary, 80).expect("free");
        budget.resize(50);
        assert!(budget.take(Owner::Primary, 1).is_none());
        let _index = budget.take(Owner::Index, 10).expect("the items make way");
        let _buffers = budget.take(Owner::Connections, 20).expect("within its share");
        assert!(budget.take(Owner::Connections, 1).is_none(), "beyond its share");
        assert_eq!(budget.owed(Owner::Primary), 60);
        drop(items);
        assert!(budget.take(Owner::Index, 21).is_none(), "the total holds again");
    }

    #[test]
    fn a_minimum_that_is_raised_later_is_owed_by_the_items() {
        let budget = MemoryBudget::new(100);
        let _items = budget.take(Owner::Primary, 100).expect("free");
        budget.share(Owner::Connections, 10, 50);
        assert_eq!(budget.owed(Owner::Primary), 10);
    }
}
