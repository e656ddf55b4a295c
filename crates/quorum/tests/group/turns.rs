//! Members without a vote, enough that heartbeats come to them in turn, and later than a lease:
//! what they ask of the leader, and when they know that it is silent. In simulated time.

use crate::cells::{Cells, ids, join};
use quorum::{Coordinator, LEASE, Outcome, VOTERS_MAX};
use ring::CellId;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Cells of the ring: enough that a heartbeat comes after a lease.
const CELLS: u32 = 30;
/// A cell without a vote.
const LAST: u32 = CELLS;
/// How long one of them may wait for a heartbeat, at most.
const TURN: Duration = Duration::from_millis(1000);
/// How long after the leader has ended that is known where it is needed.
const KNOWN: Duration = Duration::from_millis(600);

/// The cells, and which of them leads. Nothing was going on for a while.
async fn many() -> (Cells, CellId) {
    let cells = Cells::running(CELLS).await;
    assert_eq!(cells.voters().len(), VOTERS_MAX);
    assert!(!cells.voters().contains(&CellId(LAST)));
    let leader = cells.leader().await;
    sleep(TURN).await;
    (cells, leader)
}

#[tokio::test(start_paused = true)]
async fn they_follow_the_leader_until_it_is_silent_for_two_turns() {
    let (cells, leader) = many().await;
    for _ in 0..50 {
        sleep(Duration::from_millis(100)).await;
        assert!(cells.all().all(|cell| cell.follows()));
    }
    cells.net.isolate(CellId(LAST));
    sleep(LEASE + 2 * TURN).await;
    assert!(!cells.cell(LAST).follows());
    assert!(cells.cell(leader.0).follows());
    cells.end().await;
}

#[tokio::test(start_paused = true)]
async fn they_propose_to_the_leader_itself_between_two_heartbeats() {
    let (cells, leader) = many().await;
    for token in 100..110 {
        let before = cells.net.sent()[&CellId(LAST)];
        assert!(cells.cell(LAST).propose(join(token)).await.is_applied());
        let calls = cells.net.sent()[&CellId(LAST)] - before;
        assert!(calls <= 4, "{calls}: a question, the proposal, and answers to what is appended");
        sleep(LEASE).await;
    }
    assert_eq!(cells.leader().await, leader);
    cells.end().await;
}

#[tokio::test(start_paused = true)]
async fn their_proposal_is_known_to_be_open_soon_after_the_leader_has_ended() {
    let (cells, _) = many().await;
    // Nobody follows the leader, so nothing but its silence says that it has ended.
    cells.voters().into_iter().for_each(|voter| cells.net.isolate(voter));
    let cell = cells.cell(LAST);
    let outcome = cell.propose(join(100)).await;
    assert!(!outcome.is_applied(), "{outcome:?}");
    cells.net.heal();
    cells.leader_among(cells.voters()).await;
    assert!(cells.cell(LAST).propose(join(101)).await.is_applied());

    // It was heard just now, and ends with the proposal on its way.
    cells.voters().into_iter().for_each(|voter| cells.net.isolate(voter));
    let began = Instant::now();
    assert_eq!(cells.cell(LAST).propose(join(102)).await, Outcome::Unknown);
    assert!(began.elapsed() < KNOWN, "{:?}", began.elapsed());
    cells.net.heal();
    cells.end().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_cut_off_from_the_leader_alone_proposes_through_another() {
    let (cells, leader) = many().await;
    let all: Vec<_> = ids(&(1..=CELLS).collect::<Vec<_>>()).into_iter().collect();
    cells.cell(LAST).set_present(&all).await;
    cells.net.cut(leader, CellId(LAST));
    cells.net.cut(CellId(LAST), leader);
    let began = Instant::now();
    assert!(cells.cell(LAST).propose(join(100)).await.is_applied());
    assert!(began.elapsed() < KNOWN, "{:?}", began.elapsed());
    cells.end().await;
}
