//! The handler of the tests of sessions and of drivers: a map of keys and values.
//!
//! It executes `get`, storage commands, `version` and `quit`, and answers everything else with an
//! error. How a reply comes is decided by its [`Delays`]: at once, when a log has passed a mark, or
//! by a ticket. This file is part of the tests of both crates and of no product crate.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::{Arc, Mutex};

use base::Now;
use memcache::{Key, Limits, Parsed, Refusal, Request, Store};
use session::{
    Answer, BatchEnd, Cause, Conn, ConnId, Handler, LogId, Mark, Outcome, Passed, Plain, Prompt,
    Reply, Serve, Session, Ticket, Waited,
};

/// What clients have stored. The handlers of a server share it.
pub type Items = Arc<Mutex<BTreeMap<Vec<u8>, Arc<[u8]>>>>;

/// Decides how replies come.
pub trait Delays {
    /// A request of `conn` begins.
    fn begin(&mut self, _now: Now, _conn: ConnId) {}

    /// Whether the handler declines to answer a plain request at once.
    fn declines(&mut self) -> bool {
        false
    }

    /// Whether the handler has a plain request executed elsewhere.
    fn sends_on(&mut self) -> bool {
        false
    }

    /// The reply to such a request has come, before its client may have it.
    fn sent_on(&mut self, _ticket: Ticket, _bytes: Vec<u8>) {}

    /// Whether the last replies to plain `get`s may leave at once.
    fn confirms(&self) -> bool {
        true
    }

    /// What the reply to a plain request waits for that is answered at once.
    fn gate_now(&mut self) -> Answer {
        Answer::Done
    }

    /// Whether the request of `conn` cannot run now, or not at this key.
    fn parks(&mut self, _conn: &Conn, _key: &[u8]) -> bool {
        false
    }

    /// How a reply comes that was appended since `mark`; `key` is the first key of its request.
    fn outcome(&mut self, key: &[u8], ticket: Ticket, reply: &mut Reply, mark: Mark) -> Outcome;

    /// Whether the log has passed `seq`.
    fn gate(&self, log: LogId, seq: u64) -> Passed;

    /// The client has been sent what has come of the reply to `ticket`.
    fn parts_sent(&mut self, _ticket: Ticket) {}

    /// Whether the client of `ticket` wants no reply.
    fn is_silent(&self, _ticket: Ticket) -> bool {
        false
    }

    /// Mail has come.
    fn deliver(&mut self, _mail: u64) {}

    /// A connection is closed.
    fn closed(&mut self) {}

    fn end_batch(&mut self, _now: Now) -> BatchEnd {
        BatchEnd::Send
    }

    fn wake_at_ns(&self) -> u64 {
        u64::MAX
    }
}

/// The handler.
pub struct Fake<D> {
    pub delays: D,
    pub items: Items,
    pub limits: Limits,
    /// Values of at least this size are lent instead of copied.
    pub lend_bytes_min: usize,
    /// Keys of one `get` that are answered before the handler returns [`Outcome::More`].
    pub keys_per_call: u32,
    /// Whether plain requests are answered by [`Handler::get_now`] and [`Handler::store_now`].
    pub prompt: bool,
    /// It parks requests also where it must answer them.
    pub stubborn: bool,
    /// Why requests were refused.
    pub causes: Vec<Cause>,
    /// How many requests, or parts of them, were executed.
    pub calls: usize,
}

impl<D> Fake<D> {
    pub fn new(delays: D, items: Items, value_bytes_max: u64, lend_bytes_min: usize) -> Self {
        Self {
            delays,
            items,
            limits: Limits { value_bytes_max, ..Limits::default() },
            lend_bytes_min,
            keys_per_call: u32::MAX,
            prompt: false,
            stubborn: false,
            causes: Vec::new(),
            calls: 0,
        }
    }

    fn get(&self, key: &[u8], reply: &mut Reply) {
        let Some(value) = self.items.lock().expect("unpoisoned").get(key).cloned() else { return };
        reply.bytes_mut().extend(b"VALUE ");
        reply.bytes_mut().extend(key);
        reply.bytes_mut().extend(format!(" 0 {}\r\n", value.len()).bytes());
        if value.len() >= self.lend_bytes_min {
            reply.lend(Box::new(value), b"\r\n");
        } else {
            reply.bytes_mut().extend(&value[..]);
            reply.bytes_mut().extend(b"\r\n");
        }
    }

    fn store(&self, store: &Store<'_>, reply: &mut Reply) {
        let mut items = self.items.lock().expect("unpoisoned");
        items.insert(store.key.as_bytes().to_vec(), store.value.into());
        if !store.noreply {
            reply.bytes_mut().extend(b"STORED\r\n");
        }
    }
}

impl<D: Delays> Fake<D> {
    /// Whether the request is to be parked. If it has been for too long, an error takes its place.
    fn parks(&mut self, conn: &Conn, key: &[u8], reply: &mut Reply) -> Option<Outcome> {
        if !self.delays.parks(conn, key) {
            return None;
        }
        if !conn.is_overdue() || self.stubborn {
            return Some(Outcome::Park);
        }
        reply.bytes_mut().extend(b"SERVER_ERROR parked for too long\r\n");
        Some(Outcome::Done)
    }

    /// Returns the first key as well, if the request has one.
    fn execute<'r>(
        &mut self,
        conn: &mut Conn,
        request: &'r Request<'_>,
        reply: &mut Reply,
    ) -> (Outcome, &'r [u8]) {
        let mut first: &[u8] = b"";
        match request {
            Request::Get { keys, .. } => {
                let all = *keys;
                for (at, key) in all.enumerate().skip(conn.progress as usize) {
                    let key = key.expect("the tests send short keys").as_bytes();
                    first = if at == 0 { key } else { first };
                    if at > 0
                        && let Some(outcome) = self.parks(conn, key, reply)
                    {
                        return (outcome, first);
                    }
                    self.get(key, reply);
                    conn.progress += 1;
                    if conn.progress.is_multiple_of(self.keys_per_call.into()) {
                        return (Outcome::More, first);
                    }
                }
                reply.bytes_mut().extend(b"END\r\n");
            }
            Request::Store(store) => {
                first = store.key.as_bytes();
                self.store(store, reply);
            }
            Request::Version => reply.bytes_mut().extend(b"VERSION 1\r\n"),
            Request::Quit => return (Outcome::Close, first),
            _ => reply.bytes_mut().extend(b"ERROR\r\n"),
        }
        (Outcome::Done, first)
    }
}

impl<D: Delays> Serve for Fake<D> {
    type Connection = Session;

    fn accept(&mut self, id: ConnId, _listener: usize) -> Session {
        Session::new(id)
    }
}

impl<D: Delays> Handler for Fake<D> {
    type Mail = u64;

    fn limits(&self, _conn: &Conn) -> &Limits {
        &self.limits
    }

    fn call(
        &mut self,
        now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        self.calls += 1;
        self.delays.begin(now, conn.id());
        let mark = reply.mark();
        if let Some(outcome) = self.parks(conn, first_key(request), reply) {
            if matches!(request, Request::Store(store) if store.noreply) {
                reply.rewind(mark);
            }
            return outcome;
        }
        match self.execute(conn, request, reply) {
            (Outcome::Done, key) => self.delays.outcome(key, ticket, reply, mark),
            (outcome, _) => outcome,
        }
    }

    fn prompt(&self, _conn: &Conn) -> Prompt {
        if self.prompt { Prompt::Gated } else { Prompt::No }
    }

    fn get_now<const GATED: bool>(
        &mut self,
        _now: Now,
        _conn: &Conn,
        key: Key<'_>,
        reply: &mut Reply,
    ) -> Answer {
        if self.delays.declines() {
            return Answer::Declined;
        }
        self.calls += 1;
        self.get(key.as_bytes(), reply);
        reply.bytes_mut().extend(b"END\r\n");
        if GATED { self.delays.gate_now() } else { Answer::Done }
    }

    fn confirm(&self) -> bool {
        self.delays.confirms()
    }

    fn executes_again(&mut self, gets: u32) {
        self.calls -= gets as usize;
    }

    fn store_now<const GATED: bool>(
        &mut self,
        _now: Now,
        store: &Store<'_>,
        reply: &mut Reply,
    ) -> Answer {
        if self.delays.declines() {
            return Answer::Declined;
        }
        self.calls += 1;
        self.store(store, reply);
        if store.noreply { Answer::Done } else { self.delays.gate_now() }
    }

    const SENDS_ON: bool = true;

    fn send_on(&mut self, _now: Now, conn: &Conn, plain: &Plain<'_>, ticket: Ticket) -> bool {
        if !self.delays.sends_on() {
            return false;
        }
        self.calls += 1;
        let Parsed::Request { request, consumed } = memcache::parse(plain.text, &self.limits)
        else {
            panic!("{plain:?} is no request")
        };
        let (mut conn, mut reply) = (Conn::new(conn.id()), Reply::new());
        let (outcome, _) = self.execute(&mut conn, &request, &mut reply);
        assert_eq!((outcome, consumed), (Outcome::Done, plain.text.len()));
        assert_eq!(first_key(&request), plain.key.as_bytes());
        assert_eq!(matches!(request, Request::Get { .. }), plain.reads);
        assert_eq!(reply.is_empty(), plain.noreply);
        if !plain.noreply {
            self.delays.sent_on(ticket, withhold(&mut reply, Mark::default()));
        }
        true
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

    fn overdue(&mut self, _now: Now, waited: &Waited, reply: &mut Reply) {
        if !matches!(waited, Waited::Ticket(ticket) if self.delays.is_silent(*ticket)) {
            reply.bytes_mut().extend(overdue_line(waited).bytes());
        }
    }

    fn gate(&self, log: LogId, seq: u64) -> Passed {
        self.delays.gate(log, seq)
    }

    fn parts_sent(&mut self, _now: Now, ticket: Ticket) {
        self.delays.parts_sent(ticket);
    }

    fn deliver(&mut self, _now: Now, mail: u64) {
        self.delays.deliver(mail);
    }

    fn closed(&mut self, _conn: ConnId) {
        self.delays.closed();
    }

    fn end_batch(&mut self, now: Now, _fresh: impl Fn() -> Now) -> BatchEnd {
        self.delays.end_batch(now)
    }

    fn wake_at_ns(&self) -> u64 {
        self.delays.wake_at_ns()
    }
}

fn first_key<'r>(request: &'r Request<'_>) -> &'r [u8] {
    match request {
        Request::Get { keys, .. } => {
            let mut keys = *keys;
            keys.next().map_or(b"", |key| key.expect("the tests send short keys").as_bytes())
        }
        Request::Store(store) => store.key.as_bytes(),
        _ => b"",
    }
}

/// The error that takes the place of a reply.
pub fn overdue_line(waited: &Waited) -> String {
    match waited {
        Waited::Gate { log, seq } => {
            format!("SERVER_ERROR log {} has not passed {seq}\r\n", log.0)
        }
        Waited::Ticket(_) => "SERVER_ERROR no answer came\r\n".to_owned(),
    }
}

/// Moves what was appended since `mark` out of the reply, to be completed later.
pub fn withhold(reply: &mut Reply, mark: Mark) -> Vec<u8> {
    let late = reply.split_off(mark);
    let mut slices = [IoSlice::new(&[]); 64];
    let count = late.slices(late.whole(), &mut slices);
    slices[..count].iter().flat_map(|slice| slice.to_vec()).collect()
}
