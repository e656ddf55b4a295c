//! What lies below the memory of a cell.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `disk` | nothing | files, as the journal needs them |
//! | `backend` | nothing | what keeps keys below the journal |
#![forbid(unsafe_code)]

mod backend;
mod disk;

pub use backend::{Backend, BackendError, Change, Failure};
pub use disk::{Disk, File};
