//! What the replies of a worker wait for in the effect log of its cell.
//!
//! A reply is a read: it leaves when all that it shows has passed the level of the cell. A hit
//! shows the version of its item. Anything else shows how far its slice has come: a miss, a
//! refusal, a change. A reply that shows several lanes waits for each.
//!
//! In a ring each range that the cell leads has a level of its own: the level of the request in
//! execution. How a request is to be answered is its [`Durability`]: at d0 its reply waits for
//! nothing, at d2 also until a copy besides the primary is in sync. A read that rests on a fence
//! waits for an entry that is appended after it, which copies acknowledge only to their primary.

use crate::effect_log::{EffectLog, LEVEL};
use crate::fence;
use crate::park::Park;
use base::{SliceId, SliceRange, Version};
use effects::{LANES_MAX, LEVELS, Lanes, Level, Log, Mark, Place, WorkerSink};
use engine::Engine;
use ring::Durability;
use session::{Answer, LogId, Outcome, Passed};
use std::collections::VecDeque;
use std::sync::Arc;
use tier::{Ack, FLUSH_AT, LiveRules, Rules};

/// Added to the number of a level for what stands for several lanes: positions in it are numbers
/// of [`Replies::several`].
const SEVERAL: u32 = 1 << 17;

/// What a read waits for whose fence no log has taken: it never passes.
pub(crate) const NEVER: LogId = LogId(u32::MAX - 1);

/// Added to the number of a log for replies that need a copy besides the primary.
const WITH_COPY: u32 = 1 << 16;

/// Positions in several lanes that a worker remembers at most for one level.
const SEVERAL_MAX: usize = 1 << 14;

/// What a reply waits for at its places.
#[derive(Clone, Copy)]
struct Bar {
    level: Level,
    /// Also for a copy besides the primary.
    needs_copy: bool,
}

/// The replies of a worker at one level that wait for several lanes.
#[derive(Default)]
struct Several {
    /// What each waits for. They pass in this order.
    waiting: VecDeque<(Bar, Vec<Place>)>,
    /// The number of the first of them: those before have passed.
    first: u64,
}

/// What the replies of a worker wait for.
pub(crate) struct Replies {
    log: Arc<EffectLog>,
    /// Those of `log`, at hand; the first of them; and the others.
    lanes: Arc<Lanes>,
    first: Arc<Log>,
    others: Box<[Arc<Log>]>,
    pub(crate) sink: WorkerSink,
    /// What replies wait for.
    pub(crate) level: Level,
    /// Above a tier, what each key's do.
    rules: Option<Arc<Rules>>,
    /// Their number.
    rules_number: u64,
    /// Whether a reply of this batch waits until what it shows survives a power cut.
    waits_for_disk: bool,
    /// How the request in execution is to be answered.
    pub(crate) durability: Durability,
    /// The slice and the epoch of the read in execution, if it rests on a fence.
    pub(crate) fences: Option<(SliceId, u32)>,
    /// Whether a reply ever waits.
    gates: bool,
    /// Whether a reply of this batch waits.
    is_used: bool,
    /// What the reply to the request in execution waits for. Position 0: nothing.
    shown: Place,
    /// What else it waits for, in lanes besides: a position for each, or 0.
    besides: Vec<u64>,
    is_besides: bool,
    /// By level, replies that wait for several lanes. Those of a level that is in doubt never pass.
    several: [Several; LEVELS],
    /// By lane, up to where this worker has passed the mark of the reader.
    passed: Vec<u64>,
}

impl Replies {
    pub(crate) fn new(log: Arc<EffectLog>) -> Self {
        let lanes = log.lanes.clone();
        let mut logs = lanes.logs().map(|(_, log)| log.clone());
        let first = logs.next().expect("a cell has a lane at least");
        let others = logs.collect();
        let sink = WorkerSink::new(lanes.clone());
        let shown = lanes.nowhere();
        let (besides, passed) = (vec![0; lanes.logs().count()], vec![0; log.readers.len()]);
        Self {
            lanes,
            first,
            others,
            sink,
            level: LEVEL,
            rules: None,
            rules_number: 0,
            waits_for_disk: false,
            durability: Durability::D1,
            fences: None,
            gates: log.gates(),
            is_used: false,
            shown,
            passed,
            besides,
            is_besides: false,
            several: Default::default(),
            log,
        }
    }

    /// Has the replies about each key wait for what `live` rules say, which may have changed.
    #[inline]
    pub(crate) fn follow(&mut self, live: &LiveRules) {
        let number = live.number();
        if number != self.rules_number {
            let rules = live.now();
            self.level = rules.base().level();
            (self.rules, self.rules_number) = (Some(rules), number);
        }
    }

    /// The request in execution is about `key`, besides those whose items its reply shows already.
    #[inline(always)]
    pub(crate) fn goes_by(&mut self, key: &[u8]) {
        if let Some(rules) = &self.rules {
            let level = rules.ack(key).level();
            if !self.is_any_shown() || level.index() > self.level.index() {
                self.level = level;
            }
        }
    }

    pub(crate) fn log(&self) -> &EffectLog {
        &self.log
    }

    /// Whether everything in all logs has passed: whatever was read may be shown at once.
    #[inline(always)]
    pub(crate) fn is_settled(&self) -> bool {
        let most = self.rules.as_ref().map(|rules| rules.most().level());
        self.is_settled_at(most.unwrap_or(self.level))
    }

    /// The same of one level.
    #[inline(always)]
    pub(crate) fn is_settled_at(&self, level: Level) -> bool {
        let others = || self.others.iter().all(|log| log.is_settled(level));
        self.first.is_settled(level) && (self.others.is_empty() || others())
    }

    /// Notes that the reply in execution shows the item with `version`, or else that `slice` has
    /// come so far.
    #[inline]
    pub(crate) fn shows(&mut self, slice: SliceId, version: Option<Version>) {
        if self.durability == Durability::D2 {
            return self.show_last(slice);
        }
        if let Some(place) = self.lanes.wait_for(self.level, slice, version) {
            self.show(place);
        }
    }

    /// Notes that the reply in execution shows how far `slice` has come, also where that has
    /// passed.
    #[cold]
    fn show_last(&mut self, slice: SliceId) {
        let (place, _) = self.lanes.last(slice);
        if place.position > 0 {
            self.show(place);
        }
    }

    /// Notes that the reply in execution shows a change of `slice` that was made just now, or why
    /// it was not made.
    #[inline(always)]
    pub(crate) fn shows_change(&mut self, slice: SliceId) {
        if self.gates {
            match self.sink.last_in(slice) {
                Some(place) => self.show_unless_passed(place),
                None => self.shows(slice, None),
            }
        }
    }

    #[inline]
    fn show_unless_passed(&mut self, place: Place) {
        // A level that no copy is left of has passed everything.
        let needs_copy = self.durability == Durability::D2;
        if needs_copy || !self.lanes.log(place.lane).passed(self.level, place.position) {
            self.show(place);
        }
    }

    /// Ends all items in second `due_s`, also after a restart above a tier. The reply in execution
    /// shows it.
    pub(crate) fn flush_later(&mut self, due_s: u32) -> Result<(), Park> {
        let Some(rules) = &self.rules else { return Ok(()) };
        self.level = level_of_flush(rules);
        let mut places = Vec::new();
        let done = self.sink.other_in_all(FLUSH_AT, &due_s.to_le_bytes(), &mut places);
        done.map_err(|_| Park)?;
        places.into_iter().for_each(|place| self.show(place));
        Ok(())
    }

    /// Ends all items of `slices` now. The reply in execution shows it.
    pub(crate) fn flush(&mut self, engine: &Engine, slices: SliceRange) -> Result<(), Park> {
        if let Some(rules) = &self.rules {
            self.level = level_of_flush(rules);
        }
        let mut places = Vec::new();
        let set = |slice| engine.barrier(slice, engine.last_version(slice));
        let sink = &mut self.sink;
        let flushed = engine.flush_by(|| sink.barrier(slices, set, &mut places));
        flushed.map_err(|_| Park)?;
        places.into_iter().for_each(|place| self.show(place));
        Ok(())
    }

    /// Notes that the reply in execution shows what stands at `place`.
    #[inline]
    pub(crate) fn show(&mut self, place: Place) {
        self.is_used = true;
        if self.durability == Durability::D0 {
            return;
        }
        if self.shown.position == 0 || self.shown.lane == place.lane {
            let position = self.shown.position.max(place.position);
            self.shown = Place { position, ..place };
        } else {
            let besides = &mut self.besides[place.lane.index()];
            *besides = place.position.max(*besides);
            self.is_besides = true;
        }
    }

    /// Whether the reply in execution waits for anything.
    #[inline(always)]
    pub(crate) fn is_any_shown(&self) -> bool {
        self.shown.position != 0
    }

    /// The outcome of a request that is done: its reply waits for all that it shows.
    pub(crate) fn outcome(&mut self) -> Outcome {
        if let Some((slice, epoch)) = self.fences
            && !self.fence(slice, epoch)
        {
            self.forget();
            return Outcome::Gate { log: NEVER, seq: 0 };
        }
        match self.gate_of_shown() {
            Some((log, seq)) => Outcome::Gate { log, seq },
            None => Outcome::Done,
        }
    }

    /// Asks all copies whether they follow this cell as the primary of `slice` in `epoch` still.
    /// The reply in execution waits for that. False if the log takes no entry now.
    fn fence(&mut self, slice: SliceId, epoch: u32) -> bool {
        let lane = self.lanes.lane_of(slice);
        let asked = self.sink.other(lane, fence::KIND, &fence::encode(slice, epoch), false);
        asked.map(|place| self.show(place)).is_ok()
    }

    /// What the reply to a plain `get` waits for that shows the item of a key with `version`, or
    /// that the key has none.
    pub(crate) fn answer_read(&mut self, slice: SliceId, version: Option<Version>) -> Answer {
        let Some(place) = self.lanes.wait_for(self.level, slice, version) else {
            return Answer::Done;
        };
        if self.durability == Durability::D0 {
            return Answer::Done;
        }
        self.is_used = true;
        self.waits_for_disk |= self.is_of_disk();
        Answer::Gate { log: log_of(self.level, place), seq: place.position }
    }

    /// What the reply to a plain change waits for, which shows something that has not passed.
    #[inline]
    pub(crate) fn answer_store(&mut self, noreply: bool) -> Answer {
        match self.gate_of_shown() {
            Some((log, seq)) if !noreply => Answer::Gate { log, seq },
            // A client that gets no reply is shown nothing.
            _ => Answer::Done,
        }
    }

    /// Whether replies to the request in execution wait until what they show survives a power cut.
    fn is_of_disk(&self) -> bool {
        self.rules.is_some() && self.level.index() >= Ack::Disk.level().index()
    }

    /// Whether a reply of the batch waits for that. The next batch begins without one.
    pub(crate) fn take_waits_for_disk(&mut self) -> bool {
        std::mem::take(&mut self.waits_for_disk)
    }

    #[inline]
    fn gate_of_shown(&mut self) -> Option<(LogId, u64)> {
        let Place { lane, position } = self.shown;
        self.shown.position = 0;
        self.waits_for_disk |= position > 0 && self.is_of_disk();
        match position {
            0 => None,
            _ if self.is_besides => Some(self.gate_of_several(Place { lane, position })),
            _ => Some((self.log_shown(Place { lane, position }), position)),
        }
    }

    /// The log of the session that stands for the lane of `place`, for the request in execution.
    #[inline]
    fn log_shown(&self, place: Place) -> LogId {
        let log = log_of(self.level, place);
        if self.durability != Durability::D2 {
            return log;
        }
        self.log.want_copies();
        with_copy(log)
    }

    #[cold]
    fn gate_of_several(&mut self, first: Place) -> (LogId, u64) {
        let lanes = self.lanes.logs().map(|(lane, _)| lane);
        let besides = lanes.zip(&mut self.besides).filter_map(|(lane, position)| {
            let position = std::mem::take(position);
            (position > 0).then_some(Place { lane, position })
        });
        let places = besides.chain([first]).collect();
        self.is_besides = false;
        let needs_copy = self.durability == Durability::D2;
        let several = &mut self.several[self.level.index()];
        several.waiting.push_back((Bar { level: self.level, needs_copy }, places));
        (several_of(self.level), several.first + several.waiting.len() as u64 - 1)
    }

    /// Whether a request that may show several lanes must wait until others have left.
    pub(crate) fn parks_if_full(&self) -> Result<(), Park> {
        let waiting = self.several[self.level.index()].waiting.len();
        if waiting < SEVERAL_MAX { Ok(()) } else { Err(Park) }
    }

    /// Forgets what a request would have shown that was not executed.
    pub(crate) fn forget(&mut self) {
        self.shown.position = 0;
        if self.is_besides {
            self.besides.fill(0);
            self.is_besides = false;
        }
    }

    /// Whether the mark that a reply waits for has passed.
    pub(crate) fn gate(&self, log: LogId, seq: u64) -> Passed {
        if log == NEVER {
            return Passed::No;
        }
        if log.0 & SEVERAL == 0 {
            let (bar, lane) = bar_and_lane(log);
            let lane = self.lanes.lane(lane);
            return lane
                .map_or(Passed::No, |lane| self.passed(bar, &[Place { lane, position: seq }]));
        }
        // Gates of one log may have been joined: all up to the last of them must have passed.
        let Some(several) = self.several.get((log.0 & !SEVERAL) as usize) else {
            return Passed::No;
        };
        let waiting = (several.first..=seq).zip(&several.waiting);
        let verdicts = waiting.map(|(_, (bar, places))| self.passed(*bar, places));
        verdicts.into_iter().find(|passed| *passed != Passed::Yes).unwrap_or(Passed::Yes)
    }

    /// What a reply waits for at `log` that no reader of the log can confirm.
    pub(crate) fn obstacle(&self, log: LogId) -> Option<&'static str> {
        let lacks_copy = |log| {
            let (Bar { level, needs_copy }, _) = bar_and_lane(log);
            needs_copy && self.log.is_alone(level)
        };
        match log {
            NEVER => Some("the log is full"),
            log if log.0 & SEVERAL != 0 => None,
            log => lacks_copy(log).then_some("no second copy has confirmed it in time"),
        }
    }

    /// Whether all of `places` have passed what a reply waits for there.
    fn passed(&self, Bar { level, needs_copy }: Bar, places: &[Place]) -> Passed {
        let log = |place: &Place| self.lanes.log(place.lane);
        let have_passed = places.iter().all(|place| log(place).passed(level, place.position));
        // In this order: a level that is in doubt, or that no copy is left of, loses its marks
        // afterwards, and passes all.
        match self.log.is_in_doubt(level) {
            true => Passed::InDoubt,
            false if have_passed && !(needs_copy && self.log.is_alone(level)) => Passed::Yes,
            false => Passed::No,
        }
    }

    /// Ends a batch: gives back room that was not used, and passes the mark of the reader.
    pub(crate) fn end_batch(&mut self) {
        if !self.is_used && !self.sink.is_used() {
            return;
        }
        self.is_used = false;
        let readers = self.log.readers.iter().zip(&mut self.passed);
        for ((_, log), (reader, passed)) in self.log.lanes.logs().zip(readers) {
            let end = log.end();
            if end > *passed {
                log.pass(*reader, Mark::Acknowledged, end);
                *passed = end;
            }
        }
        self.sink.end_batch();
        for at in 0..LEVELS {
            while let Some((bar, places)) = self.several[at].waiting.front()
                && self.passed(*bar, places) == Passed::Yes
            {
                self.several[at].waiting.pop_front();
                self.several[at].first += 1;
            }
        }
    }
}

/// What a reply to a flush waits for: it is in the journal alone, so no key is to be below.
fn level_of_flush(rules: &Rules) -> Level {
    rules.most().min(Ack::Disk).level()
}

/// The log of the session that stands for the lane of `place`, as `level` passes it.
pub(crate) fn log_of(level: Level, place: Place) -> LogId {
    LogId((level.index() * LANES_MAX + place.lane.index()) as u32)
}

/// The log of the session that stands for several lanes, as `level` passes them.
pub(crate) fn several_of(level: Level) -> LogId {
    LogId(SEVERAL | level.index() as u32)
}

/// The same for replies that need a copy besides the primary.
pub(crate) fn with_copy(log: LogId) -> LogId {
    LogId(log.0 | WITH_COPY)
}

/// What [`log_of`] and [`with_copy`] have put together.
fn bar_and_lane(log: LogId) -> (Bar, usize) {
    let number = log.0 & (WITH_COPY - 1);
    let (level, lane) = (number as usize / LANES_MAX, number as usize % LANES_MAX);
    let level = Level::new(level as u8).unwrap_or(LEVEL);
    (Bar { level, needs_copy: log.0 & WITH_COPY != 0 }, lane)
}

const _: () = assert!(LEVELS * LANES_MAX <= WITH_COPY as usize && WITH_COPY < SEVERAL);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect_log::EffectLogOptions;
    use base::{Change, Effect, EffectSink, Facts, KeyId, MemoryBudget, Value};
    use effects::{Joining, Who};

    fn replies() -> Replies {
        let budget = MemoryBudget::new(64 << 20);
        let value_bytes_max = 1000;
        let (lanes, workers, gates, has_readers) = (1, 1, true, true);
        let options = EffectLogOptions { lanes, workers, value_bytes_max, gates, has_readers };
        Replies::new(Arc::new(EffectLog::new(options, &budget).expect("enough memory")))
    }

    #[test]
    fn a_reply_that_needs_a_copy_waits_while_there_is_none() {
        let mut replies = replies();
        let level = replies.level;
        let slice = SliceId::of(b"key");
        replies.durability = Durability::D2;
        replies.fences = Some((slice, 1));
        let Outcome::Gate { log, seq } = replies.outcome() else { panic!("it waits") };
        // No reader holds the level, as after the last copy was dropped.
        replies.log.set_alone(level, true);
        assert_eq!(replies.gate(log, seq), Passed::No);
        assert!(replies.obstacle(log).is_some_and(|why| why.contains("second copy")));
        assert_eq!(replies.gate(LogId(log.0 & !WITH_COPY), seq), Passed::Yes, "at d1");
        replies.log.set_alone(level, false);
        assert_eq!((replies.gate(log, seq), replies.obstacle(log)), (Passed::Yes, None));
        replies.log.set_doubt(level, true);
        assert_eq!(replies.gate(log, seq), Passed::InDoubt);
    }

    #[test]
    fn a_change_at_d2_waits_for_a_copy_also_where_the_level_has_passed_it() {
        for durability in [Durability::D1, Durability::D2] {
            let mut replies = replies();
            let key = KeyId { slice: SliceId::of(b"key"), hash: 0 };
            let change = Change::Put(Value::Parts([b"value", b""]), Facts::default());
            let effect = Effect { key: b"key", change };
            let stamped = replies.sink.commit(key, &effect, || Ok(Version::from_raw(1)));
            assert!(stamped.is_ok());
            // The last copy was dropped after the change was let in: the level has no marks.
            replies.log.set_alone(replies.level, true);
            for of_change in [true, false] {
                replies.durability = durability;
                if of_change {
                    replies.shows_change(key.slice);
                } else {
                    replies.shows(key.slice, None);
                }
                let waits = match replies.outcome() {
                    Outcome::Gate { log, seq } => replies.gate(log, seq) == Passed::No,
                    _ => false,
                };
                assert_eq!(waits, durability == Durability::D2, "{durability} {of_change}");
            }
        }
    }

    /// What waits for several lanes, in two lanes.
    #[test]
    fn what_waits_for_several_lanes_never_passes_in_doubt_and_is_of_its_level_alone() {
        let budget = MemoryBudget::new(256 << 20);
        let (lanes, workers, gates, has_readers) = (2, 1, true, true);
        let options =
            EffectLogOptions { lanes, workers, value_bytes_max: 1000, gates, has_readers };
        let log = Arc::new(EffectLog::new(options, &budget).expect("enough memory"));
        let joining = Joining { who: Who::Copy(0), from: None, holds: None, grants: None };
        let [mine, other] = [0, 1].map(|at| Level::new(at).expect("a level"));
        for (_, log) in log.lanes.logs() {
            let reader = log.join(&joining).expect("a place");
            assert!([mine, other].map(|it| log.set_level(it, &[(reader, Mark::Acknowledged)]))[0]);
        }
        let mut replies = Replies::new(log.clone());
        assert_eq!(log.lanes.logs().count(), 2);
        let mut waits_at = |level| {
            replies.level = level;
            for (lane, _) in log.lanes.logs() {
                let place = replies.sink.other(lane, 99, b"x", false).expect("space");
                replies.show(place);
            }
            let Outcome::Gate { log, seq } = replies.outcome() else { panic!("it waits") };
            (log, seq)
        };
        let ([first, second], third) = ([(); 2].map(|()| waits_at(mine)), waits_at(other));
        assert!(first.0 == second.0 && first.0 != third.0, "{first:?} {second:?} {third:?}");
        let gates =
            |replies: &Replies| [first, second, third].map(|(log, seq)| replies.gate(log, seq));
        assert_eq!(gates(&replies), [Passed::No; 3]);
        log.set_doubt(mine, true);
        for _ in 0..3 {
            assert_eq!(gates(&replies), [Passed::InDoubt, Passed::InDoubt, Passed::No]);
            replies.end_batch();
        }
        for (_, log) in log.lanes.logs() {
            log.set_level(other, &[]);
        }
        replies.end_batch();
        assert_eq!(gates(&replies), [Passed::InDoubt, Passed::InDoubt, Passed::Yes]);
    }

    #[test]
    fn a_reply_at_d0_waits_for_nothing_and_a_fence_that_no_log_takes_never_passes() {
        let mut replies = replies();
        let slice = SliceId::of(b"key");
        replies.durability = Durability::D0;
        replies.fences = Some((slice, 1));
        assert_eq!(replies.outcome(), Outcome::Done);
        replies.durability = Durability::D1;
        for (_, log) in replies.lanes.logs() {
            log.seal();
        }
        assert_eq!(replies.outcome(), Outcome::Gate { log: NEVER, seq: 0 });
        assert_eq!(replies.gate(NEVER, 0), Passed::No);
    }
}
