//! A ring of real processes, what its cells say of it, and clients that see it through faults.
//!
//! `process` is a ring of `volvox up`, `joined` one of files in network namespaces. `load` is a
//! verified load: each of its clients knows what its keys may hold, and waits for each answer.
//! `open_loop` waits for none: by it `probe` asks for the keys that a fault concerns, and `keys`
//! for any of many keys that are stored before.

mod answered;
mod holds;
mod joined;
mod keys;
mod load;
mod map;
mod open_loop;
mod probe;
mod process;
mod waits;

pub use answered::{Answered, Ended};
pub use joined::Joined;
pub use keys::{Keys, Seen as KeySeen};
pub use load::Client as LoadClient;
pub use map::{RangeOf, RingMap};
pub use open_loop::OpenLoop;
pub use probe::{PROBE_PACE, Stream};
pub use process::{Given, Ring};
pub use waits::{Cell, map_of, send, until};
