//! The right to end a lookup, and the duty: whatever happens to it, the lookup ends.

use super::shared::{Finished, Outcome, Shared};
use crate::key::KeyHash;
use std::fmt;
use std::sync::Arc;

/// A lookup that its holder carries out. It ends with
/// [`Lookups::finish`](super::Lookups::finish). If it is dropped, the lookup has failed, and its
/// waiters are those of [`Lookups::take_abandoned`](super::Lookups::take_abandoned).
#[must_use = "it stands for a lookup that has to be carried out"]
pub struct Ticket {
    /// `None`: the lookup has ended.
    shared: Option<Arc<Shared>>,
    hash: KeyHash,
    /// Which lookup of this key it is.
    generation: u64,
}

impl Ticket {
    pub(super) fn new(shared: Arc<Shared>, hash: KeyHash, generation: u64) -> Self {
        Self { shared: Some(shared), hash, generation }
    }

    /// The key that is looked up.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// Whether it belongs to these lookups, and was not cancelled.
    pub(super) fn is_current(&self, of: &Arc<Shared>) -> bool {
        let shared = self.shared.as_ref().filter(|shared| Arc::ptr_eq(shared, of));
        shared.is_some_and(|shared| shared.is_current(self.hash, self.generation))
    }

    /// Ends the lookup, if it has not ended.
    pub(super) fn end(&mut self, outcome: Outcome, now_ns: u64) -> Option<Finished> {
        let shared = self.shared.take()?;
        Some(shared.end(self.hash, self.generation, outcome, now_ns))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else { return };
        let finished = shared.end(self.hash, self.generation, Outcome::Failed, 0);
        shared.abandon(&finished.waiters);
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Ticket");
        shown.field("hash", &self.hash).field("generation", &self.generation).finish()
    }
}
