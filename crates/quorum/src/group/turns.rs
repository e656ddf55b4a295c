//! How often a leader sends heartbeats to a member.
//!
//! A voter gets one each time: its lease, and when it campaigns, go by them. Of the members without
//! a vote, however many they are, two get one each time, in turn: so what a leader sends while
//! nothing goes on does not grow with the ring. Entries, and how far they are committed, are sent
//! to all at once.

use super::election::HEARTBEAT_MS;
use super::types::{LogId, Raft, Types, Vote};
use openraft::raft::AppendEntriesRequest;
use openraft::{EmptyNode, RaftMetrics};
use ring::CellId;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Members without a vote that get a heartbeat each time.
const AT_A_TIME: usize = 2;

/// Who is a member, and votes. A clone is the same one.
#[derive(Clone, Default)]
pub struct Turns(Arc<OnceLock<watch::Receiver<RaftMetrics<CellId, EmptyNode>>>>);

impl Turns {
    /// Of this group, from now on. Before that every member gets each heartbeat.
    pub fn set(&self, raft: &Raft) {
        let _ = self.0.set(raft.metrics());
    }

    /// How long `member` may wait for a heartbeat while others have their turn. `None`: it votes,
    /// or is no member, and gets each.
    pub fn of(&self, member: CellId) -> Option<Duration> {
        let now = self.0.get()?.borrow();
        let config = &now.membership_config;
        let voters: BTreeSet<CellId> = config.voter_ids().collect();
        let membership = config.membership();
        let is_without = membership.get_node(&member).is_some() && !voters.contains(&member);
        // Exact, and not counted each time: it is the length of a map.
        let members = membership.nodes().size_hint().0;
        is_without.then(|| turn(members - voters.len()))
    }
}

/// The turn of each of this number of members.
fn turn(members: usize) -> Duration {
    let times = members.div_ceil(AT_A_TIME).saturating_sub(1);
    Duration::from_millis(HEARTBEAT_MS) * times as u32
}

/// The heartbeat that a member has confirmed last.
#[derive(Default)]
pub struct Confirmed(Option<(Said, Instant)>);

/// What a heartbeat says: who leads, up to where the member has all entries, and up to where they
/// are committed.
type Said = (Vote, Option<LogId>, Option<LogId>);

fn said(heartbeat: &AppendEntriesRequest<Types>) -> Option<Said> {
    let said = (heartbeat.vote, heartbeat.prev_log_id, heartbeat.leader_commit);
    heartbeat.entries.is_empty().then_some(said)
}

impl Confirmed {
    /// Whether `request` is a heartbeat that says what was confirmed less than a `turn` ago.
    pub fn covers(&self, request: &AppendEntriesRequest<Types>, turn: Duration) -> bool {
        let Some((last, at)) = &self.0 else { return false };
        said(request).is_some_and(|said| said == *last) && at.elapsed() < turn
    }
}

/// A heartbeat that is about to be sent, until it is confirmed.
pub struct Pending(Option<(Said, Instant)>);

impl Pending {
    /// `request` is sent now.
    pub fn of(request: &AppendEntriesRequest<Types>) -> Self {
        Self(said(request).map(|said| (said, Instant::now())))
    }

    /// The member has confirmed it.
    pub fn confirmed(self) -> Confirmed {
        Confirmed(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft::{Entry, EntryPayload};

    #[test]
    fn the_turn_grows_with_the_members_and_their_heartbeats_do_not() {
        let turns = [0, 1, 2, 3, 5, 95].map(|members| turn(members).as_millis());
        assert_eq!(turns, [0, 0, 0, 50, 100, 2350]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_is_left_out_only_where_it_says_nothing_new_within_the_turn() {
        let turn = Duration::from_millis(100);
        let at = |index| Some(LogId { leader_id: Vote::new(1, CellId(1)).leader_id, index });
        let beat = |commit| AppendEntriesRequest::<Types> {
            vote: Vote::new_committed(1, CellId(1)),
            prev_log_id: at(7),
            entries: Vec::new(),
            leader_commit: at(commit),
        };
        let confirmed = Pending::of(&beat(7)).confirmed();
        assert!(!Confirmed::default().covers(&beat(7), turn), "nothing was confirmed");
        assert!(confirmed.covers(&beat(7), turn));
        assert!(!confirmed.covers(&beat(8), turn), "more is committed");
        let later = AppendEntriesRequest { vote: Vote::new_committed(2, CellId(1)), ..beat(7) };
        assert!(!confirmed.covers(&later, turn), "it leads again");
        let blank = Entry { log_id: at(8).unwrap(), payload: EntryPayload::Blank };
        let entries = AppendEntriesRequest { entries: vec![blank], ..beat(7) };
        assert!(!confirmed.covers(&entries, turn), "there is an entry");
        assert!(!Pending::of(&entries).confirmed().covers(&beat(7), turn), "it had entries");
        tokio::time::advance(turn).await;
        assert!(!confirmed.covers(&beat(7), turn), "it is its turn");
    }
}
