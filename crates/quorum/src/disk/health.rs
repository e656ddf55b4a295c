//! Whether a cell can still write.

use super::error::{DiskError, DiskFailure};
use std::sync::{Arc, OnceLock};

/// The first failure of a cell, shared by all that write. It never heals: after a failed write or
/// fsync nobody knows what is on disk.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<OnceLock<DiskFailure>>);

impl Health {
    /// Notes a failure, if it is the first.
    pub fn fails(&self, error: &DiskError) {
        let _ = self.0.set(error.into());
    }

    /// The first failure.
    pub fn failure(&self) -> Option<&DiskFailure> {
        self.0.get()
    }
}
