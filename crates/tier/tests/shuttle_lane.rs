//! One lane under shuttle: two workers that change keys and write, and the thread that syncs, in
//! random orders, on a disk that refuses once or twice.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p tier --test shuttle_lane`
#![cfg(shuttle)]

use backend::MemoryBackend;
use base::{
    Change, Effect, EffectSink, Facts, KeyId, MemoryBudget, Now, SliceId, Space, Value, Version,
};
use effects::{Lanes, LanesConfig, WorkerSink};
use faulty::disk::{Fault, SimDisk};
use measure::rng::Rng;
use shuttle::thread;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tier::{Ack, Backend, Loaded, Outcome, Recovered, Rules, Tier, TierConfig, TierError, Wanted};

const NOW: Now = Now { mono_ns: 1_000_000_000, expiry_s: 1_000_000 };
const VALUE_BYTES_MAX: u64 = 1000;
/// Workers, each of which changes a key of its own.
const WORKERS: usize = 2;
/// Changes of each.
const CHANGES: u64 = 3;

/// Times that a worker tries to change its key.
const TRIES_MAX: usize = 20;

/// Orders that are tried: `SHUTTLE_ORDERS`, or enough for some seconds.
fn orders() -> usize {
    std::env::var("SHUTTLE_ORDERS").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

fn key(worker: usize) -> Vec<u8> {
    format!("key-{worker}").into_bytes()
}

/// What one process has.
struct Life {
    tier: Arc<Tier>,
    lanes: Arc<Lanes>,
    /// The last version of each worker's slice.
    begins: [u64; WORKERS],
}

fn begin(
    disk: &SimDisk,
    backend: &Arc<MemoryBackend>,
    journal_bytes: u64,
) -> Result<Life, TierError> {
    let disk: Arc<dyn tier::Disk> = Arc::new(disk.clone());
    let backend: Arc<dyn Backend> = backend.clone();
    let config = TierConfig {
        adopts: false,
        in_ring: false,
        rules: Arc::new(Rules::all(Ack::Disk)),
        salvages: false,
        journal_bytes,
        index_bytes: 1 << 20,
        value_bytes_max: VALUE_BYTES_MAX,
        age_ns: 0,
        lookups_max: 4,
        missing_max: 100,
    };
    let first = |_: SliceId| Version::from_raw(1000);
    let recovered = Recovered::find(&disk, backend, config, ([7; 16], [9; 16]), first)?;
    let begins = std::array::from_fn(|worker| {
        let slice = SliceId::of(&key(worker));
        recovered.slices().find(|(of, ..)| *of == slice).map_or(0, |(_, begin, _)| begin.raw())
    });
    let logs = LanesConfig {
        lanes: 1,
        sinks: WORKERS,
        bytes: 512 << 10,
        value_bytes_max: VALUE_BYTES_MAX,
        follows: false,
    };
    let lanes = Lanes::new(&logs, &MemoryBudget::new(64 << 20)).expect("enough memory");
    let tier = recovered.begin(lanes.clone(), None, NOW)?;
    Ok(Life { tier, lanes, begins })
}

/// The value that a key has; `None`: there is none.
fn read(life: &Life, worker: usize) -> Option<u64> {
    let key = key(worker);
    let Wanted::Job(job) = life.tier.want(SliceId::of(&key), &key, 0, NOW) else { return None };
    let mut found = None;
    for _ in 0..8 {
        match life.tier.load(&job, NOW).expect("it can be read") {
            Loaded::Again => life.tier.write(),
            Loaded::Missing => break,
            Loaded::Item(stored) => {
                found = std::str::from_utf8(&stored.value).ok().and_then(|it| it.parse().ok());
                break;
            }
        }
    }
    let outcome = if found.is_some() { Outcome::Loaded } else { Outcome::Missing };
    drop(life.tier.finish(job, outcome, NOW));
    found
}

/// Changes the key of a worker, and writes what the log has. Returns the number of its last change,
/// and of the last of which the log says that it is durable.
fn work(life: &Life, worker: usize) -> [u64; 2] {
    let (key, mut version) = (key(worker), life.begins[worker]);
    let slice = SliceId::of(&key);
    let mut sink = WorkerSink::new(life.lanes.clone());
    sink.set_observer(life.tier.clone());
    let (_, log) = life.lanes.logs().next().expect("one lane");
    let mut places = Vec::new();
    // A change that finds no room is tried again.
    for _ in 0..TRIES_MAX {
        if places.len() as u64 == CHANGES {
            break;
        }
        let value = (places.len() + 1).to_string().into_bytes();
        let space = Space::Change { key_bytes: key.len(), value_bytes: value.len(), value: None };
        let change = Change::Put(Value::Parts([&value, &[]]), Facts::default());
        let stamp = || Ok(Version::from_raw(version + 1));
        let (of, effect) = (KeyId { slice, hash: 0 }, Effect { key: &key, change });
        let done = sink.reserve(slice, space).and_then(|()| sink.commit(of, &effect, stamp));
        if done.is_ok() {
            version += 1;
            places.push(sink.last_in(slice).expect("it was changed").position);
        }
        sink.end_batch();
        life.tier.write();
        thread::yield_now();
    }
    let durable = places.iter().filter(|at| log.passed(Ack::Disk.level(), **at)).count();
    [places.len() as u64, durable as u64]
}

/// One order. Returns how often the journal went on in other segments.
fn race(seed: u64, journal_bytes: u64) -> u64 {
    let mut dice = Rng::new(seed, 1);
    let (disk, backend) = (SimDisk::new(seed), Arc::new(MemoryBackend::new()));
    let life = begin(&disk, &backend, journal_bytes).expect("an empty disk");
    life.tier.sync(NOW);
    let life = Arc::new(life);
    let fault = [Fault::Write, Fault::Sync, Fault::ShortWrite][dice.below(3) as usize];
    disk.fail_after(dice.below(3), fault);
    let done = Arc::new(Mutex::new([[0; 2]; WORKERS]));
    let mut threads: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (life, all) = (life.clone(), done.clone());
            thread::spawn(move || {
                let done = work(&life, worker);
                all.lock().expect("no panic")[worker] = done;
            })
        })
        .collect();
    let syncs = life.clone();
    threads.push(thread::spawn(move || (0..3).for_each(|_| syncs.tier.sync(NOW))));
    threads.into_iter().for_each(|thread| thread.join().expect("no promise was broken"));
    let report = life.tier.report();
    let done = *done.lock().expect("no panic");
    let is_all = dice.below(2) == 0 && report.failure.is_none();
    if is_all {
        // Once more, where the fault came last.
        (0..2).for_each(|_| life.tier.sync(NOW));
    }
    let is_whole = is_all && !life.tier.is_behind();
    for (worker, [last, _]) in done.iter().enumerate().filter(|_| is_whole) {
        let found = read(&life, worker).unwrap_or(0);
        assert_eq!(found, *last, "seed {seed}, {worker}, while it runs");
    }
    drop(life);
    match dice.below(2) {
        0 => disk.kill(),
        _ => disk.cut_power(&mut dice),
    }
    let life = begin(&disk, &backend, journal_bytes).expect("what was durable is there");
    for (worker, [last, durable]) in done.iter().enumerate() {
        let found = read(&life, worker).unwrap_or(0);
        let least = if is_whole { *last } else { *durable };
        assert!(found >= least, "seed {seed}, {worker}: {found}, and {least} was durable");
    }
    report.repairs
}

#[test]
fn what_is_durable_of_a_lane_survives_two_that_write_while_it_is_repaired() {
    let least = {
        let (disk, backend) = (SimDisk::new(0), Arc::new(MemoryBackend::new()));
        let least = Arc::new(AtomicU64::new(0));
        let to = least.clone();
        let ask = move || match begin(&disk, &backend, 1) {
            Err(TierError::JournalTooShort { least, .. }) => to.store(least, Ordering::Relaxed),
            _ => panic!("a journal of one byte"),
        };
        shuttle::check_random(ask, 1);
        least.load(Ordering::Relaxed).next_multiple_of(4096 * 16)
    };
    let (seed, repairs) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
    let all = repairs.clone();
    let order = move || {
        let repaired = race(seed.fetch_add(1, Ordering::Relaxed), least);
        all.fetch_add(repaired, Ordering::Relaxed);
    };
    shuttle::check_random(order.clone(), orders() / 2);
    shuttle::check_pct(order, orders() / 2, 4);
    let repairs = repairs.load(Ordering::Relaxed);
    println!("{} orders, {repairs} repairs", orders());
    assert!(repairs as usize * 2 > orders(), "most of them are repaired: {repairs}");
}
