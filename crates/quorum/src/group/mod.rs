//! The Raft group: its messages, its state on disk, and the coordinator that it is.

mod quorum;

pub use quorum::{BODY_MAX, Quorum, StartError};
