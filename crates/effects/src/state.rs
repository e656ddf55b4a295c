//! What the lock of a log guards: its entries, and what it does with them.

use crate::batch::Batch;
use crate::config::Sizes;
use crate::entry::Entry;
use crate::part::{FellOut, Part, Refusals, Unfollowed};
use crate::readers::{JoinError, Joining, ReaderId, Readers};
use crate::shared::Shared;
use crate::slices::Slices;
use crate::store::{For, Freed, Store};
use base::Version;

pub(crate) struct State {
    pub(crate) part: Part,
    pub(crate) refusals: Refusals,
    pub(crate) store: Store,
}

impl State {
    /// An empty log.
    pub(crate) fn new(part: Part, sizes: &Sizes) -> Self {
        let refusals = Refusals::default();
        Self { part, refusals, store: Store::new(1, sizes) }
    }

    /// The first position that can be read, or the next one to come.
    pub(crate) fn first(&self) -> u64 {
        self.store.first()
    }

    /// Whether the entry at `at` may be taken next, where `end` is the last.
    pub(crate) fn check(
        &self,
        at: u64,
        entry: &Entry<'_>,
        end: u64,
        (slices, lane): (&Slices, u8),
    ) -> Result<(), Unfollowed> {
        if self.part != Part::Follows {
            return Err(Unfollowed::NotFollowing);
        }
        if at != end + 1 {
            return Err(Unfollowed::Gap(end + 1));
        }
        let Entry::Change { slice, version, .. } = entry else { return Ok(()) };
        if slices.lane(*slice) != lane {
            return Err(Unfollowed::Slice);
        }
        let last = slices.last(*slice).version;
        if version.raw() <= last {
            return Err(Unfollowed::Order(Version::from_raw(last)));
        }
        Ok(())
    }

    /// Empties the log, in which `next` will be the first position.
    #[must_use]
    pub(crate) fn restart(&mut self, next: u64, shared: &Shared) -> Freed {
        let freed = self.store.free(u64::MAX, u64::MAX, shared);
        self.store.restart(next);
        self.part = Part::Follows;
        freed
    }

    /// A new reader. What it grants limits what may be spent.
    pub(crate) fn join(
        &self,
        joining: &Joining,
        readers: &mut Readers,
        shared: &Shared,
    ) -> Result<ReaderId, JoinError> {
        let end = shared.end();
        let from = joining.from.unwrap_or(end + 1);
        if !(self.first()..=end + 1).contains(&from) {
            return Err(JoinError::Gone(self.first()));
        }
        let mut granted = u64::MAX;
        if let Some(bytes) = joining.grants {
            // What the log holds for it already is not more than this.
            let base = self.store.spent().of_all.saturating_sub(self.store.charge_from(from));
            granted = base.saturating_add(bytes);
            let before = readers.granted();
            let spent = shared.account.limit(granted.min(before));
            if spent > granted {
                shared.account.limit(before);
                return Err(JoinError::Grants(spent - base));
            }
        }
        let joined = readers.join(joining, from, end, (granted, &self.store.spent().of_one));
        shared.account.limit(readers.granted());
        shared.set_bounds(readers);
        joined.ok_or(JoinError::TooMany)
    }

    /// Copies the entries from `from` on into `batch`, as many as fit.
    pub(crate) fn read(
        &mut self,
        from: u64,
        reader: For,
        batch: &mut Batch,
    ) -> Result<(), FellOut> {
        if from < self.first() {
            return Err(FellOut);
        }
        self.store.copy(from, reader, batch);
        Ok(())
    }

    /// Frees what no reader wants any more.
    #[must_use]
    pub(crate) fn free_unwanted(&mut self, shared: &Shared) -> Freed {
        self.store.free(shared.unwanted(), u64::MAX, shared)
    }

    /// Frees `missing` bytes that no reader holds back, if there are as many. Readers that still
    /// wanted them fall out.
    #[must_use]
    pub(crate) fn make_room(&mut self, missing: u64, shared: &Shared) -> Freed {
        self.store.free(shared.unheld(), missing, shared)
    }
}
