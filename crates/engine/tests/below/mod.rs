//! A sink that says whether a key may exist below the memory, and notes what it is asked and given.

use base::{
    Change, Effect, EffectSink, Facts, KeyId, Now, Refused, Removal, SliceId, SliceRange, Space,
    Version,
};
use engine::{Cursor, Engine, ItemSink, More, Pin, WalkedItem};

/// What a sink has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Asked(Vec<u8>),
    Put(Vec<u8>),
    Touched(Vec<u8>),
    Removed(Vec<u8>, Removal),
}

/// Takes effects, and answers as the test wants.
#[derive(Debug)]
pub struct Below {
    /// What it answers: that a key without an item in memory has none elsewhere.
    pub absent: bool,
    /// Whether it has no space for removals.
    pub is_full: bool,
    pub events: Vec<Event>,
}

impl Below {
    pub fn new(absent: bool) -> Self {
        Self { absent, is_full: false, events: Vec::new() }
    }
}

impl EffectSink for Below {
    const ON: bool = true;

    fn reserve(&mut self, _: SliceId, space: Space<'_>) -> Result<(), Refused> {
        let is_refused = self.is_full && matches!(space, Space::Removal);
        if is_refused { Err(Refused::Full) } else { Ok(()) }
    }

    fn commit(
        &mut self,
        _: KeyId,
        effect: &Effect<'_>,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused> {
        let version = stamp()?;
        let key = effect.key.to_vec();
        self.events.push(match effect.change {
            Change::Put(..) => Event::Put(key),
            Change::Touch(..) => Event::Touched(key),
            Change::Remove(removal) => Event::Removed(key, removal),
        });
        Ok(version)
    }

    fn is_absent(&mut self, id: KeyId, key: &[u8]) -> bool {
        assert_eq!(id.slice, SliceId::of(key));
        self.events.push(Event::Asked(key.to_vec()));
        self.absent
    }
}

/// An item in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub facts: Facts,
    pub version: Version,
}

struct Walk(Vec<Held>);

impl ItemSink for Walk {
    fn take(&mut self, item: &WalkedItem<'_>) -> bool {
        let mut value = Vec::new();
        item.value.append_to(&mut value);
        let (key, facts, version) = (item.key.to_vec(), item.facts, item.version);
        self.0.push(Held { key, value, facts, version });
        true
    }
}

/// All items that are alive.
pub fn held(engine: &Engine, pin: &mut Pin, now: Now) -> Vec<Held> {
    let (mut walk, mut at) = (Walk(Vec::new()), Cursor::default());
    while engine.scan(pin, SliceRange::ALL, &mut at, 1_000, now, &mut walk) == More::Yes {
        pin.renew();
    }
    walk.0
}
