//! A database of redb on a file that fails: each failure has its name, and what was acknowledged is
//! found when the fault has ended.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;

use backend::RedbBackend;
use faults::{Call, FaultyDisk};
use measure::rng::Rng;
use redb::backends::InMemoryBackend;
use redb::{Builder, RepairSession, StorageBackend};
use std::collections::BTreeMap;
use tier::{Backend, BackendError, Change, Failure};

const CACHE_BYTES: usize = 64 << 10;
/// Numbers of Linux.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

fn open(disk: &FaultyDisk) -> Result<RedbBackend, BackendError> {
    RedbBackend::open(disk, "data.redb", CACHE_BYTES)
}

fn put(backend: &RedbBackend, key: u32, record: &[u8]) -> Result<(), BackendError> {
    backend.apply(&[Change::Put { key: &key.to_le_bytes(), record }])
}

fn get(backend: &RedbBackend, key: u32) -> Result<Option<Vec<u8>>, BackendError> {
    let mut into = Vec::new();
    Ok(backend.get(&key.to_le_bytes(), &mut into)?.then_some(into))
}

/// Large enough that the database writes and extends its file.
fn large() -> Vec<u8> {
    vec![7; 300_000]
}

#[test]
fn each_fault_has_its_failure_and_the_next_call_after_it_works() {
    let in_io = [Failure::Transient, Failure::Unknown];
    let cases = [
        (Call::Write, EIO, &in_io[..]),
        (Call::Sync, EIO, &in_io),
        (Call::Extend, EIO, &in_io),
        (Call::Extend, ENOSPC, &[Failure::Full]),
        (Call::Write, ENOSPC, &[Failure::Full]),
    ];
    for (call, number, failures) in cases {
        let mut seen = Vec::new();
        for passes in 0..4 {
            seen.extend(one_fault(call, number, passes));
        }
        assert!(!seen.is_empty(), "{call:?} never failed");
        let other = seen.iter().find(|failure| !failures.contains(failure));
        assert_eq!(other, None, "{call:?} {number}");
        // All writes and syncs of a record that fits into the cache are those of its commit.
        let doubt = number == EIO && call != Call::Extend;
        assert!(!doubt || seen.contains(&Failure::Unknown), "{call:?}: {seen:?}");
    }
}

/// Writes while a call fails that comes after `passes` of its kind. Returns the failure, if the
/// write comes so far.
fn one_fault(call: Call, number: i32, passes: u32) -> Option<Failure> {
    let disk = FaultyDisk::default();
    let backend = open(&disk).unwrap();
    put(&backend, 1, b"before").unwrap();
    disk.fail(call, number, passes);
    let failed = put(&backend, 2, &large()).err();
    if let Some(failed) = &failed {
        let begin = "redb data.redb: cannot write 1 changes: I/O error: ";
        assert!(failed.what.starts_with(begin), "{failed}");
        let again = put(&backend, 2, &large()).unwrap_err();
        assert_eq!(again.failure == Failure::Full, number == ENOSPC, "{again}");
    }
    let ended = disk.repair();
    assert!(failed.is_none() || ended > 1, "each call tries again");
    assert_eq!(get(&backend, 1), Ok(Some(b"before".to_vec())));
    let found = get(&backend, 2).unwrap();
    let failure = failed.map(|failed| failed.failure);
    assert!(failure != Some(Failure::Transient) || found.is_none(), "it was carried out");
    put(&backend, 2, b"after").unwrap();
    backend.set_note("note", b"kept").unwrap();
    drop(backend);
    let backend = open(&disk).unwrap();
    assert_eq!(get(&backend, 2), Ok(Some(b"after".to_vec())));
    assert_eq!(backend.note("note"), Ok(Some(b"kept".to_vec())));
    failure
}

#[test]
fn a_failed_read_is_transient_and_the_next_call_after_it_works() {
    let disk = FaultyDisk::default();
    let backend = open(&disk).unwrap();
    for key in 0..20 {
        put(&backend, key, &large()).unwrap();
    }
    disk.fail(Call::Read, EIO, 0);
    for _ in 0..3 {
        let failed = get(&backend, 0).unwrap_err();
        assert_eq!(failed.failure, Failure::Transient);
        assert!(failed.what.starts_with("redb data.redb: cannot "), "{failed}");
    }
    disk.repair();
    assert_eq!(get(&backend, 0), Ok(Some(large())));
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_that_names_it() {
    let disk = FaultyDisk::default();
    disk.fail(Call::Sync, EIO, 0);
    let failed = open(&disk).unwrap_err();
    assert_eq!(failed.failure, Failure::Transient);
    assert!(failed.what.starts_with("redb data.redb: cannot open it: I/O error: "), "{failed}");
    for bytes in [b"no database".to_vec(), vec![0xAB; 1 << 20]] {
        let failed = open(&FaultyDisk::holding(bytes)).unwrap_err();
        assert_eq!(failed.failure, Failure::Corrupt);
        assert!(
            failed.what.ends_with("; restore it, or move it away and start with --tier-salvage")
        );
    }
}

/// The other key of an apply of two.
const PARTNER: u32 = 100;

/// Puts a record to a key and its partner in one apply.
fn put_two(backend: &RedbBackend, key: u32, record: &[u8]) -> Result<(), BackendError> {
    let (one, two) = (key.to_le_bytes(), (key + PARTNER).to_le_bytes());
    backend.apply(&[Change::Put { key: &one, record }, Change::Put { key: &two, record }])
}

/// A run with a fault now and then, and a power cut now and then after it.
fn random_run(seed: u64) {
    let mut rng = Rng::new(seed, 0);
    let disk = FaultyDisk::default();
    let mut backend = open(&disk).unwrap();
    // What a key may have: one record, or after a failure one of two.
    let mut model: BTreeMap<u32, Vec<Option<Vec<u8>>>> = BTreeMap::new();
    for step in 0..60_u32 {
        let fault = rng.below(3) == 0;
        if fault {
            let call = [Call::Write, Call::Sync, Call::Extend, Call::Read][rng.below(4) as usize];
            disk.fail(call, EIO, rng.below(12) as u32);
        }
        for _ in 0..3 {
            let key = rng.below(16) as u32;
            let record = vec![step as u8; 1 + rng.below(20_000) as usize];
            let may_have = model.entry(key).or_insert_with(|| vec![None]);
            match put_two(&backend, key, &record) {
                Ok(()) => *may_have = vec![Some(record)],
                Err(failed) if failed.failure == Failure::Unknown => may_have.push(Some(record)),
                Err(failed) => assert_eq!(failed.failure, Failure::Transient, "{failed}"),
            }
        }
        disk.repair();
        if rng.below(4) == 0 {
            disk.cut_power();
            drop(backend);
            // What the process wrote after the cut is not there.
            disk.cut_power();
            backend = open(&disk).unwrap();
        }
        for (key, may_have) in &mut model {
            let found = get(&backend, *key).unwrap();
            assert!(may_have.contains(&found), "seed {seed}, step {step}, key {key}");
            let partner = get(&backend, *key + PARTNER).unwrap();
            assert!(found == partner, "half of an apply: seed {seed}, step {step}, key {key}");
            if rng.below(2) == 0 {
                put_two(&backend, *key, b"settled").unwrap();
                *may_have = vec![Some(b"settled".to_vec())];
            }
        }
    }
}

#[test]
fn what_was_acknowledged_survives_faults_and_power_cuts() {
    for seed in 0..40 {
        random_run(seed);
    }
}

#[test]
fn what_a_failed_sync_has_lost_is_written_again_before_it_is_built_upon() {
    for passes in 0..3 {
        let disk = FaultyDisk::default();
        let backend = open(&disk).unwrap();
        put(&backend, 1, b"before").unwrap();
        disk.fail(Call::Sync, EIO, passes);
        while put(&backend, 2, &large()).is_ok() {}
        disk.repair();
        put(&backend, 3, b"after").unwrap();
        disk.cut_power();
        let backend = open(&disk).unwrap();
        assert_eq!(get(&backend, 1), Ok(Some(b"before".to_vec())), "{passes}");
        assert_eq!(get(&backend, 3), Ok(Some(b"after".to_vec())), "{passes}");
        assert!(get(&backend, 2).unwrap().is_none_or(|found| found == large()), "{passes}");
    }
}

#[test]
fn a_full_disk_loses_nothing_and_an_open_of_it_is_no_panic() {
    let mut opened = 0;
    for kibibytes in (0..3000).step_by(52) {
        let disk = FaultyDisk::default();
        disk.limit(Some(kibibytes << 10));
        let Ok(backend) = open(&disk) else { continue };
        let mut kept = 0;
        let full = loop {
            match put(&backend, kept, &vec![1; 10_000]) {
                Ok(()) => kept += 1,
                Err(failed) => break failed,
            }
        };
        assert_eq!(full.failure, Failure::Full, "{full}");
        assert!(full.what.ends_with("; free space there"), "{full}");
        drop(backend);
        disk.cut_power();
        // With the disk still full: either it opens, or it says why not.
        drop(open(&disk));
        disk.limit(None);
        let backend = open(&disk).unwrap();
        for key in 0..kept {
            assert!(get(&backend, key).unwrap().is_some(), "{key} of {kept}, {kibibytes} KiB");
        }
        put(&backend, kept, b"after").unwrap();
        opened += 1;
    }
    assert!(opened > 10, "{opened} of the limits leave space for a database");
}

/// A repair would read the whole file. (redb built for tests reads it anyway, to check itself.)
#[test]
fn an_open_after_a_crash_needs_no_repair() {
    let disk = FaultyDisk::default();
    let backend = open(&disk).unwrap();
    (0..100).for_each(|key| put(&backend, key, &large()).unwrap());
    // As the crash of a process leaves it, which closes nothing.
    let (crashed, bytes) = (InMemoryBackend::new(), disk.bytes());
    crashed.set_len(bytes.len() as u64).unwrap();
    crashed.write(0, &bytes).unwrap();
    let mut builder = Builder::new();
    let opened = builder.set_repair_callback(RepairSession::abort).create_with_backend(crashed);
    assert!(opened.is_ok(), "{opened:?}");
}

#[test]
fn changed_bytes_are_an_error_or_unnoticed_and_never_a_panic() {
    let disk = FaultyDisk::default();
    let backend = open(&disk).unwrap();
    for key in 0..200 {
        put(&backend, key, &vec![key as u8; 500]).unwrap();
    }
    drop(backend);
    let whole = disk.bytes();
    let mut noticed = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed, 0);
        let mut bytes = whole.clone();
        for _ in 0..200 {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        let failed = open(&FaultyDisk::holding(bytes)).and_then(|backend| {
            (0..200).try_for_each(|key| get(&backend, key).map(drop))?;
            put(&backend, 7, b"new")
        });
        if let Err(failed) = failed {
            assert!(matches!(failed.failure, Failure::Corrupt | Failure::Permanent), "{failed}");
            noticed += 1;
        }
    }
    assert!(noticed > 0, "none of the changes was noticed");
}
