//! What is requested: an endless, seeded stream of requests, and the bytes of keys and values.
//!
//! Pure: no socket, no clock, no thread. A request is four numbers ([`Request`]). Keys and values
//! are functions of those numbers and the seed, so nothing is stored to check a reply, and any
//! tool (the generator, a hit-ratio bench, a simulator) can walk the same stream.
//!
//! ```text
//! Workload -- Stream(lane) -- Request { op, key, value_bytes, ttl_s }
//!     +-- KeyForm: key number -> bytes on the wire
//!     +-- Values:  (key number, length) -> value bytes
//! ```
//!
//! Invariant: length and lifetime of an item depend on its key alone, so `verify` finds a value of
//! the wrong length as well as one with a wrong byte. Lengths are bytes, lifetimes seconds.

mod keys;
mod limits;
mod multiget;
mod popularity;
mod shape;
mod spread;
mod stream;
mod values;

pub use keys::KeyForm;
pub use limits::{KEY_BYTES_MAX, KEYS_MAX, VALUE_BYTES_MAX};
pub use multiget::{MULTIGET_MAX, Multiget};
pub use popularity::Popularity;
pub(crate) use popularity::{passed_key, passed_on};
pub use shape::Shape;
pub use spread::Spread;
pub use stream::{Op, Ratio, Request, Stream, Workload, WorkloadSpec};
pub use values::Values;
