//! The delayed `flush_all` of a ring: when all items end, and which of them each range has had.
//!
//! Each has a number, higher than those before. The log of a range says which one was carried out
//! last there.
//!
//! Invariant: `due` was due when `next` was asked for. So a flush that was due is not undone by one
//! that is asked for while some range has not carried it out.

use serde::{Deserialize, Serialize};

/// One delayed `flush_all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flush {
    /// Its number.
    pub number: u32,
    /// The second in which it is due.
    pub due_s: u32,
}

/// Those that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flushes {
    /// The latest that was due when another one was asked for.
    due: Option<Flush>,
    /// The latest.
    next: Option<Flush>,
}

impl Flushes {
    /// The latest that was asked for.
    #[must_use]
    pub fn latest(&self) -> Option<Flush> {
        self.next
    }

    /// The latest that is due at `now_s`: it ends all that one before it would.
    #[must_use]
    pub fn due_at(&self, now_s: u32) -> Option<Flush> {
        [self.next, self.due].into_iter().flatten().find(|flush| flush.due_s <= now_s)
    }

    /// The second from which a range answers nothing that has carried out the flush with the number
    /// `done`, and no later one. `None`: nothing is to be carried out.
    #[must_use]
    pub fn stops_at_s(&self, done: u32) -> Option<u32> {
        let open = [self.due, self.next].into_iter().flatten().filter(|it| it.number > done);
        open.map(|flush| flush.due_s).min()
    }

    /// Another one is asked for at second `at_s`.
    pub(super) fn add(&mut self, due_s: u32, at_s: u32) {
        let number = self.next.map_or(1, |flush| flush.number.saturating_add(1));
        self.due = self.next.filter(|flush| flush.due_s <= at_s).or(self.due);
        self.next = Some(Flush { number, due_s });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_counts_and_what_was_due_stays_due() {
        let mut flushes = Flushes::default();
        assert_eq!((flushes.due_at(u32::MAX), flushes.stops_at_s(0)), (None, None));
        flushes.add(300, 10);
        flushes.add(100, 20);
        // The first is replaced before it was due.
        let numbers = |flushes: &Flushes, seconds: &[u32]| -> Vec<u32> {
            let due = seconds.iter().map(|second| flushes.due_at(*second));
            due.map(|flush| flush.map_or(0, |flush| flush.number)).collect()
        };
        assert_eq!(numbers(&flushes, &[99, 100, 300]), [0, 2, 2]);
        assert_eq!([0, 1, 2].map(|done| flushes.stops_at_s(done)), [Some(100), Some(100), None]);
        // The second was due: a range that has not carried it out must still do so.
        flushes.add(500, 100);
        assert_eq!(numbers(&flushes, &[99, 100, 499, 500]), [0, 2, 2, 3]);
        let stops = [1, 2, 3].map(|done| flushes.stops_at_s(done));
        assert_eq!(stops, [Some(100), Some(500), None]);
        // The third is replaced before it is due; the second stays.
        flushes.add(600, 200);
        assert_eq!(numbers(&flushes, &[100, 500, 600]), [2, 2, 4]);
    }
}
