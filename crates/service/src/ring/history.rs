//! What reports show of the past of the ring, and of the other cells. It decides nothing.

use ring::{CHANGES_MAX, Change, Learned, Map, Outlook, RangeId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The past of the ring, as this cell has seen it.
#[derive(Default)]
pub(crate) struct History(Mutex<Past>);

/// The same, locked. Seconds are those of the clock that expiry times are compared with.
#[derive(Default)]
pub(crate) struct Past {
    /// The latest changes of the map, and when they came; 0 for those before this start.
    pub(crate) changes: VecDeque<(u32, Change)>,
    /// Since when ranges have had fewer copies than they should.
    pub(crate) short_since_s: BTreeMap<RangeId, u32>,
    /// By range that this cell leads and that another cell learns, how much of it that was sent.
    pub(crate) learned: BTreeMap<RangeId, Learned>,
    /// What the cell sees of the others, if it has said so.
    pub(crate) outlook: Option<Outlook>,
}

impl History {
    /// The past. No holder of the lock waits for anything.
    pub(crate) fn past(&self) -> MutexGuard<'_, Past> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a change that came at this second. The oldest beyond [`CHANGES_MAX`] is forgotten.
    pub(crate) fn record(&self, change: Change, at_s: u32) {
        let changes = &mut self.past().changes;
        if changes.len() == CHANGES_MAX {
            changes.pop_front();
        }
        changes.push_back((at_s, change));
    }

    /// The cell goes by `map` from this second on.
    pub(crate) fn adopt(&self, map: &Map, now_s: u32) {
        let since = &mut self.past().short_since_s;
        let short = map.ranges.iter().filter(|range| range.is_short(map.copies_wanted));
        *since =
            short.map(|range| (range.id, since.get(&range.id).copied().unwrap_or(now_s))).collect();
    }
}
