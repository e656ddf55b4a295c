//! Transfer: what keeps a copy of a slice in another engine.
//!
//! `scan` walks a range of slices and passes each item, or drops the items; `apply` makes a change
//! that another engine emitted; `fill` installs an item that was loaded from below the memory. No
//! bytes are sent, received or loaded here.

mod apply;
mod fill;
mod given;
mod scan;

pub use apply::Applied;
pub(crate) use apply::apply;
pub(crate) use fill::fill;
pub use fill::{Filled, Loaded};
pub use scan::{Cursor, ItemSink, More, WalkedItem};
pub(crate) use scan::{forget, forget_before, scan};
