//! The flags of the meta commands: parsed in one pass, read by name, and listed again in the order
//! of the request, which is the order of the reply.
//!
//! `flags` holds the set and the meaning of each flag; `returns` lists the facts that a reply
//! returns. Nothing here knows a command: the caller decides which flags a command follows.

mod flags;
mod returns;

pub(crate) use flags::{KEYED_WORDS, well_formed};
pub use flags::{MetaArgs, MetaFlags};
pub use returns::{MetaReturn, Returns};
