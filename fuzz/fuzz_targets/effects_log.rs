//! Any bytes as calls of the logs of effects, compared with plain lists, and any bytes as entries
//! that another cell sent: no panic, and what is decoded is the same when it is encoded again.
#![no_main]

#[path = "../../crates/effects/tests/common/machine.rs"]
mod machine;

use base::{MemoryBudget, SliceId};
use effects::{Entry, Lanes, LanesConfig, Records, Unfollowed};
use libfuzzer_sys::fuzz_target;
use machine::{Dice, Machine};

/// Choices from the input: a byte each, or more where the bound is above.
struct Bytes<'a>(&'a [u8]);

impl Dice for Bytes<'_> {
    fn below(&mut self, bound: u64) -> Option<u64> {
        let bytes = (u64::BITS - bound.leading_zeros()).div_ceil(8) as usize;
        let (number, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        let number = number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Some(if bound == 0 { 0 } else { number % bound })
    }
}

/// Calls that are made of one input.
const STEPS_MAX: usize = 500;

fuzz_target!(|input: &[u8]| {
    let Some((first, rest)) = input.split_first() else { return };
    if first % 2 == 0 {
        decode(rest);
        return;
    }
    let mut machine =
        Machine::new(1 + usize::from(first / 2 % 3), 1 + u64::from(first / 8 % 4), 2_000);
    let mut dice = Bytes(rest);
    (0..STEPS_MAX).try_for_each(|_| machine.step(&mut dice));
});

/// Decodes entries, and follows them. What is refused is sent again with the slice of its key,
/// so that the log takes some.
fn decode(bytes: &[u8]) {
    let config =
        LanesConfig { lanes: 2, sinks: 1, bytes: 1 << 20, value_bytes_max: 0, follows: true };
    let lanes = Lanes::new(&config, &MemoryBudget::new(1 << 24)).expect("enough memory");
    let mut records = Records::new(1, bytes);
    let mut start = 0;
    for record in &mut records {
        let Ok(record) = record else { break };
        let mut again = Vec::new();
        record.entry.encode(&mut again);
        assert_eq!(again, bytes[start..start + again.len()]);
        start += again.len();
        for (_, log) in lanes.logs() {
            let end = log.end();
            let taken = follow(&lanes, log, record.entry, false);
            let again = taken.is_err() && follow(&lanes, log, record.entry, true).is_ok();
            assert_eq!(log.end(), end + u64::from(taken.is_ok() || again));
        }
    }
    assert!(records.next().is_none());
}

fn follow(
    lanes: &Lanes,
    log: &effects::Log,
    mut entry: Entry<'_>,
    mends: bool,
) -> Result<(), Unfollowed> {
    let Entry::Change { slice, version, effect, .. } = &mut entry else {
        return log.follow(log.end() + 1, &entry);
    };
    let (of_key, version) = (SliceId::of(effect.key), *version);
    if mends {
        *slice = of_key;
    }
    let slice = *slice;
    let before = lanes.last(slice).1;
    let followed = log.follow(log.end() + 1, &entry);
    let after = lanes.last(slice).1;
    assert_eq!(after, if followed.is_ok() { version } else { before });
    assert!(followed.is_err() || slice == of_key && after > before);
    followed
}
