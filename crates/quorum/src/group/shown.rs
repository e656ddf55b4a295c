//! What a cell shows of the map to the rest of the process, through all agreements.

use super::changes::Changes;
use ring::Map;
use std::sync::Arc;
use tokio::sync::watch;

/// The newest map, for all who watch it, and the changes that led to it. A clone is the same one.
///
/// Invariant: the version that watchers see never falls.
#[derive(Clone)]
pub struct Shown {
    pub watchers: watch::Sender<Arc<Map>>,
    pub changes: Changes,
}

impl Shown {
    /// Shows `map` at first.
    pub fn new(map: Map) -> Self {
        Self { watchers: watch::Sender::new(Arc::new(map)), changes: Changes::default() }
    }

    /// The newest map.
    pub fn map(&self) -> Arc<Map> {
        self.watchers.borrow().clone()
    }

    /// Shows `map` to watchers, if it is newer than what they have. One without cells is what a
    /// cell begins with, and is replaced by any that has some.
    pub fn publish(&self, map: &Map) {
        self.watchers.send_if_modified(|shown| {
            let is_newer = map.version > shown.version || shown.cells.is_empty();
            if is_newer {
                *shown = Arc::new(map.clone());
            }
            is_newer
        });
    }
}
