//! Numbers that clients cannot guess.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// A number that clients cannot guess.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
