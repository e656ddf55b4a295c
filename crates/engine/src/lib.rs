//! The memory: a pool cut into segments, an index by slice, and the policy that decides what
//! stays. No I/O, no clock, no thread of its own.
//!
//! Reading order: `config` (sizes), `item` and `segment` (what lies where), `index` (how it is
//! found), `get` and `store` (the two paths every request takes; `writer`, `overwrite` and `place`
//! belong to the second), `evict` and `room` (how room is made), `balance` (in which pool), `scan`
//! (how a slice is walked, told and dropped).
//!
//! Reads take no lock: they look, copy, and check the version of the bucket. Writes hold the lock
//! of one bucket. Room is made by whoever writes, a few items at a time.

mod apply;
mod balance;
mod config;
mod effect;
mod engine;
mod epoch;
mod evict;
mod expiry;
mod get;
mod ghosts;
mod hash;
mod head;
mod index;
mod item;
mod key;
mod large;
mod local;
mod overwrite;
mod place;
mod raw;
mod read;
mod room;
mod scan;
mod segment;
mod slices;
mod store;
mod sync;
mod victim;
mod write;
mod writer;

pub use apply::Applied;
pub use config::{EngineConfig, KEY_BYTES_MAX, LIMIT_BYTES_MIN};
pub use effect::{Change, Effect, EffectSink, Gone, NoSink};
pub use engine::{Engine, EngineError, Usage};
pub use get::Ahead;
pub use key::Key;
pub use local::{Counters, Local};
pub use overwrite::Put;
pub use read::{Ask, Found, Glance, Read, ReadSink, ValueSink};
pub use scan::{Cursor, More};
pub use write::{Action, Mode, Op, Outcome, Wrote};
