//! Space for a request that cannot continue without it: evicts at once, within bounds.
//!
//! A drained segment is free when every batch that may read it has ended. A full one is walked
//! when every batch that may write it has ended. So a request that lacks space may have to wait for
//! the batches of other threads. The engine does not wait: it lets other threads run a few times,
//! then answers that the request can be carried out later. Its own batch ends meanwhile, so no
//! thread waits for one that waits.

use super::evict::{Bounds, Eviction};
use super::stopped::{Failed, Stopped};
use super::work::Work;
use crate::obstacle::Obstacle;
use crate::segments::{Reclaim, SegmentCounts};
use crate::sync::{Ordering, yield_now};
use base::{EffectSink, Owner, Refused};

/// Items looked at between two looks at whether there is space again.
const ITEMS_PER_ROUND: usize = 64;

/// Rounds of making space in one call, at most, and how many more for each segment that is needed.
const ROUNDS_MAX: usize = 64;
const ROUNDS_PER_SEGMENT: usize = 16;

/// Times an attempt starts over in one call.
const ATTEMPTS_MAX: usize = 64;

/// Rounds of one call without gain, each of which lets other threads run, before a request is to be
/// tried again later.
const YIELDS_MAX: usize = 64;

/// The same for the buffer of a connection, which cannot be tried again later: without memory for
/// its input or its output the client is refused.
const YIELDS_FOR_BUFFERS_MAX: usize = 1 << 15;

/// The rounds of one request that makes space.
struct Rounds {
    left: usize,
    /// Those that gained nothing, and how many of them there may be.
    idle: usize,
    idle_max: usize,
}

impl Rounds {
    fn new(segments: usize, idle_max: usize) -> Self {
        let left = ROUNDS_MAX + segments * ROUNDS_PER_SEGMENT + idle_max;
        Self { left, idle: 0, idle_max }
    }

    /// Ends the batch after a round that looked at `walked` items, lets other threads run if there
    /// were none, and begins another batch.
    fn next<S>(
        &mut self,
        eviction: &Eviction,
        work: &mut Work<'_, S>,
        walked: usize,
    ) -> Result<(), Failed> {
        self.idle += usize::from(walked == 0);
        let has_looked = self.idle > work.items.segments().scans() + 1;
        if has_looked && !is_space_to_come(eviction, work) {
            return Err(Failed::NoSpace);
        }
        if !has_looked && !work.may_evict {
            // The scan has still to look at some segments.
            work.pin.renew();
            return Ok(());
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || self.idle > self.idle_max {
            return Err(Failed::Later(Obstacle::Memory));
        }
        if walked == 0 {
            work.pin.pause(yield_now);
            work.pin.counters().waits.add(1);
        } else {
            work.pin.renew();
        }
        Ok(())
    }
}

/// Whether there will be space when others have ended their batches, or even sooner.
fn is_space_to_come<S>(eviction: &Eviction, work: &Work<'_, S>) -> bool {
    // What another thread has in hand is counted after it has let go.
    if eviction.is_busy() {
        return true;
    }
    let SegmentCounts { small, main, copies, limbo, held, .. } = work.items.segments().counts();
    let is_evicted = work.may_evict && small + main > 0;
    // Copies make way for a primary that has nothing yet: their primaries evict them.
    let is_given = work.may_evict && copies > 0;
    is_evicted || is_given || limbo + held > 0
}

/// Runs `attempt` until it no longer lacks space, making space in between.
pub(crate) fn with_space<T, S: EffectSink>(
    eviction: &Eviction,
    work: &mut Work<'_, S>,
    mut attempt: impl FnMut(&mut Work<'_, S>) -> Result<T, Stopped>,
) -> Result<T, Failed> {
    for _ in 0..ATTEMPTS_MAX {
        match attempt(work) {
            Ok(done) => return Ok(done),
            Err(Stopped::NeedSpace { segments }) => make_space(eviction, work, segments)?,
            Err(Stopped::NeedBuffer { bytes }) => {
                let budget = eviction.budget();
                let max = budget.max(Owner::Connections);
                if bytes > max {
                    return Err(Failed::NoSpace);
                }
                // Nothing is evicted for what the share does not allow.
                let is_within = budget.used(Owner::Connections) + bytes <= max;
                if !is_within || !give_back(eviction, work, bytes) {
                    return Err(Failed::Later(Obstacle::Memory));
                }
            }
            // The item that the change was to be made from is dead now.
            Err(Stopped::Again | Stopped::Refused(Refused::Flushed)) => {}
            Err(Stopped::Refused(Refused::TooLarge)) => return Err(Failed::TooLarge),
            Err(Stopped::Refused(refused)) => return Err(Failed::Later(Obstacle::Sink(refused))),
        }
    }
    Err(Failed::Later(Obstacle::Memory))
}

/// Frees memory until `segments` of it are free. The pin of the caller moves on.
fn make_space<S: EffectSink>(
    eviction: &Eviction,
    work: &mut Work<'_, S>,
    segments: usize,
) -> Result<(), Failed> {
    let items = work.items;
    if segments * 2 > items.segments().geometry().segments_max {
        return Err(Failed::NoSpace);
    }
    let mut rounds = Rounds::new(segments, YIELDS_MAX);
    let left = match work.is_copying {
        true => items.segments().free_for_moves(),
        false => items.segments().free_for_writes(),
    };
    let wanted = segments + left;
    let compacts = work.is_copying;
    work.pin.counters().rooms_made.add(1);
    let mut looked_at = 0;
    work.pin.renew();
    loop {
        eviction.reclaim(work);
        if items.segments().free() >= wanted && !items.index().buckets().is_short() {
            return Ok(());
        }
        let bounds = Bounds { items: ITEMS_PER_ROUND, words: usize::MAX, compacts };
        let walked = eviction.walk_any(work, bounds, wanted.max(items.segments().free_aim()));
        if let Some(refused) = walked.refused {
            return Err(Failed::Later(Obstacle::Sink(refused)));
        }
        looked_at += walked.items as u64;
        eviction.maxima().space_items.fetch_max(looked_at, Ordering::Relaxed);
        let next = rounds.next(eviction, work, walked.items);
        // Another thread may have freed them since they were counted.
        if next.is_err() && items.segments().free() < wanted {
            return next;
        }
    }
}

/// Evicts until the budget has `bytes` left, for an owner whose share is not used up. The pin of
/// the caller moves on. False when that much cannot be evicted now.
pub(crate) fn give_back<S: EffectSink>(
    eviction: &Eviction,
    work: &mut Work<'_, S>,
    bytes: u64,
) -> bool {
    let items = work.items;
    let segment_bytes = items.segments().geometry().segment_bytes();
    // Moving items takes space too, so what counts is what there is, not what was returned.
    let lacking = || bytes.saturating_sub(eviction.budget().room());
    let segments = lacking().div_ceil(segment_bytes) as usize;
    let mut rounds = Rounds::new(segments, YIELDS_FOR_BUFFERS_MAX);
    work.pin.renew();
    loop {
        let keep_free = items.segments().free_for_moves();
        eviction.reclaim_by(work, || {
            let give_back = lacking().div_ceil(segment_bytes) as usize;
            Reclaim { keep_free, give_back }
        });
        if lacking() == 0 {
            return true;
        }
        let bounds = Bounds { items: ITEMS_PER_ROUND, words: usize::MAX, compacts: false };
        let walked = eviction.walk_any(work, bounds, usize::MAX);
        if walked.refused.is_some() || rounds.next(eviction, work, walked.items).is_err() {
            return false;
        }
    }
}
