//! Which failure an error is, and the bound of a key: the same for all backends.

use std::fmt;
use std::io::{self, ErrorKind};
use tier::{BackendError, Failure, KEY_BYTES_MAX};

/// The failure of a call that was not carried out because of `error`.
pub fn failure_of(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Failure::Full,
        // The file is shorter than what was written, or holds something else.
        ErrorKind::UnexpectedEof | ErrorKind::InvalidData => Failure::Corrupt,
        _ => Failure::Transient,
    }
}

/// The failure of a call that may have been carried out although `failure` ended it.
pub fn in_doubt(failure: Failure) -> Failure {
    if failure == Failure::Transient { Failure::Unknown } else { failure }
}

/// An error of the backend `name`.
pub fn error(name: &str, failure: Failure, what: impl fmt::Display) -> BackendError {
    let remedy = match failure {
        Failure::Full => "; free space there",
        Failure::Corrupt => "; restore it, or move it away and start with --tier-salvage",
        _ => "",
    };
    BackendError { failure, what: format!("{name}: {what}{remedy}") }
}

/// Refuses a key that is too short or too long.
pub fn check_key(name: &str, key: &[u8]) -> Result<(), BackendError> {
    if (1..=KEY_BYTES_MAX).contains(&key.len()) {
        return Ok(());
    }
    let what = format!("a key has {} bytes: it must have 1 to {KEY_BYTES_MAX}", key.len());
    Err(error(name, Failure::Permanent, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_the_system_has_its_failure() {
        // The numbers are those of Linux: ENOSPC, EDQUOT, EIO, EROFS, EACCES.
        let system = [28, 122, 5, 30, 13].map(io::Error::from_raw_os_error);
        let read = [ErrorKind::UnexpectedEof, ErrorKind::InvalidData].map(io::Error::from);
        let found: Vec<Failure> = system.iter().chain(&read).map(failure_of).collect();
        let (full, later, corrupt) = (Failure::Full, Failure::Transient, Failure::Corrupt);
        assert_eq!(found, [full, full, later, later, later, corrupt, corrupt]);
    }

    #[test]
    fn what_may_have_been_carried_out_is_unknown_and_a_full_disk_stays_full() {
        let cases = [
            (Failure::Transient, Failure::Unknown),
            (Failure::Unknown, Failure::Unknown),
            (Failure::Full, Failure::Full),
            (Failure::Permanent, Failure::Permanent),
            (Failure::Corrupt, Failure::Corrupt),
        ];
        for (failure, doubt) in cases {
            assert_eq!(in_doubt(failure), doubt);
        }
    }

    #[test]
    fn messages_name_the_backend_the_value_the_limit_and_the_remedy() {
        for bytes in [0, 251, 1000] {
            let refused = check_key("redb x", &vec![7; bytes]).unwrap_err();
            assert_eq!(refused.failure, Failure::Permanent);
            let text = format!("redb x: a key has {bytes} bytes: it must have 1 to 250");
            assert_eq!(refused.to_string(), text);
        }
        assert_eq!(check_key("x", &[0]), Ok(()));
        assert_eq!(check_key("x", &[0; 250]), Ok(()));
        let full = error("files in /d", Failure::Full, "cannot write k-a: no space");
        assert_eq!(full.what, "files in /d: cannot write k-a: no space; free space there");
        assert!(error("x", Failure::Corrupt, "y").what.ends_with("start with --tier-salvage"));
    }
}
