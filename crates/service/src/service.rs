//! The [`Handler`] of a worker: begins the batch, finds the function of a request, ends the batch.
//!
//! A session calls it for every request of the worker's connections. What a command means is
//! decided in `retrieve`, `store`, `meta` and `admin`. This file calls them, and does what a
//! session needs besides: it answers refused requests, makes room for input, and does the
//! housekeeping.
//!
//! Invariants: a client that must authenticate and has not done so never reaches the engine. Every
//! request that reaches it is executed in a batch that has begun.
//!
//! Units: `_ns` is nanoseconds, `_s` seconds, as in [`Now`].

use crate::cell::Cell;
use crate::park::Park;
use crate::worker::Worker;
use crate::{admin, auth, meta, receive, retrieve, store};
use base::Now;
use engine::Left;
use memcache::{Key, KeyScratch, Limits, Refusal, Request, Store, StoreVerb, reply};
use session::{
    Answer, BatchEnd, Cause, Conn, ConnId, Handler, LogId, Outcome, Passed, Prompt, Reply, Serve,
    Session, Taken, Ticket, ValueStart, Waited, WorkerId,
};
use std::sync::Arc;

/// The most items that one round of housekeeping examines while nothing arrives, a fraction of a
/// millisecond, and after a batch of requests.
const TEND_ITEMS_IDLE: u32 = 512;
const TEND_ITEMS_BUSY: u32 = 128;

/// While requests arrive, housekeeping takes at most this many hundredths of the time. An item
/// takes about [`TEND_ITEM_NS`].
const TEND_PERCENT_BUSY: u64 = 45;
const TEND_ITEM_NS: u64 = 300;

/// Fewer items than this are not worth a round.
const TEND_ITEMS_MIN: u64 = 8;

/// Nanoseconds from one round of housekeeping to the next, where nothing is left to do.
const TEND_INTERVAL_NS: u64 = 1_000_000_000;

/// The same where something is left that is not urgent.
const TEND_SOON_NS: u64 = 50_000_000;

/// The mail of a worker: a key that one of its requests has parked for was looked up.
#[derive(Clone, Copy, Debug)]
pub struct Woken;

/// Executes the requests of one worker.
pub struct Service {
    pub(crate) worker: Worker,
    /// Whether clients must authenticate first.
    guarded: bool,
    /// Whether every client is served at once: nobody must authenticate, and no reply waits for a
    /// log.
    always_ungated: bool,
    /// How plain requests are executed, of clients that have authenticated if they must.
    prompt: Prompt,
    /// When the next round of housekeeping is due; the highest number if another worker does it.
    tend_at_ns: u64,
    /// When the last one was.
    tended_ns: u64,
}

impl Service {
    /// A service for one worker of `cell`. One worker of a cell `tends` it: it does the
    /// housekeeping while nothing arrives.
    #[must_use]
    pub fn new(cell: Arc<Cell>, tends: bool) -> Self {
        Self::of_worker(cell, WorkerId(0), tends)
    }

    /// The same for the worker `id` of a server, which the threads of a tier wake.
    #[must_use]
    pub fn of_worker(cell: Arc<Cell>, id: WorkerId, tends: bool) -> Self {
        let tend_at_ns = if tends { 0 } else { u64::MAX };
        let guarded = cell.options().authenticate.is_some();
        let worker = Worker::of_server(cell, id);
        let prompt = if worker.replies.is_none() { Prompt::Ungated } else { Prompt::Gated };
        let always_ungated = !guarded && prompt == Prompt::Ungated;
        Self { worker, guarded, always_ungated, prompt, tend_at_ns, tended_ns: 0 }
    }

    /// Whether the client must still authenticate.
    #[inline(always)]
    pub(crate) fn distrusts(&self, conn: &Conn) -> bool {
        self.guarded && !conn.authenticated
    }

    fn execute(
        &mut self,
        now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Outcome {
        let worker = &mut self.worker;
        let executed = match request {
            Request::Get { keys, with_cas: false } => {
                return retrieve::get::<false>(worker, now, conn, *keys, reply);
            }
            Request::Get { keys, with_cas: true } => {
                return retrieve::get::<true>(worker, now, conn, *keys, reply);
            }
            Request::Gat { exptime, keys, with_cas } => {
                let expiry_s = store::expiry_s(*exptime, now);
                return match with_cas {
                    false => retrieve::gat::<false>(worker, now, conn, *keys, expiry_s, reply),
                    true => retrieve::gat::<true>(worker, now, conn, *keys, expiry_s, reply),
                };
            }
            Request::Store(store) => store::store(worker, now, store, reply.bytes_mut()),
            Request::Delete { key, noreply } => store::delete(worker, now, *key, *noreply, reply),
            Request::Arith { key, delta, direction, noreply } => {
                store::count(worker, now, *key, *delta, *direction, *noreply, reply)
            }
            Request::Touch { key, exptime, noreply } => {
                store::touch(worker, now, *key, *exptime, *noreply, reply)
            }
            Request::MetaGet(args) => return meta::get(worker, now, conn, args, reply),
            Request::MetaSet { args, mode, value } => {
                meta::set(worker, now, args, *mode, value, reply)
            }
            Request::MetaDelete(args) => meta::delete(worker, now, args, reply),
            Request::MetaArith { args, direction } => {
                meta::arith(worker, now, args, *direction, reply)
            }
            Request::MetaDebug(key) => meta::debug(worker, now, *key, reply),
            Request::MetaNoop => {
                reply.bytes_mut().extend_from_slice(reply::META_NOOP);
                Ok(())
            }
            Request::Quit => return Outcome::Close,
            Request::CacheMemlimit { mebibytes, noreply } => {
                admin::limit(worker, *mebibytes, *noreply, reply);
                if self.tend_at_ns != u64::MAX {
                    self.tend_at_ns = 0;
                }
                Ok(())
            }
            request => return admin::administrate(worker, now, conn, request, reply),
        };
        match executed {
            Ok(()) => Outcome::Done,
            Err(Park) => Outcome::Park,
        }
    }

    /// Housekeeping is needed now: at the end of this batch by the worker that does it, and a part
    /// of it here by any other.
    pub(crate) fn tends_now(&mut self, now: Now) {
        if self.tend_at_ns == u64::MAX {
            self.worker.begin(now);
            self.worker.tend(now, TEND_ITEMS_BUSY);
        } else {
            self.tend_at_ns = 0;
        }
    }

    /// A round of housekeeping: removes expired items, and returns memory that a lowered limit
    /// owes. While such a debt is left, each batch and each idle moment pays a part of it. While
    /// requests arrive, that follows the time that has passed, not the number of batches: however
    /// small these are, most of the time is for requests.
    #[cold]
    fn tend(&mut self, now: Now) {
        let mut items_max = TEND_ITEMS_IDLE;
        if self.worker.is_busy() {
            let passed_ns = now.mono_ns.saturating_sub(self.tended_ns);
            let affordable = passed_ns / 100 * TEND_PERCENT_BUSY / TEND_ITEM_NS;
            if affordable < TEND_ITEMS_MIN {
                return;
            }
            items_max = affordable.min(TEND_ITEMS_BUSY.into()) as u32;
        }
        self.tended_ns = now.mono_ns;
        self.worker.begin(now);
        let pause_ns = match self.worker.tend(now, items_max) {
            Left::Nothing => TEND_INTERVAL_NS,
            Left::Some => TEND_SOON_NS,
            Left::Debt => 0,
        };
        self.tend_at_ns = now.mono_ns + pause_ns;
    }
}

impl Service {
    /// [`Handler::get_now`] of a key that was hashed before.
    #[inline(always)]
    pub(crate) fn get_hashed<const GATED: bool>(
        &mut self,
        now: Now,
        key: (Key<'_>, engine::Key<'_>),
        reply: &mut Reply,
    ) -> Answer {
        self.worker.begin(now);
        if GATED {
            return retrieve::get_shown(&mut self.worker, now, key, reply.bytes_mut());
        }
        match retrieve::get_single(&mut self.worker, now, key, reply.bytes_mut()) {
            true => Answer::Done,
            false => Answer::Declined,
        }
    }
}

impl Serve for Service {
    type Connection = Session;

    fn accept(&mut self, id: ConnId, _listener: usize) -> Session {
        Session::new(id)
    }
}

impl Handler for Service {
    type Mail = Woken;

    #[inline]
    fn limits(&self, conn: &Conn) -> &Limits {
        let cell = self.worker.cell();
        if self.distrusts(conn) {
            return cell.auth_limits();
        }
        &cell.options().limits
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
            return auth::authenticate(&self.worker, conn, request, reply);
        }
        self.worker.begin_request(now, conn);
        if let Some(replies) = &self.worker.replies
            && replies.parks_if_full().is_err()
        {
            if !conn.is_overdue() {
                return Outcome::Park;
            }
            self.worker.log_is_full(reply.bytes_mut());
            return Outcome::Done;
        }
        let outcome = self.execute(now, conn, request, reply);
        self.worker.end_request(outcome, conn)
    }

    #[inline(always)]
    fn prompt(&self, conn: &Conn) -> Prompt {
        if self.always_ungated {
            return Prompt::Ungated;
        }
        if self.distrusts(conn) { Prompt::No } else { self.prompt }
    }

    #[inline(always)]
    fn get_now<const GATED: bool>(
        &mut self,
        now: Now,
        _conn: &Conn,
        key: Key<'_>,
        reply: &mut Reply,
    ) -> Answer {
        let hashed = self.worker.cell().engine().key(key.as_bytes());
        self.get_hashed::<GATED>(now, (key, hashed), reply)
    }

    #[inline(always)]
    fn confirm(&self) -> bool {
        self.worker.confirms_gets()
    }

    fn executes_again(&mut self, gets: u32) {
        self.worker.counts_no_more(gets);
    }

    #[inline(always)]
    fn store_now<const GATED: bool>(
        &mut self,
        now: Now,
        store: &Store<'_>,
        reply: &mut Reply,
    ) -> Answer {
        self.worker.begin(now);
        let stored = match store.verb {
            StoreVerb::Set => store::set(&mut self.worker, now, store, reply.bytes_mut()),
            _ => store::store(&mut self.worker, now, store, reply.bytes_mut()),
        };
        match stored {
            Ok(()) if !GATED => Answer::Done,
            Err(Park) if !GATED => Answer::Declined,
            stored => self.worker.answer_store(stored, store.noreply),
        }
    }

    fn whole_bytes_max(&self) -> usize {
        self.worker.cell().engine().whole_value_bytes_max()
    }

    fn begin_value(
        &mut self,
        now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        bytes: u64,
    ) -> ValueStart {
        if self.distrusts(conn) {
            return ValueStart::Whole;
        }
        self.worker.begin(now);
        receive::begin(&mut self.worker, now, conn, request, bytes)
    }

    fn take_piece(&mut self, now: Now, conn: &mut Conn, piece: &[u8]) -> Taken {
        self.worker.begin(now);
        self.worker.take_piece(conn, piece, now)
    }

    fn finish_value(
        &mut self,
        now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        _ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        self.worker.begin_request(now, conn);
        let outcome = receive::finish(&mut self.worker, now, conn, request, reply);
        self.worker.end_request(outcome, conn)
    }

    fn drop_value(&mut self, conn: ConnId) {
        self.worker.long.take_received(conn);
    }

    fn refused(
        &mut self,
        now: Now,
        conn: &mut Conn,
        refusal: Option<&Refusal<'_>>,
        cause: Cause,
        reply: &mut Reply,
    ) {
        let counters = self.worker.counters();
        counters.refused.add(1);
        let out = reply.bytes_mut();
        match (cause, refusal) {
            (Cause::Malformed, Some(refusal)) => reply::refusal(out, refusal),
            (Cause::NoMemory, _) => out.extend_from_slice(reply::OUT_OF_MEMORY_STORING),
            _ => out.extend_from_slice(reply::OUT_OF_MEMORY),
        }
        if let Some(Refusal::TooLarge { unlink }) = refusal {
            match cause {
                Cause::Malformed => counters.store_too_large.add(1),
                _ => counters.store_no_memory.add(1),
            }
            if let Some(token) = unlink
                && !self.distrusts(conn)
            {
                self.worker.begin(now);
                let mut scratch: KeyScratch = [0; _];
                store::unlink(&mut self.worker, now, token.key(&mut scratch));
            }
        }
    }

    fn make_room(&mut self, now: Now, bytes: u64) -> bool {
        if !self.worker.cell().has_share_left(bytes) {
            return false;
        }
        self.worker.begin(now);
        self.worker.give_back(bytes, now)
    }

    /// Only a log makes replies wait.
    fn overdue(&mut self, _now: Now, waited: &Waited, reply: &mut Reply) {
        let obstacle = match (waited, &self.worker.replies) {
            (Waited::Gate { log, .. }, Some(replies)) => replies.obstacle(*log),
            _ => None,
        };
        let why = match obstacle {
            Some(obstacle) => obstacle.to_owned(),
            None => format!("{} has not confirmed it in time", self.worker.holder()),
        };
        let line = format!("SERVER_ERROR in doubt: {why}\r\n");
        reply.bytes_mut().extend_from_slice(line.as_bytes());
    }

    fn gate(&self, log: LogId, seq: u64) -> Passed {
        self.worker.replies.as_ref().map_or(Passed::Yes, |replies| replies.gate(log, seq))
    }

    /// Parked requests run again after any mail.
    fn deliver(&mut self, _now: Now, Woken: Woken) {}

    fn closed(&mut self, conn: ConnId) {
        self.worker.long.closed(conn);
    }

    #[inline]
    fn end_batch(&mut self, now: Now, _fresh: impl Fn() -> Now) -> BatchEnd {
        if now.mono_ns >= self.tend_at_ns {
            self.tend(now);
        }
        self.worker.end();
        BatchEnd::Send
    }

    fn wake_at_ns(&self) -> u64 {
        self.tend_at_ns
    }
}
