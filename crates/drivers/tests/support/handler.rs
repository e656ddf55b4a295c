//! The handler of every worker under test, and what the tests see of all of them. Keys choose how a
//! reply comes: `slow...` by its ticket, from another thread; `gate...` when a log has passed;
//! `own...` when the worker's own log has passed, which it does at the end of each batch. What
//! begins with `lost` or `never` waits for a ticket or a mark that never comes. `park...` parks
//! while [`Shared::full`]; `block...` keeps its worker until [`Shared::unblock`].

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};

use base::Now;
use drivers::{Post, Remote, Slot};
use session::{BatchEnd, Conn, ConnId, LogId, Mark, Outcome, Passed, Reply, Ticket, WorkerId};

use super::fake::{Delays, Fake, Items, withhold};

const LOG: LogId = LogId(9);

/// A log that never passes anything.
const NEVER: LogId = LogId(10);

/// The log of the first worker; those of the others follow.
const OWN: u32 = 1000;

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
    /// The time that the latest request was executed at.
    pub now_ns: AtomicU64,
    pub closed: AtomicUsize,
    pub requests: AtomicUsize,
    pub batches: AtomicUsize,
    /// When handlers want to be called next, and how often they were called in time.
    pub wake_at_ns: AtomicU64,
    pub woken: AtomicUsize,
    /// Requests for `park...` cannot run.
    pub full: AtomicBool,
    /// Connections in the order in which their requests were parked first, and have run.
    pub parked: Mutex<Vec<ConnId>>,
    pub ran: Mutex<Vec<ConnId>>,
    /// How many workers are blocked, or have been, and how many may continue.
    pub blocked: AtomicUsize,
    unblocked: (Mutex<usize>, Condvar),
    /// The tickets that nobody completes.
    pub lost: Mutex<Vec<Ticket>>,
    /// What mail has come to which worker.
    pub mail: Mutex<Vec<(WorkerId, u64)>>,
    /// What posts mail.
    pub post: Mutex<Option<Post<u64>>>,
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
            now_ns: AtomicU64::new(0),
            closed: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            batches: AtomicUsize::new(0),
            wake_at_ns: AtomicU64::new(u64::MAX),
            woken: AtomicUsize::new(0),
            full: AtomicBool::new(false),
            parked: Mutex::default(),
            ran: Mutex::default(),
            blocked: AtomicUsize::new(0),
            unblocked: (Mutex::new(0), Condvar::new()),
            lost: Mutex::default(),
            mail: Mutex::default(),
            post: Mutex::default(),
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
    worker: WorkerId,
    /// The latest position of its own log, and how far that has passed.
    own: (u64, u64),
    /// As of the latest end of a batch, so that all requests that run in one see the same.
    full: bool,
}

/// The handler of one worker.
pub fn handler(shared: Arc<Shared>, slot: Slot<u64>) -> Fake<ByKey> {
    let items = shared.items.clone();
    *shared.post.lock().expect("unpoisoned") = Some(slot.post);
    let full = shared.full.load(Ordering::SeqCst);
    let delays = ByKey { shared, remote: slot.remote, worker: slot.worker, own: (0, 0), full };
    Fake::new(delays, items, VALUE_BYTES_MAX, LEND_BYTES_MIN)
}

impl Shared {
    /// Lets a worker continue that is blocked, or will be.
    pub fn unblock(&self) {
        *self.unblocked.0.lock().expect("unpoisoned") += 1;
        self.unblocked.1.notify_all();
    }

    /// Keeps the worker that calls it until the test unblocks one.
    fn block(&self) {
        self.blocked.fetch_add(1, Ordering::SeqCst);
        let (count, changed) = &self.unblocked;
        let waited = changed.wait_while(count.lock().expect("unpoisoned"), |count| *count == 0);
        *waited.expect("unpoisoned") -= 1;
    }
}

impl ByKey {
    fn late(&self, late: Late) {
        self.shared.late.lock().expect("unpoisoned").send(late).expect("it lasts as the server");
    }
}

impl Delays for ByKey {
    fn begin(&mut self, now: Now, conn: ConnId) {
        self.shared.now_ns.store(now.mono_ns, Ordering::SeqCst);
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
        if key.starts_with(b"own") {
            self.own.0 += 1;
            return Outcome::Gate { log: LogId(OWN + u32::from(self.worker.0)), seq: self.own.0 };
        }
        if key.starts_with(b"never") {
            return Outcome::Gate { log: NEVER, seq: 1 };
        }
        if key.starts_with(b"lost") {
            drop(withhold(reply, mark));
            self.shared.lost.lock().expect("unpoisoned").push(ticket);
            return Outcome::Pending;
        }
        if key.starts_with(b"block") {
            self.shared.block();
        }
        Outcome::Done
    }

    fn parks(&mut self, conn: &Conn, key: &[u8]) -> bool {
        if !key.starts_with(b"park") {
            return false;
        }
        let list = if self.full { &self.shared.parked } else { &self.shared.ran };
        let mut list = list.lock().expect("unpoisoned");
        if !list.contains(&conn.id()) {
            list.push(conn.id());
        }
        self.full
    }

    fn gate(&self, log: LogId, seq: u64) -> Passed {
        let mark = match log {
            LOG => self.shared.mark.load(Ordering::SeqCst),
            NEVER => 0,
            _ => self.own.1,
        };
        if seq <= mark { Passed::Yes } else { Passed::No }
    }

    fn deliver(&mut self, mail: u64) {
        self.shared.mail.lock().expect("unpoisoned").push((self.worker, mail));
    }

    fn closed(&mut self) {
        self.shared.closed.fetch_add(1, Ordering::SeqCst);
    }

    fn end_batch(&mut self, now: Now) -> BatchEnd {
        self.shared.batches.fetch_add(1, Ordering::Relaxed);
        self.own.1 = self.own.0;
        self.full = self.shared.full.load(Ordering::SeqCst);
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
