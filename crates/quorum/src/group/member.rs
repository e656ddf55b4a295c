//! What a cell is in one agreement: its part in the Raft group of that agreement.

use super::body::{Answer, Request};
use super::caller::Caller;
use super::election::{Elector, Heard, LEASE};
use super::follow::Follower;
use super::link::{Links, Unable};
use super::log::Log;
use super::start::{StartError, Stored, config};
use super::turns::Turns;
use super::types::Raft;
use crate::coordinator::DEADLINE;
use crate::disk::Health;
use crate::transport::Transport;
use ring::CellId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long after a heartbeat a member without a vote asks the leader, where it has to know.
const ASKS: Duration = Duration::from_millis(100);

/// The part of a cell in one agreement.
pub struct Member<T> {
    me: CellId,
    pub raft: Raft,
    pub log: Log,
    pub heard: Heard,
    pub health: Health,
    /// The members that say to this cell, as long as it leads, that they cannot write.
    pub unable: Unable,
    pub caller: Caller<T>,
    turns: Turns,
    takes_part: Arc<AtomicBool>,
    tasks: [JoinHandle<()>; 2],
}

impl<T: Transport> Member<T> {
    /// Takes part with what is `stored`, from now on.
    pub async fn start(stored: Stored, me: CellId, caller: Caller<T>) -> Result<Self, StartError> {
        let Stored { log, machine, health, shown, .. } = stored;
        let heard = Heard::new();
        let takes_part = Arc::new(AtomicBool::new(false));
        let unable = Unable::default();
        let turns = Turns::default();
        let links = Links::new(caller.clone(), unable.clone(), turns.clone());
        let raft = Raft::new(me, config(caller.ring())?, links, log.clone(), machine).await;
        let raft = raft.map_err(|error| StartError::Group(error.to_string()))?;
        turns.set(&raft);
        let elector = Elector {
            me,
            raft: raft.clone(),
            log: log.clone(),
            heard: heard.clone(),
            caller: caller.clone(),
            takes_part: takes_part.clone(),
        };
        let follower = Follower { me, raft: raft.clone(), caller: caller.clone(), shown };
        let tasks = [tokio::spawn(elector.run()), tokio::spawn(follower.run())];
        Ok(Self { me, raft, log, heard, health, unable, caller, turns, takes_part, tasks })
    }

    /// Has heard from a leader, now.
    pub fn hear_leader(&self) {
        self.takes_part.store(true, Ordering::Release);
        self.heard.note(true);
    }

    /// Whether a leader was heard recently: within a lease, or for a member that gets its
    /// heartbeats in turn, within two turns more.
    pub fn follows(&self) -> bool {
        let turn = self.turns.of(self.me).unwrap_or_default();
        self.heard.hears_leader(LEASE + 2 * turn)
    }

    /// Whether `leader` is heard now. A member that gets its heartbeats in turn asks it, for as
    /// long as a lease: it leads if more than half of the voters confirm that.
    pub async fn hears(&self, leader: CellId) -> bool {
        if self.turns.of(self.me).is_some() && !self.heard.hears_leader(ASKS) {
            let answer = self.caller.ask(leader, Request::Read, LEASE).await;
            if matches!(answer, Ok(Answer::Read(_))) {
                self.hear_leader();
            }
        }
        self.heard.hears_leader(LEASE)
    }

    /// Whether it has campaigned or followed a leader in this life of the cell.
    pub fn has_taken_part(&self) -> bool {
        self.takes_part.load(Ordering::Acquire)
    }

    /// Ends its tasks without waiting for them.
    pub fn abort(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }

    /// Ends its tasks, and waits for them until [`DEADLINE`].
    pub async fn stop(&self) {
        self.abort();
        let _ = timeout(DEADLINE, self.raft.shutdown()).await;
    }
}
