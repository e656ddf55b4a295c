//! Delayed `flush_all`: each range that this cell leads carries it out once.

use super::led::Led;
use crate::ring::cell::RingCell;
use crate::worker::Worker;
use base::{Now, SliceId};
use ring::Map;

/// Lets each range that is `led` answer until the next delayed flush is due that it has not carried
/// out: what is answered from then on is executed after it.
pub(crate) fn stop(led: &[Led<'_>], map: &Map, ring: &RingCell) {
    for Led { range, level } in led {
        let done = ring.flushed.of_all(range.slices());
        let second = map.flushes.stops_at_s(done).unwrap_or(u32::MAX);
        ring.terms.stop_at_s(*level, second);
    }
}

/// Carries out the delayed flush that is due in each range that has not done so. A log without
/// space does not take it: it is tried again. Returns whether anything was done.
pub(crate) fn carry_out(
    led: &[Led<'_>],
    (map, ring): (&Map, &RingCell),
    worker: &mut Worker,
    now: Now,
) -> bool {
    let Some(flush) = map.flushes.due_at(now.expiry_s) else { return false };
    let number = flush.number;
    // After a failover some lanes may have it and others not: the copy had come further there.
    let lacks = |slice: &SliceId| ring.flushed.of(*slice) < number;
    let mut is_done = false;
    for slices in led.iter().map(|it| it.range.slices()) {
        if !slices.iter().any(|slice| lacks(&slice)) {
            continue;
        }
        let (engine, _, sink) = worker.parts();
        let set = |slice| {
            // Some of the lane may have it: it had other lanes at the primary before.
            if lacks(&slice) {
                engine.barrier(slice, engine.last_version(slice));
                ring.flushed.set(slice, number);
            }
        };
        let _ =
            engine.flush_by(|| sink.barrier_where((slices, number), lacks, set, &mut Vec::new()));
        is_done = true;
    }
    if is_done {
        stop(led, map, ring);
    }
    is_done
}
