//! What a write requests and returns.
//!
//! Plain data: nothing here touches an item. Expiries are seconds of the expiry clock, of which 0
//! means never.

use crate::eviction::Failed;
use crate::keys::Key;
use crate::obstacle::Obstacle;
use crate::reading::Found;

/// One change to one item.
#[derive(Clone, Copy, Debug)]
pub struct Op<'a> {
    /// The key of the item.
    pub key: Key<'a>,
    /// What to do with it.
    pub action: Action<'a>,
    /// Do it only if the item's token is this one.
    pub compare: Option<u64>,
    /// With `compare`: a token older than that of the item still stores, and marks the item stale.
    pub older_as_stale: bool,
    /// The token that the item gets instead of its version.
    pub cas: Option<u64>,
    /// Whether the result describes the item after the change, which most clients do not need.
    pub report: bool,
    /// With [`Action::Delete`]: where the key has no item in memory and may have one elsewhere,
    /// whether its removal is emitted nevertheless.
    pub unseen: bool,
}

impl<'a> Op<'a> {
    /// `action` on `key`, without conditions.
    #[must_use]
    pub fn new(key: Key<'a>, action: Action<'a>) -> Self {
        Self {
            key,
            action,
            compare: None,
            older_as_stale: false,
            cas: None,
            report: false,
            unseen: false,
        }
    }

    /// Whether it stores its value with an item and without one.
    #[inline(always)]
    pub(crate) fn stores_anyway(&self) -> bool {
        matches!(self.action, Action::Store { mode: Mode::Set, .. }) && self.compare.is_none()
    }
}

/// When a value is stored, and what happens to the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Always.
    Set,
    /// Only where there is no item.
    Add,
    /// Only where there is an item.
    Replace,
    /// After the present value. Where there is none, store it only if `vivify`.
    Append {
        /// Whether a missing item is created.
        vivify: bool,
    },
    /// Before the present value. Where there is none, store it only if `vivify`.
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
    /// Add to a decimal number, or subtract from it.
    Count {
        /// By how much.
        delta: u64,
        /// Subtract and stop at zero, instead of adding and wrapping at 2^64.
        down: bool,
        /// What a missing item starts with: its number and its expiry.
        initial: Option<(u64, u32)>,
        /// A new expiry for an item that exists.
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
pub enum WriteStatus {
    /// It was made.
    Done,
    /// The mode of storing does not allow it.
    NotStored,
    /// The item has another token.
    Exists,
    /// There is no such item.
    NotFound,
    /// The value is not a decimal number.
    NotNumber,
    /// The value would be longer than the engine is configured for.
    TooLarge,
    /// Memory is full, and nothing can be evicted.
    NoSpace,
    /// It cannot be made now. Nothing has changed, and it may be tried again.
    Later(Obstacle),
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteResult {
    /// How it ended.
    pub status: WriteStatus,
    /// The item after the change, where there is one and [`Op::report`] is set.
    pub found: Option<Found>,
    /// The number it now holds, after [`Action::Count`].
    pub number: u64,
}

impl WriteResult {
    pub(crate) fn ended(status: WriteStatus) -> Self {
        Self { status, found: None, number: 0 }
    }

    /// The result of a change that was not made.
    pub(crate) fn failed(failed: Failed) -> Self {
        Self::ended(match failed {
            Failed::NoSpace => WriteStatus::NoSpace,
            Failed::TooLarge => WriteStatus::TooLarge,
            Failed::Later(obstacle) => WriteStatus::Later(obstacle),
        })
    }
}

/// A value to store, whether an item exists or not.
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
    /// What `op` stores, if it is a `set` without conditions and without a report.
    pub(crate) fn of<'a>(op: &Op<'a>) -> Option<Put<'a>> {
        let Action::Store { mode: Mode::Set, value, client_flags, expiry_s } = op.action else {
            return None;
        };
        let is_plain = op.compare.is_none() && op.cas.is_none() && !op.report;
        is_plain.then_some(Put { value, client_flags, expiry_s })
    }
}
