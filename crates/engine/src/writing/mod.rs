//! Writing: one change to one item, under the lock of its chain.
//!
//! `set` is the short way of the most common write; `change` decides all others, `fetch` those
//! reads that change an item. `writer` writes what they decided, `long` what is long, before the
//! chain is locked, `join` what is added to a long value, and `arriving` what arrives in pieces. An
//! attempt makes no space: where that is short, it ends, and follows again when some was made.

mod ahead;
mod arriving;
mod change;
mod fetch;
mod in_place;
mod join;
mod long;
mod number;
mod op;
mod set;
mod writer;

pub(crate) use ahead::{Ahead, with_space_ahead};
pub use arriving::Arriving;
pub(crate) use change::write;
pub(crate) use fetch::fetch;
pub(crate) use long::{look, write_if_long};
pub use op::{Action, Mode, Op, Put, WriteResult, WriteStatus};
pub(crate) use set::{overwrite, overwrite_copy};
pub(crate) use writer::Writer;
