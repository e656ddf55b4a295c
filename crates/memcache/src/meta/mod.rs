//! The flags of the meta commands: parsed in one pass, read by name, and listed again in the order
//! of the request, which is the order of the reply.
//!
//! `flags` holds the set and the meaning of each flag; `returns` lists the facts that a reply
//! returns. Nothing here knows a command: which flags a command heeds is decided by its caller.

mod flags;
mod returns;

pub(crate) use flags::{KEYED_WORDS, well_formed};
pub use flags::{MetaArgs, MetaFlags};
pub use returns::{MetaReturn, Returns};
