//! Keys: the 64 bits that come back with an event and say what the event is about.
//!
//! ```text
//! key  63..........32 31.......0
//!      generation     index        a connection of this worker
//!      all ones       0            messages from other threads
//!      all ones       1 + n        listener number n
//!      all ones       2^28 + n     connection number n that is under way, wrapping
//! ```
//!
//! An index is used again with a new generation. So an event or a message that arrives after its
//! connection is closed matches no connection.

use session::ConnId;

/// What an event is about. Truncated to 32 bits, it is the index of a connection.
pub(crate) type Key = u64;

pub(super) const GENERATION_SHIFT: u32 = 32;

/// The key of messages. Keys from here on are not connections.
pub(crate) const KEY_SPECIAL: Key = (u32::MAX as u64) << GENERATION_SHIFT;

/// The key of the first listener; the others follow.
pub(crate) const KEY_LISTENERS: Key = KEY_SPECIAL + 1;

/// The key of the first connection that is under way; the others follow, and wrap after
/// [`CONNECT_NUMBERS`].
pub(crate) const KEY_CONNECTS: Key = KEY_SPECIAL + (1 << 28);

/// Keys of connections that are under way.
pub(super) const CONNECT_NUMBERS: u64 = 1 << 28;

/// The key of a connection.
#[inline]
pub(super) fn key_of(id: ConnId) -> Key {
    u64::from(id.generation) << GENERATION_SHIFT | u64::from(id.index)
}
