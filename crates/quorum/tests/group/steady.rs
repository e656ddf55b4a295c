//! What the cells of a group send each other while nothing goes on, in simulated time: the leader a
//! heartbeat to each other voter, and to two other cells, in turn; and each of these its answer.
//!
//! `QUORUM_CELLS=100` sets the number of cells; without it there are 20. It prints what it counts.

use crate::cells::Cells;
use quorum::VOTERS_MAX;
use ring::CellId;
use std::time::Duration;

const CELLS: u32 = 20;
/// How long nothing goes on before messages are counted, and how long they are counted.
const RESTS: Duration = Duration::from_secs(2);
const COUNTED: Duration = Duration::from_secs(5);
/// How often heartbeats are sent in a second, at least and at most.
const TIMES: (f64, f64) = (10.0, 25.0);
/// Cells without a vote that get one each time.
const AT_A_TIME: u32 = 2;

#[tokio::test(start_paused = true)]
async fn what_the_leader_sends_does_not_grow_with_the_cells() {
    let count = std::env::var("QUORUM_CELLS").ok().and_then(|text| text.parse().ok());
    let count = count.unwrap_or(CELLS);
    let cells = Cells::running(count).await;
    assert_eq!(cells.voters().len(), VOTERS_MAX);
    let leader = cells.leader().await;
    tokio::time::sleep(RESTS).await;
    let before = cells.net.sent();
    tokio::time::sleep(COUNTED).await;
    let now = cells.net.sent();
    let rate = |id: CellId| (now[&id] - before[&id]) as f64 / COUNTED.as_secs_f64();
    let voters = cells.voters();
    let most_of = |of: &dyn Fn(&CellId) -> bool| {
        let ids = (1..=count).map(CellId).filter(|id| *id != leader);
        ids.filter(of).map(rate).fold(0.0, f64::max)
    };
    let voter = most_of(&|id| voters.contains(id));
    let other = most_of(&|id| !voters.contains(id));
    let of_leader = rate(leader);
    println!(
        "agreement of {count} cells: leader {of_leader:.1}, voter {voter:.1}, other {other:.1}"
    );
    cells.end().await;
    let (least_s, most_s) = TIMES;
    let at_a_time = VOTERS_MAX as u32 - 1 + AT_A_TIME.min(count - VOTERS_MAX as u32);
    let times = of_leader / f64::from(at_a_time);
    assert!((least_s..=most_s).contains(&times), "heartbeats {times} times a second");
    assert!(voter.max(other) <= most_s, "{voter} and {other} a second of cells that do not lead");
}
