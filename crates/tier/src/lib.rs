//! What lies below the memory of a cell.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `disk` | nothing | files, as the journal needs them |
//! | `backend` | nothing | what keeps keys below the journal |
//! | `sync` | nothing | atomics and the lock, or those of a model checker |
//! | `key` | nothing | the hash that stands for a key |
//! | `index` | `key`, `sync` | where the newest record of each key lies that is not written back |
//! | `lookups` | `key`, `sync` | which keys are looked up below, and which are missing there |
#![forbid(unsafe_code)]

mod backend;
mod disk;
mod index;
mod key;
mod lookups;
mod sync;

pub use backend::{Backend, BackendError, Change, Failure};
pub use disk::{Disk, File};
pub use index::{Cursor, ENTRY_BYTES, Entry, Index, Kind, Place};
pub use key::{KeyHash, KeyHasher};
pub use lookups::{Begun, Finished, Lookups, MISSING_NS, Outcome, Ticket, Waiters};
