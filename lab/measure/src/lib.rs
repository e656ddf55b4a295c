//! What every measurement needs: programs to run, sockets to ask, numbers to judge by.
//!
//! Links nothing of the product: servers and generators are processes.
#![forbid(unsafe_code)]

mod error;
pub mod exec;
pub mod poll;
pub mod repo;
pub mod rng;
pub mod screen;
pub mod stages;
pub mod stats;
pub mod target;
pub mod tools;
pub mod units;

pub use error::Error;
pub use target::Target;
