//! What a history is made of.

use crate::Moment;
use crate::life::Life;
use crate::starts::NOW;
use base::{Facts, Removal, SliceRange};

/// An operation, of one of two keys or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Set(usize),
    Delete(usize),
    Touch(usize),
    /// An eviction.
    Forget(usize),
    /// The items of the slice of a key end.
    End(usize),
    Sync,
    WriteBack,
}

/// All operations. Histories of one length begin with those of the first key.
pub const STEPS: [Step; 12] = [
    Step::Set(0),
    Step::Delete(0),
    Step::Touch(0),
    Step::Forget(0),
    Step::End(0),
    Step::Sync,
    Step::WriteBack,
    Step::Set(1),
    Step::Delete(1),
    Step::Touch(1),
    Step::Forget(1),
    Step::End(1),
];

/// Whether the first key that a history names is the first one: with the keys exchanged, it is
/// another history that is.
pub fn is_canonical(steps: &[Step]) -> bool {
    let key = |step: &Step| match step {
        Step::Set(key)
        | Step::Delete(key)
        | Step::Touch(key)
        | Step::Forget(key)
        | Step::End(key) => Some(*key),
        Step::Sync | Step::WriteBack => None,
    };
    steps.iter().find_map(key).is_none_or(|key| key == 0)
}

/// Takes a step, and writes.
pub fn take(life: &mut Life, at: &mut Moment, step: Step) {
    let given = &mut at.given;
    let done = match step {
        Step::Set(key) => {
            // Values that are stored later have higher numbers: the backend looks.
            let value = format!("{}:{key}", given.values().sum::<u64>()).into_bytes();
            life.set(given, &mut at.keys[key], (value, Facts::default()))
        }
        Step::Delete(key) => life.delete(given, &mut at.keys[key]),
        Step::Touch(key) => match at.keys[key].last().1.clone() {
            Some(item) => {
                let how = (NOW.expiry_s + 100, false);
                life.touch(given, &mut at.keys[key], &item, how)
            }
            None => Ok(()),
        },
        Step::Forget(key) => life.forget(given, &at.keys[key], Removal::Evicted),
        Step::End(key) => {
            let range = SliceRange::of(at.keys[key].slice);
            life.flush_all(&mut at.keys, range)
        }
        Step::Sync => {
            life.tier.sync(NOW);
            Ok(())
        }
        Step::WriteBack => {
            life.tier.flush(NOW, true).expect("nothing fails");
            Ok(())
        }
    };
    done.expect("there is room");
    life.sink.end_batch();
    life.tier.write();
}
