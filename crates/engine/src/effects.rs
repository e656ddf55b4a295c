//! Effects: every change that the engine makes, emitted to a sink that may keep a copy.
//!
//! A sink is called under the lock of the bucket, so it receives the changes of a key in the order
//! of their versions. It copies what it needs and returns at once: it must not wait. With
//! [`NoSink`] all of this compiles to nothing. Expiries are seconds of the expiry clock, and 0
//! means never.

use crate::item::{Attributes, Flags};
use base::{KeyId, Version};

/// Why an item was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// A client deleted it.
    Deleted,
    /// Its memory was needed.
    Evicted,
    /// It was past its expiry, or at or below a barrier.
    Expired,
}

/// What happened to the item of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// It now holds this value.
    Put {
        /// The value.
        value: &'a [u8],
        /// The client's flags.
        client_flags: u32,
        /// Second of the expiry clock from which it is gone; 0 for never.
        expiry_s: u32,
        /// The token chosen by a client, if one was.
        client_cas: Option<u64>,
        /// Whether it is marked stale.
        stale: bool,
    },
    /// It now expires at this second; 0 for never.
    Touch {
        /// The new expiry.
        expiry_s: u32,
    },
    /// It was removed.
    Remove(Removal),
}

impl<'a> Change<'a> {
    /// The change that stores a value with these attributes.
    pub(crate) fn put(value: &'a [u8], with: &Attributes) -> Self {
        Self::Put {
            value,
            client_flags: with.client_flags,
            expiry_s: with.expiry_s,
            client_cas: with.client_cas,
            stale: with.flags.has(Flags::STALE),
        }
    }
}

/// One change, complete: another engine that applies it ends in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect<'a> {
    /// The key of the item.
    pub key: &'a [u8],
    /// What happened.
    pub change: Change<'a>,
    /// The version of the change.
    pub version: Version,
}

/// Receives effects.
pub trait EffectSink {
    /// Whether it takes any. `false` removes the calls and what prepares them.
    const ON: bool;

    /// Whether it reads the values of the items that a walk emits; else they are empty.
    const VALUES: bool = true;

    /// Takes an effect. Returns the version that the item gets: the proposed one, or a later one.
    fn commit(&mut self, key: KeyId, effect: &Effect<'_>) -> Version;
}

/// Takes no effects.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSink;

impl EffectSink for NoSink {
    const ON: bool = false;

    fn commit(&mut self, _key: KeyId, effect: &Effect<'_>) -> Version {
        effect.version
    }
}
