//! The streams of one worker: those of its lanes to copies, and those of other cells that it has
//! accepted.

use super::link::{Kind, Link};
use super::role::Role;
use super::stream_in::{Entries, StreamIn, Taken};
use super::stream_out::StreamOut;
use crate::ring::cell::{Finding, RingCell};
use crate::ring::copies::Promised;
use crate::ring::reason::Reason;
use crate::worker::Worker;
use base::Now;
use peer::Frame;
use ring::CellId;
use session::{ConnId, Order, WorkerId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Streams that wait to be opened, at most: each cell has one for each of its lanes.
const OPENING_MAX: usize = 1024;

/// The streams of one worker.
pub(crate) struct Streams {
    ring: Arc<RingCell>,
    worker: WorkerId,
    /// By cell and lane.
    out: BTreeMap<(CellId, u8), StreamOut>,
    /// Those of other cells that are to be given a turn.
    stopped: Vec<ConnId>,
    /// Those of other cells that should be promised more than there was room for.
    short: Vec<ConnId>,
    /// Those of other cells with acknowledgements that wait for the journal.
    unacked: Vec<ConnId>,
    /// Streams that other cells want opened, and the ends of the logs of what is copied that the
    /// journal must have before: what an earlier connection has applied is acknowledged with that.
    opening: Vec<(ConnId, Vec<u64>)>,
}

impl Streams {
    pub(crate) fn new(ring: Arc<RingCell>, worker: WorkerId) -> Self {
        let (stopped, short, unacked) = (Vec::new(), Vec::new(), Vec::new());
        let (out, opening) = (BTreeMap::new(), Vec::new());
        Self { ring, worker, out, stopped, short, unacked, opening }
    }

    /// Whether there is something to do when time has passed.
    pub(crate) fn has_to_tend(&self) -> bool {
        let has_accepted =
            !self.stopped.is_empty() || !self.short.is_empty() || !self.unacked.is_empty();
        let lacks_space = self.ring.lacks_space();
        has_accepted
            || lacks_space
            || self.out.values().any(|it| it.opens_at_ns().is_some() || it.owes_word_of_others())
    }

    /// When a stream may be of no use any more, in nanoseconds of the monotonic clock.
    pub(crate) fn silent_at_ns(&self) -> u64 {
        self.out.values().filter_map(StreamOut::silent_at_ns).min().unwrap_or(u64::MAX)
    }

    /// Opens the streams that are due, closes those whose copy is silent, and gives turns to those
    /// that were stopped, or should be promised more.
    pub(crate) fn tend(&mut self, now_ns: u64, orders: &mut VecDeque<Order>) {
        let waiting = self.stopped.drain(..).chain(self.short.drain(..));
        // Mail that says so may have found no place.
        orders.extend(waiting.chain(self.unacked.drain(..)).map(Order::Turn));
        for ((cell, lane), stream) in &mut self.out {
            if let Some(conn) = stream.conn
                && stream.silent_at_ns().is_some_and(|at_ns| at_ns <= now_ns)
            {
                orders.push_back(Order::Close(conn));
                stream.closed(now_ns);
            }
            orders.extend(stream.has_word_of_others(&self.ring).map(Order::Turn));
            if stream.opens_at_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                stream.opening(now_ns);
                let purpose = Role::Streams(*cell, *lane).number();
                orders.push_back(Order::Connect { to: stream.copy.links, purpose });
            }
        }
    }

    /// The journal has more of what is copied: those whose acknowledgements wait get turns.
    pub(crate) fn journaled(&mut self, orders: &mut VecDeque<Order>) {
        orders.extend(self.unacked.drain(..).map(Order::Turn));
    }

    /// `id` wants to open a stream: whether the journal has all that an earlier connection of that
    /// stream may have applied. Asked again and again.
    fn may_open(&mut self, id: ConnId) -> bool {
        let Some(below) = self.ring.below() else { return true };
        let at = self.opening.iter().position(|(of, _)| *of == id).unwrap_or_else(|| {
            if self.opening.len() == OPENING_MAX {
                // Of a connection that is gone.
                self.opening.remove(0);
            }
            self.opening.push((id, below.copied_ends()));
            self.opening.len() - 1
        });
        below.write();
        let may = below.may_acknowledge(&self.opening[at].1);
        if may {
            self.opening.swap_remove(at);
        }
        may
    }

    /// Appends the last acknowledgement that the journal allows. If others wait, the link gets a
    /// turn when the journal has more.
    fn acknowledge(&mut self, id: ConnId, stream: &mut StreamIn, out: &mut Vec<u8>) {
        let Some(below) = self.ring.below() else { return };
        let mut last = stream.acks.pop(|ends| below.may_acknowledge(ends));
        if !stream.acks.is_empty() {
            self.ring.journal_waits.add(self.worker);
            add_once(&mut self.unacked, id);
            last = stream.acks.pop(|ends| below.may_acknowledge(ends)).or(last);
        }
        if let Some((position, Promised { bytes: granted, wanted })) = last {
            Frame::Acked { lane: stream.lane, position, granted, wanted }.encode(out);
        }
    }

    /// Goes by the copies that there are now.
    pub(crate) fn adopt(&mut self, orders: &mut VecDeque<Order>) {
        let copies = self.ring.copies();
        let is_there = |stream: &StreamOut| {
            copies.iter().any(|copy| copy.log == stream.copy.log && copy.cell == stream.copy.cell)
        };
        for (_, stream) in self.out.extract_if(.., |_, stream| !is_there(stream)) {
            orders.extend(stream.conn.map(Order::Close));
        }
        for copy in copies.iter() {
            for (lane, _) in self.ring.log.lanes.logs() {
                let key = (copy.cell, lane.index() as u8);
                if self.ring.worker_of(lane.index()) == self.worker {
                    let new = || StreamOut::new(copy.clone(), lane);
                    self.out.entry(key).or_insert_with(new);
                }
            }
        }
    }

    /// The next stream that has something to send, as an order for its turn.
    pub(crate) fn next_turn(&mut self) -> Option<Order> {
        let ring = &self.ring;
        self.out.values_mut().find_map(|stream| stream.orders_turn(ring)).map(Order::Turn)
    }

    /// A stream to a copy has a connection; its handshake begins. False if it is not wanted.
    pub(crate) fn connected(&mut self, key: (CellId, u8), conn: ConnId) -> bool {
        let stream = self.out.get_mut(&key).filter(|stream| stream.is_connecting());
        stream.is_some_and(|stream| {
            stream.conn = Some(conn);
            true
        })
    }

    /// The connection of a stream to a copy is gone, or could not be opened.
    pub(crate) fn closed(&mut self, key: (CellId, u8), conn: Option<ConnId>, now_ns: u64) {
        let stream = self.out.get_mut(&key);
        if let Some(stream) = stream.filter(|it| it.conn == conn) {
            stream.closed(now_ns);
        }
    }

    /// The handshake of a stream to a copy is over. False if it is not wanted.
    pub(crate) fn opened(&mut self, link: &Link, now_ns: u64, out: &mut Vec<u8>) -> bool {
        let stream = self.out.get_mut(&(link.cell, link.lane));
        let stream = stream.filter(|it| it.copy.incarnation == link.incarnation);
        let stream = stream.filter(|it| it.conn == Some(link.id()));
        stream.is_some_and(|stream| {
            stream.ask(&self.ring, now_ns, out);
            true
        })
    }

    /// Appends entries to send. False if the stream is of no use any more.
    pub(crate) fn sends(&mut self, link: &Link, now_ns: u64, out: &mut Vec<u8>) -> bool {
        let stream = self.out.get_mut(&(link.cell, link.lane));
        let stream = stream.filter(|it| it.conn == Some(link.id()));
        stream.is_some_and(|stream| stream.send(&self.ring, now_ns, out))
    }

    /// Promises more to an accepted stream that is short, if there is room now. Returns whether the
    /// link is of use.
    pub(crate) fn promises(&mut self, link: &mut Link, now_ns: u64, out: &mut Vec<u8>) -> bool {
        let id = link.id();
        let Kind::StreamIn(Some(stream)) = &mut link.kind else { return true };
        if !stream.acks.is_empty() {
            self.acknowledge(id, stream, out);
        }
        // What it is promised is said with the acknowledgements that wait.
        if !stream.acks.is_empty() || !stream.promise.is_short() {
            return true;
        }
        let Some(promised) = stream.promise.take(0, 0, now_ns) else { return false };
        let Promised { bytes: granted, wanted } = promised;
        let (lane, evicts) = (stream.lane, self.ring.cell.engine().evicts());
        let applied = || stream.origin.lock(lane).and_then(|lane| lane.applied);
        // Above a tier, not all that is applied is in the journal.
        let position = if self.ring.below().is_some() { stream.acks.last() } else { applied() };
        // Each time that it asks for room, its primary may evict more.
        if let Some(position) = position
            && (evicts || stream.says((position, promised), now_ns))
        {
            Frame::Acked { lane, position, granted, wanted }.encode(out);
        }
        if stream.promise.is_short() {
            add_once(&mut self.short, id);
        }
        true
    }

    /// Takes what a copy answers to its stream.
    pub(crate) fn take_answer(&mut self, link: &mut Link, frame: &Frame<'_>, now_ns: u64) {
        let stream = self.out.get_mut(&(link.cell, link.lane));
        let stream = stream.filter(|it| it.conn == Some(link.id()));
        let begun_version = stream.as_ref().map_or(0, |it| it.begun_version);
        let is_right = match (stream, *frame) {
            (Some(stream), Frame::StreamFrom { position, .. }) => {
                let begins = stream.begin(position, &self.ring, now_ns);
                if !begins {
                    self.ring.find(Finding::Refuses { cell: link.cell, range: None });
                }
                begins
            }
            (Some(stream), Frame::Acked { position, granted, wanted, .. }) => {
                let promised = Promised { bytes: granted, wanted };
                stream.acknowledges(position, promised, &self.ring, now_ns)
            }
            // It has a map that this cell had not when the stream began, so that may take from the
            // copy what it was sent. When the link is open again, this cell goes by that map, too.
            (_, Frame::StreamEnd { reason, map_version, .. })
                if reason == Reason::NotFollowing as u8 && map_version > begun_version =>
            {
                false
            }
            (_, Frame::StreamEnd { lane, reason, .. }) => {
                let why = Reason::describe(reason);
                let what = format!("it copies no more of lane {lane}: {why}");
                self.ring.find(Finding::Broken { cell: link.cell, what });
                self.ring.find(Finding::Refuses { cell: link.cell, range: None });
                false
            }
            _ => false,
        };
        if !is_right {
            link.end();
        }
    }

    /// Takes a frame of a stream of another cell. False if it is to be given again later.
    pub(crate) fn take_entries(
        &mut self,
        link: &mut Link,
        frame: &Frame<'_>,
        worker: &mut Worker,
        now: Now,
        out: &mut Vec<u8>,
    ) -> bool {
        let (id, cell) = (link.id(), link.cell);
        if matches!(frame, Frame::StreamOpen { .. }) && !self.may_open(id) {
            add_once(&mut self.stopped, id);
            return false;
        }
        let (lane, refused) = match (&mut link.kind, *frame) {
            (Kind::StreamIn(stream), Frame::StreamOpen { lane, lanes, log_incarnation, end }) => {
                let opened = self.ring.origins.open(cell, (lane, lanes), log_incarnation, end);
                let position = opened.as_ref().map_or(0, |(_, next)| *next);
                Frame::StreamFrom { lane, position }.encode(out);
                *stream = opened
                    .map(|(origin, _)| StreamIn::new((cell, lane, lanes), origin, &self.ring));
                add_once(&mut self.short, id);
                (lane, stream.is_none().then_some(Reason::OldLog))
            }
            (
                Kind::StreamIn(Some(stream)),
                Frame::Entries { map_version, others_have, first, count, records, .. },
            ) => {
                let entries = Entries { map_version, others_have, first, count, records };
                let lane = stream.lane;
                match stream.take(&entries, &self.ring, worker, now) {
                    Taken::All(position, promised) => {
                        match self.ring.below() {
                            None => {
                                let Promised { bytes: granted, wanted } = promised;
                                Frame::Acked { lane, position, granted, wanted }.encode(out);
                            }
                            Some(below) => {
                                stream.acks.push(below.copied_ends(), position, promised);
                                below.write();
                                self.acknowledge(id, stream, out);
                            }
                        }
                        if stream.promise.is_short() {
                            add_once(&mut self.short, id);
                        }
                        (lane, None)
                    }
                    Taken::Later => {
                        add_once(&mut self.stopped, id);
                        return false;
                    }
                    Taken::Over => {
                        link.end();
                        return true;
                    }
                    Taken::Refused(reason) => (lane, Some(reason)),
                }
            }
            _ => (0, Some(Reason::Malformed)),
        };
        if let Some(reason) = refused {
            let map_version = self.ring.version();
            Frame::StreamEnd { lane, reason: reason as u8, map_version }.encode(out);
            link.end();
        }
        true
    }
}

/// Adds a connection to a list that has no other twice.
fn add_once(list: &mut Vec<ConnId>, id: ConnId) {
    if !list.contains(&id) {
        list.push(id);
    }
}
