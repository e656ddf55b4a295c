//! The moment of a call.
//!
//! The drivers and the binary read clocks; all other crates receive [`Now`] as an argument and
//! never read a clock. So a test sets the time, and all requests of a batch see the same one.
//!
//! Units: nanoseconds and seconds, as the names of the fields say. Neither clock goes back.

/// Two clocks, read together once per batch of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds of a monotonic clock. Where it starts is not defined: only differences count.
    pub mono_ns: u64,
    /// Seconds since 1970 on the one clock of the cell that expiry times are compared with. It
    /// never goes back, even if the wall clock does.
    pub expiry_s: u32,
}
