//! What all drivers agree on about connections that wait: how often a parked request is tried
//! again, and how a worker announces the logs that its connections wait for.

use session::LogId;

/// How long a parked request waits at most for its next try, in nanoseconds.
pub(crate) const PARKED_RETRY_NS: u64 = 1_000_000;

/// The bit of a log in an announcement. Logs that share one are woken for together.
pub(crate) fn bit_of(log: LogId) -> u64 {
    1 << (log.0 % u64::BITS)
}
