//! A stream to a copy: what stands in the log of one lane, as the copy is to have it.

use super::peers::SILENT_NS;
use crate::fence;
use crate::ring::cell::{READ_BYTES, RingCell};
use crate::ring::copies::{Copy, FIRST_BYTES, Promised, has};
use crate::ring::retries::tag_state;
use base::{SliceId, SliceRange};
use effects::{Batch, Entry, LaneId, Mark};
use peer::Frame;
use session::ConnId;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes that are sent before the copy has acknowledged any.
const UNACKED_BYTES_MAX: usize = 4 << 20;
/// The part of this cell's limit that is evicted at once for a copy, at most, whatever it asks for.
const WANTED_PART: u64 = 16;
/// How long a stream rests before it is opened again.
const AGAIN_NS: u64 = 20_000_000;

/// How far a stream is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is to be opened, at this time.
    Closed(u64),
    /// A connection is ordered or in its handshake.
    Opening,
    /// The copy is asked where to begin.
    Asked,
    /// Entries are sent.
    Open,
}

/// The log of one lane, on its way to a copy.
pub(crate) struct StreamOut {
    pub(crate) copy: Arc<Copy>,
    pub(crate) lane: LaneId,
    pub(crate) conn: Option<ConnId>,
    state: State,
    /// Since when it waits for the copy.
    since_ns: u64,
    /// The next position to send.
    next: u64,
    /// The last position of each frame that is not acknowledged, and its length.
    unacked: VecDeque<(u64, usize)>,
    unacked_bytes: usize,
    batch: Batch,
    /// What the copy promised last, and what had been spent up to the position after which it did.
    promised: (u64, u64),
    /// The position that the copy must have acknowledged before it is believed that it needs
    /// more to be evicted. `None` while that is evicted which it wanted.
    evicted_at: Option<u64>,
    /// A turn is ordered, and has not come.
    is_ordered: bool,
    /// The version of the map by which it began.
    pub(crate) begun_version: u64,
    /// Up to where the copy knows that all other copies have the log.
    said_others_have: u64,
}

impl StreamOut {
    pub(crate) fn new(copy: Arc<Copy>, lane: LaneId) -> Self {
        Self {
            copy,
            lane,
            conn: None,
            state: State::Closed(0),
            since_ns: 0,
            next: 0,
            unacked: VecDeque::new(),
            unacked_bytes: 0,
            batch: Batch::new(READ_BYTES),
            promised: (0, 0),
            evicted_at: Some(0),
            is_ordered: false,
            begun_version: 0,
            said_others_have: 0,
        }
    }

    /// When it is to be opened; `None` if it is open, or on its way.
    pub(crate) fn opens_at_ns(&self) -> Option<u64> {
        match self.state {
            State::Closed(at_ns) => Some(at_ns),
            _ => None,
        }
    }

    /// When it is of no use any more, unless something comes from the copy; `None` if it waits for
    /// nothing.
    pub(crate) fn silent_at_ns(&self) -> Option<u64> {
        let waits = match self.state {
            State::Closed(_) => false,
            State::Opening | State::Asked => true,
            State::Open => !self.unacked.is_empty(),
        };
        waits.then_some(self.since_ns + SILENT_NS)
    }

    /// Whether a connection was ordered that has not come.
    pub(crate) fn is_connecting(&self) -> bool {
        self.state == State::Opening && self.conn.is_none()
    }

    /// A connection was ordered.
    pub(crate) fn opening(&mut self, now_ns: u64) {
        (self.conn, self.state, self.since_ns) = (None, State::Opening, now_ns);
    }

    /// Its connection is gone, or could not be opened.
    pub(crate) fn closed(&mut self, now_ns: u64) {
        (self.conn, self.state) = (None, State::Closed(now_ns + AGAIN_NS));
        self.is_ordered = false;
        self.unacked.clear();
        self.unacked_bytes = 0;
    }

    /// The handshake is over: asks the copy where to begin.
    pub(crate) fn ask(&mut self, ring: &RingCell, now_ns: u64, out: &mut Vec<u8>) {
        (self.state, self.since_ns) = (State::Asked, now_ns);
        let lanes = ring.log.lanes.logs().count() as u8;
        let (_, end) = self.copy.readers[self.lane.index()];
        let lane = self.lane.index() as u8;
        Frame::StreamOpen { lane, lanes, log_incarnation: self.copy.log, end }.encode(out);
    }

    /// The copy wants entries from `position` on: it has applied those before, also where its
    /// acknowledgement was lost with an earlier connection. False if there are none, or if entries
    /// stand between the end of the log and `position`: the copy has not applied those.
    pub(crate) fn begin(&mut self, position: u64, ring: &RingCell, now_ns: u64) -> bool {
        let acked = self.copy.acked(self.lane.index());
        let is_beyond = position.saturating_sub(1) > ring.log.lanes.log(self.lane).end();
        if self.state != State::Asked || position <= acked || is_beyond {
            return false;
        }
        (self.next, self.state) = (position, State::Open);
        self.said_others_have = 0;
        self.begun_version = ring.version();
        self.copy.opens(self.lane.index());
        // What an earlier stream was promised is void: the copy may have given it to others.
        self.promised = (0, 0);
        let (reader, _) = self.copy.readers[self.lane.index()];
        ring.log.lanes.log(self.lane).grant_after(reader, position - 1, FIRST_BYTES);
        self.passes(position - 1, ring, now_ns)
    }

    /// Whether there is something to send, and the copy is not too far behind for it.
    pub(crate) fn has_more(&self, ring: &RingCell) -> bool {
        self.state == State::Open
            && self.unacked_bytes < UNACKED_BYTES_MAX
            && ring.log.lanes.log(self.lane).end() >= self.next
    }

    /// Whether the copy does not know yet that all other copies have what it was sent.
    pub(crate) fn owes_word_of_others(&self) -> bool {
        self.state == State::Open && self.said_others_have.saturating_add(1) < self.next
    }

    /// Its connection, if the others have more by now than the copy knows.
    pub(crate) fn has_word_of_others(&self, ring: &RingCell) -> Option<ConnId> {
        let have = || self.copy.others_have(self.lane.index(), || ring.copies());
        self.conn.filter(|_| self.owes_word_of_others() && have() > self.said_others_have)
    }

    /// Its connection, if it is to be given a turn to send.
    pub(crate) fn orders_turn(&mut self, ring: &RingCell) -> Option<ConnId> {
        let conn = self.conn.filter(|_| !self.is_ordered && self.has_more(ring));
        self.is_ordered |= conn.is_some();
        conn
    }

    /// Appends frames of entries to `out`. False if the log has no more what is wanted.
    pub(crate) fn send(&mut self, ring: &RingCell, now_ns: u64, out: &mut Vec<u8>) -> bool {
        self.is_ordered = false;
        if self.unacked.is_empty() {
            self.since_ns = now_ns;
        }
        let lane = self.lane.index();
        let others_have = self.copy.others_have(lane, || ring.copies());
        while self.has_more(ring) {
            let log = ring.log.lanes.log(self.lane);
            let (reader, _) = self.copy.readers[self.lane.index()];
            if log.read(reader, self.next, &mut self.batch).is_err() {
                return false;
            }
            if self.batch.is_empty() {
                break;
            }
            let start = out.len();
            // After the entries: what they are about is among the slices, and is known by the map.
            let at = Sending { lane, map_version: ring.version(), others_have };
            write(&self.batch, &at, &self.copy.slices(), out);
            self.next = self.batch.next();
            self.unacked.push_back((self.next - 1, out.len() - start));
            self.unacked_bytes += out.len() - start;
            self.said_others_have = others_have;
        }
        if self.owes_word_of_others() && others_have > self.said_others_have {
            self.said_others_have = others_have;
            let (first, map_version, lane) = (self.next, ring.version(), lane as u8);
            let (count, records) = (0, &[][..]);
            Frame::Entries { lane, map_version, others_have, first, count, records }.encode(out);
        }
        true
    }

    /// The copy has applied everything up to `position`, and promises room for what comes after
    /// it. False if it was not sent so far.
    pub(crate) fn acknowledges(
        &mut self,
        position: u64,
        promised: Promised,
        ring: &RingCell,
        now_ns: u64,
    ) -> bool {
        let is_right = self.passes(position, ring, now_ns);
        if is_right {
            self.notes(position, promised.bytes, ring);
            if ring.cell.engine().evicts() {
                self.evicts(position, promised.wanted, ring);
            } else {
                self.copy.sets_full(self.lane, promised.is_full(), &ring.log);
            }
        }
        is_right
    }

    /// Lets the log spend what the copy has promised. That is counted only where it has changed, or
    /// a part of it may be spent.
    fn notes(&mut self, position: u64, bytes: u64, ring: &RingCell) {
        let (before, spent) = self.promised;
        let log = ring.log.lanes.log(self.lane);
        if bytes <= before && log.spent().saturating_sub(spent) < before / 4 {
            return;
        }
        let (reader, _) = self.copy.readers[self.lane.index()];
        if let Some(spent) = log.grant_after(reader, position, bytes) {
            self.promised = (bytes, spent);
        }
    }

    /// Evicts `wanted` bytes for the copy, once, until it has seen all that was evicted.
    fn evicts(&mut self, position: u64, wanted: u64, ring: &RingCell) {
        let engine = ring.cell.engine();
        match self.evicted_at {
            None if engine.evicts_more() == 0 => {
                self.evicted_at = Some(ring.log.lanes.log(self.lane).end());
            }
            Some(at) if wanted > 0 && position >= at => {
                engine.evict_more(wanted.min(ring.cell.budget().total() / WANTED_PART));
                self.evicted_at = None;
            }
            _ => {}
        }
    }

    /// The copy has applied everything up to `position`. False if it was not sent so far.
    fn passes(&mut self, position: u64, ring: &RingCell, now_ns: u64) -> bool {
        if self.state != State::Open || position >= self.next {
            return false;
        }
        self.since_ns = now_ns;
        while let Some((_, bytes)) = self.unacked.pop_front_if(|(last, _)| *last <= position) {
            self.unacked_bytes -= bytes;
        }
        let lane = self.lane.index();
        self.copy.acknowledges(lane, position);
        let (reader, _) = self.copy.readers[lane];
        let rose = ring.log.lanes.log(self.lane).pass(reader, Mark::Acknowledged, position);
        ring.release(self.lane, rose);
        true
    }
}

/// What frames of entries say besides these.
struct Sending {
    lane: usize,
    map_version: u64,
    others_have: u64,
}

/// Appends the entries of `batch` as a frame. Changes of other slices than `slices` are not for
/// this copy.
fn write(batch: &Batch, at: &Sending, slices: &[SliceRange], out: &mut Vec<u8>) {
    let is_for_it = |entry: &Entry<'_>| match entry {
        Entry::Change { slice, .. } | Entry::Item { slice, .. } => has(slices, *slice),
        Entry::Other { kind: fence::KIND, bytes, .. } => {
            fence::decode(bytes).is_none_or(|(slice, _)| has(slices, slice))
        }
        Entry::Other { kind: tag_state::NOTHING_KIND, bytes, .. } => {
            tag_state::decode_nothing(bytes).is_none_or(|(_, slice)| has(slices, slice))
        }
        // Its slices are one range.
        Entry::Barrier(of, _) => of.iter().next().is_none_or(|slice| has(slices, slice)),
        _ => true,
    };
    let Sending { lane, map_version, others_have } = *at;
    let (lane, first, count) = (lane as u8, batch.first(), batch.len() as u32);
    let are_in_one = |(lowest, highest): (SliceId, SliceId)| {
        let has = |range: &SliceRange, slice: SliceId| range.numbers().contains(&slice.index());
        slices.iter().any(|range| has(range, lowest) && has(range, highest))
    };
    let is_all = batch.is_of_items() && batch.slices().is_some_and(are_in_one);
    if is_all || batch.records().all(|record| is_for_it(&record.entry)) {
        let [records, rest] = batch.parts();
        let frame = Frame::Entries { lane, map_version, others_have, first, count, records };
        frame.encode_before(rest.len(), out);
        out.extend_from_slice(rest);
        return;
    }
    let mut records = Vec::new();
    for record in batch.records() {
        let entry = if is_for_it(&record.entry) { record.entry } else { Entry::Skipped };
        entry.encode(&mut records);
    }
    let records = &records;
    Frame::Entries { lane, map_version, others_have, first, count, records }.encode(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::testing::first_cell;
    use ring::CellId;

    #[test]
    fn a_copy_begins_no_further_than_behind_the_end_of_the_log() {
        let ring = first_cell(|_| ());
        let mut sink = effects::WorkerSink::new(ring.log.lanes.clone());
        let (lane, log) = ring.log.lanes.logs().next().expect("one");
        let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let copy = Copy::begin((CellId(2), 1, at), 1, &ring.log.lanes).expect("a place");
        let mut stream = StreamOut::new(Arc::new(copy), lane);
        sink.other(lane, 9, b"x", false).expect("space");
        let end = log.end();
        assert!(end > 0);
        let mut begins = |position| {
            stream.opening(0);
            stream.ask(&ring, 0, &mut Vec::new());
            let begins = stream.begin(position, &ring, 0);
            (begins, stream.copy.acked(lane.index()), stream.copy.has_acked(&[end]))
        };
        assert_eq!(begins(end + 2), (false, 0, false), "one entry is left out");
        assert_eq!(begins(u64::MAX), (false, 0, false));
        assert_eq!(begins(end + 1), (true, end, true));
    }
}
