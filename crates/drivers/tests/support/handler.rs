//! The handler of every worker under test, and what the tests see of all of them. Keys choose how a
//! reply comes: `slow...` by its ticket, from another thread; `gate...` when a log has passed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use base::Now;
use drivers::{Remote, Slot};
use session::{BatchEnd, ConnId, LogId, Mark, Outcome, Passed, Reply, Ticket};

use super::fake::{Delays, Fake, Items, withhold};

const LOG: LogId = LogId(9);

/// Values of at least this size are lent.
const LEND_BYTES_MIN: usize = 16 << 10;

const VALUE_BYTES_MAX: u64 = 2 << 20;

enum Late {
    Reply(Remote, Ticket, Vec<u8>),
    Mark(Remote, u64),
}

/// What all handlers of a server share.
pub struct Shared {
    items: Items,
    seq: AtomicU64,
    mark: Arc<AtomicU64>,
    /// The connection of the latest request.
    pub latest: Mutex<Option<ConnId>>,
    pub closed: AtomicUsize,
    pub requests: AtomicUsize,
    pub batches: AtomicUsize,
    /// When handlers want to be called next, and how often they were called in time.
    pub wake_at_ns: AtomicU64,
    pub woken: AtomicUsize,
    /// The right to answer is lost.
    pub deposed: AtomicBool,
    late: Mutex<Sender<Late>>,
}

impl Default for Shared {
    fn default() -> Self {
        let (late, post) = channel();
        let mark = Arc::new(AtomicU64::new(0));
        let passed = mark.clone();
        std::thread::spawn(move || deliver(&post, &passed));
        Self {
            items: Items::default(),
            seq: AtomicU64::new(0),
            mark,
            latest: Mutex::new(None),
            closed: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            batches: AtomicUsize::new(0),
            wake_at_ns: AtomicU64::new(u64::MAX),
            woken: AtomicUsize::new(0),
            deposed: AtomicBool::new(false),
            late: Mutex::new(late),
        }
    }
}

/// Delivers late replies, two at a time and the later one first, until the server is gone.
fn deliver(post: &Receiver<Late>, mark: &AtomicU64) {
    while let Ok(first) = post.recv() {
        let second = post.try_recv().ok();
        for late in second.into_iter().chain([first]) {
            match late {
                Late::Reply(remote, ticket, bytes) => {
                    remote.complete(ticket, bytes, true);
                }
                Late::Mark(remote, seq) => {
                    mark.fetch_max(seq, Ordering::SeqCst);
                    remote.release(LOG);
                }
            }
        }
    }
}

/// How replies of one worker come.
pub struct ByKey {
    shared: Arc<Shared>,
    remote: Remote,
}

/// The handler of one worker.
pub fn handler(shared: Arc<Shared>, slot: Slot<u64>) -> Fake<ByKey> {
    let items = shared.items.clone();
    let delays = ByKey { shared, remote: slot.remote };
    Fake::new(delays, items, VALUE_BYTES_MAX, LEND_BYTES_MIN)
}

impl ByKey {
    fn late(&self, late: Late) {
        self.shared.late.lock().expect("unpoisoned").send(late).expect("it lasts as the server");
    }
}

impl Delays for ByKey {
    fn begin(&mut self, conn: ConnId) {
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
        *self.shared.latest.lock().expect("unpoisoned") = Some(conn);
    }

    fn outcome(&mut self, key: &[u8], ticket: Ticket, reply: &mut Reply, mark: Mark) -> Outcome {
        if key.starts_with(b"slow") {
            self.late(Late::Reply(self.remote.clone(), ticket, withhold(reply, mark)));
            return Outcome::Pending;
        }
        if key.starts_with(b"gate") {
            let seq = self.shared.seq.fetch_add(1, Ordering::SeqCst) + 1;
            self.late(Late::Mark(self.remote.clone(), seq));
            return Outcome::Gate { log: LOG, seq };
        }
        Outcome::Done
    }

    fn gate(&self, _log: LogId, seq: u64) -> Passed {
        if seq <= self.shared.mark.load(Ordering::SeqCst) { Passed::Yes } else { Passed::No }
    }

    fn closed(&mut self) {
        self.shared.closed.fetch_add(1, Ordering::SeqCst);
    }

    fn end_batch(&mut self, now: Now) -> BatchEnd {
        self.shared.batches.fetch_add(1, Ordering::Relaxed);
        if now.mono_ns >= self.shared.wake_at_ns.load(Ordering::SeqCst) {
            self.shared.wake_at_ns.store(u64::MAX, Ordering::SeqCst);
            self.shared.woken.fetch_add(1, Ordering::SeqCst);
        }
        if self.shared.deposed.load(Ordering::SeqCst) { BatchEnd::Drop } else { BatchEnd::Send }
    }

    fn wake_at_ns(&self) -> u64 {
        self.shared.wake_at_ns.load(Ordering::SeqCst)
    }
}
