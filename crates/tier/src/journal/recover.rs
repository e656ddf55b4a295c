//! What an earlier start has left: found by reading, without a change.
//!
//! ```text
//! batches of one lane   | durable, and so in the index | whole, but maybe not durable | torn
//!                                                      ^ written once more             ^ lost
//! ```
//!
//! Segments are read by rising number. A lane counts up to its first batch that is not whole, or
//! does not follow the one before it. What the last batches say was durable must be there: if it
//! is not, that is corruption, and no torn end.

use super::format::{
    BATCH_HEAD_BYTES, BatchHead, Cut, JournalId, Kind, SEGMENT_HEAD_BYTES, SegmentHead, SliceState,
    Spot, decode_cuts, decode_slices,
};
use super::found::Found;
use super::heads::{Heads, heads};
use super::identity::{IDENTITY, Identity, RecoverError, disk, find_identity, write_identity};
use super::record::{TailBatch, gives_up, journaled, records};
use super::rewritten::{AllRewritten, Rewritten};
use super::scan::{Headed, all_batches, batches, bytes_there, heads_after, read_all, read_front};
use super::segments::{Left, Segment, absent_file, is_segment};
use super::states::{CEILING_STEP, first_state};
use super::streams::{Open, Stream};
use super::unused::take_unused;
use crate::disk::{Disk, File};
use crate::floors::Floors;
use crate::index::{Entry as Dirty, Index, Kind as What, Place, Step};
use crate::key::{KeyHash, KeyHasher};
use base::{SLICES, SliceId, Version};
use effects::Entry;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// Steps that the index takes at once, at most: 4 MiB of them.
const STEPS_MAX: usize = 1 << 16;

/// Finds out what the journal on `disk` holds, and enters what is not written back into `index`.
/// A new journal has the name `name`, and its slices begin after `first`. What is corrupt is an
/// error, unless it `salvages`: then it is passed over and listed.
pub(crate) fn recover(
    disk_of: &Arc<dyn Disk>,
    (index, hasher, floors): (&Index, &KeyHasher, &Floors),
    (name, salvages): (JournalId, bool),
    first: impl Fn(SliceId) -> Version,
) -> Result<Found, RecoverError> {
    let names = disk_of.list().map_err(disk("the files of the tier cannot be listed"))?;
    let segments: Vec<_> = names.iter().filter(|name| is_segment(name)).cloned().collect();
    let cannot = disk("the journal cannot be named");
    let (journal, lost_name) = match find_identity(disk_of, (&names, &segments), salvages)? {
        Identity::Written(journal) => (journal, None),
        Identity::OfSegments(journal) => {
            write_identity(&**disk_of, journal).map_err(cannot)?;
            (journal, Some(format!("the file {IDENTITY}; its segments say what it had")))
        }
        Identity::None => {
            write_identity(&**disk_of, name).map_err(cannot)?;
            let states = SliceId::all().map(|slice| first_state(first(slice))).collect();
            return Ok(Found::nothing(disk_of.clone(), name, states));
        }
    };
    // What an earlier process has made and not synced is there, but it may not survive.
    disk_of.sync_directory().map_err(disk("the names of the files cannot be made durable"))?;
    let Heads { mut headed, free, mut lost } = heads(disk_of, journal, segments, salvages)?;
    lost.extend(lost_name);
    headed.sort_by_key(|it| (it.head.number, Reverse(it.head.start)));
    let reading = Reading::new(disk_of.clone(), journal, headed, free, (index, hasher, floors));
    Reading { lost: salvages.then_some(lost), ..reading }.finish(first)
}

/// The reading of a journal that is there.
struct Reading<'a> {
    disk: Arc<dyn Disk>,
    journal: JournalId,
    segments: Vec<Headed>,
    free: Vec<(String, Arc<dyn File>)>,
    index: &'a Index,
    hasher: &'a KeyHasher,
    floors: &'a Floors,
    next_number: u32,
    start: u32,
    states: Vec<SliceState>,
    /// By slice, the highest version of its records.
    recorded: Vec<Version>,
    oldest: u32,
    clock_s: u32,
    /// By start and lane, up to where it is written back, and up to where it counts.
    flushed: BTreeMap<(u32, u32), Spot>,
    cuts: BTreeMap<(u32, u32), Spot>,
    /// The starts whose END was found.
    ended: BTreeSet<u32>,
    streams: BTreeMap<(u32, u32), Stream>,
    rewritten: AllRewritten,
    records: u64,
    torn: u64,
    /// What is corrupt, where that is passed over.
    lost: Option<Vec<String>>,
    /// What the index has not taken yet.
    steps: Vec<(KeyHash, Step)>,
    /// Room for a segment: fresh memory for each would cost as much as reading it.
    room: Vec<u8>,
}

impl<'a> Reading<'a> {
    fn new(
        disk: Arc<dyn Disk>,
        journal: JournalId,
        segments: Vec<Headed>,
        free: Vec<(String, Arc<dyn File>)>,
        (index, hasher, floors): (&'a Index, &'a KeyHasher, &'a Floors),
    ) -> Self {
        Self {
            disk,
            journal,
            next_number: segments.last().map_or(0, |last| last.head.number) + 1,
            start: segments.iter().map(|it| it.head.start).max().unwrap_or(0) + 1,
            segments,
            free,
            index,
            hasher,
            floors,
            states: vec![SliceState::default(); SLICES],
            recorded: vec![Version::ZERO; SLICES],
            oldest: 0,
            clock_s: 0,
            flushed: BTreeMap::new(),
            cuts: BTreeMap::new(),
            ended: BTreeSet::new(),
            streams: BTreeMap::new(),
            rewritten: AllRewritten::default(),
            records: 0,
            torn: 0,
            lost: None,
            steps: Vec::new(),
            room: Vec::new(),
        }
    }

    fn finish(mut self, first: impl Fn(SliceId) -> Version) -> Result<Found, RecoverError> {
        // Also of those that count no more: what was free was free before they were written.
        self.oldest = self.segments.iter().map(|it| it.head.oldest).max().unwrap_or(0);
        self.drop_refused();
        self.drop_void_starts()?;
        let is_begun = !self.segments.is_empty();
        if !is_begun {
            // No start has come so far that it gave out a version.
            let begin = |slice| SliceState { last: first(slice), ..SliceState::default() };
            self.states = SliceId::all().map(begin).collect();
            self.oldest = self.next_number;
        }
        self.find_flushed()?;
        self.check_ends()?;
        self.check_numbers()?;
        let segments = std::mem::take(&mut self.segments);
        let (mut live, mut unused) = (Vec::new(), BTreeSet::new());
        for segment in segments {
            if segment.head.number < self.oldest {
                self.free.push((segment.name, segment.file));
                continue;
            }
            self.take_rewritten(segment.head.number)?;
            let torn = self.torn;
            let end = self.read(&segment)?;
            let has_nothing = end as usize == SEGMENT_HEAD_BYTES && self.torn == torn;
            if has_nothing && self.lost.is_none() && !self.is_cut_in(&segment.head) {
                unused.insert(segment.head.number);
            }
            live.push(Segment::found(segment.head, segment.name, segment.file, end));
        }
        self.take_rewritten(u32::MAX)?;
        self.take_steps();
        if is_begun {
            self.check_states()?;
        }
        let tail = self.tail(&live)?;
        let mut cuts: Vec<_> = self.cuts.iter().map(|(of, at)| cut(*of, *at)).collect();
        let of_streams = self.streams.iter().filter(|(of, _)| !self.cuts.contains_key(of));
        cuts.extend(of_streams.map(|(of, stream)| cut(*of, stream.end)));
        cuts.retain(|cut| cut.at.segment >= self.oldest);
        for segment in &live {
            self.cut_segment(segment, &cuts);
        }
        for state in &mut self.states {
            let last = state.last.max(state.ceiling).max(state.barrier);
            let ceiling = Version::from_raw(last.raw() + CEILING_STEP);
            *state = SliceState { last, ceiling, ..*state };
        }
        let (live, unused) = take_unused(live, &unused);
        let Self { free, next_number, oldest, .. } = self;
        let left = Left { live, unused, free, retired: Vec::new(), next_number, oldest };
        Ok(Found {
            disk: self.disk,
            journal: self.journal,
            start: self.start,
            left,
            states: self.states,
            recorded: self.recorded,
            tail,
            cuts,
            clock_s: self.clock_s,
            is_new: false,
            is_begun,
            records: self.records,
            torn: self.torn,
            lost: self.lost.unwrap_or_default(),
        })
    }

    /// Whether a lane counts up to a place in this segment.
    fn is_cut_in(&self, head: &SegmentHead) -> bool {
        let mut cuts = self.cuts.iter();
        cuts.any(|(of, at)| of.0 == head.start && at.segment == head.number)
    }

    /// Reads the batches of a segment up to one that `is_last`, or all that it holds where what is
    /// corrupt is passed over. Returns what it has read, and how much that is; it is given back to
    /// `room` after use.
    fn bytes_of(
        &mut self,
        segment: &Headed,
        is_last: impl Fn(&[u8; BATCH_HEAD_BYTES]) -> bool,
    ) -> Result<(Vec<u8>, usize), RecoverError> {
        let mut room = std::mem::take(&mut self.room);
        let read = match &mut self.lost {
            Some(lost) => read_all(segment, &mut room, lost),
            None => read_front(segment, &mut room, is_last),
        };
        read.map(|read| (room, read))
    }

    /// Something is corrupt: an error, unless it is passed over.
    fn corrupt(&mut self, what: String) -> Result<(), RecoverError> {
        match &mut self.lost {
            Some(lost) => {
                lost.push(what);
                Ok(())
            }
            None => Err(RecoverError::Corrupt(what)),
        }
    }

    /// Segments that the disk has refused before anything was written into them: a later start has
    /// given out a number that is not higher.
    fn drop_refused(&mut self) {
        let mut highest = 0;
        for segment in std::mem::take(&mut self.segments) {
            if segment.head.start < highest {
                self.free.push((segment.name, segment.file));
            } else {
                highest = segment.head.start;
                self.segments.push(segment);
            }
        }
    }

    /// A start that ended before it had written its END has changed nothing: its segments are free,
    /// unless a later one has found that END. The END of any other says up to where the starts
    /// before it count.
    fn drop_void_starts(&mut self) -> Result<(), RecoverError> {
        let (mut complete, mut rewritten) = (BTreeSet::new(), Vec::new());
        let segments = std::mem::take(&mut self.segments);
        for segment in &segments {
            if segment.head.follows_end {
                complete.insert(segment.head.start);
                continue;
            }
            let (room, read) = self.bytes_of(segment, BatchHead::is_end)?;
            let found = self.batches_of(segment, &room[..read]);
            let once_more =
                |(at, head, _): &(usize, BatchHead, &[u8])| Rewritten::found(segment, *at, head);
            rewritten.extend(found.iter().filter_map(once_more));
            for (_, _, payload) in found.into_iter().filter(|it| it.1.kind == Kind::End) {
                complete.insert(segment.head.start);
                self.ended.insert(segment.head.start);
                let cuts = decode_cuts(payload).ok_or_else(|| says_nothing(&segment.name))?;
                // It has found the END of each of these, which may not have been durable.
                complete.extend(cuts.iter().map(|cut| cut.start));
                self.ended.extend(cuts.iter().map(|cut| cut.start));
                self.cuts.extend(cuts.into_iter().map(|cut| ((cut.start, cut.lane), cut.at)));
            }
            self.room = room;
        }
        rewritten.retain(|it| complete.contains(&it.of.0));
        self.rewritten = AllRewritten::new(rewritten, &self.cuts);
        for segment in segments {
            match complete.contains(&segment.head.start) {
                true => self.segments.push(segment),
                false => self.free.push((segment.name, segment.file)),
            }
        }
        Ok(())
    }

    /// What the last segment of each lane says was written back, and what the heads say was free
    /// before a file was used again.
    fn find_flushed(&mut self) -> Result<(), RecoverError> {
        let segments = std::mem::take(&mut self.segments);
        for segment in segments.iter().rev() {
            let mut first = [0; BATCH_HEAD_BYTES];
            match segment.file.read_at(SEGMENT_HEAD_BYTES as u64, &mut first) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
                Err(_) if self.lost.is_some() => continue,
                read => read.map_err(disk(segment.name.clone()))?,
            }
            // One that was made ready and not used has a batch of its earlier use there.
            let lane = BatchHead::lane(segment.head.seed(), &first).filter(|lane| {
                let is_known = self.flushed.contains_key(&(segment.head.start, *lane));
                segment.head.number >= self.oldest && !is_known
            });
            if lane.is_none() {
                continue;
            }
            let (room, read) = self.bytes_of(segment, |_| false)?;
            for (_, head, _) in batches(segment, &room[..read]) {
                let of = (segment.head.start, head.lane.into());
                let flushed = self.flushed.entry(of).or_default();
                *flushed = head.flushed.max(*flushed);
                self.oldest = self.oldest.max(head.oldest);
            }
            self.room = room;
        }
        self.segments = segments;
        Ok(())
    }

    /// Where a start goes on after its END, the END is there, or its segment is free.
    fn check_ends(&mut self) -> Result<(), RecoverError> {
        let lacks_end = |segment: &&Headed| {
            let head = &segment.head;
            !head.follows_end && head.number >= self.oldest && !self.ended.contains(&head.start)
        };
        match self.segments.iter().find(lacks_end) {
            Some(segment) => {
                let (name, start) = (&segment.name, segment.head.start);
                let what = format!("{name} does not hold the end of what start {start} found");
                self.corrupt(what)
            }
            None => Ok(()),
        }
    }

    /// The oldest segment is there, and the numbers of each start have no gap from its first on. A
    /// file without a head looks as if it had never been used.
    fn check_numbers(&mut self) -> Result<(), RecoverError> {
        let live = self.segments.iter().map(|it| it.head).filter(|it| it.number >= self.oldest);
        let mut missing = Vec::new();
        let mut before = None;
        for head in live {
            let expected = match before {
                None => self.oldest,
                Some((start, number)) if start == head.start => number + 1,
                Some(_) => head.first,
            };
            // Nothing is expected after a head that was guessed: it has no such numbers.
            if expected != 0 && expected != head.number {
                missing.push(expected);
            }
            before = Some((head.start, head.number));
        }
        let is_there = |number: u32| self.segments.iter().any(|it| it.head.number == number);
        // Where a cut stands before the first batch, nothing of that segment counts.
        let cuts = self.cuts.values().filter(|at| at.offset as usize > SEGMENT_HEAD_BYTES);
        let cuts = cuts.map(|at| at.segment).filter(|number| *number >= self.oldest);
        missing.extend(cuts.filter(|number| !is_there(*number)));
        let names = self.segments.iter().map(|it| &it.name);
        let absent = absent_file(names.chain(self.free.iter().map(|(name, _)| name)));
        let what = |number| match &absent {
            Some(name) => format!("segment number {number} is missing, and the file {name}"),
            None => format!("segment number {number} is missing: no file has a head that says so"),
        };
        missing.into_iter().try_for_each(|number| self.corrupt(what(number)))
    }

    /// Each slice has a state: where all segments are there that hold one, it has.
    fn check_states(&mut self) -> Result<(), RecoverError> {
        let is_unknown = |state: &SliceState| state.ceiling == Version::ZERO;
        let unknown = self.states.iter().filter(|state| is_unknown(state)).count();
        match unknown {
            0 => Ok(()),
            _ => self.corrupt(format!("no segment says what versions {unknown} slices have")),
        }
    }

    /// Reads a segment. Returns the end of its whole batches.
    fn read(&mut self, segment: &Headed) -> Result<u32, RecoverError> {
        self.check_length(segment)?;
        let (room, read) = self.bytes_of(segment, |_| false)?;
        let bytes = &room[..read];
        let mut end = SEGMENT_HEAD_BYTES;
        let mut of = None;
        let batches = self.batches_of(segment, bytes);
        self.index.expect(batches.iter().map(|(_, head, _)| u64::from(head.span)).sum());
        for (at, head, payload) in batches {
            let spot = Spot { segment: segment.head.number, offset: at as u32 };
            of = Some((segment.head.start, u32::from(head.lane)));
            if of.and_then(|of| self.cuts.get(&of)).is_some_and(|cut| spot >= *cut) {
                break;
            }
            if at > end {
                self.corrupt(format!("{} is not whole from byte {end} to {at}", segment.name))?;
            }
            end = at + BATCH_HEAD_BYTES + payload.len();
            self.take(segment, spot, &head, payload)?;
        }
        let rest = &bytes[end..];
        // Also where nothing of it is whole.
        let cut_here = |(of, at): &(&(u32, u32), &Spot)| {
            of.0 == segment.head.start && at.segment == segment.head.number
        };
        let is_cut = |of: &(u32, u32)| self.cuts.contains_key(of);
        match of.or_else(|| self.cuts.iter().find(cut_here).map(|(of, _)| *of)) {
            Some(of) if is_cut(&of) => {
                // What stands there was written once more, or is nothing.
                self.check_cut(segment, of, end)?;
                self.room = room;
                return Ok(end as u32);
            }
            // Nothing that was durable is missing there; what was read is looked through anyway.
            None if segment.head.is_unused => self.look_ahead(segment, bytes, (end, read))?,
            _ => self.look_ahead(segment, bytes, (end, bytes_there(segment)?))?,
        }
        if rest
            .first_chunk()
            .is_some_and(|head| BatchHead::length(segment.head.seed(), head).is_some())
        {
            self.torn += 1;
        }
        self.room = room;
        Ok(end as u32)
    }

    /// A file has its length, durably, before it has the head that names it.
    fn check_length(&mut self, segment: &Headed) -> Result<(), RecoverError> {
        let Headed { name, file, head } = segment;
        let there = file.bytes().map_err(disk(name.clone()))?;
        if there >= head.bytes.into() || head.is_unused {
            return Ok(());
        }
        self.corrupt(format!("{name} has {there} bytes, and had {}", head.bytes))
    }

    /// The whole batches of a segment that are read.
    fn batches_of<'b>(&self, of: &Headed, bytes: &'b [u8]) -> Vec<(usize, BatchHead, &'b [u8])> {
        if self.lost.is_some() { all_batches(of, bytes) } else { batches(of, bytes).collect() }
    }

    /// All that counts of a lane that was cut must be there.
    fn check_cut(
        &mut self,
        segment: &Headed,
        of: (u32, u32),
        end: usize,
    ) -> Result<(), RecoverError> {
        let number = segment.head.number;
        let cut = self.cuts.get(&of).filter(|cut| cut.segment == number);
        match cut {
            Some(cut) if (end as u32) < cut.offset => self.corrupt(format!(
                "{} was durable up to byte {}, and is whole up to byte {end}",
                segment.name, cut.offset
            )),
            _ => Ok(()),
        }
    }

    fn take(
        &mut self,
        segment: &Headed,
        spot: Spot,
        head: &BatchHead,
        payload: &[u8],
    ) -> Result<(), RecoverError> {
        let broken = || says_nothing(&segment.name);
        let of = (segment.head.start, u32::from(head.lane));
        self.clock_s = self.clock_s.max(head.clock_s);
        match head.kind {
            Kind::Checkpoint | Kind::Ceilings => {
                for (slice, state) in decode_slices(payload).ok_or_else(broken)? {
                    let known = &mut self.states[slice.index()];
                    known.last = known.last.max(state.last);
                    known.ceiling = known.ceiling.max(state.ceiling);
                    // Ceilings were chosen earlier than they are written: a flush may stand
                    // between, or the end of a part.
                    if head.kind == Kind::Ceilings {
                        continue;
                    }
                    // Those of a slice are read in their order.
                    known.due_s = state.due_s;
                    if spot.segment > self.floors.segment_of(slice) {
                        known.barrier = known.barrier.max(state.barrier);
                        known.flushed = known.flushed.max(state.flushed);
                    }
                }
                let stream = self.streams.entry(of).or_insert_with(|| Stream::at(spot));
                if stream.next == 0 {
                    // What comes before it is free, so the batch after it must be the next one.
                    stream.next = head.first;
                }
            }
            Kind::End => {}
            Kind::Records => {
                if self.follows(of, head, segment)? {
                    if head.origin.is_none() {
                        self.apply(of, spot, payload).map_err(|_| broken())?;
                    }
                    self.streams.entry(of).or_default().push(spot, head);
                }
            }
        }
        Ok(())
    }

    /// Whether a batch of records is the next one of its lane. One that is not shows that something
    /// before it is missing: it does not count, and must not say that this was durable. A salvage
    /// takes it all the same.
    fn follows(
        &mut self,
        of: (u32, u32),
        head: &BatchHead,
        segment: &Headed,
    ) -> Result<bool, RecoverError> {
        let at = Spot { segment: segment.head.number, offset: 0 };
        let stream = self.streams.entry(of).or_insert_with(|| Stream::at(at));
        // What a start has written once more stands before the positions of its own logs.
        let is_next = stream.next == 0 || head.span == 0 || head.first == stream.next;
        if stream.missing.is_none() && is_next {
            return Ok(true);
        }
        let missing = *stream.missing.get_or_insert(stream.next);
        // All that a cut lane has before its cut was durable.
        let was_durable = head.durable >= missing || self.cuts.contains_key(&of);
        if !was_durable && self.lost.is_none() {
            return Ok(false);
        }
        stream.missing = None;
        let (name, lane) = (&segment.name, of.1);
        self.corrupt(match was_durable {
            true => format!(
                "{name} says that position {missing} of lane {lane} was durable, and it is not \
                 there"
            ),
            false => format!(
                "{name} continues with position {} of lane {lane}, and what was written from \
                 position {missing} on is not there",
                head.first
            ),
        })?;
        Ok(true)
    }

    /// Looks for a later batch after `end`, where none begins, and before `until`.
    fn look_ahead(
        &mut self,
        segment: &Headed,
        bytes: &[u8],
        (end, until): (usize, usize),
    ) -> Result<(), RecoverError> {
        let later = heads_after(segment, bytes, (end, until))?;
        later.iter().try_for_each(|head| self.comes_after_a_gap(segment, head))
    }

    /// A whole batch stands after one that is not.
    fn comes_after_a_gap(
        &mut self,
        segment: &Headed,
        head: &BatchHead,
    ) -> Result<(), RecoverError> {
        let of = (segment.head.start, u32::from(head.lane));
        match head.kind {
            // Everything before it was durable when it was written.
            Kind::End => {
                let name = &segment.name;
                self.corrupt(format!("{name} is not whole before its end"))
            }
            Kind::Records if !self.cuts.contains_key(&of) => {
                let stream = self.streams.entry(of).or_default();
                let missing = stream.next.max(1);
                stream.missing = Some(missing);
                self.follows(of, head, segment).map(|_| ())
            }
            Kind::Records | Kind::Checkpoint | Kind::Ceilings => Ok(()),
        }
    }

    /// Enters what was written once more and lay in segments before `number`.
    fn take_rewritten(&mut self, number: u32) -> Result<(), RecoverError> {
        while let Some(next) = self.rewritten.next_before(number) {
            if next.at.segment < self.oldest {
                continue;
            }
            match (next.payload(), &mut self.lost) {
                (Ok(payload), _) => {
                    let applied = self.apply(next.of, next.at, &payload);
                    applied.map_err(|_| says_nothing(&next.name))?;
                }
                (Err(error), Some(lost)) => lost.push(error.to_string()),
                (Err(error), None) => return Err(error),
            }
        }
        Ok(())
    }

    /// Enters the records of a batch into the index.
    fn apply(&mut self, of: (u32, u32), spot: Spot, payload: &[u8]) -> Result<(), String> {
        let flushed = self.flushed.get(&of).copied().unwrap_or_default();
        for record in records(payload) {
            let (at, bytes, entry) = record?;
            let Entry::Change { slice, version, effect, .. } = entry else { continue };
            let state = &mut self.states[slice.index()];
            state.last = state.last.max(version);
            let recorded = &mut self.recorded[slice.index()];
            *recorded = version.max(*recorded);
            self.records += 1;
            if version <= self.floors.of(slice) {
                continue;
            }
            if gives_up(&effect.change) {
                self.step(self.hasher.hash(slice, effect.key), Step::Supersede(version));
                continue;
            }
            let Some((kind, expiry_s)) = journaled(&effect.change) else { continue };
            let offset = spot.offset + BATCH_HEAD_BYTES as u32 + at;
            let place = Place { segment: spot.segment, offset, bytes };
            let hash = self.hasher.hash(slice, effect.key);
            let entry = |kind| Dirty { place, version, expiry_s, kind };
            let is_written_back = (Spot { offset, ..spot }) < flushed;
            let step = match kind {
                // What an earlier segment holds of the key is older than what lies below.
                Some(_) if is_written_back => Step::Supersede(version),
                // What was touched may lie in another course, and be written back later.
                None if is_written_back => Step::Raise(entry(What::TouchOf)),
                Some(kind) => Step::Set(entry(kind)),
                None => Step::Touch(entry(What::TouchOf)),
            };
            self.step(hash, step);
        }
        Ok(())
    }

    /// Has the index take a step, with those that come before and after it.
    fn step(&mut self, hash: KeyHash, step: Step) {
        self.steps.push((hash, step));
        if self.steps.len() == STEPS_MAX {
            self.take_steps();
        }
    }

    fn take_steps(&mut self) {
        self.index.carry_out(&self.steps);
        self.steps.clear();
    }

    /// The batches that may not be durable, of the start that came last.
    fn tail(&mut self, live: &[Segment]) -> Result<Vec<TailBatch>, RecoverError> {
        let mut tail = Vec::new();
        for (of, stream) in &self.streams {
            if self.cuts.contains_key(of) {
                continue;
            }
            for Open { at, payload, origin, .. } in &stream.open {
                let segment = live.iter().find(|it| it.number() == at.segment);
                let segment = segment.expect("invariant: the batch was read from it");
                let mut payload = vec![0; *payload as usize];
                let offset = u64::from(at.offset) + BATCH_HEAD_BYTES as u64;
                let read = segment.file.read_at(offset, &mut payload);
                match (read, &mut self.lost) {
                    (Ok(()), _) => tail.push(TailBatch { at: *at, origin: *origin, payload }),
                    (Err(error), Some(lost)) => {
                        lost.push(format!("segment number {}, read again: {error}", at.segment));
                    }
                    (Err(error), None) => {
                        return Err(disk(format!("segment number {}", at.segment))(error));
                    }
                }
            }
        }
        Ok(tail)
    }

    /// A segment counts up to where its lane was cut.
    fn cut_segment(&self, segment: &Segment, cuts: &[Cut]) {
        use std::sync::atomic::Ordering::Relaxed;
        let of_start = cuts.iter().filter(|cut| cut.start == segment.head.start);
        let at = of_start.filter(|cut| cut.at.segment == segment.number()).map(|cut| cut.at.offset);
        if let Some(end) = at.max() {
            segment.written.store(end, Relaxed);
            segment.durable.store(end, Relaxed);
        }
    }
}

fn cut((start, lane): (u32, u32), at: Spot) -> Cut {
    Cut { start, lane, at }
}

/// A batch is whole, and what it holds is not what its kind holds.
fn says_nothing(name: &str) -> RecoverError {
    RecoverError::Corrupt(format!("{name} has a batch whose content has no meaning"))
}
