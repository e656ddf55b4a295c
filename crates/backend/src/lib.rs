//! What keeps keys below the journal of a tier, and the directory that its files lie in.
//!
//! [`RedbBackend`] is an embedded database in one file. [`FilesBackend`] keeps each key in a file
//! of its own, which other programs can read. [`MemoryBackend`] survives nothing, and fails where a
//! test wants it. All three pass `tests/conformance.rs`.
//!
//! Objects are kept in a directory by [`DirectoryObjects`], and in a bucket by `Bucket`, which is
//! there with one of the features `s3` and `gcs`. Both pass `tests/suite`.
//!
//! Nothing here owns a thread or reads a clock, except a bucket. The calls block.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `failure` | nothing | which failure an error is, and the bound of a key |
//! | `directory` | nothing | a directory of the system, locked for one process |
//! | `memory` | `failure` | a backend in memory, with faults |
//! | `files` | `directory`, `failure` | a backend with a file for each key |
//! | `redb` | `failure` | a backend in a database of redb |
//! | `object` | `failure` | the rules of an object and of its name |
//! | `objects_dir` | `directory`, `failure`, `object` | objects in a directory |
//! | `bucket` | `failure`, `object` | a bucket of S3 or GCS, by OpenDAL |
#![forbid(unsafe_code)]

#[cfg(feature = "bucket")]
mod bucket;
mod directory;
mod failure;
mod files;
mod memory;
mod object;
mod objects_dir;
mod redb;

pub use self::redb::RedbBackend;
#[cfg(feature = "bucket")]
pub use bucket::{Bucket, BucketConfig, REQUESTS_MAX, Service};
pub use directory::{Directory, DirectoryError};
pub use files::FilesBackend;
pub use memory::{Fault, MemoryBackend};
pub use object::{OBJECT_BYTES_MAX, OBJECT_NAME_BYTES_MAX};
pub use objects_dir::DirectoryObjects;
