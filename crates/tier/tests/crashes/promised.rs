//! What a cell of a ring promises of its journal, where segments are made as they are needed, and
//! where the disk has no space for more.

use crate::below::SimBackend;
use crate::cell::NOW;
use crate::life::{Config, VALUE_BYTES_MAX};

use base::{MemoryBudget, SliceId, SliceRange, Version};
use effects::{Lanes, LanesConfig};
use faulty::disk::SimDisk;
use std::sync::Arc;
use tier::{Disk, Recovered, Tier, TierConfig};

/// Bytes that a primary may want to emit.
const WANTED: u64 = 4 << 20;

/// Logs of what a cell leads, or of what it copies.
fn logs(follows: bool) -> Arc<Lanes> {
    let bytes = 64 << 20;
    let value_bytes_max = VALUE_BYTES_MAX as u64;
    let config = LanesConfig { lanes: 2, sinks: 1, bytes, value_bytes_max, follows };
    Lanes::new(&config, &MemoryBudget::new(64 * bytes)).expect("enough memory")
}

/// A cell of a ring with two logs of each kind, whose journal has 64 segments, and is longer than
/// the shortest one by this number of `times`.
fn begin(disk: &SimDisk, times: u64) -> Arc<Tier> {
    let journal_bytes = times * Config::shortest(4).journal_bytes;
    let config = Config { journal_bytes, entries: 3_000_000, ..Config::shortest(4) };
    let backend = SimBackend::new(disk.clone());
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let config = TierConfig { in_ring: true, ..config.tier() };
    let first = |_: SliceId| Version::from_raw(1000);
    let found = Recovered::find(&disk, backend, config, ([7; 16], [9; 16]), first);
    let begun = found.and_then(|found| found.begin(logs(false), Some(logs(true)), NOW));
    begun.expect("the disk has space for its beginning")
}

/// What it promises of `wanted` bytes, where it is asked again and again, and synced where it wants
/// to be.
fn promised(tier: &Tier, wanted: u64) -> u64 {
    let member = tier.member().expect("it is in a ring");
    let mut held = 0;
    for _ in 0..100 {
        if tier.presses() {
            tier.sync(NOW);
        }
        held += member.promise(SliceRange::ALL, held, wanted - held, 1);
    }
    held
}

/// Bytes of all files.
fn bytes(disk: &SimDisk) -> usize {
    let names = disk.list().expect("it is a list");
    names.iter().map(|name| disk.bytes_of(name).len()).sum()
}

#[test]
fn segments_are_made_for_as_much_as_a_primary_wants() {
    let disk = SimDisk::new(1);
    let tier = begin(&disk, 4);
    let begun = bytes(&disk);
    assert_eq!(promised(&tier, WANTED), WANTED);
    // In each of the two logs.
    let made = (bytes(&disk) - begun) as u64;
    assert!(made > 2 * 2 * WANTED, "{made} bytes are made");
    assert!(!tier.presses(), "it would be synced without end");
}

#[test]
fn no_more_is_promised_than_the_journal_takes() {
    let disk = SimDisk::new(1);
    let tier = begin(&disk, 1);
    let promised = promised(&tier, WANTED);
    assert!((WANTED / 8..WANTED).contains(&promised), "{promised} bytes are promised");
    assert!(!tier.presses(), "it would be synced without end");
}

#[test]
fn no_more_is_promised_than_the_disk_has_space_for() {
    let disk = SimDisk::new(1);
    let tier = begin(&disk, 4);
    tier.sync(NOW);
    disk.limit(Some(bytes(&disk)));
    let before = promised(&tier, WANTED);
    assert!((1..WANTED).contains(&before), "{before} bytes are promised");
    assert!(!tier.presses(), "it would be synced without end");
    // A record may take four times what its entry is charged.
    assert!(4 * 2 * 2 * before <= bytes(&disk) as u64, "{before} of {} bytes", bytes(&disk));
    disk.limit(None);
    let mut later = NOW;
    later.mono_ns += 2_000_000_000;
    tier.sync(later);
    assert_eq!(promised(&tier, WANTED - before), WANTED - before, "the disk has space again");
}
