//! A handler for tests: a map behind the grammar, whose replies leave at once, or wait for gates
//! and tickets that a seed chooses.

use std::collections::{BTreeMap, VecDeque};

use base::Now;
use memcache::{Key, Limits, Refusal, Request, Store};

use crate::{BatchEnd, Cause, Conn, ConnId, Handler, LogId, Outcome, Passed, Reply, Ticket};

/// A small generator whose whole state is its seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) % bound as u64) as usize
    }
}

/// Values from here on are lent instead of copied.
pub(crate) const LEND_BYTES_MIN: usize = 4 << 10;

/// Keys of one multiget that are answered before the handler asks to be called again.
const KEYS_PER_CALL: u32 = 3;

pub(crate) struct Fake {
    limits: Limits,
    items: BTreeMap<Vec<u8>, std::sync::Arc<[u8]>>,
    /// Decides which replies wait; `None` answers everything at once.
    pub(crate) delays: Option<Random>,
    /// Whether what can be answered at once is.
    pub(crate) prompt: bool,
    pub(crate) pending: VecDeque<(Ticket, Vec<u8>)>,
    pub(crate) mark: u64,
    pub(crate) seq: u64,
    pub(crate) in_doubt: bool,
    pub(crate) causes: Vec<Cause>,
    pub(crate) calls: usize,
}

impl Fake {
    pub(crate) fn new(delays: Option<u64>) -> Self {
        Self {
            limits: Limits { value_bytes_max: 200_000, ..Limits::default() },
            items: BTreeMap::new(),
            delays: delays.map(Random),
            prompt: false,
            pending: VecDeque::new(),
            mark: 0,
            seq: 0,
            in_doubt: false,
            causes: Vec::new(),
            calls: 0,
        }
    }

    fn get(&self, key: &[u8], reply: &mut Reply) {
        let Some(value) = self.items.get(key) else { return };
        reply.bytes_mut().extend(b"VALUE ");
        reply.bytes_mut().extend(key);
        reply.bytes_mut().extend(format!(" 0 {}\r\n", value.len()).bytes());
        if value.len() >= LEND_BYTES_MIN {
            reply.lend(Box::new(value.clone()), b"\r\n");
        } else {
            reply.bytes_mut().extend(&value[..]);
            reply.bytes_mut().extend(b"\r\n");
        }
    }

    fn store(&mut self, store: &Store<'_>, reply: &mut Reply) {
        self.items.insert(store.key.as_bytes().to_vec(), store.value.into());
        if !store.noreply {
            reply.bytes_mut().extend(b"STORED\r\n");
        }
    }

    fn execute(&mut self, conn: &mut Conn, request: &Request<'_>, reply: &mut Reply) -> Outcome {
        match request {
            Request::Get { keys, .. } => {
                for key in (*keys).skip(conn.progress as usize) {
                    self.get(key.expect("the tests send short keys").as_bytes(), reply);
                    conn.progress += 1;
                    if conn.progress.is_multiple_of(KEYS_PER_CALL) {
                        return Outcome::More;
                    }
                }
                reply.bytes_mut().extend(b"END\r\n");
            }
            Request::Store(store) => self.store(store, reply),
            Request::Version => reply.bytes_mut().extend(b"VERSION fake\r\n"),
            Request::Quit => return Outcome::Close,
            _ => reply.bytes_mut().extend(b"ERROR\r\n"),
        }
        Outcome::Done
    }
}

impl Handler for Fake {
    fn limits(&self, _conn: &Conn) -> &Limits {
        &self.limits
    }

    fn call(
        &mut self,
        _now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        self.calls += 1;
        let mark = reply.mark();
        let outcome = self.execute(conn, request, reply);
        let Some(random) = &mut self.delays else { return outcome };
        if outcome != Outcome::Done {
            return outcome;
        }
        match random.below(4) {
            0 => {
                self.seq += 1;
                Outcome::Gate { log: LogId(1), seq: self.seq }
            }
            1 => {
                let late = reply.split_off(mark);
                let mut slices = [std::io::IoSlice::new(&[]); 64];
                let count = late.slices(late.whole(), &mut slices);
                let bytes = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                self.pending.push_back((ticket, bytes));
                Outcome::Pending
            }
            _ => Outcome::Done,
        }
    }

    fn is_prompt(&self, _conn: &Conn) -> bool {
        self.prompt
    }

    fn get_now(&mut self, _now: Now, key: Key<'_>, reply: &mut Reply) {
        self.calls += 1;
        self.get(key.as_bytes(), reply);
        reply.bytes_mut().extend(b"END\r\n");
    }

    fn store_now(&mut self, _now: Now, store: &Store<'_>, reply: &mut Reply) {
        self.calls += 1;
        self.store(store, reply);
    }

    fn refused(
        &mut self,
        _now: Now,
        _conn: &mut Conn,
        refusal: Option<&Refusal<'_>>,
        cause: Cause,
        reply: &mut Reply,
    ) {
        self.causes.push(cause);
        reply.bytes_mut().extend(match (cause, refusal) {
            (Cause::Malformed, Some(refusal)) => refusal.line(),
            (Cause::NoMemory, _) => b"SERVER_ERROR out of memory storing object\r\n",
            _ => b"SERVER_ERROR out of memory reading request\r\n",
        });
    }

    fn gate(&self, _log: LogId, seq: u64) -> Passed {
        match (seq <= self.mark, self.in_doubt) {
            (true, _) => Passed::Yes,
            (false, false) => Passed::No,
            (false, true) => Passed::InDoubt,
        }
    }

    fn closed(&mut self, _conn: ConnId) {}

    fn end_batch(&mut self, _now: Now) -> BatchEnd {
        BatchEnd::Send
    }
}
