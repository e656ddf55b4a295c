//! A backend with a file for each key, in a directory of its own.
//!
//! For data that other programs read, and for few keys: all files lie in one directory, so above
//! some hundred thousand keys a listing of it is slow, and each record takes at least one block of
//! the disk and one inode.
//!
//! ```text
//! t-0, t-1, ...   the records of one apply, each synced
//!       | rename  each to the name of its key; the deleted files are removed
//! k-a, k-b, ...
//!       | sync    of the directory, once
//! ```
//!
//! Invariants: a file with the name of a key or note is whole, because it has that name only after
//! it was synced. It is never changed afterwards, so a reader that has it open reads one record. An
//! apply that fails before the first rename was not carried out; later, a part of it may have been.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `backend` | `names`, `record` | the backend |
//! | `names` | nothing | the name of the file of a key or note |
//! | `record` | nothing | the bytes of such a file |

mod backend;
mod names;
mod record;

pub use backend::FilesBackend;
