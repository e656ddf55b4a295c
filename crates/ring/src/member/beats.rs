//! When the next heartbeats are due.
//!
//! ```text
//! sent                 25 ms                  50 ms
//! |-- not sent again ---|-- with those of others --|-- by themselves
//! ```
//!
//! A cell that hears another sends its own with that, if they are due soon. So all cells come to
//! send at one time, and each wakes up once to send and to hear the others, not once for each.

use super::leases::{BEAT_NS, JOIN_NS};

/// The rhythm of the heartbeats.
#[derive(Default)]
pub(super) struct Beats {
    next_ns: u64,
}

impl Beats {
    /// Whether heartbeats are due; `has_heard`: another cell has just sent its own. If so, the next
    /// ones are later.
    pub(super) fn are_due(&mut self, now_ns: u64, has_heard: bool) -> bool {
        let early_ns = if has_heard { BEAT_NS - JOIN_NS } else { 0 };
        let are_due = now_ns + early_ns >= self.next_ns;
        if are_due {
            self.next_ns = now_ns + BEAT_NS;
        }
        are_due
    }

    /// When they are due by themselves.
    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// They are due now: something has changed that others should know.
    pub(super) fn hurry(&mut self) {
        self.next_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_join_those_of_others_but_not_before_half_of_their_time() {
        let due = |after_ns, has_heard| {
            let mut beats = Beats::default();
            assert!(beats.are_due(BEAT_NS, false), "the first ones");
            let are_due = beats.are_due(BEAT_NS + after_ns, has_heard);
            assert_eq!(beats.next_ns() > 2 * BEAT_NS, are_due && after_ns > 0);
            are_due
        };
        let cases = [
            (0, true, false),
            (JOIN_NS - 1, true, false),
            (JOIN_NS, true, true),
            (JOIN_NS, false, false),
            (BEAT_NS - 1, false, false),
            (BEAT_NS, false, true),
        ];
        for (after_ns, has_heard, expected) in cases {
            assert_eq!(due(after_ns, has_heard), expected, "{after_ns} {has_heard}");
        }
    }
}
