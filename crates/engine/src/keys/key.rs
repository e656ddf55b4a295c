//! A key with what is computed from it once per request.

use crate::sync::MODEL;
use base::KeyId;

/// The longest key in bytes, as in memcached.
pub const KEY_BYTES_MAX: usize = if MODEL { 10 } else { 250 };

/// A key, its slice and its keyed hash. Made by [`crate::Engine::key`].
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Slice and hash.
    pub id: KeyId,
    /// The key itself, 1 to [`crate::KEY_BYTES_MAX`] bytes.
    pub bytes: &'a [u8],
}
