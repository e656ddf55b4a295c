//! The logs of effects: every change in the order of its slice, what has read it and how far, and
//! when a reply may leave.
//!
//! A cell has a log for each lane, and each slice belongs to one lane. A change is appended while
//! the engine holds the lock of its bucket; the log gives it a position and asks the engine for its
//! version, both under one lock. So the order of versions in a slice is the order of its log.
//!
//! ```text
//! engine --WorkerSink--> Log of the lane --read--> copies, a journal, a learner, whatever watches
//!                          |      ^                              |
//! reply <-- wait_for ------+      +---- pass, grant -------------+
//! ```
//!
//! Nothing here does I/O, owns a thread, reads a clock or draws a random number. Nothing waits but
//! for the two short locks of a log. Where there is no space, the answer is
//! [`base::Refused::Full`].
//!
//! **Positions** of one log, with the marks of two readers and a level that needs one of each:
//!
//! ```text
//! 1 ........ first ................................. end
//!   freed      |----------|-----------|---------------|
//!                     Durable of    Written of
//!                     the journal   a copy
//!              level {(journal, Durable), (copy, Written)} has passed the lower of both
//! ```
//!
//! **An entry** is a head, a key and a value; `entry/head.rs` draws the head. A value above about
//! 8 KiB lies apart: it is copied before the log is locked, and readers share it.
//!
//! **Space** is bounded twice: by the memory of the log, and by the room that readers grant. Both
//! are reserved before any lock is taken, in bulk for a worker, and returned when its batch ends.
//! What brings bytes that readers must keep takes both; all else takes memory alone, so the
//! removals that free space elsewhere never wait for room there.
//!
//! **What a reply waits for** is found in a few instructions: [`Lanes::wait_for`]. `slices.rs` says
//! why the answer is never too low.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `sync` | nothing | atomics and the lock, or those of a model checker |
//! | `level` | nothing | the numbers of levels, and sets of them |
//! | `part` | nothing | what a log does with its positions, and why it refuses |
//! | `account` | `sync` | how much may still be appended |
//! | `made` | nothing | the tags of changes, and what a tagged change has made |
//! | `observer` | nothing | what else must know of changes |
//! | `entry` | `made` | entries as values and as bytes |
//! | `batch` | `entry` | what a reader receives at once |
//! | `config` | `entry`, `sync` | how logs are built, and the sizes that follow |
//! | `readers` | `level` | how far each reader is |
//! | `slices` | `sync` | the lane and the last position and version of each slice |
//! | `shared` | `account`, `level`, `readers`, `sync` | what is used of a log without its lock |
//! | `store` | `batch`, `config`, `entry`, `readers`, `shared` | the blocks of one log |
//! | `state` | `batch`, `config`, `entry`, `part`, `readers`, `shared`, `slices`, `store` | entries |
//! | `log` | * | the log of one lane |
//! | `lanes` | `config`, `level`, `log`, `part`, `slices` | all logs of a cell |
//! | `sink` | `account`, `config`, `entry`, `lanes`, `log`, `made`, `observer`, `readers`, `slices` | how a worker appends |
//!
//! Read first: `entry`, `log`, then `sink` (how entries come) and `readers` (how they go).
//!
//! ```
//! use base::{Change, Effect, EffectSink, Facts, KeyId, MemoryBudget, SliceId, Value, Version};
//! use effects::{Batch, Joining, Lanes, LanesConfig, Level, Mark, Who, WorkerSink};
//!
//! let config = LanesConfig {
//!     lanes: 1, sinks: 1, bytes: 1 << 20, value_bytes_max: 1000, follows: false,
//! };
//! let lanes = Lanes::new(&config, &MemoryBudget::new(64 << 20)).expect("enough memory");
//! let (_, log) = lanes.logs().next().expect("one lane");
//! let (who, holds) = (Who::Journal, Some(Mark::Durable));
//! let joining = Joining { who, from: None, holds, grants: None };
//! let journal = log.join(&joining).expect("the first reader");
//! let level = Level::new(0).expect("below the bound");
//! log.set_level(level, &[(journal, Mark::Durable)]);
//!
//! let mut sink = WorkerSink::new(lanes.clone());
//! let key = KeyId { slice: SliceId::of(b"key"), hash: 0 };
//! let change = Change::Put(Value::Parts([b"val", b"ue"]), Facts::default());
//! let version = Version::from_raw(1);
//! sink.commit(key, &Effect { key: b"key", change }, || Ok(version)).expect("there is space");
//!
//! let wait = lanes.wait_for(level, key.slice, Some(version)).expect("nothing has passed");
//! let mut batch = Batch::new(64 << 10);
//! log.read(journal, 1, &mut batch).expect("it holds entries back");
//! assert_eq!(batch.records().count(), 1);
//! assert!(log.pass(journal, Mark::Durable, wait.position).has(level));
//! assert_eq!(lanes.wait_for(level, key.slice, Some(version)), None);
//! ```
#![forbid(unsafe_code)]

mod account;
mod batch;
mod config;
mod entry;
mod lanes;
mod level;
mod log;
mod made;
mod observer;
mod part;
mod readers;
mod shared;
mod sink;
mod slices;
mod state;
mod store;
mod sync;

pub use batch::{BATCH_BYTES_MAX, Batch, Records};
pub use config::{ENTRIES_MAX, LANES_MAX, LOG_BYTES_MIN, LanesConfig};
pub use entry::{Broken, Entry, Record};
pub use lanes::{LaneId, Lanes, Place};
pub use level::{LEVELS, Level, Levels};
pub use log::Log;
pub use made::{Made, MadeKind, TAG_BYTES, Tag};
pub use observer::Observer;
pub use part::{FellOut, Part, Refusals, Unfollowed};
pub use readers::{JoinError, Joining, Mark, READERS_MAX, ReaderId, Who};
pub use sink::WorkerSink;
