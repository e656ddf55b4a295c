//! Applying the effects of another engine: how a copy is kept.
//!
//! An effect is applied with the version that it has, and only if the item is older. So one that
//! arrives twice changes nothing the second time. But a change that is applied after the removal
//! that followed it would bring the item back: the order of the log is kept by the caller. Applying
//! draws no number from the counters of this engine, it only raises them.
//!
//! A copy makes space out of dead words only: which items go is decided by the engine that emits
//! the effects. So that there is space, some is kept free for copies, and the other engine emits no
//! more than was promised to it.

use super::given::Given;
use crate::eviction::{Eviction, Failed, Stopped, Work};
use crate::item::Attributes;
use crate::keys::{KEY_BYTES_MAX, Key};
use crate::obstacle::Obstacle;
use crate::writing::{Ahead, Writer, overwrite_copy, with_space_ahead, write_if_long};
use base::{Change, Effect, EffectSink, Removal, SliceId, Value, Version};

/// The result of applying an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The item is as the effect says.
    Done,
    /// The item is as new, or newer. Nothing was changed.
    Stale,
    /// There is no space. A copy never evicts by itself: the other engine must.
    NoSpace,
    /// It cannot be applied now, and may be tried again.
    Later(Obstacle),
    /// The effect is malformed: its key is not of the slice, its key has no legal length, its value
    /// is too long, or its version is zero. Nothing was changed.
    Malformed,
}

/// Makes the item as `effect` says, unless it is as new.
pub(crate) fn apply<S: EffectSink>(
    eviction: &Eviction,
    work: &mut Work<'_, S>,
    slice: SliceId,
    effect: &Effect<'_>,
    version: Version,
) -> Applied {
    let items = work.items;
    let legal = (1..=KEY_BYTES_MAX).contains(&effect.key.len())
        && effect.change.value_bytes() <= items.config().value_bytes_max
        && version != Version::ZERO;
    let key = if legal { Some(items.key(effect.key)) } else { None };
    let Some(key) = key.filter(|key| key.id.slice == slice) else {
        work.pin.counters().malformed.add(1);
        return Applied::Malformed;
    };
    if let Change::Put(Value::Parts(value), facts) = effect.change {
        let put = (&Attributes::of(&facts), value);
        match overwrite_copy(items, work.pin, &key, put, version, work.now) {
            Some(true) => {
                items.slices().raise(slice, version);
                return Applied::Done;
            }
            Some(false) => return Applied::Stale,
            None => {}
        }
    }
    apply_any(eviction, work, effect, version, &key)
}

/// [`apply`] of any effect, to the item of `key`.
fn apply_any<S: EffectSink>(
    eviction: &Eviction,
    work: &mut Work<'_, S>,
    effect: &Effect<'_>,
    version: Version,
    key: &Key<'_>,
) -> Applied {
    let (items, slice) = (work.items, key.id.slice);
    let mut copied = Vec::new();
    let put = match effect.change {
        Change::Put(value, facts) | Change::Touch(_, Some((value, facts))) => {
            let value = match value {
                Value::Parts(parts) => parts,
                Value::Stored(_) => {
                    value.append_to(&mut copied);
                    [&copied[..], &[]]
                }
            };
            Some((Attributes::of(&facts), value))
        }
        Change::Touch(_, None) | Change::Remove(_) => None,
    };
    let applied = with_space_ahead(eviction, work, |work, ahead| {
        try_apply(work, (effect, key), put, version, ahead)
    });
    work.pin.trim_scratch();
    items.index().resizing(slice).adjust(work.pin.grace());
    match applied {
        Ok(applied) => applied,
        Err(Failed::Later(obstacle)) => Applied::Later(obstacle),
        Err(Failed::NoSpace | Failed::TooLarge) => Applied::NoSpace,
    }
}

fn try_apply<S>(
    work: &mut Work<'_, S>,
    (effect, key): (&Effect<'_>, &Key<'_>),
    put: Option<(Attributes, [&[u8]; 2])>,
    version: Version,
    ahead: &mut Ahead,
) -> Result<Applied, Stopped> {
    let items = work.items;
    let sink = &mut Given { version, admit: || true };
    let mut given = work.with_sink(sink);
    if let Some((with, value)) = &put {
        write_if_long(ahead, &mut given, key, with, *value)?;
    }
    let mut writer = Writer::new(&mut given, key);
    let mut chain = writer.lock()?;
    let current = items.find(&chain, key);
    if current.as_ref().is_some_and(|current| current.item.version() >= version) {
        return Ok(Applied::Stale);
    }
    match (put, current) {
        (Some((with, value)), current) => {
            writer.put(&mut chain, current, &with, value, ahead)?;
        }
        (None, None) => {}
        (None, Some(current)) => match effect.change {
            Change::Touch(expiry_s, _) => {
                let mut with = current.item.attributes(current.head);
                with.client_cas = Some(current.item.cas(current.head));
                with.expiry_s = expiry_s;
                writer.change_attributes(&mut chain, current, &with)?;
            }
            _ => writer.remove(&mut chain, &current, Removal::Deleted)?,
        },
    }
    items.slices().raise(key.id.slice, version);
    Ok(Applied::Done)
}
