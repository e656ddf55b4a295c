//! How a segment is used again: out of its queue to be walked, through limbo, to the free ones.
//!
//! A victim is taken only when the batches that wrote it have ended, and freed only when the
//! batches that may read it have ended. Nothing here looks at an item. Each function takes the lock
//! of the lists once (the scan once a step) and holds it for a bounded number of segments, except
//! that [`reclaim`] looks at all of limbo.

use super::addr::SegmentId;
use super::header::{Header, State};
use super::pool::Pool;
use super::table::{FREE_FOR_MOVES, Lists, Segments};
use crate::config::SCAN_SEGMENTS_MAX;
use crate::grace::GracePeriods;
use crate::sync::{MutexGuard, Ordering, lock};
use base::Now;

/// A segment taken out of its queue to be walked.
pub(crate) struct Victim {
    pub(crate) id: SegmentId,
    pub(crate) pool: Pool,
    /// Every live item moves, however rarely it is used: most words are dead.
    pub(crate) compact: bool,
}

/// A segment whose items have all expired, if one step of the rotating scan finds one.
pub(crate) fn expired_victim(
    segments: &Segments,
    grace: &GracePeriods,
    now: Now,
) -> Option<Victim> {
    let mut lists = lock(&segments.lists);
    scan(segments, grace, &mut lists, |header| header.all_expired(now.expiry_s))
}

/// A segment of which more than `dead_words` are dead, if `steps` steps of the rotating scan find
/// one.
pub(crate) fn dead_victim(
    segments: &Segments,
    grace: &GracePeriods,
    dead_words: usize,
    steps: usize,
) -> Option<Victim> {
    let step =
        || scan(segments, grace, &mut lock(&segments.lists), |of| of.dead_words() > dead_words);
    (0..steps).find_map(|_| step())
}

/// The oldest segment of `pool`, if the batches that wrote it have ended.
pub(crate) fn oldest_victim(
    segments: &Segments,
    grace: &GracePeriods,
    pool: Pool,
) -> Option<Victim> {
    let mut lists = lock(&segments.lists);
    let id = lists.queues[pool as usize].first()?;
    take_victim(segments, grace, &mut lists, id, false)
}

fn scan(
    segments: &Segments,
    grace: &GracePeriods,
    lists: &mut MutexGuard<'_, Lists>,
    wanted: impl Fn(Header<'_>) -> bool,
) -> Option<Victim> {
    for _ in 0..SCAN_SEGMENTS_MAX.min(lists.fresh) {
        lists.scan_at = (lists.scan_at + 1) % lists.fresh;
        let id = SegmentId(lists.scan_at as u32);
        let header = segments.header(id);
        if header.state() == State::Sealed && wanted(header) {
            let victim = take_victim(segments, grace, lists, id, true);
            if victim.is_some() {
                return victim;
            }
        }
    }
    None
}

fn take_victim(
    segments: &Segments,
    grace: &GracePeriods,
    lists: &mut MutexGuard<'_, Lists>,
    id: SegmentId,
    compact: bool,
) -> Option<Victim> {
    let header = segments.header(id);
    if !grace.passed(header.stamp()) {
        return None;
    }
    let pool = header.pool();
    lists.queues[pool as usize].remove(&segments.headers, id);
    header.set_state(State::Draining);
    Some(Victim { id, pool, compact })
}

/// Puts a drained segment, into which nothing points any more, in limbo.
pub(crate) fn drained(segments: &Segments, grace: &GracePeriods, id: SegmentId) {
    let mut lists = lock(&segments.lists);
    let header = segments.header(id);
    header.set_state(State::Limbo);
    header.set_stamp(grace.retire());
    lists.limbo.push_back(id);
}

/// Frees what has waited in limbo long enough. The memory of up to `give_back` segments, of
/// those never used and of these but for the reserve, is returned; the number of segments
/// returned is the result.
pub(crate) fn reclaim(segments: &Segments, grace: &GracePeriods, give_back: usize) -> usize {
    let mut lists = lock(&segments.lists);
    let mut returned = 0;
    while returned < give_back
        && let Some(grant) = lists.prefaulted.pop()
    {
        segments.pool.discard(segments.words_of(lists.fresh + lists.prefaulted.len()));
        drop(grant);
        returned += 1;
    }
    for _ in 0..lists.limbo.len() {
        let Some(id) = lists.limbo.pop_front() else { break };
        let header = segments.header(id);
        if !grace.passed(header.stamp()) {
            lists.limbo.push_back(id);
            continue;
        }
        header.set_state(State::Idle);
        if returned < give_back && lists.free.len() >= FREE_FOR_MOVES {
            segments.pool.discard(segments.words_of(id.0 as usize));
            lists.uncommitted.push(id);
            drop(lists.grants.pop());
            returned += 1;
        } else {
            lists.free.push(id);
        }
    }
    segments.free.store(lists.free.len() as u64, Ordering::Relaxed);
    returned
}
