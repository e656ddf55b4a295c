//! The handler of a worker in a ring: executes what belongs to this cell, and sends the rest to its
//! owners.
//!
//! ```text
//! request -> its slice -> leads it, with a lease -> Service, at the level of the range
//!                      -> anything else          -> a job of the worker; the reply comes later
//! ```
//!
//! Invariant: what this cell executes for a range is sent only if its lease has not ended when the
//! batch ends, unless it is a read by a fence.

use super::cell::{Mail, RingCell};
use super::cellcycle::{self, Asked};
use super::discovery;
use super::job::Origin;
use super::links::{Link, LinkHandler, RingConnection, Role};
use super::report::report;
use super::requests::clients;
use super::requests::{Executor, Subject, Wants, subject};
use super::worker::RingWorker;
use base::{Now, SliceId};
use memcache::{Expiry, Key, KeyScratch, Limits, Refusal, Request, Store, Words, expiry};
use peer::{Frame, Purpose};
use ring::{CellId, Map};
use session::{
    Answer, BatchEnd, Cause, Completions, Conn, ConnId, Copies, Handler, LogId, Order, Outcome,
    Passed, Plain, Prompt, Reply, Serve, Session, Ticket, Waited, WorkerId,
};
use std::fmt::Display;
use std::sync::Arc;

/// Executes the requests of one worker of a ring's cell.
pub struct RingService {
    pub(super) worker: RingWorker,
    /// The listener that other cells call.
    links_at: usize,
}

impl RingService {
    /// A service for one worker. The listener number `links_at` is the one that other cells call.
    #[must_use]
    pub fn new(ring: Arc<RingCell>, worker: WorkerId, links_at: usize) -> Self {
        Self { worker: RingWorker::new(ring, worker), links_at }
    }
}

impl LinkHandler for RingService {
    fn opened(&mut self, link: &Link, now: Now, out: &mut Vec<u8>) -> bool {
        self.worker.begin(now);
        self.worker.opened(link, out)
    }

    fn sends(&mut self, link: &mut Link, now: Now, out: &mut Vec<u8>) -> bool {
        self.worker.begin(now);
        self.worker.sends(link, out)
    }

    fn take_frame(
        &mut self,
        link: &mut Link,
        frame: &Frame<'_>,
        now: Now,
        out: &mut Reply,
    ) -> bool {
        self.worker.take_frame(link, frame, now, out)
    }

    fn look_ahead<'a>(&self, frames: impl Iterator<Item = Frame<'a>>) {
        let texts = frames.filter_map(|frame| match frame {
            Frame::Request { text, .. } => Some(text),
            _ => None,
        });
        self.worker.jobs.executor.look_ahead(texts);
    }

    fn reply_in_doubt(&self, id: (u64, u16), out: &mut Vec<u8>) {
        self.worker.reply_in_doubt(id, out);
    }

    fn stamp(&self, frame: &mut [u8]) {
        peer::set_reply_version(frame, self.worker.ring().newest_version());
    }

    fn notes(&self, cell: CellId, what: &dyn Display) {
        self.worker.notes(cell, what);
    }
}

/// Appends what a client has waited for.
fn answer(wants: Wants, map: &Map, out: &mut Vec<u8>) {
    match wants {
        Wants::Map => cellcycle::map(map, out),
        Wants::Cells => discovery::answer(map, out),
    }
}

impl RingService {
    /// Answers a command of CellCycle, or has its client wait.
    fn cellcycle(
        &mut self,
        now: Now,
        conn: &mut Conn,
        words: Words<'_>,
        ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        let (ring, is_trusted) = (self.worker.ring().clone(), conn.authenticated);
        match cellcycle::answer(&ring, words, is_trusted, reply.bytes_mut()) {
            Asked::Answered => Outcome::Done,
            Asked::Watches(version) => {
                if self.worker.jobs.finishing.watching.add(ticket, version, Wants::Map) {
                    return Outcome::Pending;
                }
                cellcycle::map(&ring.map(), reply.bytes_mut());
                Outcome::Done
            }
            Asked::Ends => {
                let shutdown = Request::Shutdown { graceful: false };
                self.worker.service_mut().call(now, conn, &shutdown, ticket, reply)
            }
        }
    }
}

impl Serve for RingService {
    type Connection = RingConnection;

    fn accept(&mut self, id: ConnId, listener: usize) -> RingConnection {
        if listener != self.links_at {
            let copies = match self.worker.ring().host.copy_reads.serve(listener) {
                true => Copies::ByDefault,
                false => Copies::IfAsked,
            };
            return RingConnection::Client(Session::new(id).with_copies(copies));
        }
        self.worker.roles.insert(id, Role::Called);
        let link = Link::accepting(id, self.worker.ring().acceptor(), self.worker.ring().decoder());
        RingConnection::Link(Box::new(link))
    }

    fn connected(&mut self, id: ConnId, purpose: u64) -> Option<RingConnection> {
        let role = Role::of(purpose);
        let (cell, lane, purpose) = match role {
            Role::Asks(cell) => (cell, 0, Purpose::Requests),
            Role::Streams(cell, lane) => (cell, lane, Purpose::Stream),
            Role::Called => return None,
        };
        if !self.worker.connected(role, id) {
            return None;
        }
        let mut hello = Vec::new();
        let connector = self.worker.ring().connector(cell, purpose, &mut hello);
        let decoder = self.worker.ring().decoder();
        self.worker.roles.insert(id, role);
        let link = Link::connecting(id, (connector, purpose), (cell, lane), decoder, hello);
        Some(RingConnection::Link(Box::new(link)))
    }

    fn unconnected(&mut self, purpose: u64) {
        self.worker.lost(Role::of(purpose), None);
    }
}

impl Handler for RingService {
    type Mail = Mail;

    fn limits(&self, conn: &Conn) -> &Limits {
        self.worker.service().limits(conn)
    }

    fn call(
        &mut self,
        now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        let now = self.worker.begin(now);
        if self.worker.service().distrusts(conn) {
            return self.worker.service_mut().call(now, conn, request, ticket, reply);
        }
        let mut scratch: KeyScratch = [0; _];
        match subject(request, &mut scratch) {
            Subject::Cell => self.worker.service_mut().call(now, conn, request, ticket, reply),
            Subject::Ring(words) => {
                let Executor { inner, ring, .. } = &mut self.worker.jobs.executor;
                report(&mut inner.worker, ring, now, words, reply);
                Outcome::Done
            }
            Subject::Discovery => {
                let map = self.worker.ring().map();
                let watching = &mut self.worker.jobs.finishing.watching;
                // A cell that has just started gets the map in a moment.
                if map.cells.is_empty() && watching.add(ticket, map.version, Wants::Cells) {
                    return Outcome::Pending;
                }
                discovery::answer(&map, reply.bytes_mut());
                Outcome::Done
            }
            Subject::CellCycle(words) => self.cellcycle(now, conn, words, ticket, reply),
            Subject::All { .. } if !self.worker.ring().cell.options().allow_flush => {
                self.worker.service_mut().call(now, conn, request, ticket, reply)
            }
            Subject::All { delay, noreply } => match expiry(delay, now.expiry_s) {
                Expiry::At(due_s) => {
                    clients::flush_later(&mut self.worker.jobs, due_s, ticket, noreply, reply)
                }
                Expiry::Never | Expiry::Expired => {
                    clients::flush(&mut self.worker.jobs, conn, ticket, noreply, reply)
                }
            },
            Subject::Key(key) => {
                let slice = SliceId::of(key.as_bytes());
                clients::call(&mut self.worker.jobs, conn, (request, slice), ticket, reply)
            }
            Subject::Keys(keys) => {
                let is_whole = keys.into_iter().all(|key| key.is_ok());
                let changes = matches!(request, Request::Gat { .. });
                if !is_whole || clients::leads_all(&mut self.worker.jobs, keys, changes) {
                    return self.worker.service_mut().call(now, conn, request, ticket, reply);
                }
                // A part of its reply has left: only this cell can go on with it.
                if conn.progress > 0 {
                    return Outcome::Park;
                }
                clients::gather(&mut self.worker.jobs, conn, (request, keys), ticket, reply)
            }
        }
    }

    #[inline]
    fn prompt(&self, conn: &Conn) -> Prompt {
        self.worker.service().prompt(conn)
    }

    #[inline]
    fn get_now<const GATED: bool>(
        &mut self,
        now: Now,
        conn: &Conn,
        key: Key<'_>,
        reply: &mut Reply,
    ) -> Answer {
        let now = self.worker.begin(now);
        // The slice comes with the hash: it is not computed twice.
        let hashed = self.worker.jobs.executor.cell().engine().key(key.as_bytes());
        if self.worker.jobs.leads_next(hashed.id.slice, false) {
            return self.worker.service_mut().get_hashed::<GATED>(now, (key, hashed), reply);
        }
        if conn.copies != Copies::ByDefault {
            return Answer::Declined;
        }
        let answered = clients::get_as_copy(&mut self.worker.jobs, conn.id(), (key, hashed), reply);
        answered.unwrap_or(Answer::Declined)
    }

    fn confirm(&self) -> bool {
        let executor = &self.worker.jobs.executor;
        let replies = self.worker.service().worker.replies.as_ref();
        let is_settled = |level| replies.is_none_or(|replies| replies.is_settled_at(level));
        executor.awaited().iter().all(is_settled)
    }

    fn executes_again(&mut self, gets: u32) {
        self.worker.service_mut().executes_again(gets);
    }

    #[inline]
    fn store_now<const GATED: bool>(
        &mut self,
        now: Now,
        store: &Store<'_>,
        reply: &mut Reply,
    ) -> Answer {
        let now = self.worker.begin(now);
        if !self.worker.jobs.leads_next(SliceId::of(store.key.as_bytes()), true) {
            return Answer::Declined;
        }
        self.worker.service_mut().store_now::<GATED>(now, store, reply)
    }

    const SENDS_ON: bool = true;

    #[inline]
    fn send_on(&mut self, now: Now, conn: &Conn, plain: &Plain<'_>, ticket: Ticket) -> bool {
        self.worker.begin(now);
        !self.worker.service().distrusts(conn)
            && clients::send_on(&mut self.worker.jobs, conn, plain, ticket)
    }

    fn refused(
        &mut self,
        now: Now,
        conn: &mut Conn,
        refusal: Option<&Refusal<'_>>,
        cause: Cause,
        reply: &mut Reply,
    ) {
        let now = self.worker.begin(now);
        let Some(Refusal::TooLarge { unlink: Some(token) }) = refusal else {
            return self.worker.service_mut().refused(now, conn, refusal, cause, reply);
        };
        let mut scratch: KeyScratch = [0; _];
        let key = token.key(&mut scratch);
        let slice = SliceId::of(key.as_bytes());
        if self.worker.jobs.leads_next(slice, true) {
            return self.worker.service_mut().refused(now, conn, refusal, cause, reply);
        }
        // The old value goes, wherever it is.
        if !self.worker.service().distrusts(conn) {
            clients::unlink(&mut self.worker.jobs, key);
        }
        let stays = Refusal::TooLarge { unlink: None };
        self.worker.service_mut().refused(now, conn, Some(&stays), cause, reply);
    }

    fn make_room(&mut self, now: Now, bytes: u64) -> bool {
        self.worker.service_mut().make_room(now, bytes)
    }

    fn overdue(&mut self, now: Now, waited: &Waited, reply: &mut Reply) {
        let Waited::Ticket(ticket) = waited else {
            return self.worker.service_mut().overdue(now, waited, reply);
        };
        if let Some(wants) = self.worker.jobs.finishing.watching.remove(*ticket) {
            return answer(wants, &self.worker.ring().map(), reply.bytes_mut());
        }
        let line = clients::overdue(&mut self.worker.jobs, *ticket);
        reply.bytes_mut().extend_from_slice(line.as_bytes());
    }

    fn gate(&self, log: LogId, seq: u64) -> Passed {
        self.worker.service().gate(log, seq)
    }

    fn parts_sent(&mut self, now: Now, ticket: Ticket) {
        self.worker.begin(now);
        self.worker.jobs.finishing.parts_sent(ticket);
    }

    fn deliver(&mut self, now: Now, mail: Mail) {
        let now = self.worker.begin(now);
        match mail {
            Mail::Adopted => {
                self.worker.jobs.executor.takes_routes();
                self.worker.streams.adopt(&mut self.worker.jobs.orders);
                self.worker.jobs.end_useless_links(&[]);
                self.worker.jobs.ask_others();
                let map = self.worker.ring().map();
                let jobs = &mut self.worker.jobs;
                for (ticket, wants) in jobs.finishing.watching.take(map.version) {
                    let mut text = Vec::new();
                    answer(wants, &map, &mut text);
                    jobs.finish(Origin::Client(ticket), &text);
                }
                self.worker.tend(now);
            }
            Mail::Flushed(id, outcome) => self.worker.jobs.flushed(id, outcome),
            Mail::Appended(lane) => self.worker.ring().unmail(lane),
            // Parked requests run again when the mail was read.
            Mail::Woken => self.worker.looked_up(),
            Mail::Journaled => self.worker.streams.journaled(&mut self.worker.jobs.orders),
            Mail::Lent(job) => self.worker.jobs.take_lent(*job),
            Mail::Returned { number, reply } => self.worker.jobs.returned(number, reply),
        }
    }

    fn closed(&mut self, conn: ConnId) {
        if let Some(role) = self.worker.roles.remove(&conn) {
            self.worker.lost(role, Some(conn));
        }
        self.worker.parked.closed(conn);
        self.worker.jobs.finishing.closed(conn);
        self.worker.service_mut().closed(conn);
    }

    fn take_order(&mut self) -> Option<Order> {
        let jobs = &mut self.worker.jobs;
        let mut order = jobs.take_order();
        while order.is_none()
            && let Some(number) = jobs.finishing.next_ready()
        {
            jobs.begin_parts(number);
            order = jobs.take_order();
        }
        order.or_else(|| self.worker.streams.next_turn())
    }

    fn take_back(&mut self, completions: Completions) {
        self.worker.jobs.finishing.take_back(completions);
    }

    fn end_batch(&mut self, now: Now, fresh: impl Fn() -> Now) -> BatchEnd {
        self.worker.jobs.executor.now = now;
        if now.mono_ns >= self.worker.again_at_ns && self.worker.has_to_tend() {
            self.worker.tend(now);
        }
        self.worker.service_mut().end_batch(now, &fresh);
        self.worker.mail();
        let may_answer = self.worker.jobs.executor.may_answer(fresh);
        self.worker.jobs.end_batch(may_answer);
        if may_answer { BatchEnd::Send } else { BatchEnd::Drop }
    }

    fn wake_at_ns(&self) -> u64 {
        let at_ns = self.worker.wakes_at_ns();
        self.worker.service().wake_at_ns().min(at_ns)
    }
}
