//! A measurement without figures in which no reply was wrong: worth another attempt.
//!
//! The machine stood still, or other programs used all of it. Every other error of a measurement
//! lasts, so another attempt would only cost time.

use std::{error::Error, fmt};

/// What was seen. The text becomes the reason in the finding.
#[derive(Debug)]
pub(super) struct Disturbed(pub String);

impl fmt::Display for Disturbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: the machine stood still, or other programs used all of it; measure again when it \
             is idle",
            self.0
        )
    }
}

impl Error for Disturbed {}
