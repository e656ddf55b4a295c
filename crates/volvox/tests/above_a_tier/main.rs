//! A cell above a tier, as its clients see it: what it has answered outlives its process and its
//! memory, and every command works on what is not in memory.
//!
//! Each test starts the real binary, and ends it by SIGKILL where it is to lose its memory.

mod adopted;
mod broken;
mod checked;
mod commands;
#[cfg(feature = "lab")]
mod fill;
mod flushes;
mod given_up;
mod kills;
mod operator;
mod policy;
mod prefixes;
mod refusals;
mod support;
