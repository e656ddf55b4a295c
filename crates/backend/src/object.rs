//! The rules of an object and of its name: the same for all that keep objects.

use crate::failure::error;
use pages::Object;
use tier::{BackendError, Failure};

/// Most bytes of the name of an object. The fewest are 1.
pub const OBJECT_NAME_BYTES_MAX: usize = 900;

/// Most bytes of an object. The fewest are 1. One request of S3 or GCS takes as many.
pub const OBJECT_BYTES_MAX: usize = 8 << 20;

/// Whether names have bytes like this one.
pub fn is_byte_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-/%".contains(&byte)
}

/// Whether `name` keeps the rules of [`Object::name`].
pub fn is_name(name: &str) -> bool {
    (1..=OBJECT_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(is_byte_of_name)
        && name.split('/').all(|part| !["", ".", ".."].contains(&part))
}

/// Whether a name can begin with `prefix`.
pub fn is_prefix(prefix: &str) -> bool {
    prefix.is_empty() || is_name(&format!("{prefix}a"))
}

/// Refuses a name that breaks the rules. `keeper` is what keeps the objects.
pub fn check_name(keeper: &str, name: &str) -> Result<(), BackendError> {
    if is_name(name) {
        return Ok(());
    }
    let shown: String = name.chars().take(SHOWN_CHARS_MAX).collect();
    let what = format!(
        "{shown:?}, of {} bytes, cannot be the name of an object: it must have 1 to \
         {OBJECT_NAME_BYTES_MAX} of the bytes A-Z a-z 0-9 . _ - / %, and no part between slashes \
         that is empty, '.' or '..'",
        name.len()
    );
    Err(error(keeper, Failure::Permanent, what))
}

/// Refuses an object whose name breaks the rules, or that has no bytes or too many.
pub fn check(keeper: &str, object: &Object) -> Result<(), BackendError> {
    check_name(keeper, &object.name)?;
    check_bytes(keeper, &object.name, object.bytes.len() as u64)
}

/// Refuses an object of this many bytes if they are too few or too many.
pub fn check_bytes(keeper: &str, name: &str, bytes: u64) -> Result<(), BackendError> {
    if (1..=OBJECT_BYTES_MAX as u64).contains(&bytes) {
        return Ok(());
    }
    let what = format!("{name} has {bytes} bytes: an object must have 1 to {OBJECT_BYTES_MAX}");
    Err(error(keeper, Failure::Permanent, what))
}

/// Most characters of a bad name that a message repeats.
const SHOWN_CHARS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_prefixes_keep_the_rules() {
        let long = "n".repeat(OBJECT_NAME_BYTES_MAX);
        for name in ["a", "%", "-", "...", "a/b", "a/.b", "Az09._-%/x", &long] {
            assert!(is_name(name), "{name}");
        }
        let longer = format!("{long}n");
        let bad = ["", "/", "/a", "a/", "a//b", ".", "..", "a/./b", "../a", "a b", "a\n", "\u{fc}"];
        for name in bad.into_iter().chain([longer.as_str()]) {
            assert!(!is_name(name), "{name}");
        }
        for prefix in ["", "a", "a/", "a/.", "a/..", "%"] {
            assert!(is_prefix(prefix), "{prefix}");
        }
        for prefix in ["/", "//", "a//", "./", "../", "a/./", "a b", &long] {
            assert!(!is_prefix(prefix), "{prefix}");
        }
    }

    #[test]
    fn objects_have_at_least_one_byte_and_at_most_the_limit() {
        for (bytes, fine) in [(0, false), (1, true), (8 << 20, true), ((8 << 20) + 1, false)] {
            let refused = check("x", &Object { name: "n".to_owned(), bytes: vec![0; bytes] });
            assert_eq!(refused.is_ok(), fine, "{bytes}");
            let text = format!("x: n has {bytes} bytes: an object must have 1 to 8388608");
            assert!(
                fine || refused == Err(BackendError { failure: Failure::Permanent, what: text })
            );
        }
        let refused = check_name("x", "a/../b").unwrap_err();
        assert_eq!(refused.failure, Failure::Permanent);
        assert!(refused.what.starts_with("x: \"a/../b\", of 6 bytes, cannot be"), "{refused}");
    }
}
