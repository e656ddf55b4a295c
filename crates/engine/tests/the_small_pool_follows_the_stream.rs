//! The small pool grows while popularity moves on and shrinks while a loop passes by that fits
//! nowhere, whatever it was before, and stays within its bounds.
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
const PERCENT_MAX: u64 = 41;

const PLAIN: Spec =
    Spec { name: "plain", memory_mib: LIMIT_BYTES >> 20, requests: 600_000, keys: 150_000, ..BASE };

/// Popularity passes on to other keys, a sixth of memory's keys at a time.
const DRIFT: Spec =
    Spec { name: "drift", disturbance: Disturbance::Drift { requests: 60_000 }, ..PLAIN };

/// Every second request walks round keys of which three quarters would fit, were they alone.
const LOOP: Spec =
    Spec { name: "loop", disturbance: Disturbance::Loop { percent: 50, keys: 31_000 }, ..PLAIN };

/// Replays a stream, cache-aside; the small pool's percentages from when half of it has passed.
fn replay(engine: &Engine, pin: &mut Pin, spec: &Spec) -> Vec<u64> {
    let trace = Trace::new(spec).expect("the stream is possible");
    let form = trace.form().clone();
    let (mut key, mut value, mut out) = (Vec::new(), Vec::new(), ValueSink::default());
    let mut percents = Vec::new();
    for (at, step) in (0_u64..).zip(trace) {
        if at % BATCH == 0 {
            pin.renew();
        }
        if at % LOOK == 0 && at > spec.requests / 2 {
            let usage = engine.usage();
            percents.push(usage.segments_small * 100 / usage.segments);
        }
        let request = step.request;
        key.clear();
        form.keys.write(request.key, &mut key);
        let key = engine.key(&key);
        out.bytes.clear();
        let reads = request.op == workload::Op::Get;
        if reads && engine.get(pin, &key, NOW, &mut out) != Read::Miss {
            continue;
        }
        value.clear();
        form.values.write(request.key, request.value_bytes, &mut value);
        let store = Action::Store { mode: Mode::Set, value: &value, client_flags: 0, expiry_s: 0 };
        let wrote = engine.write(pin, &Op::new(key, store), NOW, &mut NoSink);
        assert_eq!(wrote.status, WriteStatus::Done, "a cache that evicts has room");
    }
    percents
}

#[test]
fn it_grows_in_a_drift_and_shrinks_in_a_loop() {
    let config = EngineConfig { locals: 1, ..EngineConfig::new(LIMIT_BYTES) };
    let (engine, mut locals) =
        Engine::new(config, MemoryBudget::new(LIMIT_BYTES)).expect("the limit is high enough");
    let mut pin = locals.remove(0).pin();
    for (spec, expected) in
        [(&DRIFT, 25..=PERCENT_MAX), (&LOOP, PERCENT_MIN - 1..=12), (&DRIFT, 25..=PERCENT_MAX)]
    {
        let percents = replay(&engine, &mut pin, spec);
        let last = percents.last().copied().expect("it was looked at");
        assert!(expected.contains(&last), "{}: {percents:?}", spec.name);
        let bounded = percents.iter().all(|percent| *percent <= PERCENT_MAX);
        assert!(bounded, "{}: {percents:?}", spec.name);
    }
}
