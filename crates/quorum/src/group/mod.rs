//! The Raft group: its messages, its state on disk, and the coordinator that it is.

mod body;
mod caller;
mod changes;
mod election;
mod follow;
mod life;
mod link;
mod log;
mod machine;
mod member;
mod members;
mod quorum;
mod shown;
mod start;
mod turns;
mod types;

pub use body::BODY_MAX;
pub use election::LEASE;
pub use life::RecoverError;
pub use quorum::Quorum;
pub use start::StartError;
