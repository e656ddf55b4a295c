//! Transfer: what keeps a copy of a slice in another engine.
//!
//! `scan` walks a range of slices and passes each item, or drops the items; `apply` makes a change
//! that another engine emitted. No bytes are sent or received here.

mod apply;
mod scan;

pub use apply::Applied;
pub(crate) use apply::apply;
pub use scan::{Cursor, ItemSink, More, WalkedItem};
pub(crate) use scan::{forget, scan};
