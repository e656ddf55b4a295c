//! The small pool grows while popularity moves on and shrinks while a loop passes by that fits
//! nowhere, whatever it was before, and stays within its bounds. Where the whole working set is
//! replaced, the old one soon makes way. How much address space is reserved changes nothing.
#![cfg(not(any(loom, shuttle)))]

use base::{MemoryBudget, NoSink, Now};
use engine::{Action, Engine, EngineConfig, Mode, Op, Pin, Read, ValueSink, WriteStatus};
use load::replay::{BASE, Disturbance, Spec, Trace};
use load::workload;

const LIMIT_BYTES: u64 = 8 << 20;
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
const BATCH: u64 = 64;
/// Requests after which the size of the small pool is looked at.
const LOOK: u64 = 10_000;
/// What the small pool may have, in percent of the segments, and a segment for rounding.
const PERCENT_MIN: u64 = 5;
const PERCENT_MAX: u64 = 61;

/// Of a thousand gets after a replacement, how many may miss that would not had memory been empty.
const LOST_MAX: u64 = 18;

const PLAIN: Spec =
    Spec { name: "plain", memory_mib: LIMIT_BYTES >> 20, requests: 600_000, keys: 150_000, ..BASE };

/// Popularity passes on to other keys, a sixth of memory's keys at a time.
const DRIFT: Spec =
    Spec { name: "drift", disturbance: Disturbance::Drift { requests: 60_000 }, ..PLAIN };

/// Every second request walks round keys of which three quarters would fit, were they alone.
const LOOP: Spec =
    Spec { name: "loop", disturbance: Disturbance::Loop { percent: 50, keys: 31_000 }, ..PLAIN };

/// Half way, keys that were never named take the place of all.
const REPLACED: Spec = Spec {
    name: "replaced",
    zipf: 0.9,
    disturbance: Disturbance::Replace { requests: 300_000, percent: 100 },
    ..PLAIN
};

/// What a replay found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    gets: u64,
    hits: u64,
    /// The small pool's percentages from when half of the stream has passed.
    percents: Vec<u64>,
}

fn engine(config: EngineConfig) -> (Engine, Pin) {
    let config = EngineConfig { locals: 1, ..config };
    let (engine, mut locals) =
        Engine::new(config, MemoryBudget::new(LIMIT_BYTES)).expect("the limit is high enough");
    (engine, locals.remove(0).pin())
}

/// Replays a stream from `skip` on, cache-aside.
fn replay(engine: &Engine, pin: &mut Pin, spec: &Spec, skip: u64) -> Found {
    let trace = Trace::new(spec).expect("the stream is possible");
    let form = trace.form().clone();
    let (mut key, mut value, mut out) = (Vec::new(), Vec::new(), ValueSink::default());
    let mut found = Found::default();
    for (at, step) in (0_u64..).zip(trace).skip(skip as usize) {
        if at % BATCH == 0 {
            pin.renew();
        }
        if at % LOOK == 0 && at > spec.requests / 2 {
            let usage = engine.usage();
            found.percents.push(usage.segments_small * 100 / usage.segments);
        }
        let request = step.request;
        key.clear();
        form.keys.write(request.key, &mut key);
        let key = engine.key(&key);
        out.bytes.clear();
        let reads = request.op == workload::Op::Get;
        let hit = reads && engine.get(pin, &key, NOW, &mut out) != Read::Miss;
        if at >= spec.requests / 2 {
            found.gets += u64::from(reads);
            found.hits += u64::from(hit);
        }
        if hit {
            continue;
        }
        value.clear();
        form.values.write(request.key, request.value_bytes, &mut value);
        let store = Action::Store { mode: Mode::Set, value: &value, client_flags: 0, expiry_s: 0 };
        let wrote = engine.write(pin, &Op::new(key, store), NOW, &mut NoSink);
        assert_eq!(wrote.status, WriteStatus::Done, "a cache that evicts has room");
    }
    found
}

#[test]
fn it_grows_in_a_drift_and_shrinks_in_a_loop() {
    let (engine, mut pin) = engine(EngineConfig::new(LIMIT_BYTES));
    for (spec, expected) in
        [(&DRIFT, 25..=PERCENT_MAX), (&LOOP, PERCENT_MIN - 1..=12), (&DRIFT, 25..=PERCENT_MAX)]
    {
        let percents = replay(&engine, &mut pin, spec, 0).percents;
        let last = percents.last().copied().expect("it was looked at");
        assert!(expected.contains(&last), "{}: {percents:?}", spec.name);
        let bounded = percents.iter().all(|percent| *percent <= PERCENT_MAX);
        assert!(bounded, "{}: {percents:?}", spec.name);
    }
}

/// After the replacement about four times as much is stored as fits. An engine that begins then,
/// empty, is the measure: it has nothing to let go.
#[test]
fn a_working_set_that_is_replaced_makes_way_for_the_new_one() {
    let (engine_before, mut pin) = engine(EngineConfig::new(LIMIT_BYTES));
    let found = replay(&engine_before, &mut pin, &REPLACED, 0);
    let (engine_empty, mut pin) = engine(EngineConfig::new(LIMIT_BYTES));
    let ideal = replay(&engine_empty, &mut pin, &REPLACED, REPLACED.requests / 2);
    assert_eq!(found.gets, ideal.gets);
    let lost = ideal.hits.saturating_sub(found.hits) * 1_000 / ideal.gets;
    assert!(lost <= LOST_MAX, "{lost} of a thousand gets: {found:?}");
}

/// A server reserves four times its limit, so that the limit can be raised; tests and decision 0003
/// measure with as much as the limit.
#[test]
fn reserved_address_space_changes_nothing() {
    for spec in [&DRIFT, &LOOP, &REPLACED] {
        let [tests, server] = [1, 4].map(|times| {
            let reserve_bytes = LIMIT_BYTES * times;
            let config = EngineConfig { reserve_bytes, ..EngineConfig::new(LIMIT_BYTES) };
            let (engine, mut pin) = engine(config);
            replay(&engine, &mut pin, spec, 0)
        });
        assert_eq!(tests, server, "{}", spec.name);
    }
}
