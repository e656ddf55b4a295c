//! Brings the members of the group to where they should be.
//!
//! The voters change in one joint change, from odd to odd. The leader stays: one of openraft 0.9
//! that removes itself can leave two voters that no longer elect.

use super::types::Raft;
use crate::voters::voters;
use openraft::{ChangeMembers, EmptyNode, RaftMetrics, ServerState};
use ring::CellId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How far behind the leader a cell may be to become a voter, in entries.
const BEHIND_MAX: u64 = 32;
/// How long to wait for a change before the next attempt.
const PAUSE: Duration = Duration::from_millis(20);

/// The next step.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Nothing is left to do, or another cell leads.
    Done,
    /// A new voter has not got all entries yet, or the leader has not applied all that was decided
    /// before it led: the map that it shows may be an older one.
    Wait,
    AddMembers(BTreeSet<CellId>),
    /// They are in the map no more, and do not vote.
    DropMembers(BTreeSet<CellId>),
    Replace(BTreeSet<CellId>),
}

/// Arranges the members for the `cells` of the map, of which `present` run, as long as it is
/// polled. The caller bounds it by a deadline.
pub async fn arrange(raft: &Raft, cells: impl Fn() -> BTreeSet<CellId>, present: &[CellId]) {
    let mut metrics = raft.metrics();
    loop {
        let now = metrics.borrow_and_update().clone();
        let step = step(&now, &cells(), present);
        // A change that fails is tried again, from what the members are then.
        let changed = match step {
            Step::Done => return,
            Step::Wait => Ok(()),
            Step::AddMembers(cells) => {
                let nodes: BTreeMap<_, _> =
                    cells.into_iter().map(|cell| (cell, EmptyNode {})).collect();
                raft.change_membership(ChangeMembers::AddNodes(nodes), true).await.map(drop)
            }
            Step::DropMembers(cells) => {
                raft.change_membership(ChangeMembers::RemoveNodes(cells), true).await.map(drop)
            }
            Step::Replace(voters) => raft.change_membership(voters, true).await.map(drop),
        };
        if changed.is_err() {
            // What fails at once, because an earlier change is under way, changes the metrics too.
            sleep(PAUSE).await;
        }
        if matches!(timeout(PAUSE, metrics.changed()).await, Ok(Err(_))) {
            return;
        }
    }
}

fn step(
    now: &RaftMetrics<CellId, EmptyNode>,
    cells: &BTreeSet<CellId>,
    present: &[CellId],
) -> Step {
    let me = now.id;
    if now.current_leader != Some(me) || now.running_state.is_err() {
        return Step::Done;
    }
    let own = now.vote.leader_id;
    let has_applied_own = now.last_applied.is_some_and(|last| last.leader_id == own);
    if now.state != ServerState::Leader || !has_applied_own {
        return Step::Wait;
    }
    let membership = now.membership_config.membership();
    let members: BTreeSet<CellId> = membership.nodes().map(|(cell, _)| *cell).collect();
    let missing: BTreeSet<CellId> = cells.difference(&members).copied().collect();
    if !missing.is_empty() {
        return Step::AddMembers(missing);
    }
    let configs = membership.get_joint_config();
    let Some(last) = configs.last() else { return Step::Done };
    let present: Vec<_> = present.iter().filter(|cell| members.contains(cell)).copied().collect();
    let wanted = with_leader(voters(&present, last), me);
    if configs.len() == 1 && wanted == *last {
        let gone: BTreeSet<CellId> = members.difference(cells).copied().collect();
        let gone = &gone - last;
        return if gone.is_empty() { Step::Done } else { Step::DropMembers(gone) };
    }
    let needed = now.last_log_index.unwrap_or(0).saturating_sub(BEHIND_MAX);
    let replication = now.replication.as_ref();
    let has_enough = |cell: &CellId| {
        let matched = replication.and_then(|all| all.get(cell)).copied().flatten();
        matched.is_some_and(|matched| matched.index >= needed)
    };
    if wanted.difference(last).all(has_enough) { Step::Replace(wanted) } else { Step::Wait }
}

/// As many voters, the leader among them.
fn with_leader(mut voters: BTreeSet<CellId>, leader: CellId) -> BTreeSet<CellId> {
    if !voters.contains(&leader) {
        voters.pop_last();
        voters.insert(leader);
    }
    voters
}

#[cfg(test)]
mod tests {
    use super::super::types::{LogId, Vote};
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_leader_waits_for_what_was_decided_before_it_led() {
        let cells = |ids: &[u32]| ids.iter().map(|id| CellId(*id)).collect::<BTreeSet<_>>();
        let mut now = RaftMetrics::new_initial(CellId(1));
        assert_eq!(step(&now, &cells(&[1, 2]), &[CellId(1)]), Step::Done, "it does not lead");
        now.current_leader = Some(CellId(1));
        now.vote = Vote::new_committed(2, CellId(1));
        assert_eq!(step(&now, &cells(&[]), &[CellId(1)]), Step::Wait, "it only begins to");
        now.state = ServerState::Leader;
        assert_eq!(step(&now, &cells(&[]), &[CellId(1)]), Step::Wait, "its map may be older");
        now.last_applied = Some(LogId { leader_id: now.vote.leader_id, index: 3 });
        let add = Step::AddMembers(cells(&[1, 2]));
        assert_eq!(step(&now, &cells(&[1, 2]), &[CellId(1)]), add);
    }

    #[test]
    fn a_cell_that_was_removed_from_the_map_is_no_member_once_it_does_not_vote() {
        let cells = |ids: &[u32]| ids.iter().map(|id| CellId(*id)).collect::<BTreeSet<_>>();
        let mut now = RaftMetrics::new_initial(CellId(1));
        now.vote = Vote::new_committed(2, CellId(1));
        (now.current_leader, now.state) = (Some(CellId(1)), ServerState::Leader);
        now.last_applied = Some(LogId { leader_id: now.vote.leader_id, index: 3 });
        let membership = |voters: &[u32], all: &[u32]| {
            let nodes: BTreeMap<_, _> =
                cells(all).into_iter().map(|it| (it, EmptyNode {})).collect();
            let membership = openraft::Membership::new(vec![cells(voters)], nodes);
            Arc::new(openraft::StoredMembership::new(None, membership))
        };
        now.membership_config = membership(&[1], &[1, 2, 3]);
        let present = [CellId(1), CellId(2)];
        assert_eq!(step(&now, &cells(&[1, 2, 3]), &present), Step::Done, "it has only ended");
        let drops = Step::DropMembers(cells(&[3]));
        assert_eq!(step(&now, &cells(&[1, 2]), &present), drops);
        now.membership_config = membership(&[1, 2, 3], &[1, 2, 3]);
        let step = step(&now, &cells(&[1, 2]), &present);
        assert_eq!(step, Step::Replace(cells(&[1])), "it votes yet");
    }

    #[test]
    fn the_leader_stays_and_the_number_does_not_change() {
        let set = |ids: &[u32]| ids.iter().map(|id| CellId(*id)).collect::<BTreeSet<_>>();
        let cases: [(&[u32], u32, &[u32]); 4] = [
            (&[1], 2, &[2]),
            (&[1, 2, 3], 5, &[1, 2, 5]),
            (&[1, 2, 3], 2, &[1, 2, 3]),
            (&[4], 4, &[4]),
        ];
        for (voters, leader, expected) in cases {
            assert_eq!(with_leader(set(voters), CellId(leader)), set(expected));
        }
    }
}
