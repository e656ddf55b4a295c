//! The latest second at which a request was executed in this cell.
//!
//! A worker takes the time once for a batch. One that was stopped may receive more in that batch
//! when others have long answered in a later second: what has expired for their clients stays
//! expired for its own.

use base::Now;
use std::sync::atomic::{AtomicU32, Ordering};

/// See above. One cell has one.
#[derive(Default)]
pub(crate) struct LatestSecond(AtomicU32);

impl LatestSecond {
    /// The moment at which a request is executed that came in a batch of the moment `now`.
    ///
    /// A client that was shown something in a second, and asks again, finds that second stored
    /// here: the store comes before the reply, the load after the question.
    #[inline]
    pub(crate) fn at(&self, now: Now) -> Now {
        let latest_s = self.0.load(Ordering::Relaxed);
        if now.expiry_s > latest_s {
            self.0.fetch_max(now.expiry_s, Ordering::Relaxed);
        }
        Now { expiry_s: now.expiry_s.max(latest_s), ..now }
    }
}

#[cfg(test)]
mod tests {
    use crate::ring::RingService;
    use crate::ring::testing::only_cell;
    use crate::testing::NOW;
    use crate::worker::Worker;
    use base::Now;
    use engine::{Put, WriteStatus};
    use memcache::Key;
    use session::{Answer, Handler, Reply, WorkerId};

    #[test]
    fn what_has_expired_for_one_worker_has_expired_for_one_whose_batch_began_before() {
        let ring = only_cell();
        let mut worker = Worker::new(ring.cell.clone());
        worker.begin(NOW);
        let put = Put { value: b"v", client_flags: 0, expiry_s: NOW.expiry_s + 1 };
        let wrote = worker.set(&ring.cell.engine().key(b"key"), put, NOW);
        assert_eq!(wrote, WriteStatus::Done);
        worker.end();
        let mut workers = [0, 1].map(|id| RingService::new(ring.clone(), WorkerId(id), 1));
        let mut finds = |worker: usize, after_s: u32| {
            let now = Now { expiry_s: NOW.expiry_s + after_s, ..NOW };
            let (key, mut reply) = (Key::new(b"key").expect("short"), Reply::new());
            let answer = workers[worker].get_now::<false>(now, key, &mut reply);
            assert!(!matches!(answer, Answer::Declined), "it leads the key");
            reply.bytes_mut().starts_with(b"VALUE")
        };
        assert!(finds(0, 0));
        assert!(!finds(1, 1));
        assert!(!finds(0, 0), "another worker has answered that it has expired");
    }
}
