//! memcached's command line, flag by flag: honoured, accepted with a note, or refused with the
//! reason.
//!
//! Two tables, [`FLAGS`] and [`SUBOPTIONS`], hold every flag of memcached 1.6.45. The parser, the
//! help text and `docs/memcached-flags.md` are made from them. Parsing gives assignments to our own
//! settings, so that both command lines have the same checks. Nothing here acts on the process.

mod draft;
mod flags;
mod getopt;
#[cfg(test)]
mod getopt_test;
mod help;
mod row;
mod stats_settings;
mod suboptions;

pub use draft::{Start, defaults};
pub use flags::{COMPATIBLE_VERSION, FLAGS};
pub use getopt::{Command, parse};
pub use help::{help, license, version};
pub use row::{Action, Argument, Flag, Special, Stat, Support};
pub use stats_settings::stats_settings;
pub use suboptions::SUBOPTIONS;
