//! The logs of effects.
#![forbid(unsafe_code)]

mod account;
mod batch;
mod config;
mod entry;
mod lanes;
mod level;
mod log;
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
pub use entry::{Broken, Entry, Record, Run};
pub use lanes::{LaneId, Lanes, Place};
pub use level::{LEVELS, Level, Levels};
pub use log::Log;
pub use part::{FellOut, Part, Refusals, Unfollowed};
pub use readers::{JoinError, Joining, Mark, READERS_MAX, ReaderId, Who};
pub use sink::{WalkSink, WorkerSink};
