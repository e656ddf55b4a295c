//! Keys that have changed again before a primary has said that they are written back: up to which
//! version what they had is below.

use crate::key::KeyHash;
use crate::sync::{Mutex, lock};
use base::Version;
use std::collections::HashMap;

/// Keys that are known at a time, at most. One that is forgotten is said again with the next change
/// that is written back.
const KEYS_MAX: usize = 16_384;

/// By key, up to which version it is below.
#[derive(Default)]
pub(super) struct PartlyBelow(Mutex<HashMap<KeyHash, Version>>);

impl PartlyBelow {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// What the key had as of `version` is below.
    pub(super) fn note(&self, hash: KeyHash, version: Version) {
        let mut known = lock(&self.0);
        if known.len() >= KEYS_MAX {
            known.clear();
        }
        known.insert(hash, version);
    }

    /// Whether anything is known of the key.
    pub(super) fn has(&self, hash: KeyHash) -> bool {
        lock(&self.0).contains_key(&hash)
    }

    /// Up to which version the key is below, if that is `version` or a later one. It is forgotten.
    pub(super) fn take(&self, hash: KeyHash, version: Version) -> Option<Version> {
        let mut known = lock(&self.0);
        known.get(&hash).filter(|below| **below >= version)?;
        known.remove(&hash)
    }
}
