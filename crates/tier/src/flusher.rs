//! How what is dirty is written back: the oldest records first, those that the index still names.
//!
//! ```text
//! courses:  earlier starts | lane 0 | lane 1 ...        each in the order of its segments
//!           gather --> at most one change for each key --> backend, durable --> index, courses
//! ```
//!
//! Only durable records are written back: else a start after a power cut would put an older value
//! over a newer one below. A change leaves the index only if nothing newer has come meanwhile.
//!
//! Where a backend writes the keys of many slices at once, all that is dirty of these slices goes
//! with the oldest record of them. A record that it writes alone goes only where it is old, too:
//! the first segments are freed sooner then, and one by one.
//!
//! One thread flushes at a time, so at most one change of a key is on its way below.

use crate::backend::{BackendError, Change, Failure};
use crate::held::{ELSEWHERE_NS, First, LOST_NS, NOT_LED_NS};
use crate::index::{Entry, Kind, Place};
use crate::journal::{
    BATCH_HEAD_BYTES, BatchHead, BatchKind, Course, Segment, Spot, Waiting, gives_up, journaled,
    records,
};
use crate::key::KeyHash;
use crate::layers::{Layers, unreadable};
use crate::stored::Stored;
use crate::sync::lock;
use base::{Effect, Now, SliceId, SliceRange, Version};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of keys and records that are written back at once, unless one is longer.
const BYTES_MAX: usize = 4 << 20;

/// Changes that are written back at once, at most.
const CHANGES_MAX: usize = 8192;

/// Bytes of segments that are read in one round, unless a batch is longer: most may be superseded.
const READ_BYTES_MAX: usize = 64 << 20;

/// Bytes that are read of a segment at once, unless a batch is longer.
const READ_BYTES: usize = 1 << 20;

/// Keys that are gathered with one that is old, at most.
const GROUP_MAX: usize = 65_536;

/// What is written alone goes with an older one if it lies in this part of the journal with it.
const NEAR_PART: usize = 8;

/// Times that a key is looked at which changes meanwhile.
const TRIES_MAX: usize = 4;

/// A change to write back.
struct Back {
    hash: KeyHash,
    key: Vec<u8>,
    /// `None`: the key is to be removed.
    record: Option<Vec<u8>>,
    /// What the index named, and as of which version.
    place: Place,
    version: Version,
}

/// What is gathered.
#[derive(Default)]
struct Gathered {
    changes: Vec<Back>,
    places: HashMap<KeyHash, usize>,
    /// The groups that were gathered in this round, each by its first slice.
    groups: HashSet<usize>,
    bytes: usize,
    /// Bytes of segments that were read, of one course.
    read: usize,
    /// Whether a course was left because that was much.
    is_cut: bool,
    /// Whether the next group has a round of its own.
    is_whole: bool,
    /// The first slices of the groups that rest, and where the first change of one lies in the
    /// course that is gone through.
    resting: HashSet<usize>,
    held: Option<First>,
    /// Whether a value goes without what has touched it since: the touch may lie before the end of
    /// a course, and is to be found by the next round.
    is_partial: bool,
}

impl Gathered {
    /// Nothing yet, and nothing of what rests.
    fn new(layers: &Layers, now: Now) -> Self {
        let is_held = |first: &First| {
            let named = layers.index.get(first.hash);
            let is_same = |it: &Entry| (it.place, it.kind) == (first.place, first.kind);
            named.as_ref().is_some_and(is_same) && !layers.index.is_partly_below(first.hash)
        };
        let resting = lock(&layers.held).resting(now.mono_ns, is_held);
        Self { resting, ..Self::default() }
    }

    /// What the index has as `named` is held, in the batch that begins there.
    fn hold(&mut self, (segment, begin): (u32, u32), hash: KeyHash, named: &Entry) {
        let spot = Spot { segment, offset: begin };
        let Entry { place, kind, .. } = *named;
        self.held.get_or_insert(First { spot, hash, place, kind });
    }

    fn is_full(&self) -> bool {
        self.is_whole
            || self.bytes >= BYTES_MAX
            || self.changes.len() >= CHANGES_MAX
            || self.read >= READ_BYTES_MAX
    }

    /// Carries out all changes below, those of a group at once, and takes them out of the index.
    /// Adds the keys to `failed` of which that failed; a page that is not what was written stops
    /// no other: its group rests. Returns why one does.
    fn carry_out(
        &self,
        layers: &Layers,
        failed: &mut HashSet<KeyHash>,
    ) -> Result<Option<BackendError>, BackendError> {
        let slices = |back: &&Back| layers.backend.group(back.hash.slice());
        let group = |back: &&Back| slices(back).numbers().start;
        let mut order: Vec<&Back> = self.changes.iter().collect();
        order.sort_by_key(group);
        let (mut done, mut rests) = (Ok(()), None);
        for backs in order.chunk_by(|a, b| group(a) == group(b)) {
            let applied = done.clone().and_then(|()| apply(layers, backs));
            let Err(error) = applied else { continue };
            failed.extend(backs.iter().map(|back| back.hash));
            if concerns_all(layers, &error) || slices(&backs[0]).is_empty() {
                done = Err(error);
                continue;
            }
            let is_lost = error.failure == Failure::Corrupt;
            let rest_ns = if is_lost { LOST_NS } else { NOT_LED_NS };
            lock(&layers.held).hold(group(&backs[0]), rest_ns, Some(error.to_string()));
            rests.get_or_insert(error);
        }
        done.map(|()| rests)
    }

    fn flushed(&self) -> Flushed {
        let (keys, bytes) = (self.changes.len() as u64, self.bytes as u64);
        Flushed { keys, bytes, has_freed: false, has_more: self.is_full() || self.is_cut }
    }

    /// Takes a change; a later one of the same key takes the place of an earlier one.
    fn push(&mut self, back: Back) {
        self.bytes += back.key.len() + back.record.as_ref().map_or(0, Vec::len);
        match self.places.entry(back.hash) {
            std::collections::hash_map::Entry::Occupied(at) => self.changes[*at.get()] = back,
            std::collections::hash_map::Entry::Vacant(at) => {
                at.insert(self.changes.len());
                self.changes.push(back);
            }
        }
    }
}

/// Whether what was not carried out for this reason fails for other groups, too.
fn concerns_all(layers: &Layers, error: &BackendError) -> bool {
    match error.failure {
        Failure::Corrupt => false,
        // A cell alone leads all of them.
        Failure::NotLed | Failure::TakenOver => layers.ring.is_none(),
        _ => true,
    }
}

/// Carries out changes below, and takes them out of the index.
fn apply(layers: &Layers, backs: &[&Back]) -> Result<(), BackendError> {
    let changes = backs.iter().map(|back| match &back.record {
        Some(record) => Change::Put { key: &back.key, record },
        None => Change::Delete { key: &back.key },
    });
    layers.backend.apply(&changes.collect::<Vec<_>>())?;
    let bytes = |back: &&Back| back.key.len() + back.record.as_ref().map_or(0, Vec::len);
    let bytes: usize = backs.iter().map(bytes).sum();
    layers.flushed_keys.fetch_add(backs.len() as u64, Ordering::Relaxed);
    layers.flushed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    for back in backs {
        match back.record {
            Some(_) => layers.index.written_back(back.hash, back.place, back.version),
            // What was touched meanwhile does not lie below.
            None => layers.index.remove_if(back.hash, back.version),
        };
        if let (Some(tell), Some(_)) = (layers.written_back.get(), &back.record) {
            tell(&back.key, back.version);
        }
    }
    if let Some(ring) = &layers.ring {
        ring.written_back(
            backs.iter().map(|back| (back.hash.slice(), &back.key[..], back.version)),
        );
    }
    Ok(())
}

/// What one round has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Keys that were written back or removed below.
    pub keys: u64,
    /// Bytes of their keys and records.
    pub bytes: u64,
    /// Whether segments may be free that were not.
    pub has_freed: bool,
    /// Whether there may be more to write back now.
    pub has_more: bool,
}

/// Writes back what has been durable since `before_ns`: as much as one call of the backend should
/// take, once it `keeps` what came before: what barriers have ended. Returns also why a group rests
/// that is to be written back by the next rounds.
pub(crate) fn flush(
    layers: &Layers,
    (now, before_ns): (Now, u64),
    keeps: impl FnOnce() -> Result<(), BackendError>,
) -> Result<(Flushed, Option<Failure>), BackendError> {
    let mut gathered = Gathered::new(layers, now);
    let (mut gone, mut unread) = (Vec::new(), None);
    // Before anything is gathered: a touch that comes later stands after the end of its course.
    let ends =
        layers.journal.progress().courses().map(|course| (course, layers.journal.end_of(course)));
    let mut ends: Vec<_> = ends.collect();
    // Segments are freed in the order of their numbers.
    ends.sort_by_cached_key(|(course, _)| {
        let first = layers.journal.segment_from(*course, from(layers, *course).segment);
        first.map_or(u32::MAX, |segment| segment.number())
    });
    for (course, end) in ends {
        // What one course has that others write back keeps none of the others waiting.
        gathered.read = 0;
        let spot = gather(layers, course, end, (before_ns, now), &mut gathered);
        let held = gathered.held.take();
        match spot {
            Ok(spot) => gone.push((course, spot, held)),
            // The other courses go on.
            Err(error) => _ = unread.get_or_insert(error),
        }
        gathered.is_cut |= gathered.read >= READ_BYTES_MAX;
        gathered.read = 0;
        if gathered.is_full() {
            break;
        }
    }
    let mut failed = HashSet::new();
    keeps()?;
    let done = gathered.carry_out(layers, &mut failed);
    has_landed(layers, gathered.changes.iter().filter(|back| !failed.contains(&back.hash)));
    if let Some(error) = done? {
        let keys = gathered.changes.len() - failed.len();
        let flushed = Flushed { keys: keys as u64, has_more: true, ..gathered.flushed() };
        return Ok((flushed, Some(error.failure)));
    }
    // What had expired and was touched while it was removed below is gathered again.
    let is_back = |back: &Back| {
        let is_it = |named: Entry| named.kind == Kind::Value && named.place == back.place;
        back.record.is_none() && layers.index.get(back.hash).is_some_and(is_it)
    };
    if gathered.is_partial || gathered.changes.iter().any(is_back) {
        return Ok((Flushed { has_more: true, ..gathered.flushed() }, None));
    }
    let mut held = lock(&layers.held);
    let reached = gone.into_iter().filter_map(|(course, spot, at)| {
        let spot = held.goes_on(course, spot, at)?;
        (spot > layers.journal.progress().reached(course)).then_some((course, spot))
    });
    let reached: Vec<_> = reached.collect();
    drop(held);
    layers.journal.set_reached(&reached);
    let has_freed = !reached.is_empty();
    unread.map_or(Ok((Flushed { has_freed, ..gathered.flushed() }, None)), Err)
}

/// What waits of these keys and is older waits no more: it would be written back over them.
fn has_landed<'a>(layers: &Layers, backs: impl Iterator<Item = &'a Back>) {
    if layers.journal.through().is_none_or(|through| through.count() == 0) {
        return;
    }
    let places: HashMap<_, _> = backs.map(|back| (back.hash, back.place)).collect();
    let is_older = |it: &Waiting| places.get(&it.hash).is_some_and(|place| it.place <= *place);
    for lane in layers.journal.progress().courses().filter_map(Course::lane) {
        layers.journal.landed(lane, is_older);
    }
}

/// Keys of a lane whose changes up to a position lie below now, or what came later.
pub(crate) struct Landed {
    pub(crate) lane: u8,
    pub(crate) up_to: u64,
    pub(crate) keys: HashSet<KeyHash>,
}

/// Writes back at once what replies wait for, as much as one call of the backend should take. What
/// has landed is for the journal to know.
pub(crate) fn flush_through(
    layers: &Layers,
    now: Now,
    keeps: impl FnOnce() -> Result<(), BackendError>,
) -> Result<(Flushed, Vec<Landed>), BackendError> {
    let Some(through) = layers.journal.through() else { return Ok(Default::default()) };
    let (mut gathered, mut landed) = (Gathered::new(layers, now), Vec::new());
    let mut unread = None;
    for course in layers.journal.progress().courses() {
        let Course::Lane(lane) = course else { continue };
        let up_to = layers.journal.durable(lane);
        let mut keys = HashSet::new();
        let mut of_keys: HashMap<KeyHash, Vec<Waiting>> = HashMap::new();
        let waiting = through.up_to(lane.into(), up_to);
        waiting.iter().for_each(|it| of_keys.entry(it.hash).or_default().push(*it));
        // In the order in which they wait.
        for hash in waiting.into_iter().map(|it| it.hash) {
            if gathered.is_full() {
                break;
            }
            let Some(of_key) = of_keys.remove(&hash) else { continue };
            if gathered.resting.contains(&layers.backend.group(hash.slice()).numbers().start) {
                continue;
            }
            match gather_key(layers, (hash, &of_key), now, &mut gathered) {
                Ok(true) => _ = keys.insert(hash),
                Ok(false) => {}
                // The others do not wait for this one.
                Err(error) if error.failure == Failure::Corrupt => unread = Some(error),
                Err(error) => return Err(error),
            }
        }
        landed.push(Landed { lane, up_to, keys });
    }
    let mut failed = HashSet::new();
    keeps()?;
    if let Some(error) = gathered.carry_out(layers, &mut failed).unwrap_or_else(Some) {
        landed.iter_mut().for_each(|it| it.keys.retain(|hash| !failed.contains(hash)));
        unread = Some(error);
    }
    match unread {
        Some(error) if landed.iter().all(|landed| landed.keys.is_empty()) => Err(error),
        _ => Ok((gathered.flushed(), landed)),
    }
}

/// Gathers what a key has that is durable, and of which `waiting` wait, all durable. Returns false
/// where that is not known: it is on its way below later.
fn gather_key(
    layers: &Layers,
    (hash, waiting): (KeyHash, &[Waiting]),
    now: Now,
    gathered: &mut Gathered,
) -> Result<bool, BackendError> {
    for _ in 0..TRIES_MAX {
        let Some(named) = layers.index.get(hash) else { return Ok(true) };
        let place = match named.kind {
            // The value lies below, and any record of a touch will do. The disk may have refused
            // the one that waits.
            Kind::TouchOf if !layers.journal.is_durable(named.place) => {
                waiting.last().map_or(named.place, |last| last.place)
            }
            _ => named.place,
        };
        if !layers.journal.is_durable(place) {
            return gather_waiting(layers, (hash, waiting), now, gathered);
        }
        let Some(bytes) = read(layers, place)? else {
            // It was changed meanwhile, or is not what was written: lookups report that.
            continue;
        };
        if let Ok((effects::Entry::Change { slice, version, effect, .. }, _)) =
            effects::Entry::decode(&bytes)
        {
            let is_indexed = layers.journal.has_indexed(slice);
            let change = (slice, version, &effect);
            gather_change(layers, change, (hash, &named, is_indexed), now, gathered)?;
        }
        return Ok(true);
    }
    let what = format!("a record of a key that waits to be below cannot be read: {hash:?}");
    Err(BackendError { failure: Failure::Corrupt, what })
}

/// Gathers the last durable value of a key that changes so often that the newest never is, with the
/// last touch of it. Returns false where only the newest record says what the key has.
fn gather_waiting(
    layers: &Layers,
    (hash, waiting): (KeyHash, &[Waiting]),
    now: Now,
    gathered: &mut Gathered,
) -> Result<bool, BackendError> {
    let mut touched = None;
    for Waiting { place, .. } in waiting.iter().rev() {
        let Some(bytes) = read(layers, *place)? else { return Ok(false) };
        let Ok((effects::Entry::Change { slice, version: own, effect, .. }, _)) =
            effects::Entry::decode(&bytes)
        else {
            return Ok(false);
        };
        match journaled(&effect.change) {
            Some((None, expiry_s)) => _ = touched.get_or_insert((own, expiry_s)),
            Some((Some(kind), expiry_s)) => {
                let (version, expiry_s) = touched.unwrap_or((own, expiry_s));
                let entry = Entry { place: *place, version, expiry_s, kind };
                let change = (slice, own, &effect);
                gather_change(layers, change, (hash, &entry, false), now, gathered)?;
                return Ok(true);
            }
            None => {}
        }
    }
    Ok(false)
}

/// The entry of the record at `place`; `None` if it is not what was written.
fn read(layers: &Layers, place: Place) -> Result<Option<Vec<u8>>, BackendError> {
    let read = layers.journal.read(place);
    read.map_err(|error| {
        let failure = Failure::Corrupt;
        BackendError { failure, ..unreadable(place.segment, &error) }
    })
}

/// From where on a course is gone through.
fn from(layers: &Layers, course: Course) -> Spot {
    lock(&layers.held).from(course, layers.journal.progress().reached(course))
}

/// Gathers from one course, at most to its `end`. Returns up to where it is gathered.
fn gather(
    layers: &Layers,
    course: Course,
    end: Spot,
    (before_ns, now): (u64, Now),
    gathered: &mut Gathered,
) -> Result<Spot, BackendError> {
    let mut spot = from(layers, course);
    while !gathered.is_full() {
        let Some(segment) = layers.journal.segment_from(course, spot.segment) else { break };
        spot = spot.max(segment.begin());
        if spot.segment > end.segment {
            break;
        }
        let mut limit = segment.durable_since(before_ns);
        if spot.segment == end.segment {
            limit = limit.min(end.offset);
        }
        if spot.offset < limit {
            let of = (course, &segment);
            spot.offset = gather_segment(layers, of, (spot.offset, limit), now, gathered)?;
            if spot.offset < limit {
                break;
            }
        } else if segment.ends_before(spot) {
            let next = layers.journal.segment_from(course, segment.number() + 1);
            let Some(next) = next else { break };
            spot = next.begin();
        } else {
            break;
        }
    }
    Ok(spot)
}

/// Gathers from a part of a segment. Returns up to where.
fn gather_segment(
    layers: &Layers,
    (course, segment): (Course, &Arc<Segment>),
    (from, limit): (u32, u32),
    now: Now,
    gathered: &mut Gathered,
) -> Result<u32, BackendError> {
    let refused = |error: io::Error| unreadable(segment.number(), &error);
    let mut wanted = READ_BYTES;
    let mut at = from;
    while at < limit && !gathered.is_full() {
        let mut bytes = vec![0; wanted.min((limit - at) as usize)];
        segment.file.read_at(at.into(), &mut bytes).map_err(refused)?;
        let mut taken = 0;
        while let Some((head, payload)) = BatchHead::open(segment.seed, &bytes[taken..]) {
            let begin = at + taken as u32;
            if head.kind == BatchKind::Records
                && !gather_batch(layers, (course, segment.number(), begin), payload, now, gathered)?
            {
                return Ok(begin);
            }
            taken += BATCH_HEAD_BYTES + payload.len();
            if gathered.is_full() {
                break;
            }
        }
        let rest = bytes.len() - taken;
        gathered.read += taken;
        at += taken as u32;
        wanted = READ_BYTES;
        if taken == 0 {
            let head = bytes.first_chunk().and_then(|head| BatchHead::length(segment.seed, head));
            match head.filter(|length| *length > rest && *length <= (limit - at) as usize) {
                Some(length) => wanted = length,
                None => {
                    let what = io::Error::new(io::ErrorKind::InvalidData, "no batch where one was");
                    return Err(refused(what));
                }
            }
        }
    }
    Ok(at)
}

/// Returns whether all of it is gathered.
fn gather_batch(
    layers: &Layers,
    (course, segment, begin): (Course, u32, u32),
    payload: &[u8],
    now: Now,
    gathered: &mut Gathered,
) -> Result<bool, BackendError> {
    for record in records(payload) {
        let record = record
            .map_err(|what| unreadable(segment, &io::Error::new(io::ErrorKind::InvalidData, what)));
        let (at, _, entry) = record?;
        let effects::Entry::Change { slice, version, effect, .. } = entry else { continue };
        if gives_up(&effect.change) {
            continue;
        }
        let hash = layers.hasher.hash(slice, effect.key);
        let offset = begin + BATCH_HEAD_BYTES as u32 + at;
        // Before the index is asked: a touch that it does not know yet may have raised the expiry.
        let is_indexed = layers.journal.has_indexed(slice);
        let Some(named) = layers.index.get(hash) else { continue };
        let is_named = match named.kind {
            // The place may be that of the value, which lies below, or of a touch that was moved.
            Kind::TouchOf => named.version == version && Stored::of(&effect, version).is_none(),
            _ => (named.place.segment, named.place.offset) == (segment, offset),
        };
        if !is_named {
            // Once its value is below, it is to be found here: the value may lie in another course.
            let is_touch = named.version == version && Stored::of(&effect, version).is_none();
            if is_touch && !has(layers, course, named.place.segment) {
                gathered.hold((segment, begin), hash, &named);
            }
            continue;
        }
        if named.version <= layers.journal.barrier(slice) {
            layers.index.remove_if(hash, named.version);
            continue;
        }
        let group = layers.backend.group(slice);
        let first = group.numbers().start;
        // Another cell writes it back, and may itself wait for what lies after it here.
        if !layers.leads(slice) {
            if named.kind == Kind::Value && layers.index.is_below(hash, named.place, version) {
                continue;
            }
            if !group.is_empty() && gathered.resting.insert(first) {
                lock(&layers.held).hold(first, ELSEWHERE_NS, None);
            }
        }
        if gathered.resting.contains(&first) {
            gathered.hold((segment, begin), hash, &named);
            continue;
        }
        let Some(settled) = settled(layers, (slice, version), &effect, &named) else {
            // What comes after it waits, too: a course is gone through in order.
            return Ok(false);
        };
        gathered.is_partial |= settled.version < named.version;
        let named = settled;
        if !group.is_empty() && !gathered.groups.contains(&first) {
            if gathered.places.contains_key(&hash) {
                continue;
            }
            // What replies wait for is written back between two groups.
            gathered.is_whole |= !gathered.changes.is_empty();
            if gathered.is_full() {
                return Ok(false);
            }
            gather_group(layers, (group, segment), now, gathered)?;
            if gathered.places.contains_key(&hash) {
                continue;
            }
        }
        let change = (slice, version, &effect);
        match gather_change(layers, change, (hash, &named, is_indexed), now, gathered) {
            Err(error) if error.failure == Failure::Corrupt && !group.is_empty() => {
                lock(&layers.held).hold(first, LOST_NS, Some(error.to_string()));
                gathered.resting.insert(first);
                gathered.hold((segment, begin), hash, &named);
            }
            done => done?,
        }
    }
    Ok(true)
}

/// Whether a segment is one of a course. In a cell alone nothing depends on that: what is written
/// back of a value has all touches that its course was gone through with.
fn has(layers: &Layers, course: Course, segment: u32) -> bool {
    let found = || layers.journal.segment_from(course, segment);
    layers.ring.is_none() || found().is_some_and(|found| found.number() == segment)
}

/// What may be written back now of a key that the index has as `named`: that, or where only what
/// has touched it since could still be lost, what its record has; `None`: nothing.
fn settled(
    layers: &Layers,
    (slice, version): (SliceId, Version),
    effect: &Effect<'_>,
    named: &Entry,
) -> Option<Entry> {
    if layers.may_write_back(slice, named.version) {
        return Some(*named);
    }
    let (_, expiry_s) = journaled(&effect.change)?;
    let is_touched = named.kind == Kind::Value && version < named.version;
    let may_go = is_touched && layers.may_write_back(slice, version);
    may_go.then_some(Entry { version, expiry_s, ..*named })
}

/// Gathers what is dirty of a group of slices and durable, in the order of the slices: what is
/// written together with a record in `segment`.
fn gather_group(
    layers: &Layers,
    (group, segment): (SliceRange, u32),
    now: Now,
    gathered: &mut Gathered,
) -> Result<(), BackendError> {
    let mut found = Vec::new();
    let near = segment.saturating_add((layers.journal.segments_max() / NEAR_PART) as u32);
    let goes_with = |it: &Entry| {
        it.place.segment < near || !layers.backend.is_written_alone(it.place.bytes as usize)
    };
    layers.index.for_each(|hash, entry| {
        if group.contains(hash.slice()) && found.len() < GROUP_MAX && goes_with(entry) {
            found.push(hash);
        }
    });
    found.sort_by_key(|hash| hash.slice());
    for hash in found {
        if gathered.is_full() {
            break;
        }
        if gathered.places.contains_key(&hash) {
            continue;
        }
        // Before the index is asked again, as for what is read in order.
        let is_indexed = layers.journal.has_indexed(hash.slice());
        let may_go = |it: &Entry| {
            layers.journal.is_durable(it.place) && layers.may_write_back(hash.slice(), it.version)
        };
        let Some(named) = layers.index.get(hash).filter(may_go) else { continue };
        if named.version <= layers.journal.barrier(hash.slice()) {
            layers.index.remove_if(hash, named.version);
            continue;
        }
        gathered.read += named.place.bytes as usize;
        // What cannot be read is reported when its own turn comes.
        let Ok(Some(bytes)) = read(layers, named.place) else { continue };
        if let Ok((effects::Entry::Change { slice, version, effect, .. }, _)) =
            effects::Entry::decode(&bytes)
        {
            let change = (slice, version, &effect);
            // What cannot be read below neither.
            let gathers = gather_change(layers, change, (hash, &named, is_indexed), now, gathered);
            gathers.or_else(|error| match error.failure {
                Failure::Corrupt => Ok(()),
                _ => Err(error),
            })?;
        }
    }
    if !gathered.is_full() {
        gathered.groups.insert(group.numbers().start);
    }
    Ok(())
}

/// Gathers a change that the index names. Fails where it is a touch, and what lies below cannot be
/// read.
fn gather_change(
    layers: &Layers,
    (slice, version, effect): (SliceId, Version, &Effect<'_>),
    (hash, named, is_indexed): (KeyHash, &Entry, bool),
    now: Now,
    gathered: &mut Gathered,
) -> Result<(), BackendError> {
    if named.version <= layers.journal.barrier(slice) {
        layers.index.remove_if(hash, named.version);
        return Ok(());
    }
    let is_removed = named.kind == Kind::Tombstone || (is_indexed && has_expired(named, now));
    let record = if is_removed { None } else { record_of(layers, (effect, version), named)? };
    let (key, Entry { place, version, .. }) = (effect.key.to_vec(), *named);
    gathered.push(Back { hash, key, record, place, version });
    Ok(())
}

/// Whether a key is to be removed below because its item has expired: an older value there would
/// come back. An item that has just expired is written back instead, with its expiry: a request
/// that began before that may touch it.
fn has_expired(named: &Entry, now: Now) -> bool {
    named.expiry_s != 0 && named.expiry_s < now.expiry_s
}

/// What a key that was not removed is to have below; `None` if it has nothing there that a touch
/// could change.
fn record_of(
    layers: &Layers,
    (effect, version): (&Effect<'_>, Version),
    named: &Entry,
) -> Result<Option<Vec<u8>>, BackendError> {
    let stored = match Stored::of(effect, version) {
        // The record may be that of a value which was given up.
        Some(stored) if named.kind == Kind::Value => Some(stored),
        _ => layers.below(effect.key)?,
    };
    Ok(stored.map(|stored| stored.touched(named.version, named.expiry_s).encode(effect.key)))
}
