//! A check: can all be read that lies below the memory of a cell, and is it what was written?
//!
//! ```text
//! live segments   head, and each batch by its checksum
//! index           each place holds the record of its key, of the kind and version that it says
//! backend         each key has a record of its own, where the backend can show its keys
//! ```
//!
//! It changes nothing, and goes on while the cell runs: what is freed, written back or changed
//! meanwhile is passed over. Called by a thread of its own, which rests so that no more is read in
//! a second than [`BYTES_PER_S_MAX`]. At a time it has one piece of a segment, one batch if that is
//! longer, or the entries of one shard of the index in memory.

use crate::backend::BackendError;
use crate::index::{Cursor, Entry, Kind};
use crate::journal::{BATCH_HEAD_BYTES, BatchHead, Course, Segment, journaled};
use crate::key::KeyHash;
use crate::layers::Layers;
use crate::stored::Stored;
use crate::sync::{Mutex, lock};
use base::SliceId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes that are read in a second, at most, over a few pieces.
const BYTES_PER_S_MAX: u64 = 64 << 20;

/// Bytes that are read of a segment at once, unless a batch is longer.
const PIECE_BYTES: usize = 1 << 20;

/// It rests each time that so much was read.
const REST_BYTES: u64 = 1 << 20;

/// What a read counts at least: a disk reads no less, and a call of a backend costs more.
const READ_BYTES_MIN: u64 = 4 << 10;

/// What is wrong is named so often, at most; more is counted.
const FINDINGS_MAX: usize = 1000;

/// What is being checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Nothing was ever asked for.
    #[default]
    None,
    /// The live segments of the journal.
    Journal,
    /// The places that the index names.
    Index,
    /// What the backend has.
    Below,
    /// Nothing any more: it has ended.
    Over,
}

/// What a check has found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// What is being checked.
    pub stage: Stage,
    /// Bytes of the journal that are to be read.
    pub journal_bytes: u64,
    /// Bytes of the journal that were read.
    pub journal_bytes_read: u64,
    /// Whole batches in it.
    pub batches: u64,
    /// Places that the index had when their turn began.
    pub places: u64,
    /// Places that hold the record of their key.
    pub places_right: u64,
    /// Segments that were freed before they had been read.
    pub freed: u64,
    /// Places of keys that were changed, or written back, before they had been read.
    pub changed: u64,
    /// Keys that the backend has shown. `None`: it cannot show what it has.
    pub keys_below: Option<u64>,
    /// How much is wrong.
    pub wrong: u64,
    /// What is: a line each, of a thousand at most.
    pub findings: Vec<String>,
    /// Why not all was checked, if that is so.
    pub failure: Option<String>,
}

#[derive(Default)]
struct State {
    is_under_way: bool,
    /// Checks that have ended.
    count: u64,
    last: Checked,
}

/// The check that is wanted or under way, or the last one.
#[derive(Default)]
pub(crate) struct Checks(Mutex<State>);

impl Checks {
    /// Asks for a check. Returns whether none was under way.
    pub(crate) fn want(&self) -> bool {
        let mut state = lock(&self.0);
        let is_free = !state.is_under_way;
        if is_free {
            let last = Checked { stage: Stage::Journal, ..Checked::default() };
            *state = State { is_under_way: true, last, ..*state };
        }
        is_free
    }

    /// How many checks have ended, and what the last one has found, or the one under way.
    pub(crate) fn last(&self) -> (u64, Checked) {
        let state = lock(&self.0);
        (state.count, state.last.clone())
    }

    /// Carries out the check that is wanted. `rest` waits for so long, and returns whether to go
    /// on.
    pub(crate) fn carry_out(&self, layers: &Layers, mut rest: impl FnMut(Duration) -> bool) {
        if !lock(&self.0).is_under_way {
            return;
        }
        let mut check =
            Check { layers, checks: self, rest: &mut rest, unpaid: 0, is_stopped: false };
        check.journal();
        check.index();
        check.below();
        let is_stopped = check.is_stopped;
        let mut state = lock(&self.0);
        if is_stopped {
            state.last.failure = Some("the cell is ending".to_owned());
        }
        state.last.stage = Stage::Over;
        (state.is_under_way, state.count) = (false, state.count + 1);
    }

    fn note(&self, change: impl FnOnce(&mut Checked)) {
        change(&mut lock(&self.0).last);
    }
}

struct Check<'a> {
    layers: &'a Layers,
    checks: &'a Checks,
    rest: &'a mut dyn FnMut(Duration) -> bool,
    /// Bytes that were read since it rested.
    unpaid: u64,
    is_stopped: bool,
}

impl Check<'_> {
    fn wrong(&self, what: String) {
        self.checks.note(|so_far| {
            so_far.wrong += 1;
            if so_far.findings.len() < FINDINGS_MAX {
                so_far.findings.push(what);
            }
        });
    }

    /// So much was read: it rests, if that is due.
    fn pay(&mut self, bytes: u64) {
        self.unpaid += bytes.max(READ_BYTES_MIN);
        if self.unpaid >= REST_BYTES {
            let pause = Duration::from_nanos(self.unpaid * 1_000_000_000 / BYTES_PER_S_MAX);
            self.unpaid = 0;
            self.is_stopped |= !(self.rest)(pause);
        }
    }

    fn journal(&mut self) {
        let mut segments = Vec::new();
        for course in self.layers.journal.progress().courses() {
            let mut number = 0;
            while let Some(segment) = self.layers.journal.segment_from(course, number) {
                let end = segment.written.load(Ordering::Acquire);
                number = segment.number() + 1;
                segments.push((course, segment, end));
            }
        }
        let bytes = segments.iter().map(|(_, _, end)| u64::from(*end)).sum();
        self.checks.note(|so_far| so_far.journal_bytes = bytes);
        for (course, segment, end) in &segments {
            if self.is_stopped {
                return;
            }
            let before = lock(&self.checks.0).last.journal_bytes_read;
            self.segment(*course, segment, *end);
            let after = before + u64::from(*end);
            self.checks.note(|so_far| so_far.journal_bytes_read = after);
        }
    }

    /// Whether nothing of a segment up to `end` is of no use any more.
    fn is_live(&self, course: Course, segment: &Arc<Segment>, end: u32) -> bool {
        let found = self.layers.journal.segment_from(course, segment.number());
        found.is_some_and(|found| Arc::ptr_eq(&found, segment))
            && segment.written.load(Ordering::Acquire) >= end
    }

    /// Checks a segment up to `end`.
    fn segment(&mut self, course: Course, segment: &Arc<Segment>, end: u32) {
        let number = segment.number();
        let has_head = segment.has_head();
        let mut at = segment.begin().offset;
        let mut pieces = Pieces { segment, end, broken_from: None, wanted: PIECE_BYTES };
        let mut wrong = Vec::new();
        match has_head {
            Ok(true) => {}
            Ok(false) => wrong.push(format!("segment {number} has lost its head")),
            Err(error) => wrong.push(format!("segment {number} cannot be read: {error}")),
        }
        let mut batches = 0;
        while at < end && !self.is_stopped {
            match pieces.check(at, &mut wrong) {
                Ok((taken, found)) => {
                    (at, batches) = (at + taken, batches + found);
                    self.pay(taken.into());
                }
                Err(error) => {
                    wrong.push(format!("segment {number} cannot be read at byte {at}: {error}"));
                    break;
                }
            }
            if !self.is_live(course, segment, end) {
                break;
            }
            self.checks.note(|so_far| so_far.batches += std::mem::take(&mut batches));
        }
        if let Some(from) = pieces.broken_from {
            wrong.push(not_whole(number, from, end));
        }
        match self.is_live(course, segment, end) || self.is_stopped {
            true => wrong.into_iter().for_each(|what| self.wrong(what)),
            false => self.checks.note(|so_far| so_far.freed += 1),
        }
    }

    fn index(&mut self) {
        self.checks.note(|so_far| so_far.stage = Stage::Index);
        let mut next = Some(Cursor::default());
        while let Some(cursor) = next.filter(|_| !self.is_stopped) {
            let mut entries = Vec::new();
            next = self.layers.index.walk(cursor, |hash, entry| {
                // A touch of what lies below is found by each of its records: it has no place.
                if entry.kind != Kind::TouchOf {
                    entries.push((hash, *entry));
                }
                true
            });
            entries.sort_by_key(|(_, entry)| (entry.place.segment, entry.place.offset));
            self.checks.note(|so_far| so_far.places += entries.len() as u64);
            for (hash, entry) in entries {
                if self.is_stopped {
                    return;
                }
                self.entry(hash, &entry);
            }
        }
    }

    /// Checks the place of an entry.
    fn entry(&mut self, hash: KeyHash, entry: &Entry) {
        self.pay(entry.place.bytes.into());
        let read = self.layers.journal.read(entry.place);
        // What a sync has failed for is written once more, and the index names that then.
        let is_broken = self.layers.journal.is_broken();
        let why = match read {
            Ok(Some(bytes)) if self.is_of(hash, entry, &bytes) => None,
            Ok(Some(_)) => Some("is not that of its key".to_owned()),
            Ok(None) => Some("is not what was written".to_owned()),
            Err(error) => Some(format!("cannot be read: {error}")),
        };
        let named = self.layers.index.get(hash).filter(|it| it.kind != Kind::TouchOf);
        // No segment is used again while a record in it is named.
        let is_named = !is_broken && named.is_some_and(|it| it.place == entry.place);
        match why {
            None => self.checks.note(|so_far| so_far.places_right += 1),
            Some(_) if !is_named => self.checks.note(|so_far| so_far.changed += 1),
            Some(why) => {
                let (segment, offset) = (entry.place.segment, entry.place.offset);
                let slice = hash.slice().index();
                self.wrong(format!(
                    "the record at byte {offset} of segment {segment}, the newest of a key of \
                     slice {slice}, {why}"
                ));
            }
        }
    }

    /// Whether a record is the one that an entry is about.
    fn is_of(&self, hash: KeyHash, entry: &Entry, bytes: &[u8]) -> bool {
        let Ok((effects::Entry::Change { slice, version, effect, .. }, _)) =
            effects::Entry::decode(bytes)
        else {
            return false;
        };
        // A touch raises the version, and leaves the record of the value in place.
        let is_right = match entry.kind {
            Kind::Tombstone => version == entry.version,
            _ => version <= entry.version,
        };
        is_right
            && slice == SliceId::of(effect.key)
            && self.layers.hasher.hash(slice, effect.key) == hash
            && journaled(&effect.change).is_some_and(|(kind, _)| kind == Some(entry.kind))
    }

    fn below(&mut self) {
        if self.is_stopped {
            return;
        }
        self.checks.note(|so_far| (so_far.stage, so_far.keys_below) = (Stage::Below, Some(0)));
        let backend = self.layers.backend.clone();
        let shown = backend.show(&mut |key, record| {
            self.shown(key, record);
            !self.is_stopped
        });
        match shown {
            Ok(true) => {}
            Ok(false) => self.checks.note(|so_far| so_far.keys_below = None),
            Err(error) => {
                let why = format!("not all that lies below can be shown: {error}");
                self.checks.note(|so_far| so_far.failure = Some(why));
            }
        }
    }

    fn shown(&mut self, key: &[u8], record: Result<&[u8], BackendError>) {
        let name = || String::from_utf8_lossy(key).into_owned();
        let mut bytes = 0;
        let why = match record {
            Err(error) => Some(error.to_string()),
            Ok(record) => {
                bytes = record.len() as u64;
                let is_record = Stored::decode(key, record.to_vec()).is_some();
                (!is_record).then(|| "its record is not what was written".to_owned())
            }
        };
        self.checks.note(|so_far| so_far.keys_below = so_far.keys_below.map(|keys| keys + 1));
        if let Some(why) = why {
            self.wrong(format!("below, {}: {why}", name()));
        }
        self.pay(bytes);
    }
}

/// How the pieces of a segment are checked, one after the other.
struct Pieces<'a> {
    segment: &'a Segment,
    /// Where what is checked ends.
    end: u32,
    /// Where the last batch that was found has ended, if another one was to follow there.
    broken_from: Option<u32>,
    /// Bytes of the next piece.
    wanted: usize,
}

impl Pieces<'_> {
    /// Checks the piece that begins at `at`. Returns how much of it needs no other look, and how
    /// many batches that has.
    fn check(&mut self, at: u32, wrong: &mut Vec<String>) -> std::io::Result<(u32, u64)> {
        let left = (self.end - at) as usize;
        let mut bytes = vec![0; self.wanted.min(left)];
        self.segment.file.read_at(at.into(), &mut bytes)?;
        self.wanted = PIECE_BYTES;
        let (mut taken, mut batches) = (0, 0);
        while taken < bytes.len() {
            let rest = &bytes[taken..];
            if let Some((_, payload)) = BatchHead::open(self.segment.seed, rest) {
                if let Some(from) = self.broken_from.take() {
                    wrong.push(not_whole(self.segment.number(), from, at + taken as u32));
                }
                taken += BATCH_HEAD_BYTES + payload.len();
                batches += 1;
                continue;
            }
            let is_last = rest.len() == left - taken;
            let length = self.length(rest).filter(|length| *length <= left - taken);
            if let Some(length) = length.filter(|length| *length > rest.len()) {
                self.wanted = length.max(PIECE_BYTES);
                break;
            }
            if rest.len() < BATCH_HEAD_BYTES && !is_last {
                break;
            }
            self.broken_from.get_or_insert(at + taken as u32);
            let next = (1..rest.len()).find(|next| self.length(&rest[*next..]).is_some());
            // The head of the next one may begin in what is too short for one.
            let over = if is_last { 0 } else { BATCH_HEAD_BYTES - 1 };
            taken += next.unwrap_or_else(|| (rest.len() - over).max(1));
        }
        Ok((taken as u32, batches))
    }

    /// The length of the batch that `bytes` look like the begin of.
    fn length(&self, bytes: &[u8]) -> Option<usize> {
        BatchHead::length(self.segment.seed, bytes.first_chunk()?)
    }
}

fn not_whole(segment: u32, from: u32, to: u32) -> String {
    format!("segment {segment} is not whole from byte {from} to {to}")
}
