//! The memory: a pool cut into segments, an index by slice, and the policy that decides what
//! stays. No I/O, no clock, no thread of its own.
//!
//! Reads take no lock: they look, copy, and check the version of the bucket. Writes hold the lock
//! of one bucket. Space is made by the writers themselves, a few items at a time.
//!
//! A room uses only rooms above it in this table.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | sync | nothing | atomics and locks, or those of a model checker |
//! | raw | sync | memory from the kernel, racing copies, vector instructions: all unsafe code |
//! | keys | raw, sync | a key with its slice and its hash |
//! | item | raw, sync | the words of one item, and its lifetime |
//! | config | item, keys, sync | how an engine is built, and the sizes that follow |
//! | grace | sync | when memory that was unlinked may be used again |
//! | local | grace | what one thread of work owns; counters |
//! | slices | keys, raw, sync | versions and barriers, by slice |
//! | segments | config, grace, item, raw, sync | where items lie |
//! | index | config, grace, raw, segments, sync | where items are found |
//! | obstacle | nothing | what keeps a request from being carried out now |
//! | items | config, index, item, keys, local, raw, segments, slices | all items |
//! | eviction | grace, index, item, items, keys, local, obstacle, segments, sync | what must go |
//! | reading | index, item, items, keys, local, obstacle, segments, sync | from a key to its value |
//! | writing | config, eviction, index, item, items, keys, local, obstacle, reading, segments | a change |
//! | transfer | eviction, index, item, items, keys, local, obstacle, reading, writing | copies, fills |
//! | error | config | why an engine could not be made |
//! | engine | * | what users call |
//!
//! Read first: `config` (sizes), `item` and `segments` (what lies where), `index` (how it is
//! found), `reading` and `writing` (the two paths that every request takes), `eviction`.

mod config;
mod engine;
mod error;
mod eviction;
mod grace;
mod index;
mod item;
mod items;
mod keys;
mod local;
mod obstacle;
mod raw;
mod reading;
mod segments;
mod slices;
mod sync;
mod transfer;
mod writing;

pub use config::{EngineConfig, LIMIT_BYTES_MIN, RESERVE_BYTES_MAX};
pub use engine::{Engine, Usage};
pub use error::EngineError;
pub use eviction::{Holdings, Left};
pub use keys::{KEY_BYTES_MAX, Key};
pub use local::{Counters, Local, Moment, Pin};
pub use obstacle::Obstacle;
pub use raw::{bound_freed_memory, prefetch_bytes};
pub use reading::{
    FetchOptions, Found, HeldValue, ItemView, LongValues, Prefetched, Read, ReadSink, ValueSink,
};
pub use segments::KeptForCopies;
pub use slices::Role;
pub use transfer::{Applied, Cursor, Filled, ItemSink, Loaded, More, WalkedItem};
pub use writing::{Action, Arriving, Mode, Op, Put, WriteResult, WriteStatus};
