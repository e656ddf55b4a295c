//! What is asked for: an endless, seeded stream of requests, and what their keys and values are.
//!
//! Pure: no socket, no clock, no thread. A request is four numbers ([`Request`]); keys and values
//! are functions of those numbers and the seed, so nothing is stored to check a reply by, and
//! any tool (the generator, a hit-ratio bench, a simulator) can walk the same stream.
//!
//! ```text
//! Workload -- Stream(lane) -- Request { op, key, value_bytes, ttl_s }
//!     +-- KeyForm: key number -> bytes on the wire
//!     +-- Values:  (key number, length) -> value bytes
//! ```
//!
//! The length and the lifetime of an item depend on its key alone, so a value of the wrong length
//! is as visible as one with a wrong byte.

mod keys;
mod multiget;
mod popularity;
mod shape;
mod spread;
mod stream;
mod values;

pub use keys::KeyForm;
pub use multiget::{MULTIGET_MAX, Multiget};
pub use popularity::Popularity;
pub(crate) use popularity::{passed_key, passed_on};
pub use shape::Shape;
pub use spread::Spread;
pub use stream::{Op, Ratio, Request, Stream, Workload, WorkloadSpec};
pub use values::Values;

/// The most keys a workload can have: key numbers are kept in 32 bits while a reply is awaited.
pub const KEYS_MAX: u64 = 1 << 30;

/// The longest key of the protocol, in bytes.
pub const KEY_BYTES_MAX: usize = 250;

/// The longest value the generator makes, in bytes.
pub const VALUE_BYTES_MAX: u32 = 1 << 30;
