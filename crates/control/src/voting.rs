//! What an operator should know of the cells that vote.

use ring::CellId;
use std::collections::BTreeSet;

/// How long a cell waits for a map before it says so.
const WAITING_NS: u64 = 3_000_000_000;

/// What was known when it was looked last.
#[derive(Default)]
pub(crate) struct Voting {
    voters: BTreeSet<CellId>,
    /// Since when it has no map.
    since_ns: Option<u64>,
    has_said: bool,
}

impl Voting {
    /// What is to be said now of these `voters`, where the cell `has_map` or has none yet. `name`
    /// says where a cell is.
    pub(crate) fn due(
        &mut self,
        voters: &BTreeSet<CellId>,
        (has_map, now_ns): (bool, u64),
        name: impl Fn(CellId) -> String,
    ) -> Option<String> {
        let list = |cells: &BTreeSet<CellId>| {
            cells.iter().map(|cell| name(*cell)).collect::<Vec<_>>().join(", ")
        };
        let before = std::mem::replace(&mut self.voters, voters.clone());
        if voters.len() < before.len() && !voters.is_empty() {
            return Some(format!("fewer cells vote: {}; before: {}", list(voters), list(&before)));
        }
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        let waits = !has_map && !self.has_said && now_ns.saturating_sub(since_ns) >= WAITING_NS;
        self.has_said |= waits;
        waits.then(|| {
            let voters = list(voters);
            format!(
                "this cell has no map yet and serves nothing: it waits until more than half of \
                 the voters run, {voters}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(numbers: &[u32]) -> BTreeSet<CellId> {
        numbers.iter().copied().map(CellId).collect()
    }

    fn due(voting: &mut Voting, voters: &[u32], has_map: bool, now_ns: u64) -> Option<String> {
        let name = |cell: CellId| format!("cell {cell}");
        voting.due(&cells(voters), (has_map, now_ns), name)
    }

    #[test]
    fn a_cell_says_once_that_it_waits_and_for_whom() {
        let mut voting = Voting::default();
        assert_eq!(due(&mut voting, &[1, 2], false, 5), None);
        assert_eq!(due(&mut voting, &[1, 2], false, WAITING_NS + 4), None);
        let said = due(&mut voting, &[1, 2], false, WAITING_NS + 5).expect("it is time");
        assert!(said.ends_with("more than half of the voters run, cell 1, cell 2"), "{said}");
        assert_eq!(due(&mut voting, &[1, 2], false, WAITING_NS * 3), None);
        let mut voting = Voting::default();
        assert_eq!(due(&mut voting, &[1, 2], true, WAITING_NS * 3), None);
    }

    #[test]
    fn that_fewer_cells_vote_is_said() {
        let mut voting = Voting::default();
        assert_eq!(due(&mut voting, &[1], true, 0), None);
        assert_eq!(due(&mut voting, &[1, 2, 3], true, 0), None, "more of them are no fault");
        assert_eq!(due(&mut voting, &[1, 2, 4], true, 0), None, "another one");
        let said = due(&mut voting, &[4], true, 0);
        let wanted = "fewer cells vote: cell 4; before: cell 1, cell 2, cell 4";
        assert_eq!(said.as_deref(), Some(wanted));
        assert_eq!(due(&mut voting, &[4], true, 0), None);
    }
}
