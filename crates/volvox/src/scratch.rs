//! A folder of its own for a test, removed when the test ends.

use std::path::PathBuf;
use std::{env, fs, process};

/// The folder.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty folder; `name` must be unique among the tests.
    pub fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("volvox-{name}-{}", process::id()));
        fs::create_dir_all(&path).expect("the temporary folder is writable");
        Self(path)
    }

    /// The path of `name` in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that stays harms no later test.
        let _ = fs::remove_dir_all(&self.0);
    }
}
