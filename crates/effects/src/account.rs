//! How much a log may still take: its memory, and the room that its readers have granted.
//!
//! Both are counters that writers change before they take any lock. An entry is charged once: its
//! charge is taken from the memory, and from the granted room too if it brings bytes that readers
//! must keep; where only one reader must, from the room of that one. What is reserved and not used
//! is returned. Memory is also returned when entries are freed. Room that was spent never is:
//! readers grant more of it. Where some is left, one entry may be longer than that: so a reader
//! need not grant the length of the longest entry in advance.

use crate::sync::{AtomicU64, Ordering};

/// What a writer has reserved and not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    /// Memory, and as much granted room.
    pub(crate) both: u64,
    /// Memory alone.
    pub(crate) memory: u64,
    /// Granted room alone, the memory of which was used. It is only returned.
    granted: u64,
}

impl Room {
    /// Room for `charge`: of both kinds, or memory alone.
    #[inline(always)]
    pub(crate) fn of(charge: u64, spends: bool) -> Self {
        if spends {
            Self { both: charge, ..Self::default() }
        } else {
            Self { memory: charge, ..Self::default() }
        }
    }

    /// Whether an entry may be charged to it.
    #[inline(always)]
    pub(crate) fn has(&self, charge: u64, spends: bool) -> bool {
        charge <= self.both || (!spends && charge <= self.memory)
    }

    /// Charges an entry to it. It has enough.
    #[inline(always)]
    pub(crate) fn take(&mut self, charge: u64, spends: bool) {
        if spends {
            self.both -= charge;
        } else if charge <= self.memory {
            self.memory -= charge;
        } else {
            self.both -= charge;
            self.granted += charge;
        }
    }

    /// Adds what was reserved.
    pub(crate) fn add(&mut self, more: Self) {
        self.both += more.both;
        self.memory += more.memory;
    }
}

/// The counters of one log.
#[repr(align(64))]
pub(crate) struct Account {
    capacity: u64,
    /// Memory of entries and of what is reserved.
    used: AtomicU64,
    /// Room of all readers that is spent or reserved since the log began.
    spent: AtomicU64,
    /// Room of single readers that is spent.
    spent_of_one: AtomicU64,
    /// How far `spent` may rise.
    granted: AtomicU64,
}

impl Account {
    pub(crate) fn new(capacity: u64) -> Self {
        let [used, spent, spent_of_one] = [(); 3].map(|()| AtomicU64::new(0));
        Self { capacity, used, spent, spent_of_one, granted: AtomicU64::new(u64::MAX) }
    }

    /// Most memory.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Memory that is in use or reserved.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Room of all readers that is spent or reserved.
    pub(crate) fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Room of all readers that is neither spent nor reserved.
    pub(crate) fn left(&self) -> u64 {
        self.granted.load(Ordering::Relaxed).saturating_sub(self.spent())
    }

    /// Room of single readers that is spent.
    pub(crate) fn spent_of_one(&self) -> u64 {
        self.spent_of_one.load(Ordering::Relaxed)
    }

    /// Counts room of one reader that is spent.
    pub(crate) fn spend_of_one(&self, bytes: u64) {
        self.spent_of_one.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How much memory is missing to reserve `room`.
    pub(crate) fn missing(&self, room: Room) -> u64 {
        (self.used() + room.both + room.memory).saturating_sub(self.capacity)
    }

    /// Whether all the room is spent that readers have granted.
    pub(crate) fn lacks_grants(&self) -> bool {
        self.spent.load(Ordering::Relaxed) >= self.granted.load(Ordering::Relaxed)
    }

    /// Reserves all of `room`, or nothing. `over`: more than the rest of the granted room, if there
    /// is a rest.
    pub(crate) fn reserve(&self, room: Room, over: bool) -> bool {
        let memory = room.both + room.memory;
        if !add_within(&self.used, memory, self.capacity) {
            return false;
        }
        if room.both > 0 && !self.spend_within(room.both, over) {
            self.free(memory);
            return false;
        }
        true
    }

    /// Spends room that readers have granted. The limit is read again after that. A reader that
    /// joins lowers it, and then reads what is spent by an operation that also writes it
    /// ([`Account::limit`]). One of the two comes first: that reader sees what is spent here, or
    /// this sees the limit.
    fn spend_within(&self, bytes: u64, over: bool) -> bool {
        let granted = self.granted.load(Ordering::Relaxed);
        let limit = if over { granted.saturating_add(bytes.saturating_sub(1)) } else { granted };
        if !add_within(&self.spent, bytes, limit) {
            return false;
        }
        let is_within = granted <= self.granted.load(Ordering::Relaxed);
        if !is_within {
            self.spent.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_within
    }

    /// Returns what was reserved and not used.
    pub(crate) fn give_back(&self, room: Room) {
        self.free(room.both + room.memory);
        let granted = room.both + room.granted;
        if granted > 0 {
            self.spent.fetch_sub(granted, Ordering::Relaxed);
        }
    }

    /// Returns memory.
    pub(crate) fn free(&self, memory: u64) {
        if memory > 0 {
            self.used.fetch_sub(memory, Ordering::Relaxed);
        }
    }

    /// Counts room that is spent without having been reserved.
    pub(crate) fn spend(&self, bytes: u64) {
        self.spent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Sets how far `spent` may rise, and returns what is spent. What is spent after that knows of
    /// the limit.
    pub(crate) fn limit(&self, granted: u64) -> u64 {
        self.granted.store(granted, Ordering::Relaxed);
        self.spent.fetch_add(0, Ordering::AcqRel)
    }
}

/// Adds to `counter`, unless the sum would be above `limit`.
#[inline]
fn add_within(counter: &AtomicU64, amount: u64, limit: u64) -> bool {
    let mut now = counter.load(Ordering::Relaxed);
    while now.checked_add(amount).is_some_and(|sum| sum <= limit) {
        let sum = now + amount;
        match counter.compare_exchange_weak(now, sum, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(other) => now = other,
        }
    }
    false
}
