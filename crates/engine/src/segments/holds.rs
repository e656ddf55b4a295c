//! Memory that cannot be evicted for a while: that of values that are being received, that of
//! values that are being sent in parts, and that of an item for whose change space is being made.
//!
//! ```text
//! received   segments that belong to the request; no walker sees them        admit -> dismiss
//! sent       segments of an item, held by each reader of it (header word 7)  hold  -> release
//! changed    those of an item, and the one that it lies in, for one call     keep  -> end_keep
//! ```
//!
//! A segment is held under the lock of the chain of its item, so it is open, sealed or being
//! drained. A held one is passed over when a victim is chosen. One that is drained all the same
//! keeps its bytes, and is free only when the last reader has released it.
//!
//! Invariants: what was admitted is counted, and each held segment once. Both together are raised
//! only within [`pinned_max`], but for a race of two readers, so what is left of the memory serves
//! all other requests.

use super::addr::{Addr, SegmentId};
use super::table::Segments;
use base::Owner;

/// Quarters of the memory limit that may be pinned: a value of half of it is received while others
/// are sent.
const PINNED_QUARTERS_MAX: u64 = 3;

/// Whether a value may be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may, until [`dismiss`].
    Granted,
    /// Not while so much is pinned.
    Later,
    /// It is too long for the present limit.
    Never,
}

/// The segments of `chunks`, each once.
fn segments_of(segments: &Segments, chunks: &[Addr]) -> Vec<SegmentId> {
    let mut ids: Vec<SegmentId> =
        chunks.iter().map(|addr| addr.segment(segments.geometry())).collect();
    ids.sort_unstable_by_key(|id| id.0);
    ids.dedup();
    ids
}

/// Segments that may be pinned together: three quarters of the limit, and all but a few of those
/// that the index and the connections leave.
fn pinned_max(segments: &Segments) -> u64 {
    let (budget, segment_bytes) = (segments.budget(), segments.geometry().segment_bytes());
    let items = [Owner::Primary, Owner::Replica].map(|owner| budget.used(owner));
    let others = budget.used_total().saturating_sub(items.iter().sum());
    let left = budget.total().saturating_sub(others) / segment_bytes;
    let left = left.saturating_sub(segments.geometry().segments_min());
    left.min(budget.total() / segment_bytes * PINNED_QUARTERS_MAX / 4)
}

/// Whether this number of segments is never pinned at a time.
fn is_never_pinned(segments: &Segments, count: u64) -> bool {
    let most = segments.budget().total() / segments.geometry().segment_bytes();
    count * 4 > most * PINNED_QUARTERS_MAX
}

/// Whether a value with these chunks can be held, if nothing else is pinned.
pub(crate) fn can_be_held(segments: &Segments, chunks: &[Addr]) -> bool {
    !is_never_pinned(segments, segments_of(segments, chunks).len() as u64)
}

/// Asks for `count` segments for a value of `bytes` that is to be received. All such values
/// together have at most half of the limit; one alone is received where it fits.
pub(crate) fn admit(segments: &Segments, count: u64, bytes: u64) -> Admission {
    let total = segments.budget().total();
    if is_never_pinned(segments, count) {
        return Admission::Never;
    }
    if !segments.pins.receive(bytes, total / 2) {
        return Admission::Later;
    }
    if !segments.pins.pin(count, pinned_max(segments)) {
        segments.pins.end_receive(bytes);
        return Admission::Later;
    }
    Admission::Granted
}

/// A value that was admitted is published, or given up.
pub(crate) fn dismiss(segments: &Segments, count: u64, bytes: u64) {
    segments.pins.end_receive(bytes);
    segments.pins.unpin(count);
}

/// Holds the segments of `chunks`, whose item is under the lock of its chain. False if too much is
/// pinned.
pub(crate) fn hold(segments: &Segments, chunks: &[Addr]) -> bool {
    let is_new = |id: &SegmentId| !segments.header(*id).has_readers();
    let ids = segments_of(segments, chunks);
    let wanted = ids.iter().filter(|id| is_new(id)).count() as u64;
    if !segments.pins.pin(wanted, pinned_max(segments)) {
        return false;
    }
    let raised = ids.iter().filter(|id| segments.header(**id).hold()).count();
    // Others may have held some of them, or released them, between the two looks.
    segments.pins.correct(wanted, raised as u64);
    true
}

/// Ends [`hold`].
pub(crate) fn release(segments: &Segments, chunks: &[Addr]) {
    let ids = segments_of(segments, chunks);
    let freed = ids.iter().filter(|id| segments.header(**id).release()).count();
    segments.pins.unpin(freed as u64);
    segments.pins.note_released();
}

/// Keeps the item at `addr` and its `chunks`, while space is made for a change of it. The caller
/// has the lock of its chain. Should its segment be drained already, the item moves. False if too
/// much is pinned.
pub(crate) fn keep(segments: &Segments, addr: Addr, chunks: &[Addr]) -> bool {
    let is_kept = hold(segments, chunks);
    if is_kept {
        segments.header_of(addr).keep_items();
    }
    is_kept
}

/// Ends [`keep`].
pub(crate) fn end_keep(segments: &Segments, addr: Addr, chunks: &[Addr]) {
    segments.header_of(addr).end_keep_items();
    release(segments, chunks);
}

/// Makes the segments of `chunks` as new as if they were written now: each is passed over once when
/// it is the oldest of its queue.
pub(crate) fn renew(segments: &Segments, chunks: &[Addr]) {
    segments_of(segments, chunks).iter().for_each(|id| segments.header(*id).spare());
}

/// Bytes of the segments that are pinned.
pub(crate) fn pinned_bytes(segments: &Segments) -> u64 {
    segments.pins.segments() * segments.geometry().segment_bytes()
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::super::pool::Pool;
    use super::super::reuse::{Reclaim, dead_victim, drained, oldest_victim, reclaim};
    use super::super::table::{Purpose, Stream};
    use super::*;
    use crate::config::{EngineConfig, Geometry, LIMIT_BYTES_MIN};
    use crate::grace::GracePeriods;
    use base::MemoryBudget;

    const LIMIT_BYTES: u64 = 2 * LIMIT_BYTES_MIN;
    const HOW: Reclaim = Reclaim { keep_free: 0, give_back: 0 };

    fn table() -> (GracePeriods, Segments) {
        let geometry = Geometry::of(&EngineConfig::new(LIMIT_BYTES));
        let segments = Segments::new(geometry, MemoryBudget::new(LIMIT_BYTES), false);
        (GracePeriods::new(1), segments.expect("enough address space"))
    }

    /// Items that fill a segment each. All but the last of these segments are sealed.
    fn fill<const COUNT: usize>(grace: &GracePeriods, segments: &Segments) -> [Addr; COUNT] {
        let stream = Stream { arena: 0, purpose: Purpose::Write, pool: Pool::Small, class: 0 };
        let whole = segments.geometry().segment_words;
        std::array::from_fn(|_| segments.allocate(grace, stream, whole).expect("memory is free"))
    }

    #[test]
    fn a_held_segment_is_not_used_again_until_it_is_released() {
        let (grace, segments) = table();
        let [first, _] = fill(&grace, &segments);
        let victim = oldest_victim(&segments, &grace, Pool::Small).expect("one is sealed");
        // Its walk has begun, and has not come to the item that is held.
        assert!(hold(&segments, &[first]) && hold(&segments, &[first, first]));
        assert_eq!(pinned_bytes(&segments), segments.geometry().segment_bytes());
        drained(&segments, &grace, victim.id);
        let free = segments.free();
        for chunks in [&[first][..], &[first, first]] {
            reclaim(&segments, &grace, HOW);
            assert_eq!((segments.free(), segments.counts().limbo), (free, 0), "it is held");
            release(&segments, chunks);
        }
        assert_eq!(pinned_bytes(&segments), 0);
        reclaim(&segments, &grace, HOW);
        assert_eq!(segments.free(), free + 1);
    }

    #[test]
    fn a_held_segment_is_passed_over() {
        let (grace, segments) = table();
        let addrs: [Addr; 4] = fill(&grace, &segments);
        let [first, second, third, _] = addrs.map(|addr| addr.segment(segments.geometry()));
        assert!(hold(&segments, &addrs[..1]));
        segments.header(first).add_dead(segments.geometry().segment_words);
        assert!(dead_victim(&segments, &grace, 1, 4).is_none(), "it is held");
        let next = || oldest_victim(&segments, &grace, Pool::Small).map(|victim| victim.id);
        assert_eq!((next(), next(), next()), (Some(second), Some(third), None));
        release(&segments, &addrs[..1]);
        assert_eq!(next(), Some(first));
    }
}
