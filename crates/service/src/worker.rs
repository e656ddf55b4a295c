//! The way of a request through the service: begin the batch, tell the command, execute it.

use crate::cell::Cell;
use crate::counters::WorkerCounters;
use base::Now;
use engine::{Local, NoSink, Pin};
use memcache::{Expiry, Key, KeyScratch, Limits, Refusal, Request, Store, StoreVerb, reply};
use session::{Cause, Conn, ConnId, Handler, LogId, Outcome, Passed, Reply, Ticket, Verdict};
use std::sync::Arc;

/// Items that housekeeping looks at, once a second.
const TEND_ITEMS_MAX: u32 = 4096;

/// Nanoseconds between two rounds of housekeeping while nothing arrives.
const TEND_INTERVAL_NS: u64 = 1_000_000_000;

/// Executes the requests of one worker.
pub struct Service {
    pub(crate) cell: Arc<Cell>,
    pub(crate) counters: Arc<WorkerCounters>,
    /// Held from the first request of a batch to its end.
    pub(crate) pin: Option<Pin>,
    /// Held between batches, by a worker that keeps it.
    lease: Option<Local>,
    /// Clients must authenticate first.
    guarded: bool,
    /// The second in which it tends the cell next; none if another worker does.
    tend_at_s: u32,
    wake_at_ns: u64,
}

impl Service {
    /// A service for one worker of `cell`. One of them `tends` the cell while nothing arrives.
    #[must_use]
    pub fn new(cell: Arc<Cell>, tends: bool) -> Self {
        let counters = cell.enlist();
        let (tend_at_s, wake_at_ns) = if tends { (0, 0) } else { (u32::MAX, u64::MAX) };
        let guarded = cell.options.authenticate.is_some();
        Self { cell, counters, pin: None, lease: None, guarded, tend_at_s, wake_at_ns }
    }

    /// Whether a client has yet to show who it is.
    #[inline(always)]
    fn distrusts(&self, conn: &Conn) -> bool {
        self.guarded && !conn.authenticated
    }

    /// Begins a batch unless it has begun.
    #[inline(always)]
    pub(crate) fn begin(&mut self, now: Now) {
        if self.pin.is_none() {
            self.begin_batch(now);
        }
    }

    /// Apart, so that a request within a batch pays for one comparison only.
    #[inline(never)]
    fn begin_batch(&mut self, now: Now) {
        self.cell.flush_if_due(now);
        let local = self.lease.take().unwrap_or_else(|| self.cell.leases.take());
        self.pin = Some(local.pin());
    }

    /// The engine and the pin of the batch together.
    #[inline]
    pub(crate) fn engine(&mut self) -> (&engine::Engine, &mut Pin) {
        (&self.cell.engine, self.pin.as_mut().expect("a batch has begun"))
    }

    fn execute(
        &mut self,
        now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Outcome {
        match request {
            Request::Get { keys, with_cas: false } => {
                return self.get::<false>(now, conn, *keys, reply);
            }
            Request::Get { keys, with_cas: true } => {
                return self.get::<true>(now, conn, *keys, reply);
            }
            Request::Gat { exptime, keys, with_cas } => {
                let expiry_s = expiry_s(*exptime, now);
                return match with_cas {
                    false => self.gat::<false>(now, conn, *keys, expiry_s, reply),
                    true => self.gat::<true>(now, conn, *keys, expiry_s, reply),
                };
            }
            Request::Store(store) => self.store(now, store, reply.bytes_mut()),
            Request::Delete { key, noreply } => self.delete(now, *key, *noreply, reply),
            Request::Arith { key, delta, direction, noreply } => {
                self.count(now, *key, *delta, *direction, *noreply, reply);
            }
            Request::Touch { key, exptime, noreply } => {
                self.touch(now, *key, *exptime, *noreply, reply);
            }
            Request::MetaGet { key, flags } => self.meta_get(now, *key, flags, reply),
            Request::MetaSet { key, mode, flags, value } => {
                self.meta_set(now, *key, *mode, flags, value, reply);
            }
            Request::MetaDelete { key, flags } => self.meta_delete(now, *key, flags, reply),
            Request::MetaArith { key, direction, flags } => {
                self.meta_arith(now, *key, *direction, flags, reply);
            }
            Request::MetaDebug { key } => self.meta_debug(now, *key, reply),
            Request::MetaNoop => reply.bytes_mut().extend_from_slice(reply::META_NOOP),
            Request::Quit => return Outcome::Close,
            request => return self.administrate(now, conn, request, reply),
        }
        Outcome::Done
    }
}

impl Handler for Service {
    #[inline]
    fn limits(&self, conn: &Conn) -> &Limits {
        if self.distrusts(conn) {
            return &self.cell.auth_limits;
        }
        &self.cell.options.limits
    }

    #[inline]
    fn call(
        &mut self,
        now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        _ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        if self.distrusts(conn) {
            return self.authenticate(conn, request, reply);
        }
        self.begin(now);
        self.execute(now, conn, request, reply)
    }

    #[inline(always)]
    fn is_prompt(&self, conn: &Conn) -> bool {
        !self.distrusts(conn)
    }

    #[inline(always)]
    fn get_now(&mut self, now: Now, key: Key<'_>, reply: &mut Reply) {
        self.begin(now);
        self.get_single(now, key, reply.bytes_mut());
    }

    #[inline(always)]
    fn store_now(&mut self, now: Now, store: &Store<'_>, reply: &mut Reply) {
        self.begin(now);
        match store.verb {
            StoreVerb::Set => self.set(now, store, reply.bytes_mut()),
            _ => self.store(now, store, reply.bytes_mut()),
        }
    }

    fn refused(
        &mut self,
        now: Now,
        conn: &mut Conn,
        refusal: Option<&Refusal<'_>>,
        cause: Cause,
        reply: &mut Reply,
    ) {
        self.counters.refused.add(1);
        let out = reply.bytes_mut();
        match (cause, refusal) {
            (Cause::Malformed, Some(refusal)) => reply::refusal(out, refusal),
            (Cause::NoMemory, _) => out.extend_from_slice(reply::OUT_OF_MEMORY_STORING),
            _ => out.extend_from_slice(reply::OUT_OF_MEMORY),
        }
        if let Some(Refusal::TooLarge { unlink }) = refusal {
            match cause {
                Cause::Malformed => self.counters.store_too_large.add(1),
                _ => self.counters.store_no_memory.add(1),
            }
            if let Some(token) = unlink
                && !self.distrusts(conn)
            {
                self.begin(now);
                let mut scratch: KeyScratch = [0; _];
                self.unlink(now, token.key(&mut scratch));
            }
        }
    }

    fn make_room(&mut self, now: Now, bytes: u64) -> bool {
        if !self.cell.has_share_left(bytes) {
            return false;
        }
        self.begin(now);
        let (engine, pin) = self.engine();
        engine.give_back(pin, bytes, now, &mut NoSink)
    }

    fn gate(&self, _log: LogId, _seq: u64) -> Passed {
        Passed::Yes
    }

    fn closed(&mut self, _conn: ConnId) {}

    #[inline]
    fn end_batch(&mut self, now: Now) -> Verdict {
        if now.expiry_s >= self.tend_at_s {
            self.tend(now);
        }
        if let Some(pin) = self.pin.take() {
            let local = pin.unpin();
            if self.cell.options.keep_leases {
                self.lease = Some(local);
            } else {
                self.cell.leases.give(local);
            }
        }
        Verdict::Send
    }

    fn wake_at_ns(&self) -> u64 {
        self.wake_at_ns
    }
}

impl Service {
    /// Once a second, whatever arrives: lets go of what has expired and of what the limit forbids.
    #[cold]
    fn tend(&mut self, now: Now) {
        self.tend_at_s = now.expiry_s.saturating_add(1);
        self.wake_at_ns = now.mono_ns + TEND_INTERVAL_NS;
        self.begin(now);
        let (engine, pin) = self.engine();
        engine.tend(pin, now, TEND_ITEMS_MAX, &mut NoSink);
    }

    /// Removes an item whose replacement could not be stored, so that no stale value is read.
    pub(crate) fn unlink(&mut self, now: Now, key: Key<'_>) {
        let (engine, pin) = self.engine();
        let op = engine::Op::new(engine.key(key.as_bytes()), engine::Action::Delete);
        engine.write(pin, &op, now, &mut NoSink);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(local) = self.pin.take().map(Pin::unpin).or(self.lease.take()) {
            self.cell.leases.give(local);
        }
    }
}

/// The expiry second the engine is given for what a client sent; one already past is this second,
/// from which on the item is gone.
pub(crate) fn expiry_s(exptime: i64, now: Now) -> u32 {
    match memcache::expiry(exptime, now.expiry_s) {
        Expiry::Never => 0,
        Expiry::At(second) => second,
        Expiry::Expired => now.expiry_s.max(1),
    }
}
