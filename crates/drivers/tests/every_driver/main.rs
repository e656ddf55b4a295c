//! What holds on every driver.
//!
//! One program, because each would compile all drivers again. Tests that count descriptors, or
//! lower limits of their process, have programs of their own.

mod conformance;
mod connections_of_two_kinds;
mod links;
#[path = "../support/mod.rs"]
mod support;
mod waits;
