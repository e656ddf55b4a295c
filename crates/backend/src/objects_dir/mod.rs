//! Objects in a directory: a bucket without a service, for one machine.
//!
//! ```text
//! <path>/objects/wal+/0001    the object wal/0001, whole
//! <path>/new/<pid>-<number>   an object that has no name yet, locked with flock by who writes it
//! ```
//!
//! Invariants: a file under `objects` is whole and durable before it has its name, and is never
//! changed afterwards. Any number of processes may have the directory open: the kernel gives a name
//! to one of them. A file under `new` that nobody has locked is of a process that ended, and is
//! removed by the next open.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `objects` | `names`, `walk` | the calls |
//! | `names` | nothing | the path of the file of an object |
//! | `walk` | `names` | the first names of a listing |

mod names;
mod objects;
mod walk;

pub use objects::DirectoryObjects;
