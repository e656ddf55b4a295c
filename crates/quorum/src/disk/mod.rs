//! Files that are whole or absent, and the directory of a cell.

mod directory;
mod error;
mod whole;

pub use directory::{Directory, DirectoryError};
pub use error::{DiskError, DiskFailure};
