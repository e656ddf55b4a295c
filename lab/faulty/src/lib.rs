//! A disk and a bucket in memory that fail where a test wants it: what the tests of a tier, and the
//! simulator of rings, have below a cell.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `tally` | nothing | what is counted by name |
//! | `bytes` | nothing | the bytes of a file, which copies share |
//! | `disk` | `bytes`, `tally` | a disk that loses what was not synced |
//! | `objects` | `disk`, `tally` | a bucket that is not reached once the machine has stopped |
#![forbid(unsafe_code)]

pub mod bytes;
pub mod disk;
pub mod objects;
pub mod tally;
