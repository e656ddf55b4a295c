//! Applying the effects of another engine: how a copy is kept.
//!
//! An effect is applied with the version it has, and only if the item is not newer. Applying in any
//! order, or twice, therefore ends in the same state. A copy makes space out of dead words only:
//! which items go is decided by the engine that emits the effects.

use crate::effects::{Change, Effect, EffectSink, Gone, NoSink};
use crate::eviction::{Eviction, GhostClock, NeedSpace, with_space};
use crate::item::{Attributes, Flags};
use crate::items::Items;
use crate::local::Pin;
use crate::writing::Writer;
use base::{KeyId, Now, Version};

/// How applying an effect ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The item is as the effect says.
    Done,
    /// The item is already newer.
    Stale,
    /// There is no room. A copy never evicts by itself: the other engine must.
    NoSpace,
}

/// Gives an effect the version it already has.
struct Replay(Version);

impl EffectSink for Replay {
    const ON: bool = true;

    fn commit(&mut self, _key: KeyId, _effect: &Effect<'_>) -> Version {
        self.0
    }
}

/// Makes the item as `effect` says, unless it is newer.
pub(crate) fn apply(
    eviction: &Eviction,
    items: &Items,
    pin: &mut Pin,
    effect: &Effect<'_>,
    now: Now,
) -> Applied {
    let ghosts = eviction.ghosts();
    let applied = if items.config().evict {
        try_apply(items, ghosts, pin, effect, now).ok()
    } else {
        with_space(eviction, items, pin, now, &mut NoSink, |pin, _| {
            try_apply(items, ghosts, pin, effect, now)
        })
    };
    items.index().adjust(pin.grace(), items.key(effect.key).id.slice);
    applied.unwrap_or(Applied::NoSpace)
}

fn try_apply(
    items: &Items,
    ghosts: &GhostClock,
    pin: &mut Pin,
    effect: &Effect<'_>,
    now: Now,
) -> Result<Applied, NeedSpace> {
    let key = items.key(effect.key);
    let mut replay = Replay(effect.version);
    let mut writer = Writer { items, ghosts, pin, key: &key, now, sink: &mut replay };
    let mut chain = writer.lock()?;
    let current = items.find(&chain, &key);
    if let Some(current) = &current {
        // A touch leaves the version, so an item told again may expire at another time.
        let told_again = matches!(effect.change, Change::Put { .. });
        let version = current.item.version();
        if version > effect.version || (version == effect.version && !told_again) {
            return Ok(Applied::Stale);
        }
    }
    match effect.change {
        Change::Put { value, client_flags, expiry_s, client_cas, stale } => {
            let flags = Flags::default().with_if(stale, Flags::STALE);
            let base = Version::ZERO;
            let with = Attributes { expiry_s, client_flags, client_cas, flags, base };
            let value = [value, &[]];
            writer.put(&mut chain, current, &with, value)?;
        }
        Change::Touch { expiry_s } => {
            if let Some(current) = current {
                let mut with = current.item.attributes(current.head);
                with.expiry_s = expiry_s;
                writer.rewrite(&mut chain, current, &with)?;
            }
        }
        Change::Remove(_) => {
            if let Some(current) = current {
                writer.remove(&mut chain, &current, Gone::Deleted);
            }
        }
    }
    items.slices().raise(key.id.slice, effect.version);
    Ok(Applied::Done)
}
