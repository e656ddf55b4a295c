//! What primaries have granted this cell, which copies their changes: what its own reads of them
//! rest on.

use ring::{CellId, Granted};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What one primary has granted last.
#[derive(Default)]
pub(crate) struct OfPrimary {
    from_ns: AtomicU64,
    map_version: AtomicU64,
    shown_s: AtomicU32,
    may_show_s: AtomicU32,
}

impl OfPrimary {
    fn set(&self, granted: Granted) {
        // The time comes last: what is read after it belongs to it, or is newer.
        self.may_show_s.store(granted.may_show_s, Ordering::Release);
        self.shown_s.store(granted.shown_s, Ordering::Release);
        self.map_version.store(granted.map_version, Ordering::Release);
        self.from_ns.store(granted.from_ns, Ordering::Release);
    }

    pub(crate) fn now(&self) -> Granted {
        Granted {
            from_ns: self.from_ns.load(Ordering::Acquire),
            map_version: self.map_version.load(Ordering::Acquire),
            shown_s: self.shown_s.load(Ordering::Acquire),
            may_show_s: self.may_show_s.load(Ordering::Acquire),
        }
    }
}

/// What all primaries have granted last.
#[derive(Default)]
pub(crate) struct Grants(Mutex<BTreeMap<CellId, Arc<OfPrimary>>>);

impl Grants {
    /// What `primary` has granted, now and from now on.
    pub(crate) fn of(&self, primary: CellId) -> Arc<OfPrimary> {
        let mut grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        grants.entry(primary).or_default().clone()
    }

    /// `primary` has granted this.
    pub(crate) fn set(&self, primary: CellId, granted: Granted) {
        self.of(primary).set(granted);
    }

    /// Forgets the cells of which `is_known` says that they are in no map any more.
    pub(crate) fn keep(&self, is_known: impl Fn(CellId) -> bool) {
        let mut grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        grants.retain(|cell, _| is_known(*cell));
    }
}
