//! Random calls of everything that the logs offer, compared with plain lists. The same runs are
//! made from a seed by the test and from any bytes by the fuzz target.

use base::{
    Change, Effect, EffectSink, Facts, KeyId, MemoryBudget, Refused, Removal, SliceId, SliceRange,
    Space, Value, Version,
};
use effects::{
    Batch, Entry, FellOut, Joining, LOG_BYTES_MIN, LaneId, Lanes, LanesConfig, Level, Log, Mark,
    Part, ReaderId, Records, TAG_BYTES, Unfollowed, Who, WorkerSink,
};
use std::sync::Arc;

/// Where choices come from: a number below a bound, or nothing more.
pub trait Dice {
    fn below(&mut self, bound: u64) -> Option<u64>;
}

const KEYS: usize = 6;
const MARKS: [Mark; 3] = [Mark::Written, Mark::Durable, Mark::Acknowledged];
const LEVELS: u64 = 3;

/// What a log should hold at one position.
struct Expected {
    bytes: Vec<u8>,
    /// The slot of the one reader that it is for.
    reader: Option<u8>,
    /// The change: its key and its version.
    change: Option<(usize, u64)>,
    spends: bool,
}

impl Expected {
    /// Whether it spends room of the reader in `slot`.
    fn spends_of(&self, slot: u8) -> bool {
        self.spends && self.reader.is_none_or(|reader| reader == slot)
    }
}

/// What is known of a reader.
struct Reader {
    id: ReaderId,
    holds: Option<usize>,
    marks: [u64; 3],
    from: u64,
    joined: u64,
    granted: Option<u64>,
    has_fallen: bool,
}

/// What is known of a log.
struct Model {
    /// The position of the first of `entries`.
    first: u64,
    entries: Vec<Expected>,
    readers: Vec<Reader>,
    levels: [Vec<(ReaderId, usize)>; LEVELS as usize],
    /// What each level had passed when its marks changed.
    floors: [u64; LEVELS as usize],
    part: Part,
}

impl Model {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64 - 1
    }

    fn passed(&self, level: usize) -> u64 {
        let mark = |(id, mark): &(ReaderId, usize)| {
            let reader = self.readers.iter().find(|reader| reader.id == *id);
            reader.expect("it has not left").marks[*mark]
        };
        self.levels[level].iter().map(mark).min().unwrap_or(u64::MAX).max(self.floors[level])
    }

    /// What entries have spent of the room of a reader since it joined, without what each is
    /// charged besides its bytes.
    fn spent_of(&self, reader: &Reader) -> u64 {
        let since = (reader.joined + 1 - self.first) as usize;
        let spends = |entry: &&Expected| entry.spends_of(reader.id.slot());
        let spent = self.entries[since..].iter().filter(spends);
        spent.map(|entry| entry.bytes.len() as u64).sum()
    }

    /// Where the last entry stands that is seen in a slice, or where one version of it stands.
    fn position(&self, key: usize, version: Option<u64>) -> u64 {
        let is_it = |entry: &Expected| match version {
            Some(version) => entry.change == Some((key, version)),
            None => entry.change.is_some_and(|(other, _)| other == key),
        };
        self.entries.iter().rposition(is_it).map_or(0, |at| self.first + at as u64)
    }
}

/// The logs, one sink, and what they should hold.
pub struct Machine {
    lanes: Arc<Lanes>,
    sink: WorkerSink,
    models: Vec<Model>,
    keys: [([u8; 5], SliceId); KEYS],
    versions: [u64; KEYS],
    batch: Batch,
    /// How often entries were read, changes refused for lack of space, and readers fell out.
    pub counts: [u64; 3],
}

impl Machine {
    pub fn new(lanes: usize, scale: u64, batch_bytes: usize) -> Self {
        let bytes = 16_384 * 17 + lanes as u64 * LOG_BYTES_MIN * scale;
        let config = LanesConfig { lanes, sinks: 1, bytes, value_bytes_max: 0, follows: false };
        let lanes = Lanes::new(&config, &MemoryBudget::new(32 * bytes)).expect("enough memory");
        let model = |_| Model {
            first: 1,
            entries: Vec::new(),
            readers: Vec::new(),
            levels: Default::default(),
            floors: [0; LEVELS as usize],
            part: Part::Leads,
        };
        let key = |number: usize| {
            let key = [b'k', b'e', b'y', b'-', b'0' + number as u8];
            (key, SliceId::of(&key))
        };
        Self {
            sink: WorkerSink::new(lanes.clone()),
            models: lanes.logs().map(model).collect(),
            lanes,
            keys: std::array::from_fn(key),
            versions: [0; KEYS],
            batch: Batch::new(batch_bytes),
            counts: [0; 3],
        }
    }

    /// Makes one random call and checks all that should be true after it. `None` at the end of the
    /// dice.
    pub fn step(&mut self, dice: &mut impl Dice) -> Option<()> {
        match dice.below(32)? {
            0..10 => self.change(dice)?,
            10 => self.barrier(dice)?,
            11 => self.other(dice)?,
            12 => self.emit(dice)?,
            13 => self.reserve(dice)?,
            14..16 => self.sink.end_batch(),
            16..18 => self.join(dice)?,
            18 => self.leave(dice)?,
            19..23 => self.pass(dice)?,
            23 => self.grant(dice)?,
            24..26 => self.read(dice)?,
            26 => self.set_level(dice)?,
            27..29 => self.wait(dice)?,
            29 => self.versions[dice.below(KEYS as u64)? as usize] += dice.below(3)?,
            30 => self.change_part(dice)?,
            _ => self.move_slice(dice)?,
        }
        if self.models.iter().any(|model| model.part == Part::Follows) {
            self.follow(dice)?;
        }
        self.check();
        Some(())
    }

    fn log(&self, lane: usize) -> &Log {
        self.lanes.logs().nth(lane).expect("a lane").1
    }

    fn lane(&self, dice: &mut impl Dice) -> Option<usize> {
        Some(dice.below(self.models.len() as u64)? as usize)
    }

    fn lane_of(&self, key: usize) -> usize {
        self.lanes.lane_of(self.keys[key].1).index()
    }

    /// A value of any length: none, short, about what a block takes, about what a log takes.
    fn value(&self, dice: &mut impl Dice) -> Option<Vec<u8>> {
        let longest = self.lanes.value_bytes_max();
        let length = match dice.below(8)? {
            0 => 0,
            1..6 => dice.below(300)?,
            6 => dice.below(9_000)?,
            _ => dice.below(longest + longest / 2)?,
        };
        Some(vec![length as u8; length as usize])
    }

    fn facts(dice: &mut impl Dice) -> Option<Facts> {
        let bits = dice.below(1 << 20)? as u32;
        Some(Facts {
            client_flags: bits >> 4,
            expiry_s: bits >> 8,
            token: (bits & 1 != 0).then_some(bits.into()),
            stale: bits & 2 != 0,
            token_sent: bits & 4 != 0,
            vivified: bits & 8 != 0,
        })
    }

    fn change(&mut self, dice: &mut impl Dice) -> Option<()> {
        let key = dice.below(KEYS as u64)? as usize;
        let (value, facts) = (self.value(dice)?, Self::facts(dice)?);
        let (front, rest) = value.split_at(dice.below(value.len() as u64 + 1)? as usize);
        let value = Value::Parts([front, rest]);
        let change = match dice.below(6)? {
            0 => Change::Remove(Removal::Evicted),
            1 => Change::Touch(7, None),
            2 => Change::Touch(facts.expiry_s, Some((value, facts))),
            _ => Change::Put(value, facts),
        };
        let known = matches!(change, Change::Put(..)) && dice.below(2)? == 0;
        let refuses = dice.below(8)? == 0;
        let ((name, slice), lane) = (self.keys[key], self.lane_of(key));
        let space = Space::Change {
            key_bytes: name.len(),
            value_bytes: change.value_bytes(),
            value: known.then_some(value),
        };
        let effect = Effect { key: &name, change };
        let reserved = if dice.below(8)? > 0 { self.sink.reserve(slice, space) } else { Ok(()) };
        let next = Version::from_raw(self.versions[key] + 1);
        let tag = (dice.below(4)? == 0).then_some([9; TAG_BYTES]);
        tag.into_iter().for_each(|tag| self.sink.begin_tag(KeyId { slice, hash: 0 }, tag));
        let done = reserved.and_then(|()| {
            let stamp = || if refuses { Err(Refused::Flushed) } else { Ok(next) };
            self.sink.commit(KeyId { slice, hash: 0 }, &effect, stamp)
        });
        // An eviction is not made for the request.
        let tag = tag.filter(|_| !matches!(change, Change::Remove(_)));
        assert_eq!(self.sink.end_tag().is_some(), tag.is_some() && done.is_ok());
        self.judge(lane, change.value_bytes(), refuses, done.err());
        if done.is_ok() {
            self.versions[key] += 1;
            let spends = matches!(change, Change::Put(..) | Change::Touch(_, Some(_)));
            let entry = Entry::Change { slice, version: next, effect, tag: tag.as_ref() };
            self.appended(lane, &entry, Some((key, next.raw())), spends);
        }
        Some(())
    }

    /// Whether a refusal is right.
    fn judge(&mut self, lane: usize, bytes: usize, refuses: bool, why: Option<Refused>) {
        let model = &self.models[lane];
        match why {
            None => assert!(model.part == Part::Leads && !refuses),
            Some(Refused::Flushed) => assert!(refuses),
            Some(Refused::Sealed) => assert_ne!(model.part, Part::Leads),
            Some(Refused::TooLarge) => assert!(bytes as u64 > self.lanes.value_bytes_max()),
            Some(Refused::Full) => {
                let is_limited =
                    |reader: &Reader| reader.holds.is_some() || reader.granted.is_some();
                assert!(model.readers.iter().any(is_limited), "nothing is held back");
                self.counts[1] += 1;
            }
        }
    }

    fn appended(
        &mut self,
        lane: usize,
        entry: &Entry<'_>,
        change: Option<(usize, u64)>,
        spends: bool,
    ) {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        let reader = if let Entry::Item { reader, .. } = entry { Some(*reader) } else { None };
        self.models[lane].entries.push(Expected { bytes, reader, change, spends });
        if self.models[lane].part == Part::Leads {
            let last = self.sink.last_appended().expect("it was appended");
            assert_eq!((last.lane.index(), last.position), (lane, self.models[lane].end()));
        }
    }

    fn barrier(&mut self, dice: &mut impl Dice) -> Option<()> {
        let [one, two] = [dice.below(16_384)?, dice.below(16_384)?];
        let range = SliceRange::new(one.min(two) as usize..one.max(two) as usize);
        let (mut places, mut called) = (Vec::new(), 0);
        let done = self.sink.barrier(range, |_| called += 1, &mut places);
        for place in places {
            let lane = place.lane.index();
            self.models[lane].entries.push(Expected {
                bytes: encoded(&Entry::Barrier(range, 0)),
                reader: None,
                change: None,
                spends: false,
            });
            assert_eq!(place.position, self.models[lane].end());
        }
        assert!(done.is_err() || called == range.len());
        Some(())
    }

    fn other(&mut self, dice: &mut impl Dice) -> Option<()> {
        let (lane, kind) = (self.lane(dice)?, dice.below(256)? as u8);
        let (bytes, spends) = (self.value(dice)?, dice.below(2)? == 0);
        let done = self.sink.other(lane_id(&self.lanes, lane), kind, &bytes, spends);
        self.judge(lane, bytes.len(), false, done.err());
        if done.is_ok() {
            self.appended(lane, &Entry::Other { kind, bytes: &bytes, spends }, None, spends);
        }
        Some(())
    }

    fn emit(&mut self, dice: &mut impl Dice) -> Option<()> {
        let key = dice.below(KEYS as u64)? as usize;
        let ((name, slice), lane) = (self.keys[key], self.lane_of(key));
        let (bytes, facts) = (self.value(dice)?, Self::facts(dice)?);
        let Some(reader) = self.reader(lane, dice)? else { return Some(()) };
        let (id, value) = (self.models[lane].readers[reader].id, Value::Parts([&bytes, &[]]));
        let version = Version::from_raw(dice.below(self.versions[key] + 1)?);
        let done = self.sink.emit(id, slice, &name, (value, facts), version);
        self.judge(lane, bytes.len(), false, done.err());
        if done.is_ok() {
            let entry = Entry::Item { reader: id.slot(), slice, version, key: &name, value, facts };
            self.appended(lane, &entry, None, true);
        }
        Some(())
    }

    fn reserve(&mut self, dice: &mut impl Dice) -> Option<()> {
        let (_, slice) = self.keys[dice.below(KEYS as u64)? as usize];
        let bytes = self.value(dice)?;
        let value = Some(Value::Parts([&bytes, &[]]));
        let change = Space::Change { key_bytes: 5, value_bytes: bytes.len(), value };
        let space = if dice.below(2)? == 0 { Space::Removal } else { change };
        _ = self.sink.reserve(slice, space);
        Some(())
    }

    /// Any reader of a log.
    fn reader(&self, lane: usize, dice: &mut impl Dice) -> Option<Option<usize>> {
        let count = self.models[lane].readers.len() as u64;
        Some(if count == 0 { None } else { Some(dice.below(count)? as usize) })
    }

    fn join(&mut self, dice: &mut impl Dice) -> Option<()> {
        let lane = self.lane(dice)?;
        let (first, end) = (self.log(lane).first(), self.models[lane].end());
        let from = match dice.below(3)? {
            0 => Some(dice.below(end + 4 - first)? + first.saturating_sub(1)),
            _ => None,
        };
        let holds = Some(dice.below(4)? as usize).filter(|mark| *mark < 3);
        let grants = if dice.below(3)? == 0 { Some(dice.below(60_000)?) } else { None };
        let joining =
            Joining { who: Who::Watch, from, holds: holds.map(|mark| MARKS[mark]), grants };
        if let Ok(id) = self.log(lane).join(&joining) {
            let from = from.unwrap_or(end + 1);
            assert!((first..=end + 1).contains(&from));
            let marks = [from - 1; 3];
            let has_fallen = false;
            let reader =
                Reader { id, holds, marks, from, joined: end, granted: grants, has_fallen };
            self.models[lane].readers.push(reader);
        }
        Some(())
    }

    fn leave(&mut self, dice: &mut impl Dice) -> Option<()> {
        let lane = self.lane(dice)?;
        let Some(reader) = self.reader(lane, dice)? else { return Some(()) };
        let gone = self.models[lane].readers.remove(reader).id;
        for level in &mut self.models[lane].levels {
            level.retain(|(id, _)| *id != gone);
        }
        self.log(lane).leave(gone);
        let end = self.log(lane).end();
        assert_eq!(self.log(lane).grant_after(gone, end, 1), None);
        assert_eq!(self.log(lane).read(gone, 1, &mut Batch::new(10)), Err(FellOut));
        Some(())
    }

    fn pass(&mut self, dice: &mut impl Dice) -> Option<()> {
        let lane = self.lane(dice)?;
        let Some(reader) = self.reader(lane, dice)? else { return Some(()) };
        let (mark, end) = (dice.below(3)? as usize, self.models[lane].end());
        let position = if dice.below(3)? == 0 { dice.below(end + 3)? } else { end };
        let before: Vec<_> = (0..3).map(|level| self.models[lane].passed(level)).collect();
        let reader = &mut self.models[lane].readers[reader];
        if position <= end {
            reader.marks[mark] = reader.marks[mark].max(position);
        }
        let id = reader.id;
        let rose = self.log(lane).pass(id, MARKS[mark], position);
        for (number, before) in before.into_iter().enumerate() {
            let has_risen = self.models[lane].passed(number) > before;
            assert_eq!(rose.has(level(number as u64)), has_risen);
        }
        Some(())
    }

    fn grant(&mut self, dice: &mut impl Dice) -> Option<()> {
        let (lane, bytes) = (self.lane(dice)?, dice.below(30_000)?);
        let Some(reader) = self.reader(lane, dice)? else { return Some(()) };
        let model = &mut self.models[lane];
        let spent = model.spent_of(&model.readers[reader]);
        let reader = &mut model.readers[reader];
        reader.granted = Some(spent + bytes);
        let (id, end) = (reader.id, self.models[lane].end());
        assert!(self.log(lane).grant_after(id, end, bytes).is_some());
        assert_eq!(self.log(lane).room_after(id, end), Some(bytes));
        Some(())
    }

    fn read(&mut self, dice: &mut impl Dice) -> Option<()> {
        let lane = self.lane(dice)?;
        let Some(reader) = self.reader(lane, dice)? else { return Some(()) };
        let mut batch = std::mem::take(&mut self.batch);
        let first = self.log(lane).first();
        let (id, from) =
            (self.models[lane].readers[reader].id, self.models[lane].readers[reader].from);
        let done = self.log(lane).read(id, from, &mut batch);
        let reader = &mut self.models[lane].readers[reader];
        let (joined, held) = (reader.joined, reader.holds.map(|mark| reader.marks[mark] + 1));
        if done.is_err() {
            assert!(from < first || reader.has_fallen, "{from} is there");
            self.counts[2] += 1;
            reader.has_fallen = held.is_none();
            reader.from = held.unwrap_or(from);
        }
        let model = &self.models[lane];
        let mut bytes = batch.parts().concat();
        for record in batch.records() {
            let at = record.position - model.first;
            let expected = &model.entries[at as usize];
            let is_skipped =
                expected.reader.is_some_and(|slot| slot != id.slot() || record.position <= joined);
            let entry = if is_skipped { encoded(&Entry::Skipped) } else { expected.bytes.clone() };
            assert_eq!(encoded(&record.entry), entry, "at {}", record.position);
            self.counts[0] += 1;
        }
        let decoded = Records::new(batch.first(), &bytes).map(|record| record.expect("as sent"));
        assert_eq!(decoded.count() as u64, batch.len());
        bytes.truncate(bytes.len().saturating_sub(1));
        assert!(batch.is_empty() || Records::new(1, &bytes).any(|record| record.is_err()));
        if done.is_ok() {
            assert!(!batch.is_empty() || from == model.end() + 1);
            let next = batch.next();
            self.models[lane].readers.iter_mut().find(|it| it.id == id)?.from = next;
        }
        self.batch = batch;
        Some(())
    }

    fn set_level(&mut self, dice: &mut impl Dice) -> Option<()> {
        let (lane, number) = (self.lane(dice)?, dice.below(LEVELS)?);
        let mut of = Vec::new();
        for _ in 0..dice.below(4)? {
            if let Some(reader) = self.reader(lane, dice)? {
                of.push((self.models[lane].readers[reader].id, dice.below(3)? as usize));
            }
        }
        let marks: Vec<_> = of.iter().map(|(id, mark)| (*id, MARKS[*mark])).collect();
        assert!(self.log(lane).set_level(level(number), &marks));
        let model = &mut self.models[lane];
        model.floors[number as usize] = model.passed(number as usize).min(model.end());
        model.levels[number as usize] = of;
        Some(())
    }

    /// A reply never leaves before what it shows has passed, and never waits for what is not there.
    fn wait(&mut self, dice: &mut impl Dice) -> Option<()> {
        let (key, number) = (dice.below(KEYS as u64)? as usize, dice.below(LEVELS)?);
        let lane = self.lane_of(key);
        let version = match dice.below(3)? {
            0 => None,
            _ => Some(self.versions[key].saturating_sub(dice.below(6)?)),
        };
        let model = &self.models[lane];
        let (shown, passed) = (model.position(key, version), model.passed(number as usize));
        let slice = self.keys[key].1;
        match self.lanes.wait_for(level(number), slice, version.map(Version::from_raw)) {
            None => assert!(shown <= passed, "{shown} has not passed {passed}"),
            Some(place) => {
                assert_eq!(place.lane.index(), lane);
                assert!(place.position >= shown && place.position <= model.end());
                assert!(place.position > passed);
            }
        }
        Some(())
    }

    fn change_part(&mut self, dice: &mut impl Dice) -> Option<()> {
        let (lane, part) = (self.lane(dice)?, dice.below(4)?);
        let log = self.log(lane);
        let (part, next) = match part {
            0 => (Part::Sealed, log.seal() + 1),
            1 | 2 => (Part::Leads, log.lead() + 1),
            _ => {
                let next = 1 + dice.below(1 << 40)?;
                if !log.follow_from(next) {
                    assert!(!self.models[lane].readers.is_empty());
                    return Some(());
                }
                self.models[lane].entries.clear();
                self.models[lane].first = next;
                self.models[lane].floors = [0; LEVELS as usize];
                (Part::Follows, next)
            }
        };
        let model = &mut self.models[lane];
        model.part = part;
        assert_eq!(next, model.end() + 1);
        Some(())
    }

    /// Follows an entry that is right, or wrong in any way.
    fn follow(&mut self, dice: &mut impl Dice) -> Option<()> {
        let (lane, key) = (self.lane(dice)?, dice.below(KEYS as u64)? as usize);
        let (name, slice) = self.keys[key];
        let name = if dice.below(10)? == 0 { &b"another"[..] } else { &name };
        let (value, facts) = (self.value(dice)?, Self::facts(dice)?);
        let at = (self.models[lane].end() + 1).wrapping_add(dice.below(8)? / 7);
        let version = Version::from_raw((self.versions[key] + dice.below(3)?).saturating_sub(1));
        let change = Change::Put(Value::Parts([&value, &[]]), facts);
        let entry = match dice.below(6)? {
            0 => Entry::Other { kind: 1, bytes: &value, spends: true },
            1 => Entry::Barrier(SliceRange::of(slice), 7),
            2 => Entry::Skipped,
            _ => {
                let effect = Effect { key: name, change };
                let tag = (dice.below(4)? == 0).then_some(&[7; TAG_BYTES]);
                Entry::Change { slice, version, effect, tag }
            }
        };
        let is_change = matches!(entry, Entry::Change { .. });
        let (_, last) = self.lanes.last(slice);
        let is_right_slice = self.lane_of(key) == lane && SliceId::of(name) == slice;
        let is_right = self.models[lane].part == Part::Follows
            && at == self.models[lane].end() + 1
            && (!is_change || is_right_slice && version > last);
        match self.log(lane).follow(at, &entry) {
            Ok(()) => {
                assert!(is_right);
                // What is followed is not limited by grants here, but where it was appended.
                self.appended(lane, &entry, is_change.then_some((key, version.raw())), false);
                if is_change {
                    self.versions[key] = self.versions[key].max(version.raw());
                }
            }
            Err(Unfollowed::Full) => self.counts[1] += 1,
            Err(Unfollowed::Length) => {
                assert!(value.len() as u64 > self.lanes.value_bytes_max());
            }
            Err(why) => assert!(!is_right, "{why:?}"),
        }
        Some(())
    }

    fn move_slice(&mut self, dice: &mut impl Dice) -> Option<()> {
        let (key, lane) = (dice.below(KEYS as u64)? as usize, self.lane(dice)?);
        let (slice, before) = (self.keys[key].1, self.lane_of(key));
        let moved = self.lanes.assign(SliceRange::of(slice), lane_id(&self.lanes, lane));
        if moved {
            for lane in [before, lane] {
                let model = &self.models[lane];
                assert!((0..3).all(|level| model.passed(level) >= model.end()), "not idle");
            }
            assert_eq!(self.lane_of(key), lane);
        }
        Some(())
    }

    /// The room after each position is what is left of that after the one before.
    fn check_room(&self, lane: usize, reader: &Reader) {
        let (log, model) = (self.log(lane), &self.models[lane]);
        let after = log.room_after(reader.id, model.end()).expect("the last position is known");
        assert!(reader.granted.is_some() || after > u64::MAX / 2);
        assert_eq!(log.room_after(reader.id, model.end() + 1), None);
        if log.first() <= model.end() {
            let before = log.room_after(reader.id, model.end() - 1).expect("it can be read");
            let last = model.entries.last().expect("there is one");
            let charged = before.saturating_sub(after);
            let slot = reader.id.slot();
            let is_charged = after == 0 || charged >= last.bytes.len() as u64;
            assert!(!last.spends_of(slot) || is_charged, "{charged} of {}", last.bytes.len());
            assert!(last.reader.is_none_or(|reader| reader == slot) || charged == 0, "{charged}");
        }
    }

    /// What is true at any time.
    fn check(&self) {
        for (lane, model) in self.models.iter().enumerate() {
            let log = self.log(lane);
            assert_eq!((log.end(), log.part()), (model.end(), model.part));
            assert!(log.used_bytes() <= log.capacity_bytes());
            let first = log.first();
            assert!((model.first..=model.end() + 1).contains(&first));
            for reader in &model.readers {
                let held = reader.holds.map(|mark| reader.marks[mark] + 1);
                assert!(held.is_none_or(|held| first <= held), "{first} of {held:?}");
                let spent = model.spent_of(reader);
                // Where some room is left, as much is taken as the longest entry needs.
                let over = log.capacity_bytes() / 2;
                let is_within = |granted| spent <= granted + over;
                assert!(reader.granted.is_none_or(is_within));
                self.check_room(lane, reader);
            }
            for number in 0..LEVELS {
                let passed = model.passed(number as usize);
                assert!(log.passed(level(number), passed));
                assert!(passed == u64::MAX || !log.passed(level(number), passed + 1));
            }
        }
    }
}

fn encoded(entry: &Entry<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    entry.encode(&mut bytes);
    bytes
}

fn level(number: u64) -> Level {
    Level::new(number as u8).expect("below the bound")
}

fn lane_id(lanes: &Lanes, lane: usize) -> LaneId {
    lanes.logs().nth(lane).expect("a lane").0
}
