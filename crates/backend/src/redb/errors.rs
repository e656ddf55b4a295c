//! The errors of redb as those of a backend.

use crate::failure::{error, failure_of, in_doubt};
use redb::Error;
use std::any::Any;
use std::fmt;
use tier::{BackendError, Failure};

/// Names the database and what was done with it, for messages.
#[derive(Clone, Copy)]
pub struct Doing<'a> {
    /// The name of the backend.
    pub name: &'a str,
    /// "read a key", "write 3 changes", ...
    pub what: &'a str,
}

impl Doing<'_> {
    /// The error of a call that was not carried out.
    pub fn refused(self, cause: impl Into<Error>) -> BackendError {
        let cause = cause.into();
        self.failed(failure(&cause), &cause)
    }

    /// The error of a commit: it may have been carried out.
    pub fn doubted(self, cause: impl Into<Error>) -> BackendError {
        let cause = cause.into();
        self.failed(in_doubt(failure(&cause)), &cause)
    }

    /// The error of a call in which redb panicked.
    pub fn panicked(self, panic: &(dyn Any + Send)) -> BackendError {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
        let what = format!("cannot {}: redb stopped on what the file holds: {text}", self.what);
        error(self.name, Failure::Corrupt, what)
    }

    fn failed(self, failure: Failure, cause: &Error) -> BackendError {
        let earlier = matches!(cause, Error::PreviousIo | Error::DatabaseClosed);
        // What redb says is for who uses it: to open the database again, which the next call does.
        let cause: &dyn fmt::Display = if earlier { &"an earlier call has failed" } else { cause };
        error(self.name, failure, format!("cannot {}: {cause}", self.what))
    }
}

fn failure(cause: &Error) -> Failure {
    match cause {
        Error::Io(cause) => failure_of(cause),
        Error::Corrupted(_) => Failure::Corrupt,
        // Another call has failed, and has closed the database or is about to.
        Error::PreviousIo | Error::DatabaseClosed | Error::LockPoisoned(_) => Failure::Transient,
        Error::TransactionPoisoned => Failure::Transient,
        _ => Failure::Permanent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    const DOING: Doing<'_> = Doing { name: "redb d", what: "write" };

    #[test]
    fn each_error_of_redb_has_its_failure_before_and_in_a_commit() {
        let io = |number| Error::Io(io::Error::from_raw_os_error(number));
        let cases = [
            (io as fn(i32) -> Error, 28, Failure::Full, Failure::Full),
            (io, 5, Failure::Transient, Failure::Unknown),
            (|_| Error::PreviousIo, 0, Failure::Transient, Failure::Unknown),
            (|_| Error::Corrupted("x".to_owned()), 0, Failure::Corrupt, Failure::Corrupt),
            (|_| Error::ValueTooLarge(9), 0, Failure::Permanent, Failure::Permanent),
            (|_| Error::UpgradeRequired(1), 0, Failure::Permanent, Failure::Permanent),
        ];
        for (make, number, refused, doubted) in cases {
            let found = [DOING.refused(make(number)), DOING.doubted(make(number))];
            assert_eq!(found.clone().map(|error| error.failure), [refused, doubted]);
            for error in found {
                assert!(error.what.starts_with("redb d: cannot write: "), "{error}");
            }
        }
    }

    #[test]
    fn a_panic_is_corrupt_and_its_message_is_kept() {
        let panics: [Box<dyn Any + Send>; 3] =
            [Box::new("left: 1"), Box::new("left: 1".to_owned()), Box::new(7)];
        for (panic, text) in panics.into_iter().zip(["left: 1", "left: 1", "without a message"]) {
            let error = DOING.panicked(&*panic);
            assert_eq!(error.failure, Failure::Corrupt);
            assert!(error.what.contains(text), "{error}");
        }
    }
}
