//! The flags of the meta commands: read in one pass, asked for by name, and listed again in the
//! order the client sent them, which is the order of the reply.

mod flags;
mod returns;

pub use flags::MetaFlags;
pub(crate) use flags::{KEYED_WORDS, well_formed};
pub use returns::{MetaReturn, Returns};
