//! The claims, one theme a file: each has a constant `CLAIMS` and what measures them.
//!
//! A file that measures for another theme's claims has no such constant (`engine`). The order of
//! the report is that of `cli`.

pub mod agree;
pub mod build;
pub mod clients;
pub mod connections;
pub mod correctness;
pub mod cost;
pub mod cpu;
pub mod drivers;
pub mod engine;
pub mod engine_tests;
pub mod foundation;
pub mod hit_ratio;
pub mod honesty;
pub mod instructions;
pub mod libcachesim;
pub mod memory;
pub mod memory_bound;
pub mod moving;
mod parts;
pub mod ring;
pub mod table;
pub mod tail;
pub mod tier;
pub mod uring;
