//! A key-value handler that every worker shares a map with. Keys choose how a reply comes:
//! `slow...` by its ticket, from another thread; `gate...` when a log has passed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use base::Now;
use drivers::{Remote, Slot};
use memcache::{Limits, Refusal, Request};
use session::{BatchEnd, Cause, Conn, ConnId, Handler, LogId, Outcome, Passed, Reply, Ticket};

const LOG: LogId = LogId(9);

/// Values from here on are lent.
const LEND_BYTES_MIN: usize = 16 << 10;

enum Late {
    Reply(Remote, Ticket, Vec<u8>),
    Mark(Remote, u64),
}

/// What all handlers of a server share.
pub struct Store {
    limits: Limits,
    items: Mutex<BTreeMap<Vec<u8>, Arc<[u8]>>>,
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

impl Default for Store {
    fn default() -> Self {
        let (late, post) = channel();
        let mark = Arc::new(AtomicU64::new(0));
        let passed = mark.clone();
        std::thread::spawn(move || deliver(&post, &passed));
        Self {
            limits: Limits { value_bytes_max: 2 << 20, ..Limits::default() },
            items: Mutex::default(),
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

/// Delivers late replies, two at a time and the later one first, until the store is gone.
fn deliver(post: &Receiver<Late>, mark: &AtomicU64) {
    while let Ok(first) = post.recv() {
        let second = post.try_recv().ok();
        for late in second.into_iter().chain([first]) {
            match late {
                Late::Reply(remote, ticket, bytes) => {
                    remote.complete(ticket, bytes);
                }
                Late::Mark(remote, seq) => {
                    mark.fetch_max(seq, Ordering::SeqCst);
                    remote.release(LOG);
                }
            }
        }
    }
}

/// The handler of one worker.
pub struct Kv {
    store: Arc<Store>,
    remote: Remote,
}

impl Kv {
    pub fn new(store: Arc<Store>, slot: Slot) -> Self {
        Self { store, remote: slot.remote }
    }

    fn late(&self, late: Late) {
        self.store.late.lock().expect("unpoisoned").send(late).expect("it lasts as the store");
    }

    fn append(&self, key: &[u8], reply: &mut Reply) {
        let Some(value) = self.store.items.lock().expect("unpoisoned").get(key).cloned() else {
            return;
        };
        let key = String::from_utf8_lossy(key);
        reply.bytes_mut().extend(format!("VALUE {key} 0 {}\r\n", value.len()).bytes());
        if value.len() >= LEND_BYTES_MIN {
            reply.lend(Box::new(value), b"\r\n");
        } else {
            reply.bytes_mut().extend(&value[..]);
            reply.bytes_mut().extend(b"\r\n");
        }
    }

    /// Has what was written since the reply began come the way that `key` asks for.
    fn outcome(
        &self,
        key: &[u8],
        ticket: Ticket,
        reply: &mut Reply,
        begin: session::Mark,
    ) -> Outcome {
        if key.starts_with(b"slow") {
            let late = reply.split_off(begin);
            let bytes = late.plain(late.whole()).expect("nothing is lent here").to_vec();
            self.late(Late::Reply(self.remote.clone(), ticket, bytes));
            return Outcome::Pending;
        }
        if key.starts_with(b"gate") {
            let seq = self.store.seq.fetch_add(1, Ordering::SeqCst) + 1;
            self.late(Late::Mark(self.remote.clone(), seq));
            return Outcome::Gate { log: LOG, seq };
        }
        Outcome::Done
    }
}

impl Handler for Kv {
    fn limits(&self, _conn: &Conn) -> &Limits {
        &self.store.limits
    }

    fn call(
        &mut self,
        _now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        self.store.requests.fetch_add(1, Ordering::Relaxed);
        *self.store.latest.lock().expect("unpoisoned") = Some(conn.id());
        let begin = reply.mark();
        match request {
            Request::Get { keys, .. } => {
                let mut first: &[u8] = b"";
                for key in *keys {
                    let key = key.expect("the tests send short keys").as_bytes();
                    first = if first.is_empty() { key } else { first };
                    self.append(key, reply);
                }
                reply.bytes_mut().extend(b"END\r\n");
                self.outcome(first, ticket, reply, begin)
            }
            Request::Store(store) => {
                let mut items = self.store.items.lock().expect("unpoisoned");
                items.insert(store.key.as_bytes().to_vec(), store.value.into());
                drop(items);
                if !store.noreply {
                    reply.bytes_mut().extend(b"STORED\r\n");
                }
                self.outcome(store.key.as_bytes(), ticket, reply, begin)
            }
            Request::Version => {
                reply.bytes_mut().extend(b"VERSION 1\r\n");
                Outcome::Done
            }
            Request::Quit => Outcome::Close,
            _ => {
                reply.bytes_mut().extend(b"ERROR\r\n");
                Outcome::Done
            }
        }
    }

    fn refused(
        &mut self,
        _now: Now,
        _conn: &mut Conn,
        refusal: Option<&Refusal<'_>>,
        cause: Cause,
        reply: &mut Reply,
    ) {
        reply.bytes_mut().extend(match (cause, refusal) {
            (Cause::Malformed, Some(refusal)) => refusal.line(),
            _ => b"SERVER_ERROR out of memory storing object\r\n",
        });
    }

    fn gate(&self, _log: LogId, seq: u64) -> Passed {
        if seq <= self.store.mark.load(Ordering::SeqCst) { Passed::Yes } else { Passed::No }
    }

    fn closed(&mut self, _conn: ConnId) {
        self.store.closed.fetch_add(1, Ordering::SeqCst);
    }

    fn end_batch(&mut self, now: Now) -> BatchEnd {
        self.store.batches.fetch_add(1, Ordering::Relaxed);
        if now.mono_ns >= self.store.wake_at_ns.load(Ordering::SeqCst) {
            self.store.wake_at_ns.store(u64::MAX, Ordering::SeqCst);
            self.store.woken.fetch_add(1, Ordering::SeqCst);
        }
        if self.store.deposed.load(Ordering::SeqCst) { BatchEnd::Drop } else { BatchEnd::Send }
    }

    fn wake_at_ns(&self) -> u64 {
        self.store.wake_at_ns.load(Ordering::SeqCst)
    }
}
