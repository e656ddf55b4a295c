//! What lies below a cell: a disk of its own, and a bucket that all cells share.

use crate::dice::Dice;
use faulty::disk::SimDisk;
use faulty::objects::{SimBucket, SimObjects};
use pages::{Pages, PagesConfig};
use std::sync::Arc;
use tier::TierError;
use tier::{Ack, Backend, BackendError, Disk, FIRST_MAX, Recovered, Rules, Stored, TierConfig};

/// Short pages, so that some keys make several, and a cache of few of them.
const PAGES: PagesConfig = PagesConfig { page_bytes: 400, apart_from: 300, cache_bytes: 1_000 };
/// Bytes of a journal for each lane: a little more than the least.
const JOURNAL_BYTES: u64 = 40 << 20;
/// Bytes of the index of what is dirty, as of the least cells: what logs are granted follows from
/// it.
const INDEX_BYTES: u64 = 1 << 20;
/// Lookups under way, and keys that are remembered to be missing, at most.
const LOOKUPS_MAX: usize = 64;
const MISSING_MAX: usize = 1_000;

/// What the tiers of a ring have in common.
#[derive(Clone)]
pub(crate) struct Bucket {
    pub(crate) objects: SimBucket,
    pub(crate) ack: Ack,
    /// How long a change is durable before it is written back.
    age_ns: u64,
}

/// What lies below one cell.
pub(crate) struct Below {
    shared: Bucket,
    pub(crate) disk: SimDisk,
    pub(crate) objects: Arc<SimObjects>,
}

impl Bucket {
    /// An empty bucket, and what replies promise.
    pub(crate) fn new(ack: Ack, dice: &mut Dice) -> Self {
        let age_ns = dice.duration(20_000_000, 2_000_000_000);
        Self { objects: SimBucket::new(dice.number()), ack, age_ns }
    }

    /// That of one cell: an empty disk.
    pub(crate) fn below_one(&self, dice: &mut Dice) -> Below {
        let disk = SimDisk::new(dice.number());
        Below { shared: self.clone(), objects: self.objects.of(disk.clone()), disk }
    }

    /// The value that the bucket has of each of these keys, if it has any. Who leads something
    /// there does so no more.
    pub(crate) fn values(&self, names: &[String]) -> Result<Vec<Option<Vec<u8>>>, BackendError> {
        self.objects.quietly(|| {
            let pages = Pages::open(self.objects.of(SimDisk::new(0)), PAGES)?;
            pages.lead(base::SliceRange::ALL)?;
            let value = |name: &String| {
                let mut record = Vec::new();
                let is_there = pages.get(name.as_bytes(), &mut record)?;
                let stored = is_there.then(|| Stored::decode(name.as_bytes(), record)).flatten();
                Ok(stored.map(|stored| stored.value.to_vec()))
            };
            names.iter().map(value).collect()
        })
    }
}

impl Below {
    /// The process ends, or the machine goes off. Its disk loses what was not synced where the
    /// power is cut and replies wait for that; at `os` it keeps all that it was given: what replies
    /// promise there does not outlive a power cut.
    pub(crate) fn end(&self, is_off: bool, dice: &mut Dice) {
        match is_off && self.shared.ack == Ack::Disk {
            true => self.disk.cut_power(&mut dice.source()),
            false => self.disk.kill(),
        }
    }

    /// The bucket of all.
    pub(crate) fn bucket(&self) -> &SimBucket {
        &self.shared.objects
    }

    /// The disk is lost: an empty one takes its place.
    pub(crate) fn lose_disk(&mut self, dice: &mut Dice) {
        *self = self.shared.below_one(dice);
    }
    /// Recovers the tier of a process with this number of lanes.
    pub(crate) fn recover(
        &self,
        (lanes, value_bytes_max): (usize, u64),
        dice: &mut Dice,
    ) -> Result<Recovered, TierError> {
        let pages = Pages::open(self.objects.clone(), PAGES)?;
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let rules = Rules::new(self.shared.ack, Vec::new());
        let config = TierConfig {
            rules: Arc::new(rules.expect("invariant: there is no prefix that could be wrong")),
            salvages: false,
            adopts: false,
            in_ring: true,
            journal_bytes: JOURNAL_BYTES * lanes as u64,
            index_bytes: INDEX_BYTES,
            value_bytes_max,
            age_ns: self.shared.age_ns,
            lookups_max: LOOKUPS_MAX,
            missing_max: MISSING_MAX,
        };
        let names = [dice.number(), dice.number()].map(|number| {
            let mut name = [0; 16];
            name[..8].copy_from_slice(&number.to_le_bytes());
            name
        });
        let seed = dice.number();
        let first = |_| base::Version::new(0, seed % FIRST_MAX);
        Recovered::find(&disk, Arc::new(pages), config, names.into(), first)
    }
}
