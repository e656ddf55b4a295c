//! What the tests of the session share.

pub mod fake;
