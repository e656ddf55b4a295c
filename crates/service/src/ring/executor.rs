//! Executes what this cell leads, for its clients and for other cells.
//!
//! Invariant: what is executed for a slice is executed at the level of its leadership, whose lease
//! has not ended, and the batch notes that level: its replies leave only if the lease lasts.

use super::cell::RingCell;
use super::flush;
use super::routes::{Routes, Target};
use super::target::{Subject, subject};
use crate::cell::Cell;
use crate::service::Service;
use base::{Now, SliceId};
use effects::{LEVELS, Level};
use engine::KEY_BYTES_MAX;
use memcache::{KeyScratch, Parsed, Request};
use session::{Conn, ConnId, Handler, LogId, Outcome, Passed, Reply, Ticket, WorkerId};
use std::sync::Arc;

/// Parts that a reply to another cell may have: more than the longest value.
const PARTS_MAX: usize = 1 << 16;

/// A request in canonical form.
pub(super) enum Asked<'t> {
    Request(Request<'t>),
    /// Ends all items of the range that the slice is of.
    Flush(SliceId),
}

/// What came of a request that was executed here.
pub(super) enum Executed {
    Done,
    Gate(LogId, u64),
    /// It cannot run now.
    NotNow,
}

/// Executes the requests of one worker of a ring's cell.
pub(crate) struct Executor {
    pub(super) inner: Service,
    pub(super) ring: Arc<RingCell>,
    pub(super) worker: WorkerId,
    /// Held while a batch lasts.
    pub(super) routes: Option<Arc<Routes>>,
    /// The levels that the batch has used, one bit for each.
    used: u8,
    pub(super) now: Now,
}

impl Executor {
    pub(super) fn new(ring: Arc<RingCell>, worker: WorkerId) -> Self {
        let inner = Service::new(ring.cell.clone(), worker == WorkerId(0));
        Self { inner, ring, worker, routes: None, used: 0, now: Now::default() }
    }

    pub(super) fn cell(&self) -> &Cell {
        &self.ring.cell
    }

    /// Begins a batch, unless one has begun.
    #[inline]
    pub(super) fn begin(&mut self, now: Now) {
        self.now = now;
        if self.routes.is_none() {
            self.takes_routes();
        }
    }

    /// Goes by the routes of now in the rest of the batch.
    pub(super) fn takes_routes(&mut self) {
        self.routes = Some(self.ring.routes());
    }

    /// Where requests for `slice` go.
    #[inline]
    pub(super) fn route(&self, slice: SliceId) -> (Target, Option<ring::RangeId>) {
        let routes = self.routes.as_ref().expect("a batch has begun");
        routes.target(slice)
    }

    /// The version of the map that the batch goes by.
    pub(super) fn version(&self) -> u64 {
        self.routes.as_ref().map_or(0, |routes| routes.version)
    }

    /// Where `cell` takes links.
    pub(super) fn address(&self, cell: ring::CellId) -> Option<std::net::SocketAddr> {
        self.routes.as_ref()?.cells.get(&cell).map(|(address, _)| *address)
    }

    /// Whether this cell leads `slice` and may answer. If so, what is executed next is at its
    /// level.
    #[inline]
    pub(super) fn leads(&mut self, slice: SliceId) -> bool {
        let (Target::Here(level), _) = self.route(slice) else { return false };
        if self.ring.terms.until_ns(level) <= self.now.mono_ns {
            return false;
        }
        self.used |= 1 << level.index();
        if let Some(replies) = &mut self.inner.worker.replies {
            replies.level = level;
        }
        true
    }

    /// The levels that the batch has used.
    pub(super) fn used(&self) -> impl Iterator<Item = Level> {
        let used = self.used;
        (0..LEVELS as u8).filter(move |at| used & 1 << at != 0).filter_map(Level::new)
    }

    /// Ends the batch. Returns whether its replies may leave: `fresh` is read only if they show
    /// something.
    pub(super) fn may_answer(&mut self, fresh: impl Fn() -> Now) -> bool {
        self.routes = None;
        if self.used == 0 {
            return true;
        }
        let fresh_ns = fresh().mono_ns;
        let may_answer = self.used().all(|level| self.ring.terms.until_ns(level) > fresh_ns);
        self.used = 0;
        may_answer
    }

    /// Whether a reply that waits for a log may leave.
    pub(super) fn passed(&self, log: LogId, seq: u64) -> Passed {
        self.inner.gate(log, seq)
    }

    /// What `text`, a request of a cell, asks for, and the slice that it is about.
    pub(super) fn read<'t>(&self, text: &'t [u8]) -> Option<(Asked<'t>, SliceId)> {
        if let Some(slice) = flush::slice_of(text) {
            return Some((Asked::Flush(slice), slice));
        }
        let limits = &self.cell().options().limits;
        let Parsed::Request { request, .. } = memcache::parse(text, limits) else { return None };
        let mut scratch: KeyScratch = [0; _];
        match subject(&request, &mut scratch) {
            Subject::Key(key) => {
                let slice = SliceId::of(key.as_bytes());
                Some((Asked::Request(request), slice))
            }
            _ => None,
        }
    }

    /// Lets the processor fetch what `text`, a request of a cell, is about: its second word is
    /// nearly always the key. Where it is not, something is fetched without effect.
    pub(super) fn look_ahead(&self, text: &[u8]) {
        let word = text.split(|byte| matches!(byte, b' ' | b'\r')).nth(1);
        if let Some(key) = word.filter(|word| (1..=KEY_BYTES_MAX).contains(&word.len())) {
            let engine = self.cell().engine();
            let _ = engine.look_ahead(engine.key(key));
        }
    }

    /// Executes what another cell or a client asks for, which this cell leads.
    pub(super) fn execute(&mut self, asked: &Asked<'_>, reply: &mut Reply) -> Executed {
        let request = match asked {
            Asked::Flush(slice) => return self.flush_range(*slice, reply),
            Asked::Request(request) => request,
        };
        let id = ConnId { worker: self.worker, index: u32::MAX, generation: 0 };
        let mut conn = Conn::new(id);
        conn.authenticated = true;
        let ticket = Ticket { conn: id, request: 0 };
        // A request of one key waits for one log.
        let mut gate = None;
        for _ in 0..PARTS_MAX {
            match self.inner.call(self.now, &mut conn, request, ticket, reply) {
                Outcome::Done | Outcome::Close => {
                    return gate.map_or(Executed::Done, |(log, seq)| Executed::Gate(log, seq));
                }
                Outcome::Gate { log, seq } => return Executed::Gate(log, seq),
                Outcome::More => {}
                Outcome::Part { log, seq, parks: false } => gate = Some((log, seq)),
                Outcome::Park | Outcome::Part { .. } | Outcome::Pending => break,
            }
        }
        // What was read of it is dropped, and read again.
        self.inner.closed(id);
        reply.bytes_mut().clear();
        Executed::NotNow
    }

    /// Ends all items of the range that `slice` is of, which this cell leads.
    fn flush_range(&mut self, slice: SliceId, reply: &mut Reply) -> Executed {
        let map = self.ring.map();
        let Some(range) = map.range_of(slice) else { return Executed::NotNow };
        self.inner.worker.begin(self.now);
        if self.inner.worker.flush_slices(range.slices()).is_err() {
            return Executed::NotNow;
        }
        reply.bytes_mut().extend_from_slice(b"OK\r\n");
        match self.inner.worker.replies.as_mut().map(|replies| replies.outcome()) {
            Some(Outcome::Gate { log, seq }) => Executed::Gate(log, seq),
            _ => Executed::Done,
        }
    }
}

const _: () = assert!(LEVELS <= u8::BITS as usize);
