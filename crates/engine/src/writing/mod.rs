//! Writing: one change to one item, under the lock of its chain.
//!
//! `set` is the short way of the most common write; `change` decides all others, `fetch` those
//! reads that change an item. `writer` writes what they decided, `long` what is long, before the
//! chain is locked, and `arriving` what arrives in pieces. Nothing here makes space: where it is
//! short, the caller evicts and tries again.

mod ahead;
mod arriving;
mod change;
mod fetch;
mod in_place;
mod long;
mod number;
mod op;
mod set;
mod writer;

pub(crate) use ahead::Ahead;
pub use arriving::Arriving;
pub(crate) use change::write;
pub(crate) use fetch::fetch;
pub(crate) use long::write_if_long;
pub use op::{Action, Mode, Op, Put, WriteResult, WriteStatus};
pub(crate) use set::overwrite;
pub(crate) use writer::Writer;
