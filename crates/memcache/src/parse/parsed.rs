//! What the front of the input is: a request, the beginning of one, or an error.
//!
//! A result says how many bytes of input belong to it, and nothing about the bytes after them.
//!
//! Invariants: `consumed` is at least 1 and at most the length of the input; `needed` is more than
//! the length of the input. All numbers are bytes.

use crate::refusal::Refusal;
use crate::request::Request;

/// The front of the input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parsed<'a> {
    /// A complete request.
    Request {
        /// The request.
        request: Request<'a>,
        /// Bytes of input that belong to it.
        consumed: usize,
    },
    /// The beginning of a request.
    Incomplete {
        /// Bytes that the input must have before it can be complete. If that is not known yet, one
        /// more than it has.
        needed: usize,
    },
    /// A request that is answered with an error.
    Refused {
        /// The error.
        refusal: Refusal<'a>,
        /// Bytes of input that belong to it.
        consumed: usize,
        /// Bytes to skip after those: a value that will not be stored.
        swallow: u64,
        /// Whether the connection closes after the error is sent.
        close: bool,
        /// Whether the client wants no reply, and so gets none, not even an error.
        quiet: bool,
    },
}

/// What a line means that has no value after it: a request, or a refusal and whether it is quiet.
pub(super) type Meaning<'a> = Result<Request<'a>, (Refusal<'a>, bool)>;

impl<'a> Parsed<'a> {
    /// A line of `consumed` bytes with that meaning.
    #[inline]
    pub(super) fn line(meaning: Meaning<'a>, consumed: usize) -> Self {
        match meaning {
            Ok(request) => Self::whole(request, consumed),
            Err((refusal, quiet)) => Self::refused(refusal, consumed, quiet),
        }
    }

    /// A complete request.
    #[inline]
    pub(super) fn whole(request: Request<'a>, consumed: usize) -> Self {
        Self::Request { request, consumed }
    }

    /// An error that neither skips a value nor closes the connection.
    pub(super) fn refused(refusal: Refusal<'a>, consumed: usize, quiet: bool) -> Self {
        Self::Refused { refusal, consumed, swallow: 0, close: false, quiet }
    }
}
