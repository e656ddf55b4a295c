//! Effects: the changes of items, as the engine emits them and a log keeps them.
//!
//! ```text
//! engine --effect--> sink: a log --entries--> copies, a journal, clients that watch
//!                      |
//!                      +--version--> engine: the item is published with it
//! ```
//!
//! An effect is complete: another engine that applies it ends in the same state. It borrows
//! everything: a value stays where it lies until a sink copies it. The sink stamps the version, so
//! it decides the order of the changes of a slice. A sink is called under the lock of a bucket: it
//! copies what it needs and returns at once.
//!
//! Expiries are seconds of the expiry clock, of which 0 means never. Lengths are in bytes.

use crate::slice::{KeyId, SliceId};
use crate::version::Version;
use std::fmt;

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

/// A value in the memory of its item.
pub trait StoredValue {
    /// Its length.
    fn bytes(&self) -> usize;

    /// Appends the value to `target`.
    fn append_to(&self, target: &mut Vec<u8>);
}

/// A value where it lies. Nothing is copied until [`Value::append_to`].
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// In the parts in which it arrived, one after the other.
    Parts([&'a [u8]; 2]),
    /// In the memory of its item.
    Stored(&'a dyn StoredValue),
}

impl Value<'_> {
    /// The value without bytes.
    pub const EMPTY: Self = Self::Parts([&[], &[]]);

    /// Its length.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Parts([first, second]) => first.len() + second.len(),
            Self::Stored(value) => value.bytes(),
        }
    }

    /// Appends the value to `target`.
    #[inline]
    pub fn append_to(&self, target: &mut Vec<u8>) {
        match self {
            Self::Parts(parts) => parts.iter().for_each(|part| target.extend_from_slice(part)),
            Self::Stored(value) => value.append_to(target),
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes())
    }
}

/// What an item carries besides its key, its value and its version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The client's flags.
    pub client_flags: u32,
    /// Second of the expiry clock from which it is gone; 0 for never.
    pub expiry_s: u32,
    /// The token to compare with on `cas`, where it is not the counter of the version: a client
    /// chose it, or a touch has changed the version since.
    pub token: Option<u64>,
    /// A client marked it invalid.
    pub stale: bool,
    /// The right to refresh it has been given to a reader.
    pub token_sent: bool,
    /// A read created it, without a value.
    pub vivified: bool,
}

/// What happens to the item of a key.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// It holds this value.
    Put(Value<'a>, Facts),
    /// Its expiry changes, and nothing else. Where the item is about to expire, the whole item
    /// comes along: at a copy it may have expired already.
    Touch(u32, Option<(Value<'a>, Facts)>),
    /// It is removed.
    Remove(Removal),
}

impl Change<'_> {
    /// Bytes of the value that comes along.
    #[inline]
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        match self {
            Self::Put(value, _) | Self::Touch(_, Some((value, _))) => value.bytes(),
            Self::Touch(_, None) | Self::Remove(_) => 0,
        }
    }
}

/// One change of one item, without its version.
#[derive(Clone, Copy, Debug)]
pub struct Effect<'a> {
    /// The key of the item.
    pub key: &'a [u8],
    /// What happens to it.
    pub change: Change<'a>,
}

/// Why a sink takes no effect. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no space for it now. It may be tried again later.
    Full,
    /// It is longer than the sink takes, now and later.
    TooLarge,
    /// A flush ended the item that the change is made from. It may be tried again at once.
    Flushed,
    /// The sink takes no more effects of this slice.
    Sealed,
}

/// What is to be reserved in a sink before a lock is taken.
#[derive(Clone, Copy, Debug)]
pub enum Space<'a> {
    /// For one change of this key that carries `value_bytes`, and for the removal of the item that
    /// it replaces. Where the value is known already, the sink may copy it now.
    Change {
        /// Bytes of the key.
        key_bytes: usize,
        /// Bytes of the value.
        value_bytes: usize,
        /// The value, where it is known.
        value: Option<Value<'a>>,
    },
    /// For the removal of an item whose memory is needed.
    Removal,
}

/// Takes effects, stamps them, and keeps what it needs of them.
pub trait EffectSink {
    /// Whether it takes any. `false` removes the calls and what prepares them.
    const ON: bool;

    /// Reserves space for effects of `slice`, before a lock is taken. What is left of an earlier
    /// reservation counts.
    ///
    /// # Errors
    /// When there is no space: the caller changes nothing.
    fn reserve(&mut self, slice: SliceId, space: Space<'_>) -> Result<(), Refused>;

    /// Takes an effect and stamps it: it calls `stamp` for the version once it is certain to take
    /// the effect, and in the order in which it takes the effects of the slice. Space was reserved.
    ///
    /// # Errors
    /// When it takes the effect no more, or `stamp` refuses. Nothing has changed then.
    fn commit(
        &mut self,
        key: KeyId,
        effect: &Effect<'_>,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused>;

    /// Whether a key without an item in memory has none elsewhere either. Asked under the lock of
    /// the bucket of the key, before anything is decided by the absence of an item. `false`: the
    /// operation is to be carried out later, and has changed nothing. (A dead item of the key was
    /// removed before this is asked, and its effect committed.)
    #[inline(always)]
    fn is_absent(&mut self, _key: KeyId, _bytes: &[u8]) -> bool {
        true
    }
}

/// Takes no effects.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSink;

impl EffectSink for NoSink {
    const ON: bool = false;

    #[inline(always)]
    fn reserve(&mut self, _slice: SliceId, _space: Space<'_>) -> Result<(), Refused> {
        Ok(())
    }

    #[inline(always)]
    fn commit(
        &mut self,
        _key: KeyId,
        _effect: &Effect<'_>,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused> {
        stamp()
    }
}
