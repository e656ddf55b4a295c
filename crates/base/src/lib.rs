//! What all other crates agree on: the slice of a key, the version of an item, the moment of a
//! call, and the one budget that all memory is taken from.
//!
//! Nothing here owns a thread, a socket, a file or a clock. Units are part of the names: `_ns` is
//! nanoseconds, `_s` seconds, `_bytes` bytes.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `budget` | nothing | who holds how much of the memory, and may hold |
//! | `counter` | nothing | counters with one writer each |
//! | `crc32` | nothing | the bits of a key's CRC32 that name its slice |
//! | `effect` | `slice`, `version` | the changes of items, and what takes them |
//! | `slice` | `crc32` | the parts of the key space |
//! | `time` | nothing | the moment of a call, and the second that items expire by |
//! | `version` | nothing | the order of the changes of a slice |
#![forbid(unsafe_code)]

mod budget;
mod counter;
mod crc32;
mod effect;
mod slice;
mod time;
mod version;

pub use budget::{Grant, MemoryBudget, Owner};
pub use counter::Counter;
pub use effect::{
    Change, Effect, EffectSink, Facts, NoSink, Refused, Removal, Space, StoredValue, Value,
};
pub use slice::{KeyId, RUN_SLICES, SLICE_BITS, SLICES, SliceId, SliceRange};
pub use time::{ExpiryClock, Now};
pub use version::Version;
