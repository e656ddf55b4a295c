//! However hard a cache churns, the housekeeping that one request pays for is bounded in items and
//! in bytes. Paying nearly always is enough: where it is not, a request that makes room itself
//! looks at the items of a few segments, never at the whole pool.
#![cfg(not(any(loom, shuttle)))]

use base::{MemoryBudget, NoSink, Now};
use engine::{Action, Engine, EngineConfig, Mode, Op, Pin, WriteStatus};
use measure::rng::Rng;

const REQUESTS: u64 = 300_000;
const BATCH: u64 = 64;
/// Items that one payment may look at.
const ITEMS_MAX: u64 = 32;
/// Words walked for each word written.
const PACE: u64 = 4;
/// Requests for one that may have to make room itself.
const REQUESTS_PER_ROOM_MIN: u64 = 1_000;
/// Segments whose items such a request may look at.
const SEGMENTS_PER_ROOM_MAX: u64 = 2;
/// The smallest item: a header and a key of eight bytes.
const ITEM_BYTES_MIN: u64 = 24;
/// What an item may have besides its value: header, key, expiry, padding, slack.
const BESIDES_BYTES: u64 = 64;

struct Case {
    name: &'static str,
    limit_bytes: u64,
    keys: u64,
    value_bytes_max: u64,
    /// Whether a quarter of the items expire.
    expiring: bool,
}

const SMALL: Case = Case {
    name: "small values",
    limit_bytes: 8 << 20,
    keys: 200_000,
    value_bytes_max: 300,
    expiring: false,
};

const CASES: [Case; 5] = [
    SMALL,
    Case { name: "small values that expire", expiring: true, ..SMALL },
    Case { name: "one key in use all the time", keys: 1, ..SMALL },
    Case {
        name: "values of up to 4 KB",
        limit_bytes: 64 << 20,
        keys: 100_000,
        value_bytes_max: 4 << 10,
        ..SMALL
    },
    Case {
        name: "values of up to 4 KB where a batch outgrows the free segments",
        keys: 10_000,
        value_bytes_max: 4 << 10,
        ..SMALL
    },
];

fn store(engine: &Engine, pin: &mut Pin, case: &Case, rng: &mut Rng, now: Now) {
    let name = rng.below(case.keys).to_be_bytes();
    let value = vec![b'v'; rng.below(case.value_bytes_max) as usize];
    let expiring = case.expiring && rng.below(4) == 0;
    let expiry_s = if expiring { now.expiry_s + 1 + rng.below(100) as u32 } else { 0 };
    let action = Action::Store { mode: Mode::Set, value: &value, client_flags: 0, expiry_s };
    let wrote = engine.write(pin, &Op::new(engine.key(&name), action), now, &mut NoSink);
    assert_eq!(wrote.status, WriteStatus::Done, "{}", case.name);
}

#[test]
fn a_request_pays_for_a_bounded_number_of_items_and_bytes() {
    for case in &CASES {
        let config = EngineConfig { locals: 1, ..EngineConfig::new(case.limit_bytes) };
        let budget = MemoryBudget::new(case.limit_bytes);
        let (engine, mut locals) = Engine::new(config, budget).expect("the limit is high enough");
        let mut pin = locals.remove(0).pin();
        let mut rng = Rng::new(1, 0);
        for request in 0..REQUESTS {
            let now = Now { mono_ns: 0, expiry_s: 1_000 + (request / 1_000) as u32 };
            if request % BATCH == 0 {
                pin.renew();
            }
            store(&engine, &mut pin, case, &mut rng, now);
        }
        let (usage, counters) = (engine.usage(), engine.counters());
        let item_bytes_max = case.value_bytes_max + BESIDES_BYTES;
        assert!(usage.paid_items_max <= ITEMS_MAX, "{}: {usage:?}", case.name);
        // The walk stops behind the item that reaches the debt, never before it.
        let bytes_max = PACE * item_bytes_max + item_bytes_max;
        assert!(usage.paid_bytes_max <= bytes_max, "{}: {usage:?}", case.name);
        let rooms_max = REQUESTS / REQUESTS_PER_ROOM_MIN;
        assert!(counters.rooms_made <= rooms_max, "{}: {counters:?}", case.name);
        let items_max = SEGMENTS_PER_ROOM_MAX * usage.segment_bytes / ITEM_BYTES_MIN;
        assert!(usage.room_items_max <= items_max, "{}: {usage:?}", case.name);
    }
}
