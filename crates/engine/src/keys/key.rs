//! A key with what is computed from it once per request.

use base::KeyId;

/// A key, its slice and its keyed hash. Made by [`crate::Engine::key`].
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Slice and hash.
    pub id: KeyId,
    /// The key itself, 1 to [`crate::KEY_BYTES_MAX`] bytes.
    pub bytes: &'a [u8],
}
