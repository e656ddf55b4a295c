//! Which copy answers a read of a client, where one may.
//!
//! ```text
//! requests of this worker at the primary  <= those at the copy  -> the primary
//!                                          > those at the copy  -> the copy; refused: the primary
//! ```
//!
//! Invariants: what a client was answered, its next reads show, from the primary or a copy. An
//! answer of the primary was confirmed by all copies that it has by its map, and names that map:
//! from then on only copies of that map or a later one are asked. An answer of a copy counts only
//! if this cell has the map that it went by: what is asked next goes to the primary of that map or
//! a later one.

use super::asked::AskedJobs;
use crate::ring::job::{Job, Repeat};
use crate::ring::links::Peers;
use crate::ring::routes::Routes;
use base::SliceId;
use ring::CellId;
use session::ConnId;

/// Of the reads that copies answer, the primary hears of one in this number: it must know which
/// items are used, since it chooses those that are evicted.
const KNOWN: u32 = 16;

/// What a worker knows of the reads that copies may answer.
#[derive(Default)]
pub(crate) struct FromCopies {
    /// The version of the newest map that an answer has named.
    seen_version: u64,
    /// Whether a copy was ever asked.
    is_used: bool,
    /// Reads that copies have answered.
    count: u32,
}

/// Who can be asked.
pub(crate) struct Among<'a> {
    pub(crate) me: CellId,
    pub(crate) routes: &'a Routes,
    pub(crate) asked: &'a AskedJobs,
    pub(crate) peers: &'a Peers,
    /// Whether something waits that ends items of many slices.
    pub(crate) flushes: bool,
}

impl FromCopies {
    /// An answer has named the map of this version.
    #[inline]
    pub(crate) fn sees(&mut self, version: u64) {
        self.seen_version = self.seen_version.max(version);
    }

    /// The version of the map that a cell must have at least that answers now. `own`: the newest
    /// that this cell has begun to go by.
    #[inline]
    pub(crate) fn version(&self, own: u64) -> u64 {
        self.seen_version.max(own)
    }

    /// Whether a copy was ever asked.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Whether a cell that `knows` of reads gets `job` as one: as a copy, or as the primary, after
    /// a copy has answered another one.
    #[inline]
    pub(crate) fn is_sent_as_read(&self, job: &Job, knows: bool) -> bool {
        let follows = || job.is_read || job.repeat == Repeat::Always;
        knows && (job.is_at_copy || self.is_used && follows())
    }

    /// The copy that is to answer a read of `slice` on this connection; `None`: the `primary` is.
    /// It is the cell that has earlier ones: of two cells, the later one could be answered from
    /// before the earlier one.
    pub(crate) fn choose(
        &mut self,
        primary: CellId,
        (conn, slice): (Option<ConnId>, SliceId),
        among: &Among<'_>,
    ) -> Option<CellId> {
        let Among { me, routes, asked, peers, flushes } = *among;
        if asked.may_change(slice) || flushes || !peers.knows_reads(primary) {
            return None;
        }
        if let Some(cell) = asked.reads_of(conn, slice) {
            return (cell != primary && routes.copies(slice).contains(&cell)).then_some(cell);
        }
        // What this cell answers itself waits for nothing.
        let waiting = |cell: CellId| match cell == me {
            true => routes.copied(slice).map(|_| 0),
            false => peers.knows_reads(cell).then(|| asked.at(cell)),
        };
        let copies = routes.copies(slice).iter();
        let (waiting, copy) = copies.filter_map(|copy| Some((waiting(*copy)?, *copy))).min()?;
        let is_chosen = asked.at(primary) > waiting;
        self.is_used |= is_chosen;
        is_chosen.then_some(copy)
    }

    /// Whether the primary is to know of this read, which a copy has answered.
    #[inline]
    pub(crate) fn is_to_be_known(&mut self) -> bool {
        self.count = self.count.wrapping_add(1);
        self.count.is_multiple_of(KNOWN)
    }
}
