//! A key with what is computed from it once per request: its slice and its hash.

use crate::sync::MODEL;
use base::KeyId;

/// The longest key in bytes, as in memcached.
pub const KEY_BYTES_MAX: usize = if MODEL { 10 } else { 250 };

/// A key, its slice and its keyed hash, made by [`crate::Engine::key`].
///
/// ```
/// # let budget = base::MemoryBudget::new(1 << 20);
/// let (engine, _) = engine::Engine::new(engine::EngineConfig::new(1 << 20), budget)?;
/// let key = engine.key(b"name");
/// assert_eq!((key.bytes, key.id.slice), (&b"name"[..], base::SliceId::of(b"name")));
/// # Ok::<(), engine::EngineError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Slice and hash.
    pub id: KeyId,
    /// The key itself, 1 to [`crate::KEY_BYTES_MAX`] bytes.
    pub bytes: &'a [u8],
}
