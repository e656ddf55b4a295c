//! What is written once more, since it may not be durable: what the index needs of it.
//!
//! ```text
//! segment   4: set K, copied | 5: set K, led | 6: set K, once more, of 4 | END
//! ```
//!
//! Segment 5 is free once that is written back, and 6 may stay. So what stands there must be no
//! change that another one has replaced, or that is below or void: the next start would take it for
//! the newest. Within a lane that cannot be, as what comes later is written once more, too.

use crate::index::{Entry, Kind, Place};
use crate::key::KeyHash;
use base::{Change, Effect, SliceId, Version};
use std::collections::HashMap;

/// What is to be written once more of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needed {
    /// The record.
    Record,
    /// The record, and after it the last touch, whose own record may be free before.
    Touched(Entry),
    /// That the changes of its key are over, as it is below, or void: what is older may be there
    /// still. A touch that came later is one of what lies below.
    End,
    /// Nothing: a later record stands elsewhere.
    Nothing,
}

/// What is needed of a record of a key with this version, where the index has `named` of the key.
/// `is_there` says of a place whether it is that of the record, or of one that is written once more
/// with it, in their order.
pub(super) fn needed(
    named: Option<Entry>,
    version: Version,
    is_there: impl Fn(Place) -> bool,
) -> Needed {
    match named {
        None => Needed::End,
        Some(named) if named.version <= version => Needed::Record,
        Some(named) if is_there(named.place) => Needed::Touched(named),
        Some(named) if named.kind == Kind::TouchOf => Needed::End,
        Some(_) => Needed::Nothing,
    }
}

/// A lane that the disk has refused, while what was void is written once more.
pub(super) struct Again {
    /// The index knows the changes up to this position of the log.
    pub(super) known: u64,
    moved: HashMap<KeyHash, Moved>,
    /// Keys of which the index knows a later change: it may be a touch in another lane.
    touched: HashMap<KeyHash, (SliceId, Box<[u8]>)>,
}

/// The last records of a key that are written once more.
struct Moved {
    /// Where that of the value is now, or that of a touch where the value is below.
    to: Place,
    /// The version of the last one.
    version: Version,
}

impl Again {
    /// Nothing yet, of a log whose changes the index knows up to `known`.
    pub(super) fn new(known: u64) -> Self {
        Self { known, moved: HashMap::new(), touched: HashMap::new() }
    }

    /// The index knows a later change of this key.
    pub(super) fn may_be_touched(&mut self, hash: KeyHash, (slice, key): (SliceId, &[u8])) {
        self.touched.entry(hash).or_insert_with(|| (slice, key.into()));
    }

    /// A record `is_touch`, or has the whole state of its key, and is written.
    pub(super) fn wrote(&mut self, hash: KeyHash, (to, version): (Place, Version), is_touch: bool) {
        match self.moved.get_mut(&hash) {
            Some(before) if is_touch => before.version = version,
            _ => _ = self.moved.insert(hash, Moved { to, version }),
        }
    }

    /// Where the record of each key is that was written, which the index is to name.
    pub(super) fn moved(&self) -> impl Iterator<Item = (KeyHash, Place)> {
        self.moved.iter().map(|(hash, moved)| (*hash, moved.to))
    }

    /// The last touches of keys of which the index has `named`, where they lie in another lane.
    pub(super) fn touches(&self, named: impl Fn(KeyHash) -> Option<Entry>) -> Vec<Touch> {
        let touch = |(hash, (slice, key)): (&KeyHash, &(SliceId, Box<[u8]>))| {
            let (moved, named) = (self.moved.get(hash)?, named(*hash)?);
            let is_touched = named.place == moved.to && named.version > moved.version;
            is_touched.then(|| Touch::of((*slice, key), &named))
        };
        self.touched.iter().filter_map(touch).collect()
    }
}

/// A touch that is written after a record of its key: its own record may be free before that.
pub(super) struct Touch {
    pub(super) slice: SliceId,
    pub(super) key: Box<[u8]>,
    pub(super) version: Version,
    pub(super) expiry_s: u32,
}

impl Touch {
    /// The last one of a key, of which the index has `named`.
    pub(super) fn of((slice, key): (SliceId, &[u8]), named: &Entry) -> Self {
        Self { slice, key: key.into(), version: named.version, expiry_s: named.expiry_s }
    }

    /// As it is written.
    pub(super) fn entry(&self) -> effects::Entry<'_> {
        let effect = Effect { key: &self.key, change: Change::Touch(self.expiry_s, None) };
        effects::Entry::Change { slice: self.slice, version: self.version, effect, tag: None }
    }
}
