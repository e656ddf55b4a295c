//! Whom to ask for a newer map, where the leader of the agreement does not send it: the network
//! between the two may be broken, and whole between all others.
//!
//! Every heartbeat says which map its sender goes by. Maps are what the agreement has decided, and
//! their versions have one order: one that another cell has is as good as one from the leader.

use crate::ids::CellId;

/// For so long the leader may take to send what others have already.
const BEHIND_NS: u64 = 100_000_000;
/// Between two questions.
const AGAIN_NS: u64 = 50_000_000;

/// What was heard of newer maps.
#[derive(Default)]
pub(super) struct Newer {
    /// Who has the newest, and which version that is.
    newest: Option<(CellId, u64)>,
    /// When the own map began to be older.
    since_ns: u64,
    asked_ns: u64,
}

impl Newer {
    /// `from` has the map of `version`; the own one has `own`.
    pub(super) fn hear(&mut self, from: CellId, version: u64, own: u64, now_ns: u64) {
        if version <= own {
            return;
        }
        match self.newest {
            None => (self.newest, self.since_ns) = (Some((from, version)), now_ns),
            // The latest that says so is the one that can be reached.
            Some((_, known)) if version >= known => self.newest = Some((from, version)),
            Some(_) => {}
        }
    }

    /// The own map is newer than before: the time begins again.
    pub(super) fn adopt(&mut self) {
        self.newest = None;
    }

    /// When another cell is to be asked, if one is.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.newest.map(|_| (self.since_ns + BEHIND_NS).max(self.asked_ns + AGAIN_NS))
    }

    /// Whom to ask now.
    pub(super) fn asks(&mut self, now_ns: u64) -> Option<CellId> {
        let (cell, _) = self.newest?;
        let is_due = self.due_ns().is_some_and(|due_ns| due_ns <= now_ns);
        is_due.then(|| {
            self.asked_ns = now_ns;
            cell
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const START: u64 = 1000 * MS;

    #[test]
    fn a_cell_with_the_newest_map_is_asked_when_the_leader_has_not_sent_it() {
        let (b, c) = (CellId(2), CellId(3));
        let mut newer = Newer::default();
        newer.hear(b, 7, 7, START);
        assert_eq!(newer.asks(START + 500 * MS), None, "it is not newer");
        newer.hear(b, 8, 7, START);
        assert_eq!(newer.asks(START + 99 * MS), None, "the leader may send it yet");
        newer.hear(c, 9, 7, START + 99 * MS);
        newer.hear(b, 8, 7, START + 99 * MS);
        assert_eq!(newer.asks(START + 100 * MS), Some(c));
        assert_eq!(newer.asks(START + 149 * MS), None, "it was asked");
        newer.hear(b, 9, 7, START + 149 * MS);
        assert_eq!(newer.asks(START + 150 * MS), Some(b), "the one that was heard last");
        newer.adopt();
        assert_eq!(newer.asks(START + 300 * MS), None);
        newer.hear(b, 9, 8, START + 300 * MS);
        assert_eq!(newer.asks(START + 399 * MS), None, "the time begins again");
        assert_eq!(newer.asks(START + 400 * MS), Some(b));
    }
}
