//! The changes of the map that this cell has applied, with their causes.

use ring::{CHANGES_MAX, Change};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// The latest changes, at most [`CHANGES_MAX`]. A clone is the same list.
#[derive(Clone, Default)]
pub struct Changes(Arc<Mutex<VecDeque<Change>>>);

impl Changes {
    /// Adds one.
    pub fn push(&self, change: Change) {
        let mut changes = self.0.lock().expect("no holder of this lock panics");
        if changes.len() == CHANGES_MAX {
            changes.pop_front();
        }
        changes.push_back(change);
    }

    /// Those after the map of `version`.
    pub fn since(&self, version: u64) -> Vec<Change> {
        let changes = self.0.lock().expect("no holder of this lock panics");
        changes.iter().filter(|change| change.before >= version).cloned().collect()
    }
}
