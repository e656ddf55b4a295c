//! A backend in a database of redb: one file, whose every access goes through [`tier::File`].
//!
//! ```text
//! get, apply --> backend --> redb --> pages --> tier::File
//! ```
//!
//! Invariants: an apply is one transaction, which is durable when it returns. After an error of its
//! file redb refuses all calls, so the backend closes it and opens it again in the next call, once
//! in each. What was written and whose sync failed is written again before that. Opened after a
//! failure or a crash, redb reads a few pages, or the whole file where an earlier release of this
//! program wrote last; all calls wait for that.
//!
//! redb can panic where the file is not what it wrote: after a disk that was full (its issue 620),
//! or where bytes changed. A panic is caught and reported as an error, but in a program that is
//! built with `panic = "abort"` it ends the process.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `backend` | `errors`, `pages` | the backend |
//! | `errors` | nothing | the errors of redb as those of a backend |
//! | `pages` | nothing | a file, as redb wants it |

mod backend;
mod errors;
mod pages;

pub use backend::RedbBackend;
