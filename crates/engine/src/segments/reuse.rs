//! How a segment is used again: out of its queue to be walked, through limbo, to the free ones.
//!
//! A victim is taken only when the batches that wrote it have ended, and freed only when the
//! batches that may read it have ended. Nothing here looks at an item. Each function holds the lock
//! of the lists for a bounded number of segments, except that [`reclaim`] looks at all of limbo.
//! Memory is returned to the kernel without the lock.

use super::addr::SegmentId;
use super::header::{Header, State};
use super::pool::Pool;
use super::queue::Queue;
use super::table::{Lists, Segments};
use crate::config::SCAN_SEGMENTS_MAX;
use crate::grace::{GracePeriods, Horizon};
use crate::sync::{MutexGuard, Ordering, lock};
use base::Now;

/// Segments whose memory one call returns to the kernel at most: a tenth of a millisecond for each
/// of the largest.
const RETURNS_MAX: usize = 4;

/// Segments that one search for the oldest victim passes over at most, because they are held or
/// spared.
const HELD_PASSED_MAX: usize = 64;

/// A segment taken out of its queue to be walked.
pub(crate) struct Victim {
    pub(crate) id: SegmentId,
    pub(crate) pool: Pool,
    /// Every live item moves, however rarely it is used: most words are dead.
    pub(crate) compact: bool,
}

/// A segment whose items have all expired, if `steps` steps of the rotating scan find one.
pub(crate) fn expired_victim(
    segments: &Segments,
    grace: &GracePeriods,
    now: Now,
    steps: usize,
) -> Option<Victim> {
    let horizon = grace.horizon();
    let is_expired = |header: Header<'_>| header.all_expired(now.expiry_s);
    (0..steps).find_map(|_| scan(segments, horizon, &mut lock(&segments.lists), is_expired))
}

/// A segment of which more than `dead_words` are dead, if `steps` steps of the rotating scan find
/// one.
pub(crate) fn dead_victim(
    segments: &Segments,
    grace: &GracePeriods,
    dead_words: usize,
    steps: usize,
) -> Option<Victim> {
    let horizon = grace.horizon();
    let is_dead = |of: Header<'_>| of.dead_words() > dead_words;
    (0..steps).find_map(|_| scan(segments, horizon, &mut lock(&segments.lists), is_dead))
}

/// A segment of which more than `removed_words` were of items that were removed, if `steps` steps
/// of the rotating scan find one. What is free at its end would be free at the end of another too.
pub(crate) fn removed_victim(
    segments: &Segments,
    grace: &GracePeriods,
    removed_words: usize,
    steps: usize,
) -> Option<Victim> {
    let horizon = grace.horizon();
    let is_dead = |of: Header<'_>| of.removed_words() > removed_words;
    (0..steps).find_map(|_| scan(segments, horizon, &mut lock(&segments.lists), is_dead))
}

/// The oldest segment of a pool, if everything in it was flushed.
pub(crate) fn flushed_victim(segments: &Segments, grace: &GracePeriods) -> Option<Victim> {
    let horizon = grace.horizon();
    let mut lists = lock(&segments.lists);
    let is_flushed = |id: &SegmentId| segments.header(*id).order() <= lists.flushed;
    let mut oldest = lists.queues.iter().filter_map(Queue::first);
    let id = oldest.find(is_flushed)?;
    take_victim(segments, horizon, &mut lists, id, true)
}

/// The oldest segment of the main pool, if since it was sealed `turnovers` times as many were
/// sealed as hold memory, no reader holds it, and the batches that wrote it have ended.
pub(crate) fn aged(segments: &Segments, grace: &GracePeriods, turnovers: u64) -> Option<SegmentId> {
    let horizon = grace.horizon();
    let lists = lock(&segments.lists);
    let id = lists.queues[Pool::Main as usize].first()?;
    let header = segments.header(id);
    let is_aged = lists.sealed - header.order() > turnovers * lists.grants.len() as u64;
    let is_free_to_go = horizon.has_passed(header.stamp()) && !header.is_held();
    (is_aged && is_free_to_go).then_some(id)
}

/// The oldest segment of `pool` that no reader holds, if the batches that wrote it have ended.
/// Those that are held or spared go to the end of the queue.
pub(crate) fn oldest_victim(
    segments: &Segments,
    grace: &GracePeriods,
    pool: Pool,
) -> Option<Victim> {
    let horizon = grace.horizon();
    let mut lists = lock(&segments.lists);
    for _ in 0..HELD_PASSED_MAX {
        let id = lists.queues[pool as usize].first()?;
        let header = segments.header(id);
        if !header.is_held() && !header.take_spared() {
            return take_victim(segments, horizon, &mut lists, id, false);
        }
        lists.queues[pool as usize].remove(&segments.headers, id);
        lists.queues[pool as usize].push(&segments.headers, id);
    }
    None
}

fn scan(
    segments: &Segments,
    horizon: Horizon,
    lists: &mut MutexGuard<'_, Lists>,
    wanted: impl Fn(Header<'_>) -> bool,
) -> Option<Victim> {
    for _ in 0..SCAN_SEGMENTS_MAX.min(lists.fresh) {
        lists.scan_at = (lists.scan_at + 1) % lists.fresh;
        let id = SegmentId(lists.scan_at as u32);
        let header = segments.header(id);
        if header.state() == State::Sealed && wanted(header) {
            let victim = take_victim(segments, horizon, lists, id, true);
            if victim.is_some() {
                return victim;
            }
        }
    }
    None
}

fn take_victim(
    segments: &Segments,
    horizon: Horizon,
    lists: &mut MutexGuard<'_, Lists>,
    id: SegmentId,
    compact: bool,
) -> Option<Victim> {
    let header = segments.header(id);
    if !horizon.has_passed(header.stamp()) || header.is_held() {
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
    lists.end(header.pool());
    segments.forget_end(header);
    header.set_state(State::Limbo);
    header.set_stamp(grace.retire());
    lists.limbo.push_back(id);
    segments.note_lengths(&lists);
}

/// Segments that one call of [`follow`] moves at most.
const FOLLOW_MAX: u64 = 16;

/// Moves segments of copies to the main pool after slices were promoted: the items of those slices
/// can be evicted there, and what is still a copy is moved back when its segment is walked.
pub(crate) fn follow(segments: &Segments) {
    if segments.to_follow.load(Ordering::Relaxed) == 0 {
        return;
    }
    let mut lists = lock(&segments.lists);
    let to_follow = segments.to_follow.load(Ordering::Relaxed);
    let now = to_follow.min(FOLLOW_MAX);
    segments.to_follow.store(to_follow - now, Ordering::Relaxed);
    for _ in 0..now {
        let Some(id) = lists.queues[Pool::Copies as usize].first() else { break };
        lists.queues[Pool::Copies as usize].remove(&segments.headers, id);
        lists.end(Pool::Copies);
        segments.header(id).set_pool(Pool::Main);
        lists.queues[Pool::Main as usize].push(&segments.headers, id);
    }
}

/// Where the segments go that [`reclaim`] frees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reclaim {
    /// How many segments are to be free before memory is returned.
    pub(crate) keep_free: usize,
    /// Segments whose memory is to be returned.
    pub(crate) give_back: usize,
}

/// Frees what has waited in limbo long enough. Then returns the memory of segments that were never
/// used and of free ones, as `how` says, but of [`RETURNS_MAX`] at most. The number of segments
/// returned is the result.
pub(crate) fn reclaim(segments: &Segments, grace: &GracePeriods, how: Reclaim) -> usize {
    if segments.limbo() == 0 && how.give_back == 0 && !segments.pins.has_released() {
        return 0;
    }
    let horizon = grace.horizon();
    let mut lists = lock(&segments.lists);
    for _ in 0..lists.limbo.len() {
        let Some(id) = lists.limbo.pop_front() else { break };
        let header = segments.header(id);
        if !horizon.has_passed(header.stamp()) {
            lists.limbo.push_back(id);
        } else if header.is_held() {
            // Every reader that can hold it does, so from here on the number only falls.
            lists.held.push(id);
        } else {
            header.set_state(State::Idle);
            lists.free.push(id);
        }
    }
    if segments.pins.take_released() {
        let held = std::mem::take(&mut lists.held);
        let (held, free): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|id| segments.header(*id).is_held());
        free.iter().for_each(|id| segments.header(*id).set_state(State::Idle));
        lists.free.extend(free);
        lists.held = held;
    }
    let returned: Vec<SegmentId> = (0..how.give_back.min(RETURNS_MAX))
        .map_while(|_| take_returned(&mut lists, how.keep_free))
        .collect();
    segments.note_lengths(&lists);
    if returned.is_empty() {
        return 0;
    }
    drop(lists);
    for id in &returned {
        segments.pool.discard(segments.words_of(id.0 as usize));
    }
    let mut lists = lock(&segments.lists);
    lists.uncommitted.extend(&returned);
    let left = lists.grants.len() - returned.len();
    let grants = lists.grants.split_off(left);
    drop(lists);
    drop(grants);
    returned.len()
}

/// A segment whose memory is to be returned: one that was never used, else a free one. Its grant is
/// still among those of the segments in use.
fn take_returned(lists: &mut Lists, keep_free: usize) -> Option<SegmentId> {
    if let Some(grant) = lists.prefaulted.pop() {
        lists.grants.push(grant);
        lists.fresh += 1;
        return Some(SegmentId(lists.fresh as u32 - 1));
    }
    (lists.free.len() > keep_free).then(|| lists.free.pop()).flatten()
}
