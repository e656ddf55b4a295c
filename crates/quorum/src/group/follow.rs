//! A cell that cannot write any more takes no part in the group, but it still has to see the map:
//! it asks the leader for it.

use super::body::{Answer, Request};
use super::caller::Caller;
use super::shown::Shown;
use super::types::Raft;
use crate::transport::Transport;
use ring::CellId;
use std::time::Duration;
use tokio::time::sleep;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// How long one answer may take.
const LIMIT: Duration = Duration::from_millis(500);

/// Follows for one cell.
pub struct Follower<T> {
    pub me: CellId,
    pub raft: Raft,
    pub caller: Caller<T>,
    pub shown: Shown,
}

impl<T: Transport> Follower<T> {
    /// Waits until the group has ended at this cell, and then follows the map for ever.
    pub async fn run(self) {
        let mut metrics = self.raft.metrics();
        while metrics.borrow_and_update().running_state.is_ok() && metrics.changed().await.is_ok() {
        }
        let mut members: Vec<CellId> = {
            let last = metrics.borrow();
            let nodes = last.membership_config.membership().nodes();
            nodes.map(|(cell, _)| *cell).filter(|cell| *cell != self.me).collect()
        };
        while !members.is_empty() {
            match self.caller.ask(members[0], Request::Map, LIMIT).await {
                Ok(Answer::Map(map)) => self.shown.publish(&map),
                Ok(Answer::NotLeader(Some(leader))) if leader != self.me => {
                    members.retain(|cell| *cell != leader);
                    members.insert(0, leader);
                }
                _ => members.rotate_left(1),
            }
            sleep(PAUSE).await;
        }
    }
}
