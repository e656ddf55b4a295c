//! What keeps keys below the journal of a tier, and the directory that its files lie in.
//!
//! [`RedbBackend`] is an embedded database in one file. [`FilesBackend`] keeps each key in a file
//! of its own, which other programs can read. [`MemoryBackend`] survives nothing, and fails where a
//! test wants it. All three pass `tests/conformance.rs`.
//!
//! Nothing here owns a thread or reads a clock. The calls block.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `failure` | nothing | which failure an error is, and the bound of a key |
//! | `directory` | nothing | a directory of the system, locked for one process |
//! | `memory` | `failure` | a backend in memory, with faults |
//! | `files` | `directory`, `failure` | a backend with a file for each key |
//! | `redb` | `failure` | a backend in a database of redb |
#![forbid(unsafe_code)]

mod directory;
mod failure;
mod files;
mod memory;
mod redb;

pub use self::redb::RedbBackend;
pub use directory::{Directory, DirectoryError};
pub use files::FilesBackend;
pub use memory::{Fault, MemoryBackend};
