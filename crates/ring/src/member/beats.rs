//! When the next heartbeats are due.

use super::leases::BEAT_NS;

/// The rhythm of the heartbeats.
#[derive(Default)]
pub(super) struct Beats {
    next_ns: u64,
}

impl Beats {
    /// Whether heartbeats are due. If so, the next ones are later.
    pub(super) fn are_due(&mut self, now_ns: u64) -> bool {
        let are_due = now_ns >= self.next_ns;
        if are_due {
            self.next_ns = now_ns + BEAT_NS;
        }
        are_due
    }

    /// They are due now: something has changed that others should know.
    pub(super) fn hurry(&mut self) {
        self.next_ns = 0;
    }
}
