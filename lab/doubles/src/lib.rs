//! Servers that stand in for a cache, each exact in one thing: its delays, its bytes, its policy.
#![forbid(unsafe_code)]

pub mod delayed;
pub mod exact;
pub mod null_server;
pub mod pingpong;
pub mod policy;
