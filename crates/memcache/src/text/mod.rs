//! The parts of a line: where words begin and end, and the numbers among them.
//!
//! Nothing here knows a command. `scan` finds delimiters, `words` splits a text at spaces, `number`
//! parses and prints decimals.

pub(crate) mod number;
pub(crate) mod scan;
mod words;

pub use words::Words;
pub(crate) use words::has_noreply;
