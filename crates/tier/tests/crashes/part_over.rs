//! A cell of a ring is a copy, is not in sync any more, and is a copy again: after a start nothing
//! counts of the part that is over, neither records nor barriers.

use backend::MemoryBackend;
use base::{
    Change, Effect, EffectSink, Facts, KeyId, MemoryBudget, Now, SliceId, SliceRange, Space, Value,
    Version,
};
use effects::{Lanes, LanesConfig, WorkerSink};
use faulty::disk::SimDisk;
use measure::rng::Rng;
use std::sync::Arc;
use tier::{
    Ack, COPIED_STATES, Disk, Member, Recovered, Rules, SliceState, Tier, TierConfig, TierError,
    Voiding, encode_copied,
};

const LANES: usize = 2;
const VALUE_BYTES_MAX: u64 = 1 << 10;
/// Steps and syncs that voiding may take.
const STEPS_MAX: usize = 100;
const KEY: &[u8] = b"key";
/// The number of a delayed flush.
const NUMBER: u32 = 7;

fn slice() -> SliceId {
    SliceId::of(KEY)
}

fn at(counter: u64) -> Version {
    Version::new(1, counter)
}

/// A cell that copies all slices.
struct Copy {
    disk: SimDisk,
    tier: Arc<Tier>,
    sink: WorkerSink,
    now: Now,
}

impl Copy {
    /// What the disk has.
    fn find(disk: &Arc<dyn Disk>, journal_bytes: u64) -> Result<Recovered, TierError> {
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
        let (below, names) = (Arc::new(MemoryBackend::new()), ([1; 16], [9; 16]));
        Recovered::find(disk, below, config, names, |_| Version::ZERO)
    }

    /// Begins with that.
    fn begin(disk: &SimDisk) -> Self {
        let on: Arc<dyn Disk> = Arc::new(disk.clone());
        let begin = |journal_bytes| {
            let logs = || {
                let bytes = LANES as u64 * (128 << 10) + (272 << 10);
                let (lanes, value_bytes_max) = (LANES, VALUE_BYTES_MAX);
                let logs = LanesConfig { lanes, sinks: 1, bytes, value_bytes_max, follows: false };
                Lanes::new(&logs, &MemoryBudget::new(64 << 20)).expect("enough memory")
            };
            Self::find(&on, journal_bytes)?.begin(logs(), Some(logs()), Now::default())
        };
        let tier = match begin(1) {
            Err(TierError::JournalTooShort { least, .. }) => begin(least),
            begun => begun,
        };
        let tier = tier.expect("the journal can be read");
        let copied = tier.member().expect("it is in a ring").copied().clone();
        let (sink, now) = (WorkerSink::new(copied), Now::default());
        let mut copy = Self { disk: disk.clone(), tier, sink, now };
        copy.sync();
        copy
    }

    fn new() -> Self {
        Self::begin(&SimDisk::new(1))
    }

    /// The process ends, and another one begins.
    fn begin_again(self) -> Self {
        self.disk.kill();
        Self::begin(&self.disk)
    }

    fn member(&self) -> Member<'_> {
        self.tier.member().expect("it is in a ring")
    }

    /// All that was copied is durable.
    fn sync(&mut self) {
        self.sink.end_batch();
        self.now.mono_ns += 1_000_000_000;
        self.tier.write();
        self.tier.sync(self.now);
    }

    /// The primary has stored the key with this version.
    fn set(&mut self, version: Version) {
        let change = Change::Put(Value::Parts([b"value", b""]), Facts::default());
        let space = Space::Change { key_bytes: KEY.len(), value_bytes: 5, value: None };
        self.sink.reserve(slice(), space).expect("there is room");
        let (key, effect) = (KeyId { slice: slice(), hash: 0 }, Effect { key: KEY, change });
        self.sink.commit(key, &effect, || Ok(version)).expect("it was reserved");
        self.sync();
    }

    /// The primary has carried out a delayed flush.
    fn flush(&mut self) {
        let of = (SliceRange::ALL, NUMBER);
        let done = self.sink.barrier_where(of, |_| true, |_| {}, &mut Vec::new());
        done.expect("there is room");
        self.sync();
    }

    /// The cell is not in sync any more: nothing of what it had is left.
    fn voids(&mut self) {
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

    /// What the journal has: keys, the barrier of the slice, and its last flush.
    fn has(&self) -> (u64, Version, u32) {
        let SliceState { barrier, flushed, .. } = self.member().state(slice());
        (self.tier.dirty(), barrier, flushed)
    }

    /// A copy with a key and a flush, whose part is over.
    fn after_its_part() -> Self {
        let mut copy = Self::new();
        copy.set(at(10));
        copy.flush();
        copy.set(at(11));
        assert_eq!(copy.has(), (1, at(10), NUMBER));
        copy.voids();
        copy
    }
}

const NOTHING: (u64, Version, u32) = (0, Version::ZERO, 0);

#[test]
fn of_a_part_that_is_over_nothing_counts_after_a_start() {
    let copy = Copy::after_its_part();
    assert_eq!(copy.has(), NOTHING);
    let mut copy = copy.begin_again();
    assert_eq!(copy.has(), NOTHING);
    copy.set(at(20));
    assert_eq!(copy.begin_again().has(), (1, Version::ZERO, 0), "a part of this life");
    let mut copy = Copy::after_its_part();
    copy.set(at(20));
    assert_eq!(copy.begin_again().begin_again().has(), (1, Version::ZERO, 0));
}

/// What its primary says may be older than what the part before had.
#[test]
fn barriers_of_the_part_that_follows_count() {
    let mut copy = Copy::after_its_part();
    let mut states = Vec::new();
    encode_copied(slice(), at(5), 3, &mut states);
    copy.sink.other_in_all(COPIED_STATES, &states, &mut Vec::new()).expect("there is room");
    copy.sync();
    assert_eq!(copy.has(), (0, at(5), 3));
    assert_eq!(copy.begin_again().has(), (0, at(5), 3));
    let mut copy = Copy::after_its_part();
    copy.set(at(20));
    copy.flush();
    assert_eq!(copy.begin_again().has(), (1, at(20), NUMBER));
}

/// What is voided halfway is voided again: until then all of it counts, or only what is void does
/// not.
#[test]
fn a_crash_while_a_part_is_voided_leaves_no_record_without_its_barrier() {
    let mut copy = Copy::new();
    copy.set(at(10));
    copy.flush();
    copy.set(at(11));
    let whole = copy.has();
    copy.disk.record();
    copy.voids();
    let states = copy.disk.recorded();
    let mut seen = [0; 2];
    for (number, state) in states.iter().enumerate() {
        for cut in [false, true] {
            let disk = state.copy();
            if cut {
                disk.cut_power(&mut Rng::new(number as u64, 5));
            }
            let mut copy = Copy::begin(&disk);
            assert!([whole, NOTHING].contains(&copy.has()), "{number} {cut}: {:?}", copy.has());
            seen[usize::from(copy.has() == NOTHING)] += 1;
            copy.voids();
            assert_eq!(copy.begin_again().has(), NOTHING, "{number} {cut}");
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

/// The cell stops to wait for segments, and begins to void the same slices again.
#[test]
fn voiding_that_begins_again_voids_the_barriers_that_are_forgotten() {
    let mut copy = Copy::new();
    copy.flush();
    // Each cut takes segments, until none is ready.
    while copy.member().cut().is_some() {}
    let mut voiding = Voiding::default();
    for _ in 0..STEPS_MAX {
        assert!(!copy.member().void(SliceRange::ALL, &mut voiding), "it waits for segments");
    }
    assert_eq!(copy.has(), NOTHING);
    copy.voids();
    assert_eq!(copy.begin_again().has(), NOTHING);
}

/// A start of a cell that has no flush uses no segments for this.
#[test]
fn where_there_was_no_barrier_the_journal_is_not_cut() {
    let mut copy = Copy::new();
    copy.set(at(10));
    let before = copy.tier.report().journal_bytes;
    copy.voids();
    assert_eq!(copy.tier.report().journal_bytes, before);
}

/// Rewrites the file `floors`.
fn rewrite(disk: &SimDisk, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = disk.bytes_of("floors");
    change(&mut bytes);
    let file = disk.open("floors").expect("it is there");
    file.set_bytes(0).expect("a disk");
    file.write_at(0, &bytes).expect("a disk");
}

#[test]
fn the_format_without_segments_is_read_and_one_that_is_not_known_is_refused() {
    let copy = Copy::after_its_part();
    copy.disk.kill();
    let disk = copy.disk.copy();
    let whole = disk.bytes_of("floors").len();
    rewrite(&disk, |bytes| {
        bytes.truncate(whole - base::SLICES * 4 - 4);
        bytes[7] = b'1';
        let crc = crc32fast::hash(bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
    });
    let mut older = Copy::begin(&disk);
    assert_eq!(older.has(), (0, at(10), NUMBER), "the barrier counts as it did");
    older.voids();
    assert_eq!(older.begin_again().has(), NOTHING);
    for byte in [7, 8, whole / 2, whole - 10, whole - 1] {
        let disk = copy.disk.copy();
        rewrite(&disk, |bytes| bytes[byte] ^= 1 << 6);
        let on: Arc<dyn Disk> = Arc::new(disk);
        let found = Copy::find(&on, 1 << 20);
        let error = found.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("floors is not what was written"), "{byte}: {error}");
    }
}

#[test]
fn a_new_journal_has_none_of_the_segments_of_the_one_before() {
    let copy = Copy::after_its_part();
    copy.disk.kill();
    let names = copy.disk.list().expect("a disk");
    for name in names.iter().filter(|name| *name != "floors") {
        copy.disk.remove(name).expect("it is there");
    }
    let mut copy = Copy::begin(&copy.disk);
    copy.set(at(20));
    copy.flush();
    assert_eq!(copy.begin_again().has(), (1, at(20), NUMBER));
}
