//! The segments of a journal: files of one length that are used again and again.
//!
//! ```text
//! not made -> free --prepare--> ready --take--> live: open -> closed --free_before--> free
//!                     (head durable)
//! ```
//!
//! Invariants: each segment has a number of its own, which rises in the order in which segments
//! are prepared, and is durable before the next one is given out. Live segments are freed by
//! rising number.

use super::ages::Ages;
use super::format::{JournalId, RECORD_BYTES, SEGMENT_HEAD_BYTES, Seed, SegmentHead, Spot};
use crate::disk::{Disk, File};
use crate::index::Place;
use crate::sync::{Mutex, RwLock, lock, read, write};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Bytes written at once while a file is filled with zeros.
const ZEROS_BYTES: usize = 1 << 20;

/// One segment that is in use.
pub(crate) struct Segment {
    pub(crate) head: SegmentHead,
    pub(crate) seed: Seed,
    pub(crate) file: Arc<dyn File>,
    name: String,
    /// The end of what is written.
    pub(crate) written: AtomicU32,
    /// The end of what is durable.
    pub(crate) durable: AtomicU32,
    /// Whether nothing more is written into it.
    pub(crate) is_closed: AtomicBool,
    /// Whether the disk has refused it: its file is not used again.
    is_spoiled: AtomicBool,
    /// The lane that writes it. None writes one of an earlier start.
    lane: Option<u8>,
    ages: Mutex<Ages>,
}

impl Segment {
    fn new(head: SegmentHead, name: String, file: Arc<dyn File>) -> Self {
        let start = SEGMENT_HEAD_BYTES as u32;
        Self {
            seed: head.seed(),
            head,
            file,
            name,
            written: AtomicU32::new(start),
            durable: AtomicU32::new(start),
            is_closed: AtomicBool::new(false),
            is_spoiled: AtomicBool::new(false),
            lane: None,
            ages: Mutex::default(),
        }
    }

    /// A segment of an earlier start, of which everything up to `end` counts.
    pub(crate) fn found(head: SegmentHead, name: String, file: Arc<dyn File>, end: u32) -> Self {
        let segment = Self::new(head, name, file);
        segment.written.store(end, Ordering::Relaxed);
        segment.durable.store(end, Ordering::Relaxed);
        segment.is_closed.store(true, Ordering::Relaxed);
        segment
    }

    pub(crate) fn number(&self) -> u32 {
        self.head.number
    }

    /// Its file, with its name.
    pub(crate) fn into_file(self) -> (String, Arc<dyn File>) {
        (self.name, self.file)
    }

    /// The entry of the record at `place`, which is in this segment. `None` if it is not what was
    /// written.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn record(&self, place: Place) -> io::Result<Option<Vec<u8>>> {
        let mut record = vec![0; place.bytes as usize];
        self.file.read_at(place.offset.into(), &mut record)?;
        let (crc, entry) = record.split_at(RECORD_BYTES);
        let is_right = self.seed.crc(entry).to_le_bytes() == crc;
        Ok(is_right.then(|| record.split_off(RECORD_BYTES)))
    }

    /// Whether its file begins with its head.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn has_head(&self) -> io::Result<bool> {
        let mut head = [0; SEGMENT_HEAD_BYTES];
        self.file.read_at(0, &mut head)?;
        Ok(SegmentHead::decode(&head).is_some_and(|head| head.used() == self.head.used()))
    }

    /// Where its batches begin.
    pub(crate) fn begin(&self) -> Spot {
        Spot { segment: self.number(), offset: SEGMENT_HEAD_BYTES as u32 }
    }

    /// Whether nothing more is written into it, and all that is written lies before `spot`.
    pub(crate) fn ends_before(&self, spot: Spot) -> bool {
        let is_closed = self.is_closed.load(Ordering::Acquire);
        let offset = self.written.load(Ordering::Acquire);
        is_closed && Spot { segment: self.number(), offset } <= spot
    }

    /// Everything up to `end` is durable, since `now_ns` or before.
    pub(crate) fn set_durable(&self, end: u32, now_ns: u64) {
        self.durable.fetch_max(end, Ordering::AcqRel);
        lock(&self.ages).note(end, now_ns);
    }

    /// The end of what has been durable since `before_ns`; all, in a segment of an earlier start.
    pub(crate) fn durable_since(&self, before_ns: u64) -> u32 {
        let since = lock(&self.ages).since(before_ns);
        since.unwrap_or_else(|| self.durable.load(Ordering::Acquire))
    }
}

/// How segments are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentsConfig {
    pub(crate) journal: JournalId,
    /// The number of this start.
    pub(crate) start: u32,
    /// Bytes of a segment.
    pub(crate) bytes: u32,
    /// Bytes of the longest batch of changes: of each segment the end may stay empty for one.
    pub(crate) batch: u32,
    /// Most segments.
    pub(crate) count_max: usize,
    /// Those that are kept ready.
    pub(crate) ready: usize,
    /// Those that only a lane takes whose segment keeps the oldest place. They are files, so that
    /// the journal is emptied also where the disk has no space for more.
    pub(crate) reserve: usize,
    /// Those besides that are not granted: for what takes no room.
    pub(crate) kept: usize,
}

struct Table {
    ready: VecDeque<Segment>,
    /// Used again in the order in which they became free: until a batch says which segments are
    /// free, a start finds those that are left of them, and no gap.
    free: VecDeque<(String, Arc<dyn File>)>,
    /// What an earlier start has made ready and not used: used again in their order, or not at all.
    unused: VecDeque<Segment>,
    /// Free files that are not as long as a segment: whether the disk has space for the rest is not
    /// known.
    short: VecDeque<(String, Arc<dyn File>)>,
    /// Freed, and refused by the disk: no file is used again, and each is removed once a head says
    /// durably that its segment is free.
    refused: Vec<(String, u32)>,
    /// What an earlier start has left that is of no use once this one has its END.
    retired: Vec<(String, Arc<dyn File>)>,
    /// Files there are.
    files: usize,
    /// The first number of this start.
    first: u32,
    next_number: u32,
    next_name: u32,
    /// The number of this start: one more each time that the journal began again.
    start: u32,
    follows_end: bool,
    /// Why no file of the length of a segment could be had, when that was tried last.
    refusal: Option<String>,
}

impl Table {
    /// Files that are not live and have the length of a segment.
    fn made(&self) -> usize {
        self.ready.len() + self.free.len() + self.unused.len()
    }

    /// Files may be used again for segments of `bytes`.
    fn put_free(&mut self, name: String, file: Arc<dyn File>, bytes: u32) {
        match is_whole(&*file, bytes) {
            true => self.free.push_back((name, file)),
            false => self.short.push_back((name, file)),
        }
    }
}

pub(crate) struct Segments {
    disk: Arc<dyn Disk>,
    config: SegmentsConfig,
    table: Mutex<Table>,
    /// Segments with lower numbers are free.
    oldest: AtomicU32,
    /// How many were freed.
    freed: AtomicU64,
    live: RwLock<BTreeMap<u32, Arc<Segment>>>,
}

/// What an earlier start has left.
pub(crate) struct Left {
    /// What counts.
    pub(crate) live: Vec<Segment>,
    /// What was made ready and not used, in the order in which it may be used again.
    pub(crate) unused: Vec<Segment>,
    /// Files that may be used again.
    pub(crate) free: Vec<(String, Arc<dyn File>)>,
    /// Files that may be used again once the next start has its END, and not before.
    pub(crate) retired: Vec<(String, Arc<dyn File>)>,
    /// Above the number of any segment.
    pub(crate) next_number: u32,
    /// Segments with lower numbers are free.
    pub(crate) oldest: u32,
}

impl Segments {
    pub(crate) fn new(disk: Arc<dyn Disk>, config: SegmentsConfig, left: Left) -> Self {
        let Left { mut live, unused, free, retired, next_number, oldest } = left;
        let number = |name: &str| name.strip_prefix(NAME).and_then(|number| number.parse().ok());
        let of_segments = live.iter().chain(&unused).map(|it| &it.name);
        let names = of_segments.chain(free.iter().chain(&retired).map(|(name, _)| name));
        let next_name = names.filter_map(|name| number(name)).max().map_or(0, |last: u32| last + 1);
        let files = live.len() + unused.len() + free.len() + retired.len();
        let mut unused = VecDeque::from(unused);
        if !unused.iter().all(|it| is_whole(&*it.file, config.bytes)) {
            // Where the disk has no space for the rest of one, those after it must stay, too.
            live.extend(unused.drain(..));
        }
        let live = live.into_iter().map(|it| (it.number(), Arc::new(it))).collect();
        let (free, short): (VecDeque<_>, _) =
            free.into_iter().partition(|(_, file)| is_whole(&**file, config.bytes));
        let ready = VecDeque::new();
        let (follows_end, refusal) = (false, None);
        let (start, first, refused) = (config.start, next_number, Vec::new());
        let table = Table {
            ready,
            free,
            unused,
            short,
            refused,
            retired,
            files,
            first,
            next_number,
            next_name,
            start,
            follows_end,
            refusal,
        };
        let oldest = AtomicU32::new(oldest);
        let (table, freed, live) = (Mutex::new(table), AtomicU64::new(0), RwLock::new(live));
        Self { disk, config, table, oldest, freed, live }
    }

    pub(crate) fn config(&self) -> &SegmentsConfig {
        &self.config
    }

    /// What this start has found is complete on the disk. Segments say so from now on, also those
    /// that are ready.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn has_ended(&self) -> io::Result<()> {
        lock(&self.table).follows_end = true;
        self.write_heads()?;
        let mut table = lock(&self.table);
        for (name, file) in std::mem::take(&mut table.retired) {
            table.put_free(name, file, self.config.bytes);
        }
        Ok(())
    }

    /// The END that is written next says that all is free which it is to retire.
    pub(crate) fn retire(&self) {
        let table = lock(&self.table);
        if !table.retired.is_empty() {
            self.oldest.fetch_max(table.first, Ordering::AcqRel);
        }
    }

    /// Segments are those of another start from now on, also those that are ready. Returns its
    /// number.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn begin_again(&self) -> io::Result<u32> {
        let mut table = lock(&self.table);
        table.start += 1;
        table.follows_end = false;
        table.first = table.ready.front().map_or(table.next_number, Segment::number);
        let start = table.start;
        drop(table);
        self.write_heads().map(|()| start)
    }

    /// Writes the heads of all that are ready once more; none is ready meanwhile. The last one
    /// first: at any moment those that are left of a start have no gap.
    fn write_heads(&self) -> io::Result<()> {
        let mut table = lock(&self.table);
        let (start, first, follows_end) = (table.start, table.first, table.follows_end);
        let mut ready = std::mem::take(&mut table.ready);
        drop(table);
        for segment in ready.iter_mut().rev() {
            let head = SegmentHead { start, first, follows_end, ..segment.head };
            segment.file.write_at(0, &head.encode())?;
            segment.file.sync()?;
            *segment = Segment::new(head, segment.name.clone(), segment.file.clone());
        }
        lock(&self.table).ready = ready;
        Ok(())
    }

    /// Closes the segments of `lane`: what is not durable of them is void, and their files are not
    /// written to any more. Returns the end of what counts; `None` if the lane has none.
    pub(crate) fn void(&self, lane: u8) -> Option<Spot> {
        let live = read(&self.live);
        let mut end = None;
        let mut is_void = false;
        for segment in live.values().filter(|it| it.lane == Some(lane)) {
            let durable = segment.durable.load(Ordering::Acquire);
            if !is_void {
                end = Some(Spot { segment: segment.number(), offset: durable });
            }
            if is_void || durable < segment.written.load(Ordering::Acquire) {
                is_void = true;
                segment.is_spoiled.store(true, Ordering::Release);
                let kept = if end.is_some_and(|it| it.segment == segment.number()) {
                    durable
                } else {
                    SEGMENT_HEAD_BYTES as u32
                };
                segment.written.store(kept, Ordering::Release);
                segment.durable.store(kept, Ordering::Release);
            }
            segment.is_closed.store(true, Ordering::Release);
        }
        end
    }

    /// Whether a place of `lane` is void.
    pub(crate) fn is_void(&self, lane: u8, place: Place) -> bool {
        read(&self.live).get(&place.segment).is_some_and(|it| {
            it.lane == Some(lane)
                && it.is_spoiled.load(Ordering::Acquire)
                && place.offset >= it.written.load(Ordering::Acquire)
        })
    }

    /// Makes segments ready until `ready` are, as far as there is room. It writes and waits for the
    /// disk, so it is not called where requests wait. Returns whether enough are ready.
    ///
    /// # Errors
    /// When a head cannot be written: the journal must begin again after that.
    pub(crate) fn prepare(&self, ready: usize) -> io::Result<bool> {
        self.prepare_in(self.config.count_max, ready)
    }

    /// The same with files that have the length of a segment alone: it needs no space of the disk.
    ///
    /// # Errors
    /// When a head cannot be written: the journal must begin again after that.
    pub(crate) fn prepare_made(&self, ready: usize) -> io::Result<bool> {
        self.prepare_in(0, ready)
    }

    /// The same for what must be written once more, and so beyond the length of the journal where
    /// that is needed.
    ///
    /// # Errors
    /// When the disk refuses, or has no space.
    pub(crate) fn prepare_beyond(&self, ready: usize) -> io::Result<()> {
        if self.prepare_in(usize::MAX, ready)? {
            return Ok(());
        }
        let why = self.refusal().unwrap_or_default();
        let what = format!("there is no space for what must be written once more: {why}");
        Err(io::Error::new(io::ErrorKind::StorageFull, what))
    }

    fn prepare_in(&self, count_max: usize, ready: usize) -> io::Result<bool> {
        loop {
            let mut table = lock(&self.table);
            if table.ready.len() >= ready {
                return Ok(true);
            }
            // Where no file is to be made, none gets the rest of its length.
            let unused = match table.free.is_empty() {
                true => table.unused.pop_front(),
                false => None,
            };
            let is_whole = unused.is_some();
            let reused = match unused.map(Segment::into_file).or_else(|| table.free.pop_front()) {
                None if count_max > 0 => table.short.pop_front(),
                reused => reused,
            };
            if reused.is_none() && table.files >= count_max {
                return Ok(false);
            }
            let (head, name) = (self.next_head(&table), table.next_name);
            drop(table);
            let is_new = reused.is_none();
            let (name, made) = match &reused {
                Some((name, file)) => (name.clone(), Ok(file.clone())),
                None => (name_of(name), self.disk.open(&name_of(name))),
            };
            let filled = made.and_then(|file| match is_whole {
                true => Ok(file),
                false => self.fill(&*file).map(|()| file),
            });
            let file = match filled {
                Ok(file) => file,
                Err(error) => {
                    self.refuse(reused, &name, &error);
                    return Ok(false);
                }
            };
            let wrote = file.write_at(0, &head.encode()).and_then(|()| file.sync());
            let wrote = wrote.and_then(|()| match is_new {
                true => self.disk.sync_directory(),
                false => Ok(()),
            });
            let mut table = lock(&self.table);
            table.files += usize::from(is_new);
            table.next_name += u32::from(is_new);
            if let Err(error) = wrote {
                // The number may stand on the disk: only another start may give it out again.
                table.refused.push((name, head.number));
                if is_whole {
                    // It may still be the last of its start: those before it must stay.
                    let unused = std::mem::take(&mut table.unused);
                    table.refused.extend(unused.into_iter().map(|it| (it.name, it.head.number)));
                }
                return Err(error);
            }
            table.next_number += 1;
            table.refusal = None;
            table.ready.push_back(Segment::new(head, name, file));
            drop(table);
            self.remove_refused(head.oldest);
        }
    }

    /// The head of the segment that is made ready next.
    fn next_head(&self, table: &Table) -> SegmentHead {
        let SegmentsConfig { journal, bytes, .. } = self.config;
        SegmentHead {
            journal,
            start: table.start,
            first: table.first,
            number: table.next_number,
            bytes,
            follows_end: table.follows_end,
            oldest: self.oldest.load(Ordering::Acquire),
            is_unused: true,
        }
    }

    /// Removes the files of segments that the disk has refused, which are free on the disk too.
    fn remove_refused(&self, oldest: u32) {
        let mut table = lock(&self.table);
        let (free, kept) = std::mem::take(&mut table.refused)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, number)| *number < oldest);
        table.refused = kept;
        table.files -= free.len();
        drop(table);
        // One that stays is used again by the next start.
        free.iter().for_each(|(name, _)| _ = self.disk.remove(name));
    }

    /// Fills a file with zeros, up to the length of a segment: to append to one that is shorter
    /// would make each sync write its length too. The length is durable before a head says that the
    /// file is so long. Where that is refused, the file is as long as before.
    fn fill(&self, file: &dyn File) -> io::Result<()> {
        let begin = file.bytes()?;
        let filled = self.fill_from(file, begin);
        if filled.is_err() && begin < u64::from(self.config.bytes) {
            let _ = file.set_bytes(begin);
        }
        filled
    }

    fn fill_from(&self, file: &dyn File, mut at: u64) -> io::Result<()> {
        let end = u64::from(self.config.bytes);
        let zeros = vec![0; ZEROS_BYTES.min(end.saturating_sub(at) as usize)];
        while at < end {
            let left = (end - at).min(zeros.len() as u64) as usize;
            file.write_at(at, &zeros[..left])?;
            at += left as u64;
        }
        file.sync()
    }

    /// No file could be had: it is tried again later. What there is of a new one is removed.
    fn refuse(&self, reused: Option<(String, Arc<dyn File>)>, name: &str, error: &io::Error) {
        if reused.is_none() {
            let _ = self.disk.remove(name);
        }
        let mut table = lock(&self.table);
        match reused {
            Some((name, file)) if is_whole(&*file, self.config.bytes) => {
                table.free.push_front((name, file));
            }
            reused => table.short.extend(reused),
        }
        table.refusal = Some(format!("{name}: {error}"));
    }

    /// Why no file of the length of a segment could be had.
    pub(crate) fn refusal(&self) -> Option<String> {
        lock(&self.table).refusal.clone()
    }

    /// The next segment for `lane` to write into. `None` if none is ready, or only the reserve is
    /// made and it is not taken `from_reserve`.
    pub(crate) fn take(&self, lane: u8, from_reserve: bool) -> Option<Arc<Segment>> {
        let mut table = lock(&self.table);
        if !from_reserve && table.made() <= self.config.reserve {
            return None;
        }
        let ready = table.ready.pop_front()?;
        let (head, name, file) = (ready.head, ready.name.clone(), ready.file.clone());
        let segment = Arc::new(Segment { lane: Some(lane), ..Segment::new(head, name, file) });
        write(&self.live).insert(segment.number(), segment.clone());
        Some(segment)
    }

    /// Segments that are ready.
    pub(crate) fn ready(&self) -> usize {
        lock(&self.table).ready.len()
    }

    /// Segments that are made and may be taken without the reserve: for these the disk has space.
    pub(crate) fn available(&self) -> usize {
        lock(&self.table).made().saturating_sub(self.config.reserve)
    }

    /// Those, and what may still be made. What the disk has no space for is none.
    pub(crate) fn left(&self) -> usize {
        let table = lock(&self.table);
        let more = match &table.refusal {
            None => self.config.count_max.saturating_sub(table.files),
            Some(_) => 0,
        };
        (table.made() + more).saturating_sub(self.config.reserve)
    }

    /// The live segment of this number.
    pub(crate) fn get(&self, number: u32) -> Option<Arc<Segment>> {
        read(&self.live).get(&number).cloned()
    }

    /// The first live segment that `lane` writes, or those of an earlier start, with this number or
    /// a higher one.
    pub(crate) fn first_of(&self, lane: Option<u8>, number: u32) -> Option<Arc<Segment>> {
        let live = read(&self.live);
        let mut live = live.range(number..).map(|(_, segment)| segment);
        live.find(|segment| segment.lane == lane).cloned()
    }

    /// The number of the first live segment that is not `done`, if it is below `number`, else that.
    pub(crate) fn first_undone(
        &self,
        number: u32,
        done: impl Fn(&Segment, Option<u8>) -> bool,
    ) -> u32 {
        let live = read(&self.live);
        let mut before = live.range(..number).map(|(_, segment)| segment);
        before.find(|it| !done(it, it.lane)).map_or(number, |it| it.number())
    }

    /// Whether a live segment after `number` is `done`.
    pub(crate) fn is_any_done_after(
        &self,
        number: u32,
        done: impl Fn(&Segment, Option<u8>) -> bool,
    ) -> bool {
        let live = read(&self.live);
        let mut after = live.range(number.saturating_add(1)..).map(|(_, segment)| segment);
        after.any(|it| done(it, it.lane))
    }

    /// Segments with lower numbers are free.
    pub(crate) fn oldest(&self) -> u32 {
        self.oldest.load(Ordering::Acquire)
    }

    /// The end of what is durable in the last live segment that `lane` writes, or of those of an
    /// earlier start.
    pub(crate) fn end_of(&self, lane: Option<u8>) -> Spot {
        let live = read(&self.live);
        let last = live.values().rev().find(|segment| segment.lane == lane);
        last.map_or(Spot::default(), |segment| {
            let offset = segment.durable.load(Ordering::Acquire);
            Spot { segment: segment.number(), offset }
        })
    }

    /// Makes durable all that live segments hold.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn sync_live(&self) -> io::Result<()> {
        let live: Vec<_> = read(&self.live).values().cloned().collect();
        live.into_iter().try_for_each(|segment| segment.file.sync())
    }

    /// Live segments.
    pub(crate) fn live(&self) -> usize {
        read(&self.live).len()
    }

    /// Segments that were freed since this start began.
    pub(crate) fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }

    /// Bytes of live segments.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live() as u64 * u64::from(self.config.bytes)
    }

    /// Frees the live segments before `number`: their files may be used again.
    pub(crate) fn free_before(&self, number: u32) {
        self.oldest.fetch_max(number, Ordering::AcqRel);
        let mut live = write(&self.live);
        let kept = live.split_off(&number);
        let freed = std::mem::replace(&mut *live, kept);
        drop(live);
        self.freed.fetch_add(freed.len() as u64, Ordering::Relaxed);
        let mut table = lock(&self.table);
        for (number, segment) in freed {
            match segment.is_spoiled.load(Ordering::Acquire) {
                true => table.refused.push((segment.name.clone(), number)),
                false => {
                    let (name, file) = (segment.name.clone(), segment.file.clone());
                    table.put_free(name, file, self.config.bytes);
                }
            }
        }
    }
}

/// Whether a file has the length of a segment.
fn is_whole(file: &dyn File, bytes: u32) -> bool {
    file.bytes().is_ok_and(|there| there >= u64::from(bytes))
}

/// What the names of segments begin with.
const NAME: &str = "segment-";

/// The name of the file of this number; that of the segment in it is another one.
fn name_of(number: u32) -> String {
    format!("{NAME}{number:05}")
}

/// The first file of a segment that is not there, though one of these, a later one, is.
pub(super) fn absent_file<'a>(names: impl Iterator<Item = &'a String>) -> Option<String> {
    let names: Vec<_> = names.collect();
    let last = names.iter().max()?;
    let all = (0..).map(name_of).take_while(|name| name <= *last);
    all.into_iter().find(|name| !names.contains(&name))
}

/// Whether a file is a segment.
pub(crate) fn is_segment(name: &str) -> bool {
    name.starts_with(NAME)
}
