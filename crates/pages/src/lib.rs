//! Keys in pages of a bucket.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `objects` | nothing | what keeps objects under names |
#![forbid(unsafe_code)]

mod objects;

pub use objects::{Created, Object, Objects};
