//! What the cells of a group send each other while nothing goes on, in simulated time: the leader a
//! heartbeat to each other cell, and each of these its answer.
//!
//! `QUORUM_CELLS=100` sets the number of cells; without it there are 7. It prints what it counts.

use crate::cells::{Cells, formed_of};
use quorum::VOTERS_MAX;
use ring::CellId;
use std::time::Duration;

const CELLS: u32 = 7;
/// How long nothing goes on before messages are counted, and how long they are counted.
const RESTS: Duration = Duration::from_secs(2);
const COUNTED: Duration = Duration::from_secs(5);
/// Heartbeats to one cell in a second, at least and at most.
const HEARTBEATS: (f64, f64) = (10.0, 25.0);

#[tokio::test(start_paused = true)]
async fn the_leader_sends_heartbeats_to_all_and_each_cell_answers() {
    let count = std::env::var("QUORUM_CELLS").ok().and_then(|text| text.parse().ok());
    let count = count.unwrap_or(CELLS);
    let mut cells = Cells::founded_with(formed_of(count)).await;
    for id in 2..=count {
        cells.start(id).await;
    }
    cells.present(&(1..=count).collect::<Vec<_>>()).await;
    assert_eq!(cells.voters().len(), VOTERS_MAX);
    let leader = cells.leader().await;
    tokio::time::sleep(RESTS).await;
    let before = cells.net.sent();
    tokio::time::sleep(COUNTED).await;
    let now = cells.net.sent();
    let rate = |id: CellId| (now[&id] - before[&id]) as f64 / COUNTED.as_secs_f64();
    let ids = || (1..=count).map(CellId);
    let mean = ids().map(rate).sum::<f64>() / f64::from(count);
    let most = ids().filter(|id| *id != leader).map(rate).fold(0.0, f64::max);
    let of_leader = rate(leader);
    println!("agreement of {count} cells: {mean:.1}, leader {of_leader:.1}, another {most:.1}");
    cells.end().await;
    let (least_s, most_s) = HEARTBEATS;
    let to_each = of_leader / f64::from(count - 1);
    assert!((least_s..=most_s).contains(&to_each), "{to_each} heartbeats a second to each cell");
    assert!(most <= most_s, "{most} messages a second of a cell that does not lead");
}
