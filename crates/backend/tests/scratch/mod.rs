//! A directory of its own for a test.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// Removed when it is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty one; `name` is unique among the tests of this crate.
    pub fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("backend-{name}-{}", process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
