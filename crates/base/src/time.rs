//! The moment a call happens at. The rim reads clocks; cores receive this.

/// Two clocks read together, once per batch of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds of a monotonic clock with an arbitrary start.
    pub mono_ns: u64,
    /// Seconds since 1970 on the cell-wide clock that expiry times are compared with; it never
    /// goes back, even when the wall clock does.
    pub expiry_s: u32,
}
