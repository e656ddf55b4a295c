//! The command line: its grammar, and which part each command calls.
//!
//! Called `memcached` or `memcached-debug`, the binary takes memcached's flags; called anything
//! else, it takes commands. Output goes to standard output, everything wrong to standard error
//! with a code other than 0: 2 for a command line that is no command, 64 for settings or flags that
//! cannot be served, 1 for what fails later.

mod args;
#[cfg(feature = "lab")]
mod measure;
mod run;

pub use run::run;
