//! A cell of a ring, as its tier sees it: what it copies of all slices, and what it leads of them
//! since it was promoted.

use backend::MemoryBackend;
use base::{
    Change, Effect, EffectSink, Facts, KeyId, MemoryBudget, Now, SliceId, SliceRange, Space, Value,
    Version,
};
use effects::{Lanes, LanesConfig, Level, WorkerSink};
use faulty::disk::SimDisk;
use std::sync::Arc;
use tier::{
    Ack, Disk, Loaded, Member, Outcome, Recovered, Rules, Tier, TierConfig, TierError, Voiding,
    Wanted,
};

const LANES: usize = 2;
const VALUE_BYTES_MAX: u64 = 1 << 10;
/// Steps and syncs that voiding may take.
pub const STEPS_MAX: usize = 100;
pub const KEY: &[u8] = b"key";
/// What the first primary stores, and what this cell does once it leads.
pub const COPIED: &str = "value";
pub const LED: &str = "later";
/// The number of a delayed flush.
pub const NUMBER: u32 = 7;

pub fn slice() -> SliceId {
    SliceId::of(KEY)
}

/// A version of the first primary.
pub fn at(counter: u64) -> Version {
    Version::new(1, counter)
}

/// One of this cell, once it is the primary.
pub fn led(counter: u64) -> Version {
    Version::new(2, counter)
}

/// What the first primary does.
pub fn put() -> Change<'static> {
    Change::Put(Value::Parts([COPIED.as_bytes(), b""]), Facts::default())
}

/// A cell that copies all slices, or leads them.
pub struct RingCell {
    pub disk: SimDisk,
    pub tier: Arc<Tier>,
    below: Arc<MemoryBackend>,
    pub copied: WorkerSink,
    led: WorkerSink,
    pub lanes: Arc<Lanes>,
    pub now: Now,
}

impl RingCell {
    /// What the disk has.
    pub fn find(
        disk: &Arc<dyn Disk>,
        below: &Arc<MemoryBackend>,
        journal_bytes: u64,
    ) -> Result<Recovered, TierError> {
        let config = TierConfig {
            rules: Arc::new(Rules::new(Ack::Disk, Vec::new()).expect("no prefixes")),
            salvages: false,
            adopts: false,
            in_ring: true,
            journal_bytes,
            index_bytes: 64 << 10,
            value_bytes_max: VALUE_BYTES_MAX,
            age_ns: 0,
            lookups_max: 4,
            missing_max: 100,
        };
        let names = ([1; 16], [9; 16]);
        Recovered::find(disk, below.clone(), config, names, |_| Version::ZERO)
    }

    /// Begins with that.
    pub fn begin(disk: &SimDisk, below: Arc<MemoryBackend>) -> Self {
        Self::begin_on((disk, Arc::new(disk.clone())), below)
    }

    /// The same through another way to that disk.
    pub fn begin_on((disk, on): (&SimDisk, Arc<dyn Disk>), below: Arc<MemoryBackend>) -> Self {
        let logs = || {
            let bytes = LANES as u64 * (128 << 10) + (272 << 10);
            let (lanes, value_bytes_max) = (LANES, VALUE_BYTES_MAX);
            let logs = LanesConfig { lanes, sinks: 1, bytes, value_bytes_max, follows: false };
            Lanes::new(&logs, &MemoryBudget::new(64 << 20)).expect("enough memory")
        };
        let begin = |journal_bytes| {
            let (leads, copies) = (logs(), logs());
            let found = Self::find(&on, &below, journal_bytes)?;
            let tier = found.begin(leads.clone(), Some(copies.clone()), Now::default())?;
            Ok((tier, [leads, copies]))
        };
        let begun = match begin(1) {
            Err(TierError::JournalTooShort { least, .. }) => begin(least),
            begun => begun,
        };
        let (tier, [leads, copies]) = begun.expect("the journal can be read");
        let [led, copied] = [leads.clone(), copies].map(WorkerSink::new);
        let (disk, now) = (disk.clone(), Now::default());
        let mut cell = Self { disk, tier, below, copied, led, lanes: leads, now };
        cell.member().set_lease(|_| true);
        cell.sync();
        cell
    }

    pub fn new() -> Self {
        Self::begin(&SimDisk::new(1), Arc::new(MemoryBackend::new()))
    }

    /// The process ends, and another one begins.
    pub fn begin_again(self) -> Self {
        self.disk.kill();
        Self::begin(&self.disk, self.below)
    }

    pub fn member(&self) -> Member<'_> {
        self.tier.member().expect("it is in a ring")
    }

    /// All that was copied and led is durable.
    pub fn sync(&mut self) {
        self.write();
        self.now.mono_ns += 1_000_000_000;
        self.tier.sync(self.now);
    }

    /// All that was copied and led is written.
    pub fn write(&mut self) {
        self.copied.end_batch();
        self.led.end_batch();
        self.tier.write();
    }

    /// The primary has stored the key with this version.
    pub fn copies_set(&mut self, version: Version) {
        self.copies(KEY, version);
    }

    /// The same of another key.
    pub fn copies_another(&mut self, version: Version) {
        let key = self.another();
        self.copies(&key, version);
    }

    fn copies(&mut self, key: &[u8], version: Version) {
        append(&mut self.copied, key, version, put());
        self.write();
    }

    /// The primary has touched the key.
    pub fn copies_touch(&mut self, version: Version) {
        append(&mut self.copied, KEY, version, Change::Touch(77, None));
        self.write();
    }

    /// The primary has carried out a delayed flush.
    pub fn copies_flush(&mut self) {
        let of = (SliceRange::ALL, NUMBER);
        let done = self.copied.barrier_where(of, |_| true, |_| {}, &mut Vec::new());
        done.expect("there is room");
        self.sync();
    }

    /// The cell is not in sync any more: nothing of what it had is left.
    pub fn voids(&mut self) {
        let mut voiding = Voiding::default();
        for _ in 0..STEPS_MAX {
            if self.member().void(SliceRange::ALL, &mut voiding) {
                return;
            }
            if voiding.waits() {
                self.sync();
            }
        }
        panic!("it is not over after {STEPS_MAX} steps: {voiding:?}");
    }

    /// It is promoted, and leads the slice of the key.
    pub fn is_promoted(&mut self) {
        self.member().cut().expect("segments are ready");
        let level = Level::new(0).expect("there is one");
        let slice = slice().index();
        self.member().lead(SliceRange::new(slice..slice + 1), level, |_| led(0));
    }

    /// As the primary it changes the key.
    pub fn leads(&mut self, version: Version, change: Change<'_>) {
        append(&mut self.led, KEY, version, change);
        self.write();
    }

    /// The same of another key of that log: so a batch says what was durable before.
    pub fn leads_another(&mut self, version: Version, change: Change<'_>) {
        let key = self.another();
        append(&mut self.led, &key, version, change);
        self.write();
    }

    /// The same of a third one.
    pub fn leads_a_third(&mut self, version: Version, change: Change<'_>) {
        let key = self.third();
        append(&mut self.led, &key, version, change);
        self.write();
    }

    /// Another key of the log of [`KEY`], and of another slice.
    fn another(&self) -> [u8; 1] {
        self.other(0)
    }

    fn third(&self) -> [u8; 1] {
        self.other(1)
    }

    fn other(&self, number: usize) -> [u8; 1] {
        let lane = |key: &[u8]| self.lanes.lane_of(SliceId::of(key));
        let keys = (0..u8::MAX).map(|letter| [letter]);
        let mut others = keys.filter(|key| lane(key) == lane(KEY));
        others.nth(number).expect("there is one")
    }

    /// All that is durable is written back.
    pub fn writes_back(&self) {
        let flushed = self.tier.flush(self.now, true).expect("nothing fails");
        assert!(flushed.keys > 0, "something was dirty");
    }

    /// What a lookup finds: which of the values, and its expiry.
    pub fn finds(&self) -> Option<(&'static str, u32)> {
        let Wanted::Job(job) = self.tier.want(slice(), KEY, 0, self.now) else { return None };
        let loaded = self.tier.load(&job, self.now);
        let (outcome, found) = match loaded.expect("nothing fails") {
            Loaded::Item(stored) => {
                let mut values = [COPIED, LED].into_iter();
                let value = values.find(|value| value.as_bytes() == stored.value);
                let value = value.expect("it was stored");
                (Outcome::Loaded, Some((value, stored.facts.expiry_s)))
            }
            _ => (Outcome::Missing, None),
        };
        let _ = self.tier.finish(job, outcome, self.now);
        found
    }
}

fn append(sink: &mut WorkerSink, key: &[u8], version: Version, change: Change<'_>) {
    let space = Space::Change { key_bytes: key.len(), value_bytes: 5, value: None };
    let slice = SliceId::of(key);
    sink.reserve(slice, space).expect("there is room");
    let effect = Effect { key, change };
    sink.commit(KeyId { slice, hash: 0 }, &effect, || Ok(version)).expect("it was reserved");
}
