//! Which failure an error is, and what a message says of it.

use super::wire::Refused;
use opendal::raw::Operation;
use opendal::{Error, ErrorKind};
use std::iter::successors;
use tier::Failure;

/// Most characters of the cause in a message.
const CAUSE_CHARS_MAX: usize = 300;

/// What OpenDAL calls an error before a request is sent, where credentials are missing.
const NOT_SIGNED: &str = "signing http request";

/// What an error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The request was not carried out; it may be later.
    Refused,
    /// It may have been carried out, or may still be.
    InDoubt,
    /// There is no space, or a quota is used up.
    Full,
    /// There is no bucket.
    NoBucket,
    /// The credentials do not have the right.
    NoRight,
    /// There are no credentials.
    NoCredentials,
    /// The bucket is somewhere else.
    Elsewhere,
    /// It will never be carried out.
    Wrong,
}

impl Meaning {
    /// The failure that it is in a call that does `operation`. Where a request `was_signed` before,
    /// credentials are only missing for a while.
    pub fn failure(self, operation: Operation, was_signed: bool) -> Failure {
        let changes = matches!(operation, Operation::Write | Operation::Delete);
        match self {
            Self::Refused => Failure::Transient,
            Self::InDoubt if changes => Failure::Unknown,
            Self::InDoubt => Failure::Transient,
            Self::Full => Failure::Full,
            Self::NoCredentials if was_signed => Failure::Transient,
            Self::NoCredentials | Self::NoBucket | Self::NoRight => Failure::Permanent,
            Self::Elsewhere | Self::Wrong => Failure::Permanent,
        }
    }
}

/// What an error means.
pub fn meaning_of(error: &Error) -> Meaning {
    for cause in causes(error) {
        if let Some(refused) = cause.downcast_ref::<Refused>() {
            return of_refusal(refused);
        }
        // Nothing is sent before there is a connection.
        if cause.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect) {
            return Meaning::Refused;
        }
    }
    match error.kind() {
        ErrorKind::Unexpected if error.message() == NOT_SIGNED => Meaning::NoCredentials,
        ErrorKind::Unexpected => Meaning::InDoubt,
        ErrorKind::RateLimited | ErrorKind::Conflict => Meaning::Refused,
        ErrorKind::PermissionDenied => Meaning::NoRight,
        _ => Meaning::Wrong,
    }
}

fn of_refusal(refused: &Refused) -> Meaning {
    let says = |texts: &[&str]| texts.iter().any(|text| refused.body.contains(text));
    match refused.status {
        _ if refused.is_no_bucket() => Meaning::NoBucket,
        507 => Meaning::Full,
        403 if says(&["ateLimitExceeded"]) => Meaning::Refused,
        400..=498 if says(&["uotaExceeded", "StorageFull"]) => Meaning::Full,
        401 | 403 => Meaning::NoRight,
        // Another request with this name was under way.
        409 | 429 | 503 => Meaning::Refused,
        // The service did not receive all of it.
        400 if says(&["RequestTimeout"]) => Meaning::Refused,
        408 | 499.. => Meaning::InDoubt,
        300..=399 => Meaning::Elsewhere,
        _ => Meaning::Wrong,
    }
}

/// What a message says of an error: one line.
pub fn cause_of(error: &Error) -> String {
    let is_late = causes(error).any(|cause| {
        cause.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_timeout)
    }) || error.message().ends_with("timeout reached");
    let text = if is_late {
        "no answer before the deadline".to_owned()
    } else {
        let below = causes(error).skip(1).map(ToString::to_string);
        let texts: Vec<String> = [error.message().to_owned()].into_iter().chain(below).collect();
        texts.join(": ")
    };
    let line = text.split(char::is_whitespace).filter(|word| !word.is_empty());
    line.collect::<Vec<_>>().join(" ").chars().take(CAUSE_CHARS_MAX).collect()
}

/// An error, and what caused it.
fn causes(error: &Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first: &(dyn std::error::Error + 'static) = error;
    successors(Some(first), |error| error.source())
}

#[cfg(test)]
mod tests {
    use super::super::wire::refusal;
    use super::*;

    fn refused(operation: Operation, status: u16, body: &str) -> Error {
        refusal(Refused { operation, status, body: body.to_owned() })
    }

    #[test]
    fn each_answer_has_its_failure() {
        use Failure::{Full, Permanent, Transient, Unknown};
        // Status, what the service says, and the failures of a create, a get and a delete.
        let cases = [
            (429, "", [Transient; 3]),
            (503, "<Code>SlowDown</Code>", [Transient; 3]),
            (409, "<Code>ConditionalRequestConflict</Code>", [Transient; 3]),
            (403, "rateLimitExceeded", [Transient; 3]),
            (400, "<Code>RequestTimeout</Code>", [Transient; 3]),
            (500, "<Code>InternalError</Code>", [Unknown, Transient, Unknown]),
            (502, "", [Unknown, Transient, Unknown]),
            (504, "", [Unknown, Transient, Unknown]),
            (408, "", [Unknown, Transient, Unknown]),
            (507, "", [Full; 3]),
            (403, "<Code>QuotaExceeded</Code>", [Full; 3]),
            (400, "<Code>XMinioStorageFull</Code>", [Full; 3]),
            (404, "<Code>NoSuchBucket</Code>", [Permanent; 3]),
            (404, "The specified bucket does not exist.", [Permanent; 3]),
            (403, "<Code>AccessDenied</Code>", [Permanent; 3]),
            (401, "", [Permanent; 3]),
            (400, "<Code>InvalidArgument</Code>", [Permanent; 3]),
            (301, "<Code>PermanentRedirect</Code>", [Permanent; 3]),
            (411, "", [Permanent; 3]),
        ];
        for (status, body, failures) in cases {
            let operations = [Operation::Write, Operation::Read, Operation::Delete];
            let found = operations.map(|operation| {
                let error = refused(operation, status, body);
                meaning_of(&error).failure(operation, false)
            });
            assert_eq!(found, failures, "{status} {body}");
        }
    }

    #[test]
    fn a_missing_object_is_no_missing_bucket() {
        for operation in [Operation::Read, Operation::Delete] {
            let error = refused(operation, 404, "<Code>NoSuchKey</Code>");
            assert_eq!(error.kind(), ErrorKind::NotFound);
        }
        for operation in [Operation::Write, Operation::List] {
            assert_eq!(meaning_of(&refused(operation, 404, "")), Meaning::NoBucket);
        }
        let error = refused(Operation::Write, 412, "");
        assert_eq!(error.kind(), ErrorKind::ConditionNotMatch);
    }

    #[test]
    fn each_kind_has_its_failure() {
        use Failure::{Permanent, Transient, Unknown};
        let cases = [
            (ErrorKind::Unexpected, "io operation timeout reached", Unknown, Transient),
            (ErrorKind::Unexpected, "anything", Unknown, Transient),
            (ErrorKind::Unexpected, NOT_SIGNED, Permanent, Permanent),
            (ErrorKind::RateLimited, "", Transient, Transient),
            (ErrorKind::Conflict, "", Transient, Transient),
            (ErrorKind::PermissionDenied, "", Permanent, Permanent),
            (ErrorKind::ConfigInvalid, "", Permanent, Permanent),
            (ErrorKind::Unsupported, "", Permanent, Permanent),
            (ErrorKind::NotFound, "", Permanent, Permanent),
        ];
        for (kind, message, write, read) in cases {
            let meaning = meaning_of(&Error::new(kind, message));
            let found = [Operation::Write, Operation::List].map(|it| meaning.failure(it, false));
            assert_eq!(found, [write, read], "{kind} {message}");
        }
        let later = meaning_of(&Error::new(ErrorKind::Unexpected, NOT_SIGNED));
        assert_eq!(later.failure(Operation::Write, true), Transient);
    }

    #[test]
    fn a_cause_is_one_line_and_not_long() {
        let error = refused(Operation::Read, 403, "<Message>No\n  right</Message>");
        assert_eq!(cause_of(&error), "the service refused: HTTP 403: No right");
        let late = Error::new(ErrorKind::Unexpected, "io operation timeout reached");
        assert_eq!(cause_of(&late), "no answer before the deadline");
        let long = refused(Operation::Read, 403, &"x".repeat(4000));
        assert_eq!(cause_of(&long).len(), CAUSE_CHARS_MAX);
    }
}
