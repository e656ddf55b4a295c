//! Filling: an item that was loaded from below the memory is installed.
//!
//! A fill is not a change. No effect is committed for it, it draws no number, and the item is what
//! it was when it was stored: with its version, its token, its expiry and its marks. So a barrier
//! that was raised meanwhile ends it. What is in memory is newer, and stays. Whether it is
//! still what lies below is for the caller to say, under the lock of the bucket: no change of
//! the key can be committed between its answer and the fill.
//!
//! Space is made as for a write: by eviction, whose effects go to the sink.

use super::given::Given;
use crate::eviction::{Eviction, Failed, Stopped, Work};
use crate::item::{Attributes, expired};
use crate::keys::Key;
use crate::obstacle::Obstacle;
use crate::writing::{Ahead, Writer, look, with_space_ahead, write_if_long};
use base::{EffectSink, Facts, Space, Version};

/// An item that was loaded from below the memory.
#[derive(Clone, Copy, Debug)]
pub struct Loaded<'a> {
    /// Its key.
    pub key: Key<'a>,
    /// The parts of its value, one after the other.
    pub value: [&'a [u8]; 2],
    /// What else it carries.
    pub facts: Facts,
    /// The version that it was stored with.
    pub version: Version,
}

/// How a fill ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// The item is in memory now.
    Done,
    /// The key has an item in memory, which is newer. That stays.
    Stale,
    /// It was not admitted; or it has expired, its version is at or below the barrier of its slice,
    /// or this cell keeps only a copy of the slice.
    Refused,
    /// Memory is full, and nothing can be evicted.
    NoSpace,
    /// The value is longer than the engine is configured for.
    TooLarge,
    /// It cannot be installed now, and may be tried again.
    Later(Obstacle),
}

/// Installs `item`, unless its key has an item in memory, and if `admit` says so.
pub(crate) fn fill<S: EffectSink>(
    eviction: &Eviction,
    work: &mut Work<'_, S>,
    item: &Loaded<'_>,
    mut admit: impl FnMut() -> bool,
) -> Filled {
    let value_bytes = item.value[0].len() + item.value[1].len();
    if value_bytes > work.items.config().value_bytes_max {
        return Filled::TooLarge;
    }
    let mut removes = false;
    let filled = with_space_ahead(eviction, work, |work, ahead| {
        try_fill(work, item, &mut removes, &mut admit, ahead)
    });
    match filled {
        Ok(filled) => filled,
        Err(Failed::Later(obstacle)) => Filled::Later(obstacle),
        Err(Failed::NoSpace) => Filled::NoSpace,
        Err(Failed::TooLarge) => Filled::TooLarge,
    }
}

/// `removes` is set where a dead item of the key was seen, whose removal is an effect.
fn try_fill<S: EffectSink>(
    work: &mut Work<'_, S>,
    item: &Loaded<'_>,
    removes: &mut bool,
    admit: &mut impl FnMut() -> bool,
    ahead: &mut Ahead,
) -> Result<Filled, Stopped> {
    let Loaded { key, value, facts, version } = item;
    let (items, slice) = (work.items, key.id.slice);
    let is_dead = expired(facts.expiry_s, work.now) || *version <= items.slices().barrier(slice);
    if is_dead || items.slices().is_copy(slice) {
        return Ok(Filled::Refused);
    }
    if look(work, key)?.alive {
        // Nothing is written for it, and nothing evicted.
        return Ok(Filled::Stale);
    }
    if S::ON && *removes {
        work.sink.reserve(slice, Space::Removal)?;
    }
    let with = Attributes::of(facts);
    write_if_long(ahead, work, key, &with, *value)?;
    let mut writer = Writer::new(work, key);
    let mut chain = writer.lock()?;
    if S::ON && !*removes && items.find(&chain, key).is_some() {
        // Alive or dead, which the next attempt sees.
        *removes = true;
        return Err(Stopped::Again);
    }
    if writer.find_alive(&mut chain)?.is_some() {
        return Ok(Filled::Stale);
    }
    // Before it is published: a flush raises the barrier to the last version.
    items.slices().raise(slice, *version);
    let given = &mut Given { version: *version, admit };
    let mut work = work.with_sink(given);
    match Writer::new(&mut work, key).put(&mut chain, None, &with, *value, ahead) {
        Ok(_) => Ok(Filled::Done),
        Err(Stopped::Refused(_)) => Ok(Filled::Refused),
        Err(stopped) => Err(stopped),
    }
}
