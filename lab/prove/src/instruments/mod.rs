//! Instruments: the servers under test, clients and generators, and what a request costs.

pub mod contest;
pub mod contestant;
pub mod fleet;
pub mod generator;
pub mod memtier;
pub mod slope;
pub mod wire;
