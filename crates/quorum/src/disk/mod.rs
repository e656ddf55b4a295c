//! Files that are whole or absent, and the directory of a cell.

mod directory;
mod error;
mod frames;
mod health;
#[cfg(test)]
mod scratch;
mod whole;

pub use directory::{Directory, DirectoryError};
pub use error::{DiskError, DiskFailure};
pub use frames::Frames;
pub use health::Health;
#[cfg(test)]
pub use scratch::Scratch;
pub use whole::{read_whole, write_whole};
