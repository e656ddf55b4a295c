//! How a run is watched and stopped from outside.
//!
//! Threads publish a snapshot once a second while the watch is live; the watcher merges the last
//! ones. A snapshot never delays a request: it is made between two turns of a thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::tally::Tally;

/// Shows a line of progress.
type Show = Box<dyn Fn(&str) + Send + Sync>;

/// The flag that stops a run, and what its threads publish.
pub struct Watch {
    stop: Arc<AtomicBool>,
    live: bool,
    show: Option<Show>,
    /// Of each thread: replies, and latencies of those measured.
    snapshots: Mutex<Vec<(u64, Option<Histogram<u64>>)>>,
}

impl Watch {
    /// A watch that ends runs when `stop` is set; their reports are still made. Threads publish
    /// snapshots if it is `live`.
    #[must_use]
    pub fn new(stop: Arc<AtomicBool>, live: bool) -> Self {
        Self { stop, live, show: None, snapshots: Mutex::default() }
    }

    /// A live watch whose lines of progress go to `show` instead of the terminal.
    #[must_use]
    pub fn shown_by(stop: Arc<AtomicBool>, show: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { show: Some(Box::new(show)), ..Self::new(stop, true) }
    }

    /// Where lines of progress go instead of the terminal.
    pub(crate) fn show(&self) -> Option<&Show> {
        self.show.as_ref()
    }

    /// Whether threads publish snapshots.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Whether the run is to end early.
    #[inline]
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The flag itself, for a reader that waits.
    pub(crate) fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Forgets the snapshots of an earlier run.
    pub(super) fn clear(&self) {
        self.snapshots.lock().expect("no holder of this lock panics").clear();
    }

    /// Publishes the counts of the thread numbered `lane`.
    pub(super) fn publish(&self, lane: usize, replies: u64, tally: &Tally) {
        let mut latencies = tally.get_ns.clone();
        for more in [&tally.set_ns, &tally.delete_ns, &tally.modify_ns] {
            latencies.add(more).expect("invariant: all histograms have the same bounds");
        }
        let mut snapshots = self.snapshots.lock().expect("no holder of this lock panics");
        if snapshots.len() <= lane {
            snapshots.resize(lane + 1, (0, None));
        }
        snapshots[lane] = (replies, Some(latencies));
    }

    /// The last snapshots, merged.
    pub(super) fn look(&self, time: Duration) -> Glimpse {
        let snapshots = self.snapshots.lock().expect("no holder of this lock panics");
        let mut glimpse = Glimpse { time, replies: 0, latencies_ns: None };
        for (count, latencies) in snapshots.iter() {
            glimpse.replies += count;
            match (&mut glimpse.latencies_ns, latencies) {
                (Some(sum), Some(more)) => {
                    sum.add(more).expect("invariant: all histograms have the same bounds");
                }
                (sum, more) => *sum = more.clone(),
            }
        }
        glimpse
    }
}

/// A run in progress.
#[derive(Clone, Debug)]
pub struct Glimpse {
    /// Since its start.
    pub time: Duration,
    /// Replies so far, warm-up included.
    pub replies: u64,
    /// Latencies of the measured ones, once a thread has published.
    pub latencies_ns: Option<Histogram<u64>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Kind;

    #[test]
    fn a_glimpse_holds_every_kind_of_request_and_nothing_of_the_run_before() {
        let watch = Watch::new(Arc::default(), true);
        let mut tally = Tally::default();
        tally.complete(Kind::Delete, 1_000);
        tally.complete(Kind::Modify, 2_000);
        watch.publish(0, 5, &tally);
        watch.publish(1, 7, &Tally::default());
        let glimpse = watch.look(Duration::ZERO);
        assert_eq!((glimpse.replies, glimpse.latencies_ns.unwrap().len()), (12, 2));
        watch.clear();
        let glimpse = watch.look(Duration::ZERO);
        assert!(glimpse.replies == 0 && glimpse.latencies_ns.is_none());
    }
}
