//! The map that a cell had last, in its directory: where others were reached. Where every cell
//! starts again at once, nobody else knows.
//!
//! It decides nothing: who leads, and what the map is, the coordinator says.

use ring::Map;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The file of the map.
#[derive(Clone, Debug)]
pub(crate) struct Known(PathBuf);

impl Known {
    /// That of a cell's `directory`.
    pub(crate) fn of(directory: &Path) -> Self {
        Self(directory.join("known-map.json"))
    }

    /// The map, if there is one that can be read.
    pub(crate) fn read(&self) -> Option<Map> {
        serde_json::from_slice(&fs::read(&self.0).ok()?).ok()
    }

    /// Keeps `map`. The file is whole or as before.
    pub(crate) fn write(&self, map: &Map) -> io::Result<()> {
        let new = self.0.with_extension("new");
        fs::write(&new, serde_json::to_vec(map)?)?;
        fs::rename(new, &self.0)
    }
}
