//! Reads beside stores of very large values: does a bucket wait while its value is written?
//!
//! `cargo bench -p engine --bench large -- SECONDS` prints JSON. One thread stores a value of 256
//! MiB under one key, again and again. Another reads, in turns, small values: one whose key is in
//! the bucket of the large one, and some whose keys are in other buckets. A slice that holds three
//! keys has one bucket, so keys of the large key's slice are in its bucket.
//!
//! One clock reading ends a sample and begins the next. After a slow one the kernel's account of
//! the thread is read: the time in which it was ready and had no core is taken off. A read that
//! waits for a lock lasts long enough to lose its core on the way, so such samples are not set
//! aside. Lengths are nanoseconds, exact to 1 %.

mod common;

use base::{Now, SliceId};
use engine::{Engine, EngineConfig, Local, Read, ValueSink, WriteStatus};
use hdrhistogram::Histogram;
use measure::account::Account;
use measure::process::{CoreSet, Cores};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LARGE_BYTES: usize = 256 << 20;
const SMALL_BYTES: usize = 100;
/// Room for the large value, for the next one while it is written, and for more than both.
const LIMIT_BYTES: u64 = 2 << 30;
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
/// Reads between two ends of a batch; even, so that a batch ends after a read of another bucket.
const BATCH: usize = 64;
/// Keys in other buckets.
const FAR: usize = 64;
/// What the lengths of two large values differ by: none is overwritten in place.
const SHORTER_BYTES: usize = 1 << 20;
/// How often a client reads each kind. While one read waits, those that such a client would send
/// wait too: they are counted, or one wait of a second would be one slow read among millions.
const INTERVAL_NS: u64 = 10_000;
/// The key of the large value, and those in its bucket.
const NEAR: usize = 2;
/// Shortest sample that could hide a wait for a core worth asking about.
const SLOW_NS: u64 = 5_000;
const SECONDS_MAX: u64 = 600;
/// Names that are tried for one of a wanted slice, at most.
const TRIES_MAX: u64 = 10_000_000;

type Name = [u8; 8];

/// Names in the slice of the first one; the first is for the large value.
fn near() -> Vec<Name> {
    let first = 0_u64.to_be_bytes();
    let slice = SliceId::of(&first);
    let all = (0..TRIES_MAX).map(u64::to_be_bytes);
    let near: Vec<Name> = all.filter(|name| SliceId::of(name) == slice).take(1 + NEAR).collect();
    assert_eq!(near.len(), 1 + NEAR, "a slice has more keys among those that are tried");
    near
}

/// Names in slices of their own.
fn far() -> Vec<Name> {
    let mut used = vec![SliceId::of(&0_u64.to_be_bytes())];
    let mut far = Vec::new();
    for name in (1..TRIES_MAX).map(u64::to_be_bytes) {
        let slice = SliceId::of(&name);
        if far.len() < FAR && !used.contains(&slice) {
            used.push(slice);
            far.push(name);
        }
    }
    far
}

fn lengths() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("the bounds are in order")
}

fn figures(lengths: &Histogram<u64>) -> Value {
    json!({
        "count": lengths.len(),
        "p50_ns": lengths.value_at_quantile(0.5),
        "p99_ns": lengths.value_at_quantile(0.99),
        "p999_ns": lengths.value_at_quantile(0.999),
        "p99999_ns": lengths.value_at_quantile(0.99999),
        "longest_ns": lengths.max(),
    })
}

/// Stores large values until it is to stop; how long each took, and how many had no space at first.
fn write(
    engine: &Engine,
    local: &mut Local,
    name: &Name,
    stop: &AtomicBool,
) -> (Histogram<u64>, u64) {
    let value = vec![b'v'; LARGE_BYTES];
    let (mut stored, mut refused) = (lengths(), 0);
    for nth in 0_usize.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let value = &value[nth % 2 * SHORTER_BYTES..];
        let start = Instant::now();
        let status = local.batch(|pin| common::set(engine, pin, engine.key(name), value, 0, NOW));
        match status {
            WriteStatus::Done => stored.saturating_record(start.elapsed().as_nanos() as u64),
            WriteStatus::NoSpace | WriteStatus::Later(_) => refused += 1,
            other => panic!("a store ended in {other:?}"),
        }
    }
    (stored, refused)
}

/// What the reads found.
struct Reads {
    /// In the bucket of the large value, and in others.
    kept: [Histogram<u64>; 2],
    /// Time without a core.
    waited_ns: u64,
    /// Small values that were evicted and stored again.
    missed: u64,
}

fn small(engine: &Engine, local: &mut Local, name: &Name) {
    let value = [b's'; SMALL_BYTES];
    let status = local.batch(|pin| common::set(engine, pin, engine.key(name), &value, 0, NOW));
    assert_eq!(status, WriteStatus::Done, "there is space for a small value");
}

/// Reads for `length`: a key of the first list, a key of the second, and so on.
fn read(engine: &Engine, local: &mut Local, names: [&[Name]; 2], length: Duration) -> Reads {
    let mut reads = Reads { kept: [lengths(), lengths()], waited_ns: 0, missed: 0 };
    let mut out = ValueSink::default();
    let (start, mut at) = (Instant::now(), 0_usize);
    let waited_ns = || Account::of_this_thread().waited_ns;
    let (mut last, mut waited_before_ns) = (start, waited_ns());
    while last - start < length {
        let mut missed = None;
        local.batch(|pin| {
            last = Instant::now();
            for _ in 0..BATCH {
                let which = at % 2;
                let name = &names[which][(at / 2) % names[which].len()];
                at += 1;
                let found = engine.get(pin, &engine.key(name), NOW, &mut out);
                let end = Instant::now();
                let mut ns = (end - last).as_nanos() as u64;
                last = end;
                if found != Read::Hit {
                    missed = Some(name);
                    continue;
                }
                if ns >= SLOW_NS {
                    let waited_now_ns = waited_ns();
                    let waited_ns = waited_now_ns - waited_before_ns;
                    (waited_before_ns, last) = (waited_now_ns, Instant::now());
                    reads.waited_ns += waited_ns;
                    ns = ns.saturating_sub(waited_ns).max(1);
                }
                let kept = &mut reads.kept[which];
                kept.record_correct(ns, INTERVAL_NS).expect("no read takes a minute");
            }
        });
        out.bytes.clear();
        if let Some(name) = missed {
            reads.missed += 1;
            small(engine, local, name);
        }
    }
    reads
}

fn main() {
    let seconds = match &common::arguments()[..] {
        [] => Some(1),
        [seconds] => seconds.parse().ok().filter(|seconds| (1..=SECONDS_MAX).contains(seconds)),
        _ => None,
    };
    let Some(seconds) = seconds else {
        eprintln!("usage: large [SECONDS], with 1 to {SECONDS_MAX} seconds");
        std::process::exit(2);
    };
    let config = EngineConfig { value_bytes_max: LARGE_BYTES, ..common::config(LIMIT_BYTES, 2) };
    let (engine, mut locals) = common::open(config);
    let (near, far) = (near(), far());
    let (mut reader, mut writer) = (locals.remove(0), locals.remove(0));
    near[1..].iter().chain(&far).for_each(|name| small(&engine, &mut reader, name));
    let cores = Cores::find().expect("a process may read its cores");
    assert!(cores.are_apart(), "the machine has a core for each thread");
    let move_to = |cores: CoreSet| cores.move_here().expect("a thread may move to a core");
    let stop = AtomicBool::new(false);
    let ((stored, refused), reads) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            move_to(cores.generator());
            write(&engine, &mut writer, &near[0], &stop)
        });
        let reading = scope.spawn(|| {
            move_to(cores.server());
            read(&engine, &mut reader, [&near[1..], &far], Duration::from_secs(seconds))
        });
        let reads = reading.join().expect("no thread panics");
        stop.store(true, Ordering::Relaxed);
        (writing.join().expect("no thread panics"), reads)
    });
    let report = json!({
        "seconds": seconds,
        "stored": stored.len(),
        "refused": refused,
        "store_p50_ns": stored.value_at_quantile(0.5),
        "store_longest_ns": stored.max(),
        "near": figures(&reads.kept[0]),
        "far": figures(&reads.kept[1]),
        "waited_ns": reads.waited_ns,
        "missed": reads.missed,
    });
    println!("{report}");
}
