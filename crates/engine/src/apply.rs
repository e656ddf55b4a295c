//! Applying effects told by another engine: how a copy is kept.

use crate::effect::{Change, Effect, EffectSink, Gone, NoSink};
use crate::engine::Engine;
use crate::head::Flags;
use crate::item::Attributes;
use crate::local::Local;
use crate::writer::{NeedSpace, Writer};
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

impl Engine {
    /// Makes the item as `effect` says, unless it is newer. The local is pinned; the pin may move
    /// on. Room is made out of dead ground only: an engine that evicts answers [`Applied::NoSpace`]
    /// at once.
    pub fn apply(&self, local: &mut Local, effect: &Effect<'_>, now: Now) -> Applied {
        let applied = if self.config.evict {
            self.try_apply(local, effect, now).ok()
        } else {
            self.with_room(local, now, &mut NoSink, |engine, local, _| {
                engine.try_apply(local, effect, now)
            })
        };
        let applied = applied.unwrap_or(Applied::NoSpace);
        self.index.adjust(&self.epochs, self.key(effect.key).id.slice);
        applied
    }

    fn try_apply(
        &self,
        local: &mut Local,
        effect: &Effect<'_>,
        now: Now,
    ) -> Result<Applied, NeedSpace> {
        let key = self.key(effect.key);
        let mut replay = Replay(effect.version);
        let mut writer = Writer { engine: self, local, key: &key, now, sink: &mut replay };
        let mut chain = writer.lock()?;
        let current = self.find(&chain, &key);
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
        self.slices.raise(key.id.slice, effect.version);
        Ok(Applied::Done)
    }
}
