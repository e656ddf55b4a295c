//! A group of cells that agree: what it promises, under faults, and in simulated time.
//!
//! One program, because each would compile the whole agreement again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cells;
mod churn;
mod conformance;
mod faults;
mod in_simulated_time;
mod recovery;
mod steady;
mod turns;
