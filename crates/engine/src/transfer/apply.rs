//! Applying the effects of another engine: how a copy is kept.
//!
//! An effect is applied with the version it has, and only if the item is not newer. Applying in any
//! order, or twice, therefore ends in the same state. A copy makes space out of dead words only:
//! which items go is decided by the engine that emits the effects.

use crate::effects::{Change, Effect, EffectSink, NoSink, Removal};
use crate::eviction::{Eviction, NeedSpace, Work, with_space};
use crate::item::{Attributes, Flags};
use crate::writing::Writer;
use base::{KeyId, Version};

/// The result of applying an effect.
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
    work: &mut Work<'_, NoSink>,
    effect: &Effect<'_>,
) -> Applied {
    let applied = if work.items.config().evict {
        try_apply(work, effect).ok()
    } else {
        with_space(eviction, work, |work| try_apply(work, effect))
    };
    let slice = work.items.key(effect.key).id.slice;
    work.items.index().resizing(slice).adjust(work.pin.grace());
    applied.unwrap_or(Applied::NoSpace)
}

fn try_apply(work: &mut Work<'_, NoSink>, effect: &Effect<'_>) -> Result<Applied, NeedSpace> {
    let items = work.items;
    let key = items.key(effect.key);
    let sink = &mut Replay(effect.version);
    let mut work = Work { pin: &mut *work.pin, sink, items, ghosts: work.ghosts, now: work.now };
    let mut writer = Writer::new(&mut work, &key);
    let mut chain = writer.lock()?;
    let current = items.find(&chain, &key);
    if let Some(current) = &current {
        // A touch leaves the version, so an item emitted again may have another expiry.
        let again = matches!(effect.change, Change::Put { .. });
        let version = current.item.version();
        if version > effect.version || (version == effect.version && !again) {
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
                writer.remove(&mut chain, &current, Removal::Deleted);
            }
        }
    }
    items.slices().raise(key.id.slice, effect.version);
    Ok(Applied::Done)
}
