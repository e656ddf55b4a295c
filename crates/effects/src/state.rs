//! What the lock of a log guards: its entries, its readers, and what it may take.

use crate::account::{Account, Room};
use crate::batch::Batch;
use crate::entry::{Draft, Entry};
use crate::part::{FellOut, Part, Refusals, Unfollowed};
use crate::readers::{JoinError, Joining, ReaderId, Readers};
use crate::slices::Slices;
use crate::store::{For, Freed, Store};
use base::Version;
use std::sync::Arc;

pub(crate) struct State {
    pub(crate) part: Part,
    pub(crate) readers: Readers,
    pub(crate) refusals: Refusals,
    store: Store,
    /// Granted room that the entries have spent.
    spent: u64,
}

impl State {
    /// An empty log, of these sizes of a block and of these spares.
    pub(crate) fn new(part: Part, block: usize, spares: usize) -> Self {
        let (readers, refusals) = (Readers::new(), Refusals::default());
        Self { part, readers, refusals, store: Store::new(1, block, spares), spent: 0 }
    }

    /// The first position that can be read, or the next one to come.
    pub(crate) fn first(&self) -> u64 {
        self.store.first()
    }

    /// Appends an entry for which room was reserved.
    #[inline(always)]
    pub(crate) fn push(&mut self, draft: &Draft<'_>, apart: Option<Arc<Vec<u8>>>, cost: Room) {
        self.spent += cost.granted;
        self.store.push(draft, apart, cost.memory);
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
    pub(crate) fn restart(&mut self, next: u64, account: &Account) -> Freed {
        let freed = self.store.free(u64::MAX, u64::MAX);
        account.free(freed.charge);
        self.store.restart(next);
        self.part = Part::Follows;
        freed
    }

    /// A new reader of a log whose last position is `end`. What it grants limits `account`.
    pub(crate) fn join(
        &mut self,
        joining: &Joining,
        end: u64,
        account: &Account,
    ) -> Result<ReaderId, JoinError> {
        let from = joining.from.unwrap_or(end + 1);
        if !(self.first()..=end + 1).contains(&from) {
            return Err(JoinError::Gone(self.first()));
        }
        let mut granted = u64::MAX;
        if let Some(bytes) = joining.grants {
            // What the log holds for it already is more than it needs of that.
            let base = self.spent.saturating_sub(self.store.charge_from(from));
            granted = base.saturating_add(bytes);
            let before = self.readers.granted();
            let spent = account.limit(granted.min(before));
            if spent > granted {
                account.limit(before);
                return Err(JoinError::Grants(spent - base));
            }
        }
        let joined = self.readers.join(joining, from, end, granted);
        account.limit(self.readers.granted());
        joined.ok_or(JoinError::TooMany)
    }

    /// Copies the entries from `from` on into `batch`, as many as fit.
    pub(crate) fn read(
        &mut self,
        reader: ReaderId,
        from: u64,
        end: u64,
        batch: &mut Batch,
    ) -> Result<(), FellOut> {
        batch.begin(from);
        if !(self.first()..=end + 1).contains(&from) {
            return Err(FellOut);
        }
        let joined = self.readers.reads(reader, from).ok_or(FellOut)?;
        self.store.copy(from, For { slot: reader.slot(), joined }, batch);
        Ok(())
    }

    /// Frees what no reader wants any more. Drop what it returns when no lock is held.
    #[must_use]
    pub(crate) fn free_unwanted(&mut self, end: u64, account: &Account) -> Freed {
        let freed = self.store.free(self.readers.wanted(end), u64::MAX);
        account.free(freed.charge);
        freed
    }

    /// Frees `missing` bytes that no reader holds back, if there are as many. Readers that still
    /// wanted them fall out.
    #[must_use]
    pub(crate) fn make_room(&mut self, missing: u64, end: u64, account: &Account) -> Freed {
        let freed = self.store.free(self.readers.held(end), missing);
        account.free(freed.charge);
        self.readers.freed(self.store.first());
        freed
    }
}
