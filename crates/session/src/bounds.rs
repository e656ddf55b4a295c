//! How much one connection may hold, and the budget that larger amounts are taken from.
//!
//! ```text
//! one connection holds at most
//!   TAIL_FREE_BYTES               the unfinished end of its input, not budgeted
//! + one request                   the rest of that input, from the budget
//! + pending_bytes_max             replies that wait for earlier ones, from the budget
//! + replies to TICKETS_FIRST      likewise, where they are longer than expected
//! + output_bytes_max + one reply  what its client has not taken yet (kept by the driver)
//! ```
//!
//! Sizes are in bytes.

use std::sync::Arc;

use base::MemoryBudget;

/// Unfinished input that every connection may keep without asking the budget. 4,000 clients that
/// all stop in the middle of a line hold 8 MiB.
pub(crate) const TAIL_FREE_BYTES: usize = 2 << 10;

/// The first reservation for a value that is being received. Beyond it the buffer doubles, so a
/// client reserves at most twice what it has sent.
pub(crate) const VALUE_RESERVE_BYTES: usize = 64 << 10;

/// How often the handler is asked to make room for the same bytes: another worker may take the room
/// first.
pub(crate) const ROOM_ATTEMPTS_MAX: u32 = 8;

/// How long a wait of one request lasts at most: after it, a parked request must be answered, and a
/// reply that waits for a log or for its ticket ends in an error. Nanoseconds.
pub const WAIT_NS_MAX: u64 = 2_000_000_000;

/// What a queue of replies keeps for the next time that its connection waits: places, and buffers
/// of replies with their sizes. Of a client that sends sixteen requests at once all may wait, each
/// for its own reply.
pub(crate) const SPARE_ENTRIES_MAX: usize = 16;
pub(crate) const SPARE_REPLIES_MAX: usize = 16;
pub(crate) const SPARE_REPLY_BYTES_MAX: usize = 4 << 10;

/// Requests of one connection whose replies are to come by their tickets, before the first has come
/// and says how long they are. From then on as many as have room in [`Bounds::pending_bytes_max`]
/// if each is as long as the longest of late.
pub(crate) const TICKETS_FIRST: usize = 16;
/// The length of a reply that is counted at least.
pub(crate) const REPLY_BYTES_MIN: usize = 256;

/// A reply that came before its turn and is longer than this is replaced by an error where there is
/// no memory to keep it. A shorter one may say what a change has made.
pub(crate) const KEPT_BYTES_MAX: usize = 1 << 10;
/// Memory for such replies is taken in steps of this size.
pub(crate) const KEPT_STEP_BYTES: u64 = 64 << 10;

/// A value of which at least this much is missing is received directly into its buffer.
pub(crate) const DIRECT_BYTES_MIN: usize = 16 << 10;

/// The bounds of every connection of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Output of one turn after which parsing stops until it is sent; with 0, after each request.
    pub output_bytes_max: usize,
    /// Requests of one turn after which other connections have theirs (memcached's `-R`).
    pub requests_per_turn: u32,
    /// Requests without a final reply, `noreply` included, after which input is left unread.
    pub pending_max: usize,
    /// Bytes of such requests and of the replies queued after them, after which input is left
    /// unread.
    pub pending_bytes_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            output_bytes_max: 1 << 20,
            requests_per_turn: 1024,
            pending_max: 1024,
            pending_bytes_max: 256 << 10,
        }
    }
}

/// What the sessions of a worker may use: their bounds and the budget of memory.
#[derive(Clone)]
pub struct Resources {
    /// The bounds of each session.
    pub bounds: Bounds,
    /// Where buffers above a small size are taken from, for `Owner::Connections`.
    pub budget: Arc<MemoryBudget>,
}
