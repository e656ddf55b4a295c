//! What a ring of cells promises: no acknowledged write is lost, and what that costs.

pub mod busy;
pub mod clients;
pub mod cost;
pub(super) mod counting;
pub mod failover;
pub(super) mod faults;
pub mod five;
pub mod kept;
pub mod leader;
pub mod memory;
pub mod redis;
pub mod rules;
pub mod simulator;
mod stale;
pub mod up;
mod victims;
