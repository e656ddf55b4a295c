//! The times that leases rest on.
//!
//! ```text
//! holder   sends at s ------------------ may answer until s + 250 ms
//!             \            ^
//!              v          / echo of s
//! granter   hears at h --------------------------- asks for promotion from h + 300 ms
//! ```
//!
//! `h` is not before `s`. So the holder stops at least 50 ms before the granter begins, as long as
//! neither clock runs a fifth faster than the other. Times are nanoseconds of a monotonic clock.

/// From one heartbeat to the next.
pub const BEAT_NS: u64 = 50_000_000;
/// From when on heartbeats are sent with those that another cell has just sent.
pub const JOIN_NS: u64 = BEAT_NS / 2;
/// How long a holder may answer, from the sending of the heartbeat that was echoed.
pub const LEASE_NS: u64 = 250_000_000;
/// A primary that was not heard for so long is replaced.
pub const SILENCE_NS: u64 = 300_000_000;
/// A copy that was not heard for so long is dropped. A primary may do so at any time.
pub const SHRINK_NS: u64 = 150_000_000;
/// The same, for a cell that hears no other. It may be deaf alone: a copy that it does not hear
/// replaces it within a lease and a silence, and is dropped only after that. Once it was dropped,
/// nobody could replace this cell.
pub const DEAF_NS: u64 = 1_000_000_000;
/// A cell that appears in the map counts as heard up to [`SILENCE_NS`] before this has passed.
pub const FIRST_NS: u64 = 2_000_000_000;

const _: () = assert!(LEASE_NS + BEAT_NS <= SILENCE_NS && 2 * BEAT_NS < SHRINK_NS);
const _: () = assert!(LEASE_NS + SILENCE_NS + 4 * BEAT_NS < DEAF_NS);

/// A cell of which a heartbeat has arrived within this time is not lost.
pub const LOST_NS: u64 = 5_000_000_000;
