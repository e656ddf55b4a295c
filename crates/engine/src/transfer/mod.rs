//! Transfer: what keeps a copy of a slice in another engine.
//!
//! `scan` walks a slice and emits each item, or drops the slice; `apply` makes a change that
//! another engine emitted. No bytes are sent or received here.

mod apply;
mod scan;

pub use apply::Applied;
pub(crate) use apply::apply;
pub use scan::{Cursor, More};
pub(crate) use scan::{forget, scan};
