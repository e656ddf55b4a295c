//! What all cells of a ring agree on: the commands of its map, in one order.
//!
//! A few cells vote, and keep the commands on disk. All others learn the map from them. A cell
//! proposes a command, reads the map as of now, or watches the newest map that it has.
//!
//! ```text
//! propose(command) --> leader --> log of every voter, on disk --> applied by every cell --> watch
//!      ^                                                              |
//!      +----------------------- verdict ------------------------------+
//! ```
//!
//! Invariants: all cells apply the same commands in the same order. A command that was applied
//! stays applied, unless more than half of the voters lose their disks, or one that lacks it is
//! made the only voter ([`Quorum::recover`]). Every call ends within [`DEADLINE`].
//!
//! This crate owns no socket: the caller gives it a [`Transport`], and hands what arrives to
//! [`Quorum::handle`]. It owns tasks, on the tokio runtime that polls its constructors.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `coordinator` | `disk` | what a cell asks for: the trait and its outcomes |
//! | `transport` | nothing | how bytes come to another cell |
//! | `disk` | nothing | files that are whole or absent, the directory of a cell, the log |
//! | `voters` | nothing | which cells vote |
//! | `group` | `coordinator`, `transport`, `disk`, `voters` | the Raft group |
//! | `model` | `coordinator` | a coordinator in memory with faults, for tests |
#![forbid(unsafe_code)]

mod coordinator;
mod disk;
mod group;
pub mod model;
mod transport;
mod voters;

pub use coordinator::{CALLS_MAX, Coordinator, DEADLINE, Outcome, Unavailable};
pub use disk::{Directory, DirectoryError, DiskError, DiskFailure};
pub use group::{BODY_MAX, LEASE, Quorum, RecoverError, StartError};
pub use transport::{Transport, Unreachable};
pub use voters::{VOTERS_MAX, voters};
