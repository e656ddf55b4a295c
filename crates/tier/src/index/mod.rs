//! The dirty index: where the newest record of each key lies that is not written back yet.
//!
//! ```text
//! hash 127......119            the hash without its top bits, the place, the version, the expiry
//!      shard (9) ---> mutex -> | slot | slot |      | slot | ...   40 bytes each, 0.6 to 0.9 used
//! ```
//!
//! An entry is added or replaced by each change, and removed when it is known to be durable below.
//! So a key without an entry is in the same state below as it is here, or it is in memory alone.
//! Keys themselves are not stored: [`KeyHash`](crate::KeyHash) says why that is enough.
//!
//! Invariants: for each key the highest version that was set is kept, in whatever order threads
//! come; what was flushed at an older version removes nothing; no number of a segment is used
//! twice, so a place that an entry names cannot be that of another record.
//!
//! **Touches.** The place stays at the record of the value, and goes to that of each touch if the
//! value lies below; expiry and version are those of the last touch. So a flusher that comes to the
//! place of a value takes expiry and version from the entry, and not from the record. If the key is
//! touched while that is written, the entry stays, and says that the value lies below: the flusher
//! comes to the record of the last touch later.
//!
//! **Memory.** A shard grows by a fifth when nine slots of ten are used. So while entries are
//! added, a key takes 44 to 54 bytes, on average, when there are ten thousand keys or more; to this
//! come 32 KiB for the shards themselves. [`Index::capacity`] counts 56. Below ten thousand keys
//! the smallest size of a shard shows. A shard whose entries are removed shrinks when less than six
//! slots of ten are used; until then it keeps what it had. While a shard changes its size it has
//! both tables: 1/512 of the memory more for each thread that does so.
//!
//! | file | what it is |
//! |---|---|
//! | `entry` | what is known of a key |
//! | `slot` | an entry as it is stored |
//! | `table` | the slots of one shard |
//! | `partly_below` | keys of a copy that were changed since they were written back |
//! | `shards` | all shards, their locks, and what is counted over them |

mod entry;
mod partly_below;
mod shards;
mod slot;
mod table;

pub(crate) use entry::Step;
pub use entry::{Entry, Kind, Place};
pub use shards::{Cursor, ENTRY_BYTES, Index};
