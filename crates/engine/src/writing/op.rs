//! What writing asks and returns.

use crate::keys::Key;
use crate::reading::Found;

/// One change to one item.
#[derive(Clone, Copy, Debug)]
pub struct Op<'a> {
    /// Whose item.
    pub key: Key<'a>,
    /// What to do with it.
    pub action: Action<'a>,
    /// Do it only if the item's token is this one.
    pub compare: Option<u64>,
    /// With `compare`: a token older than the item's still stores, but leaves the item stale.
    pub older_as_stale: bool,
    /// The token the item is to have instead of its version.
    pub cas: Option<u64>,
    /// Whether the result describes the item as it then is, which most clients do not ask for.
    pub report: bool,
}

impl<'a> Op<'a> {
    /// `action` on `key`, without conditions.
    #[must_use]
    pub fn new(key: Key<'a>, action: Action<'a>) -> Self {
        Self { key, action, compare: None, older_as_stale: false, cas: None, report: false }
    }
}

/// When a value is stored, and what becomes of the one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Always.
    Set,
    /// Only where there is no item.
    Add,
    /// Only where there is an item.
    Replace,
    /// Behind the value that is there; where there is none, store it only if `vivify`.
    Append {
        /// Whether a missing item is created.
        vivify: bool,
    },
    /// Before the value that is there; where there is none, store it only if `vivify`.
    Prepend {
        /// Whether a missing item is created.
        vivify: bool,
    },
}

/// The change.
#[derive(Clone, Copy, Debug)]
pub enum Action<'a> {
    /// Store a value.
    Store {
        /// When.
        mode: Mode,
        /// The value.
        value: &'a [u8],
        /// The client's flags.
        client_flags: u32,
        /// Second of the expiry clock from which the item is gone; 0 for never.
        expiry_s: u32,
    },
    /// Add to, or take from, a decimal number.
    Count {
        /// By how much.
        delta: u64,
        /// Take away, stopping at zero, instead of adding, wrapping at 2^64.
        down: bool,
        /// What a missing item starts with: its number and its expiry.
        initial: Option<(u64, u32)>,
        /// A new expiry for an item that is there.
        expiry_s: Option<u32>,
    },
    /// Change the expiry.
    Touch {
        /// The new one; 0 for never.
        expiry_s: u32,
    },
    /// Remove the item.
    Delete,
    /// Mark the item stale, and give it a new token.
    Invalidate {
        /// A new expiry.
        expiry_s: Option<u32>,
    },
    /// Remove the value, and keep the item.
    Clear {
        /// The client's flags from now on.
        client_flags: u32,
        /// A new expiry.
        expiry_s: Option<u32>,
        /// Whether to mark the item stale too.
        stale: bool,
    },
}

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was made.
    Done,
    /// The mode of storing forbade it.
    NotStored,
    /// The item's token is another.
    Exists,
    /// There is no such item.
    NotFound,
    /// The value is not a decimal number.
    NotNumber,
    /// The value would be longer than the engine is configured for.
    TooLarge,
    /// Memory is full, and nothing could be evicted.
    NoSpace,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrote {
    /// How it ended.
    pub outcome: Outcome,
    /// The item as it now is, where there is one and the operation asked for it.
    pub found: Option<Found>,
    /// The number it now holds, after [`Action::Count`].
    pub number: u64,
}

impl Wrote {
    pub(crate) fn ended(outcome: Outcome) -> Self {
        Self { outcome, found: None, number: 0 }
    }
}

/// A value to store, whatever is there.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    /// The value.
    pub value: &'a [u8],
    /// The client's flags.
    pub client_flags: u32,
    /// Second of the expiry clock from which the item is gone; 0 for never.
    pub expiry_s: u32,
}

impl Put<'_> {
    /// What `op` stores, if it is a `set` without conditions that wants nothing told.
    pub(crate) fn of<'a>(op: &Op<'a>) -> Option<Put<'a>> {
        let Action::Store { mode: Mode::Set, value, client_flags, expiry_s } = op.action else {
            return None;
        };
        let is_plain = op.compare.is_none() && op.cas.is_none() && !op.report;
        is_plain.then_some(Put { value, client_flags, expiry_s })
    }
}
