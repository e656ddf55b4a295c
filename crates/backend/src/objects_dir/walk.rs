//! The first names of a listing, with no more in memory than are asked for.

use super::names::{below, path_of};
use crate::object::is_name;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Most directories inside each other: every other byte of a name may be a slash.
const DEPTH_MAX: usize = 450;

/// A listing.
pub struct Walk<'a> {
    /// Where the paths of objects begin.
    pub objects: &'a Path,
    /// What the names begin with.
    pub prefix: &'a str,
    /// What they come after.
    pub after: &'a str,
    /// How many at most.
    pub max: usize,
}

impl Walk<'_> {
    /// The first names, in the order of their bytes.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut first = BTreeSet::new();
        self.walk(self.objects, "", DEPTH_MAX, &mut first)?;
        Ok(first.into_iter().collect())
    }

    /// Looks at a directory whose names begin with `above`, and at `depth` levels below it.
    fn walk(
        &self,
        directory: &Path,
        above: &str,
        depth: usize,
        first: &mut BTreeSet<String>,
    ) -> io::Result<()> {
        let entries = match fs::read_dir(directory) {
            // It was removed since, with the last object in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // No object has a name that is not UTF-8.
            let Ok(piece) = entry.file_name().into_string() else { continue };
            if let Some(inside) = below(above, &piece) {
                if depth > 0 && self.may_have(&inside, first) {
                    self.walk(&entry.path(), &inside, depth - 1, first)?;
                }
                continue;
            }
            let name = format!("{above}{piece}");
            let is_listed = name.starts_with(self.prefix) && name.as_str() > self.after;
            // What somebody else has put there has no path of ours.
            let is_ours = || is_name(&name) && entry.path() == self.file(&name);
            if is_listed && is_ours() && entry.file_type()?.is_file() {
                first.insert(name);
                if first.len() > self.max {
                    first.pop_last();
                }
            }
        }
        Ok(())
    }

    /// Whether names that begin with `inside` may be among the first.
    fn may_have(&self, inside: &str, first: &BTreeSet<String>) -> bool {
        let is_full = first.len() >= self.max;
        (inside.starts_with(self.prefix) || self.prefix.starts_with(inside))
            && (inside > self.after || self.after.starts_with(inside))
            && !(is_full && first.last().is_none_or(|last| inside > last.as_str()))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.objects.join(path_of(name))
    }
}
