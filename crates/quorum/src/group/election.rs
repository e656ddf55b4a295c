//! When a voter campaigns.
//!
//! openraft 0.9 draws one timeout for the whole life of a process, so two voters with the same one
//! campaign at the same time, for ever. Here each rank has a timeout of its own:
//!
//! ```text
//! last heard from the leader      300 ms          300 + 150 ms            300 + 300 ms
//! |------- lease: nobody votes ---|---- no voter ----|- rank 0 -|- rank 1 -|- ... -|
//! ```
//!
//! A campaign that fails is repeated after the second part alone. Of two that overlap, the later
//! one wins: its rank is higher, so its id is, and openraft orders votes of a term by id.
//!
//! Before it campaigns, a voter asks the others whether they would vote for it. Without a majority
//! it does not, so one that cannot reach them, or has too few entries, raises no term.

use super::body::{Answer, Request};
use super::caller::Caller;
use super::log::Log;
use super::types::Raft;
use crate::transport::Transport;
use openraft::{RaftMetrics, ServerState};
use ring::CellId;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// How long after the last heartbeat nobody votes for another leader.
pub const LEASE: Duration = Duration::from_millis(300);
/// Between two heartbeats.
pub const HEARTBEAT_MS: u64 = 50;
/// The shortest timeout of a voter.
pub const TIMEOUT_MIN_MS: u64 = 150;
/// No voter has a timeout as long as this.
pub const TIMEOUT_MAX_MS: u64 = 300;
/// The timeout of a voter without others.
const ALONE: Duration = Duration::from_millis(10);
/// How long the others have to say whether they would vote.
const CANVASS: Duration = Duration::from_millis(100);
/// How long a cell that starts looks for a later agreement, where not all others answer.
const LOOKING: Duration = Duration::from_millis(500);
/// Between two questions to a cell that does not answer.
const AGAIN: Duration = Duration::from_millis(20);

/// When this cell last heard of a leader or a candidate. A clone is the same one.
#[derive(Clone)]
pub struct Heard(Arc<Mutex<Last>>);

struct Last {
    at: Instant,
    /// From a leader: the lease counts from it.
    of_leader: bool,
    /// The leader is suspected to be dead: only the rank counts after the lease.
    suspected: bool,
    /// When a leader was heard last, whatever came after it.
    led_at: Option<Instant>,
}

impl Heard {
    /// Nothing was heard, as of now.
    pub fn new() -> Self {
        let last = Last { at: Instant::now(), of_leader: false, suspected: false, led_at: None };
        Self(Arc::new(Mutex::new(last)))
    }

    /// Heard from the leader, or voted for a candidate, or campaigned, now.
    pub fn note(&self, of_leader: bool) {
        let mut last = self.0.lock().expect("no holder of this lock panics");
        let at = Instant::now();
        let led_at = if of_leader { Some(at) } else { last.led_at };
        *last = Last { at, of_leader, suspected: false, led_at };
    }

    /// The leader is suspected to be dead.
    pub fn suspect(&self) {
        self.0.lock().expect("no holder of this lock panics").suspected = true;
    }

    /// Whether the lease of a leader lasts.
    pub fn is_led(&self) -> bool {
        let last = self.0.lock().expect("no holder of this lock panics");
        last.of_leader && last.at.elapsed() <= LEASE
    }

    /// Whether a leader was heard `within` this time, by a cell without a vote too.
    pub fn hears_leader(&self, within: Duration) -> bool {
        let last = self.0.lock().expect("no holder of this lock panics");
        last.led_at.is_some_and(|at| at.elapsed() <= within)
    }

    /// When the voter with this rank among `count` campaigns.
    fn due(&self, rank: usize, count: usize) -> Instant {
        let last = self.0.lock().expect("no holder of this lock panics");
        if count == 1 {
            return last.at + ALONE;
        }
        let lease = if last.of_leader { LEASE } else { Duration::ZERO };
        let shortest = if last.suspected { 0 } else { TIMEOUT_MIN_MS };
        last.at + lease + Duration::from_millis(shortest) + rank_part(rank, count)
    }
}

/// The part of a timeout that only this rank has.
fn rank_part(rank: usize, count: usize) -> Duration {
    let span = Duration::from_millis(TIMEOUT_MAX_MS - TIMEOUT_MIN_MS);
    span * rank as u32 / count.max(1) as u32
}

/// Campaigns for one cell.
pub struct Elector<T> {
    pub me: CellId,
    pub raft: Raft,
    pub log: Log,
    pub heard: Heard,
    pub caller: Caller<T>,
    /// Whether this life has campaigned, or followed a leader.
    pub takes_part: Arc<AtomicBool>,
}

impl<T: Transport> Elector<T> {
    /// Campaigns whenever it is due, until the group ends. Before that it looks for a later
    /// agreement: while this cell was away, an operator may have made others voters.
    pub async fn run(self) {
        self.look_around().await;
        let mut metrics = self.raft.metrics();
        loop {
            if self.caller.is_superseded() {
                return;
            }
            let voters = {
                let now = metrics.borrow_and_update();
                let mut voters: Vec<_> = now.membership_config.voter_ids().collect();
                voters.sort_unstable();
                voters.dedup();
                let waits = now.state != ServerState::Leader && voters.contains(&self.me);
                waits.then_some(voters)
            };
            let Some(voters) = voters else {
                self.heard.note(false);
                if metrics.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let rank = voters.iter().filter(|voter| **voter < self.me).count();
            let due = || self.heard.due(rank, voters.len());
            match timeout_at(due(), metrics.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) if due() > Instant::now() => {}
                Err(_) => {
                    self.heard.note(false);
                    if self.would_win(&voters).await && !self.caller.is_superseded() {
                        self.takes_part.store(true, Ordering::Release);
                        if self.raft.trigger().elect().await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Asks all other members something, so that each says which agreement it takes part in. Ends
    /// when all have answered, or after [`LOOKING`].
    async fn look_around(&self) {
        let mut metrics = self.raft.metrics();
        let has_members =
            |now: &RaftMetrics<_, _>| now.membership_config.membership().nodes().next().is_some();
        // What the log says is there at once. A cell that is new has no members yet.
        let _ = timeout(CANVASS, metrics.wait_for(has_members)).await;
        let members: Vec<CellId> = {
            let now = metrics.borrow();
            let nodes = now.membership_config.membership().nodes();
            nodes.map(|(cell, _)| *cell).filter(|cell| *cell != self.me).collect()
        };
        let last = self.log.kept().last();
        let mut asked = JoinSet::new();
        for member in members {
            let caller = self.caller.clone();
            asked.spawn(async move {
                while !caller.is_superseded()
                    && caller.ask(member, Request::Canvass { last }, CANVASS).await.is_err()
                {
                    sleep(AGAIN).await;
                }
            });
        }
        let _ = timeout(LOOKING, async { while asked.join_next().await.is_some() {} }).await;
        if !self.heard.is_led() {
            // Timeouts begin now: those that have run out meanwhile would end together.
            self.heard.note(false);
        }
    }

    /// Whether more than half of the voters would vote for this cell.
    async fn would_win(&self, voters: &[CellId]) -> bool {
        let last = self.log.kept().last();
        let mut asked = JoinSet::new();
        for voter in voters.iter().copied().filter(|voter| *voter != self.me) {
            let caller = self.caller.clone();
            asked.spawn(async move {
                let answer = caller.ask(voter, Request::Canvass { last }, CANVASS).await;
                matches!(answer, Ok(Answer::Canvass(true)))
            });
        }
        let mut for_me = 1;
        while for_me * 2 <= voters.len() {
            match timeout(CANVASS, asked.join_next()).await {
                Ok(Some(answer)) => for_me += usize::from(answer.unwrap_or(false)),
                Ok(None) | Err(_) => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_ranks_have_the_same_timeout_and_all_lie_within_the_bounds() {
        for count in 2..=10 {
            let parts: Vec<_> = (0..count).map(|rank| rank_part(rank, count)).collect();
            let apart = |pair: &[Duration]| pair[1] - pair[0] >= Duration::from_millis(15);
            assert!(parts.windows(2).all(apart), "{parts:?}");
            assert!(parts[count - 1].as_millis() < 150, "{parts:?}");
        }
    }
}
