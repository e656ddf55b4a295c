//! A small file that is written as a whole: after a crash it has the old content or the new.
//!
//! ```text
//! crc32 of the rest, 8 hexadecimal digits | space | JSON
//! ```

use super::error::DiskError;
use serde::{Serialize, de::DeserializeOwned};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

/// Most bytes of such a file.
const WHOLE_MAX: u64 = 16 << 20;
/// Bytes before the JSON.
const HEAD: usize = 9;

/// Replaces the file by `value`. When it returns, the new content is on disk.
pub fn write_whole<T: Serialize>(path: &Path, value: &T) -> Result<(), DiskError> {
    let json = serde_json::to_string(value).map_err(|error| DiskError::Io {
        doing: "encode",
        path: path.to_owned(),
        error: error.into(),
    })?;
    let new = path.with_extension("new");
    let text = format!("{:08x} {json}", crc32fast::hash(json.as_bytes()));
    let mut file = File::create(&new).map_err(DiskError::io("create", &new))?;
    file.write_all(text.as_bytes()).map_err(DiskError::io("write", &new))?;
    file.sync_all().map_err(DiskError::io("sync", &new))?;
    fs::rename(&new, path).map_err(DiskError::io("rename to", path))?;
    sync_parent(path)
}

/// What was written last. `None` if the file is absent.
pub fn read_whole<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, DiskError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(DiskError::io("open", path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(WHOLE_MAX).read_to_end(&mut bytes).map_err(DiskError::io("read", path))?;
    let (head, json) = bytes.split_at_checked(HEAD).unwrap_or((&bytes, &[]));
    if head != format!("{:08x} ", crc32fast::hash(json)).as_bytes() {
        return Err(DiskError::broken(path, 0, "its checksum is wrong"));
    }
    let value = serde_json::from_slice(json);
    value.map(Some).map_err(|error| DiskError::broken(path, HEAD as u64, error))
}

/// Makes the names in the directory of `path` durable.
pub fn sync_parent(path: &Path) -> Result<(), DiskError> {
    // Of a name without a directory it is empty.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let directory = File::open(parent).map_err(DiskError::io("open", parent))?;
    directory.sync_all().map_err(DiskError::io("sync", parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_directory_is_one_of_the_working_directory() {
        sync_parent(Path::new("name")).expect("it can be opened");
        let missing = sync_parent(Path::new("no-such-directory/name"));
        assert!(missing.is_err_and(|error| error.to_string().contains("no-such-directory")));
    }
}
