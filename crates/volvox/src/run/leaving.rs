//! A cell that is to end leaves its ring first, within a time limit: other cells take all that it
//! has, so that no client sees an error or a miss.

use std::thread::sleep;
use std::time::{Duration, Instant};

use service::{LeaveProgress, RingCell};

/// How often it is looked how far it is, and how often it is asked for, until the map has it.
const LOOK: Duration = Duration::from_millis(20);
const ASK: Duration = Duration::from_millis(200);

/// Has the cell leave, and waits for that, at most until `limit`.
pub(super) fn leave(ring: &RingCell, limit: Duration) {
    let (start, mut asked_at) = (Instant::now(), None::<Instant>);
    loop {
        let LeaveProgress { parts, is_ordered, is_forced, is_possible, has_room } =
            ring.leave_progress();
        let seconds = start.elapsed().as_secs_f64();
        if parts == 0 {
            tracing::info!("other cells have all that this one had, after {seconds:.1} s");
            return;
        }
        if !is_possible {
            tracing::info!("no other cell of the ring is heard that stays: nothing to wait for");
            return;
        }
        if !has_room && !is_ordered {
            tracing::warn!(
                "the other cells have too little room for what this one has: it ends without \
                 leaving the ring, and {parts} ranges go on with their copies"
            );
            return;
        }
        if start.elapsed() >= limit {
            tracing::warn!(
                "this cell has a part in {parts} ranges still, after {seconds:.1} s \
                 (ring.drain_s): their copies go on without it"
            );
            return;
        }
        if !is_forced && asked_at.is_none_or(|at| at.elapsed() >= ASK) {
            ring.leave();
            asked_at = Some(Instant::now());
        }
        sleep(LOOK);
    }
}
