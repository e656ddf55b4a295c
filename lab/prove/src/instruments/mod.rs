//! Instruments: the servers under test, clients and generators, and what a request costs.
//!
//! They measure and judge nothing: bars stand with the claims. Processor time is in microseconds
//! per request and is the kernel's account of the whole server.

mod contest;
mod contestant;
mod fleet;
mod generator;
mod memtier;
mod quota;
mod ring;
mod slope;
mod watched;
mod wire;

pub use contest::{alternated, costs, details, pinned, rounds, times, within};
pub use contestant::{Contestant, Program, ROOMY_MIB};
pub use fleet::{Fleet, Shape, Verb};
pub use generator::{ByTime, CONNECTIONS, GET, Limit, Load, Outcome, Second, exchange, redis};
pub use memtier::{Asking, Duel, GETS, NAMES, Run};
pub use quota::Quota;
pub use ring::{
    Answered, Cell, Ended, Given, Joined, KeySeen, Keys, LoadClient, OpenLoop, PROBE_PACE, RangeOf,
    Ring, RingMap, Stream, map_of, send, until,
};
pub use slope::{Taken, Work, system_calls, taken};
pub use watched::{Seen, Slow, Step, watched};
pub use wire::{Batch, Client, KEY_BYTES, key};
