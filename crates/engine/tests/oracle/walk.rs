//! What a walk through an engine passes, as items of the model, and the end of all of them.

use super::Entry;
use base::{NoSink, Now, SLICES, SliceId, SliceRange};
use engine::{Action, Cursor, Engine, ItemSink, More, Op, Pin, WalkedItem};
use std::collections::HashMap;

/// The items that a walk has passed, each with its token.
#[derive(Default)]
struct Passed(HashMap<Vec<u8>, Entry>);

impl ItemSink for Passed {
    fn take(&mut self, item: &WalkedItem<'_>) -> bool {
        let mut value = Vec::new();
        item.value.append_to(&mut value);
        let (facts, version) = (item.facts, item.version);
        let entry = Entry {
            value,
            client_flags: facts.client_flags,
            expiry_s: facts.expiry_s,
            token: Some(facts.token.unwrap_or(version.raw())),
            stale: facts.stale,
            token_sent: facts.token_sent,
            vivified: facts.vivified,
            version,
        };
        assert!(entry.is(&item.found()), "{entry:?} is not {:?}", item.found());
        let passed = self.0.insert(item.key.to_vec(), entry);
        assert!(passed.is_none(), "{} is passed twice", item.key.escape_ascii());
        true
    }
}

/// All items that are alive.
pub fn walk(engine: &Engine, pin: &mut Pin, now: Now) -> HashMap<Vec<u8>, Entry> {
    let (mut passed, mut at) = (Passed::default(), Cursor::default());
    while engine.scan(pin, SliceRange::ALL, &mut at, 50, now, &mut passed) == More::Yes {
        pin.renew();
    }
    passed.0
}

/// Removes all items: forgets half of the slices, and deletes the `keys` of the others.
pub fn remove_all<'k>(
    engine: &Engine,
    pin: &mut Pin,
    keys: impl Iterator<Item = &'k Vec<u8>>,
    now: Now,
) {
    let half = SliceRange::new(0..SLICES / 2);
    for key in keys.filter(|key| !half.contains(SliceId::of(key))) {
        engine.write(pin, &Op::new(engine.key(key), Action::Delete), now, &mut NoSink);
    }
    let mut at = Cursor::default();
    while engine.forget(pin, half, &mut at) == More::Yes {
        pin.renew();
    }
}
