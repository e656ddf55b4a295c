//! The command line: its grammar, and which part each command calls.
//!
//! A binary that is called `memcached` or `memcached-debug` takes memcached's flags; otherwise it
//! takes commands. Results go to standard output, errors to standard error. The exit code is 0
//! after success, 2 for a command line that is no command, 64 for settings or flags that cannot be
//! served, and 1 for what fails later.

mod args;
mod ctl;
#[cfg(feature = "lab")]
mod fill;
#[cfg(feature = "lab")]
mod measure;
mod run;

pub use run::run;
