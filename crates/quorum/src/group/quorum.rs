//! A cell of the group: a voter, or one that learns.

use super::body::{Answer, Request};
use super::life::{Life, RecoverError};
use super::member::Member;
use super::members::arrange;
use super::start::{StartError, Stored};
use super::types::{self, Proposal, Vote};
use crate::coordinator::{CALLS_MAX, Coordinator, DEADLINE, Outcome, Unavailable};
use crate::disk::{Directory, DiskFailure};
use crate::transport::{Transport, Unreachable};
use openraft::error::{ClientWriteError, RaftError};
use openraft::raft::AppendEntriesResponse;
use openraft::{RaftMetrics, ServerState, Snapshot};
use ring::{Agreement, CellId, Change, Command, Map};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// How long a call waits for another leader before it tries again.
const PAUSE: Duration = Duration::from_millis(20);
/// How long one attempt to read at the leader may take: a read can be tried again.
const READ_ATTEMPT: Duration = Duration::from_millis(300);
/// How long a proposal that another cell passes on may take there.
const RELAYING: Duration = Duration::from_secs(1);
/// How long another cell may take to send its map.
const FETCHING: Duration = Duration::from_millis(500);
/// How often it is looked whether the leader is still heard.
const LOOK: Duration = Duration::from_millis(50);

/// A cell of the group. Dropping it ends its tasks; its directory is released when the last of
/// them has ended. [`stop`](Self::stop) waits until they have ended.
pub struct Quorum<T: Transport> {
    me: CellId,
    life: Arc<Life<T>>,
    /// The cells that run, as the caller has said last: who may pass on a proposal.
    present: Mutex<Vec<CellId>>,
    calls: Semaphore,
    follows: JoinHandle<()>,
    runtime: Handle,
}

type BoxFuture<'a, A> = Pin<Box<dyn Future<Output = A> + Send + 'a>>;

/// What came of an attempt.
enum Attempt<A> {
    Done(A),
    /// Nothing was done. Perhaps that cell leads.
    Again(Option<CellId>),
}

impl<T: Transport> Quorum<T> {
    /// The first cell of a new ring, alone. Binds the directory to `map.ring` and `me`. A directory
    /// that is bound already is refused: use [`open`](Self::open).
    ///
    /// Must be polled on a tokio runtime with its timers; tasks are started on it.
    pub async fn found(
        directory: Directory,
        me: CellId,
        map: Map,
        transport: T,
    ) -> Result<Self, StartError> {
        let ring = map.ring;
        Self::start(Stored::found(directory, me, map)?, ring, me, transport).await
    }

    /// A cell that starts again, or one that has joined: it learns until the leader makes it a
    /// voter. Binds a new directory to `ring` and `me`; one of another ring or cell is refused.
    ///
    /// Must be polled on a tokio runtime with its timers; tasks are started on it.
    pub async fn open(
        directory: Directory,
        ring: u64,
        me: CellId,
        transport: T,
    ) -> Result<Self, StartError> {
        Self::start(Stored::open(directory, ring, me)?, ring, me, transport).await
    }

    async fn start(
        stored: Stored,
        ring: u64,
        me: CellId,
        transport: T,
    ) -> Result<Self, StartError> {
        let life = Arc::new(Life::start(stored, ring, me, transport).await?);
        let follows = tokio::spawn(life.clone().follow_agreements());
        let (calls, runtime) = (Semaphore::new(CALLS_MAX), Handle::current());
        let present = Mutex::default();
        Ok(Self { me, life, present, calls, follows, runtime })
    }

    fn now(&self) -> Arc<Member<T>> {
        self.life.now()
    }

    /// Answers what [`Transport::call`] of the cell `from` sent. The answer is empty where this
    /// cell has none: to bytes that are no body of this ring, or when it cannot take part. Ends
    /// within [`DEADLINE`].
    pub async fn handle(&self, from: CellId, body: &[u8]) -> Vec<u8> {
        let now = self.now();
        let request = match now.caller.take(body) {
            Ok(request) => request,
            Err(answer) => return answer,
        };
        let answer = timeout(DEADLINE, self.answer(&now, from, request)).await.ok().flatten();
        answer.map(|answer| now.caller.answer(answer)).unwrap_or_default()
    }

    /// Says which cells run. The leader brings the voters to what [`voters`](crate::voters()) says,
    /// itself always among them, and adds all other cells of the map as members without a vote. A
    /// cell that cannot write counts as one that does not run. Other cells do nothing. Returns
    /// whether nothing is left to do at this cell; call it again while it is `false`. Ends within
    /// [`DEADLINE`].
    pub async fn set_present(&self, present: &[CellId]) -> bool {
        *self.present.lock().unwrap_or_else(PoisonError::into_inner) = present.to_vec();
        let cells = || self.life.shown.map().cells.keys().copied().collect();
        let now = self.now();
        let unable = now.unable.cells();
        let able: Vec<_> = present.iter().filter(|it| !unable.contains(it)).copied().collect();
        timeout(DEADLINE, arrange(&now.raft, cells, &able)).await.is_ok()
    }

    /// Says that the connection to `cell` was lost. If it leads, this cell campaigns sooner: when
    /// the lease is over, not 150 ms later.
    pub fn suspect(&self, cell: CellId) {
        if self.leader() == Some(cell) {
            self.now().heard.suspect();
        }
    }

    /// Asks `from` for the newest map that it has, and shows that to watchers if it is newer. Ends
    /// within half a second.
    pub async fn fetch(&self, from: CellId) {
        let asked = self.now();
        let answer = asked.caller.ask(from, Request::Newest, FETCHING).await;
        if let Ok(Answer::Map(map)) = answer {
            self.life.shows(&map, &asked);
        }
    }

    /// The leader, as far as this cell knows.
    #[must_use]
    pub fn leader(&self) -> Option<CellId> {
        let metrics = self.now().raft.metrics();
        let now = metrics.borrow();
        now.running_state.is_ok().then_some(now.current_leader).flatten()
    }

    /// Whether this cell leads, or has heard the leader a moment ago.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.leader() == Some(self.me) || self.now().follows()
    }

    /// The cells that vote, as far as this cell knows. In the middle of a change, those before and
    /// those after it.
    #[must_use]
    pub fn voters(&self) -> BTreeSet<CellId> {
        self.now().raft.metrics().borrow().membership_config.voter_ids().collect()
    }

    /// The changes that this cell has applied since its start and that came after the map of
    /// `version`, the latest of them. Those that came as a whole map are not among them.
    #[must_use]
    pub fn changes_since(&self, version: u64) -> Vec<Change> {
        self.life.shown.changes.since(version)
    }

    /// Whether this cell can write. Once it could not, it does not vote until it starts again.
    pub fn storage(&self) -> Result<(), DiskFailure> {
        self.now().health.failure().map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// The directory of this cell.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.life.directory
    }

    /// The agreement that this cell takes part in.
    #[must_use]
    pub fn agreement(&self) -> Agreement {
        self.life.directory.agreement()
    }

    /// Makes this cell the only voter of a new agreement, which goes on from the map of `version`,
    /// the newest that it has: an operator says that more than half of the voters are lost for
    /// ever. Refused while the cells agree. Each cell that hears of the new agreement leaves the
    /// old one, for ever.
    pub async fn recover(&self, version: u64) -> Result<Agreement, RecoverError> {
        if self.read().await.is_ok() {
            return Err(RecoverError::Agrees);
        }
        self.life.recover(version).await
    }

    /// Why this life of the cell must end, once it must: it has applied what a later agreement does
    /// not know of, or could not begin to take part in that.
    #[must_use]
    pub fn ended(&self) -> watch::Receiver<Option<String>> {
        self.life.ended()
    }

    /// Ends all tasks, and waits for them until [`DEADLINE`]. Calls that are under way end with an
    /// error.
    pub async fn stop(&self) {
        self.follows.abort();
        self.now().stop().await;
    }

    async fn answer(&self, now: &Member<T>, from: CellId, request: Request) -> Option<Answer> {
        if now.health.failure().is_some() {
            return Some(Answer::CannotWrite);
        }
        let is_from = |vote: &Vote| vote.leader_id().voted_for() == Some(from);
        match request {
            Request::Append(request) if is_from(&request.vote) => {
                let answer = now.raft.append_entries(request).await.ok()?;
                if !matches!(answer, AppendEntriesResponse::HigherVote(_)) {
                    now.hear_leader();
                }
                Some(Answer::Append(answer))
            }
            Request::Vote(request) if is_from(&request.vote) => {
                let answer = now.raft.vote(request).await.ok()?;
                if answer.vote_granted {
                    now.heard.note(false);
                }
                Some(Answer::Vote(answer))
            }
            Request::Snapshot { vote, meta, map } if is_from(&vote) => {
                let answer = now.raft.install_full_snapshot(vote, Snapshot { meta, snapshot: map });
                let answer = answer.await.ok()?;
                if answer.vote <= vote {
                    now.hear_leader();
                }
                Some(Answer::Snapshot(answer))
            }
            // Of another cell than it came from: its sender has the id of another.
            Request::Append(_) | Request::Vote(_) | Request::Snapshot { .. } => None,
            Request::Canvass { last } => {
                let leads = now.raft.metrics().borrow().state == ServerState::Leader;
                let votes = !leads && !now.heard.is_led() && last >= now.log.kept().last();
                Some(Answer::Canvass(votes))
            }
            Request::Propose(command) => Some(match self.propose_here(command).await {
                Attempt::Done(Outcome::Verdict(verdict)) => Answer::Verdict(verdict),
                Attempt::Done(_) => Answer::Unknown,
                Attempt::Again(leader) => Answer::NotLeader(leader),
            }),
            Request::Newest => Some(Answer::Map(Box::new((*self.life.shown.map()).clone()))),
            Request::Relay(command) => Some(self.pass_on(now, command).await),
            Request::Read => Some(match self.read_index_here().await {
                Attempt::Done(index) => Answer::Read(index),
                Attempt::Again(leader) => Answer::NotLeader(leader),
            }),
            Request::Map => Some(match self.read_index_here().await {
                Attempt::Done(index) if self.has_applied(index).await => {
                    Answer::Map(Box::new((*self.life.shown.map()).clone()))
                }
                Attempt::Done(_) => Answer::NotLeader(None),
                Attempt::Again(leader) => Answer::NotLeader(leader),
            }),
        }
    }

    /// Proposes at this cell, without a deadline: a caller that stops waiting knows no outcome.
    async fn propose_here(&self, command: Command) -> Attempt<Outcome> {
        let proposal = Proposal::new(types::Change::Command(command));
        match self.now().raft.client_write(proposal.clone()).await {
            Ok(written) => Attempt::Done(written.data.map_or(Outcome::Unknown, Outcome::Verdict)),
            // It was cut off the log of this cell. It may be in that of another.
            Err(_) if proposal.is_logged() => Attempt::Done(Outcome::Unknown),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(to))) => {
                Attempt::Again(to.leader_id)
            }
            Err(_) => Attempt::Again(None),
        }
    }

    /// Proposes for a cell that does not reach the leader. It is not passed on twice.
    ///
    /// Its type is written out, because a transport may be made of calls of
    /// [`handle`](Self::handle), which this is a part of.
    fn pass_on<'a>(&'a self, now: &'a Member<T>, command: Command) -> BoxFuture<'a, Answer> {
        Box::pin(self.passed_on(now, command))
    }

    async fn passed_on(&self, now: &Member<T>, command: Command) -> Answer {
        let attempt = match self.leader() {
            Some(leader) if leader == self.me => self.propose_here(command).await,
            Some(leader) if now.hears(leader).await => {
                self.forward(leader, command, DEADLINE).await
            }
            _ => Attempt::Again(None),
        };
        match attempt {
            Attempt::Done(Outcome::Verdict(verdict)) => Answer::Verdict(verdict),
            Attempt::Done(_) => Answer::Unknown,
            Attempt::Again(leader) => Answer::NotLeader(leader),
        }
    }

    /// Up to which entry a read of now must have applied, if this cell leads.
    async fn read_index_here(&self) -> Attempt<Option<u64>> {
        match self.now().raft.get_read_log_id().await {
            Ok((read, _)) => Attempt::Done(read.map(|read| read.index)),
            Err(_) => Attempt::Again(self.leader().filter(|leader| *leader != self.me)),
        }
    }

    async fn has_applied(&self, index: Option<u64>) -> bool {
        let mut metrics = self.now().raft.metrics();
        let has = |now: &RaftMetrics<_, _>| now.last_applied.map(|last| last.index) >= index;
        metrics.wait_for(has).await.is_ok()
    }

    /// Proposes through the leader `to`. Once another cell leads, its answer is not waited for: it
    /// may never come.
    async fn forward(&self, to: CellId, command: Command, limit: Duration) -> Attempt<Outcome> {
        let now = self.now();
        let answer = tokio::select! {
            answer = now.caller.ask(to, Request::Propose(command), limit) => answer,
            () = self.is_followed(to) => Err(Unreachable::NoAnswer),
            () = falls_silent(&now, to) => Err(Unreachable::NoAnswer),
        };
        Self::attempt_of(answer)
    }

    /// Proposes by way of one of the others, because this cell does not hear the leader `silent`.
    async fn relay(
        &self,
        silent: CellId,
        command: Command,
        (attempt, limit): (usize, Duration),
    ) -> Attempt<Outcome> {
        let now = self.now();
        let others: Vec<CellId> = {
            let metrics = now.raft.metrics();
            let metrics = metrics.borrow();
            let members = metrics.membership_config.membership().nodes().map(|(cell, _)| *cell);
            let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
            let runs = |cell: &CellId| present.is_empty() || present.contains(cell);
            members.filter(|it| *it != self.me && *it != silent && runs(it)).collect()
        };
        let Some(by) = others.get(attempt % others.len().max(1)).copied() else {
            return Attempt::Again(None);
        };
        // That cell may have ended together with the leader.
        let answer = tokio::select! {
            answer = now.caller.ask(by, Request::Relay(command), limit.min(RELAYING)) => answer,
            () = self.is_followed(silent) => Err(Unreachable::NoAnswer),
        };
        match Self::attempt_of(answer) {
            // Nothing was done there. This cell does not reach who leads.
            Attempt::Again(_) => Attempt::Again(None),
            done => done,
        }
    }

    fn attempt_of(answer: Result<Answer, Unreachable>) -> Attempt<Outcome> {
        match answer {
            Ok(Answer::Verdict(verdict)) => Attempt::Done(Outcome::Verdict(verdict)),
            Ok(Answer::NotLeader(leader)) => Attempt::Again(leader),
            Err(Unreachable::NotSent) => Attempt::Again(None),
            Ok(_) | Err(Unreachable::NoAnswer) => Attempt::Done(Outcome::Unknown),
        }
    }

    /// Waits until a cell leads that is neither `old` nor the leader of now.
    async fn is_followed(&self, old: CellId) {
        let mut metrics = self.now().raft.metrics();
        let now = metrics.borrow_and_update().current_leader;
        let is_new = |leader: CellId| leader != old && Some(leader) != now;
        if metrics.wait_for(|it| it.current_leader.is_some_and(is_new)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The map of now, or the map that was applied here once it has what is read.
    async fn read_attempt(&self, leader: CellId) -> Attempt<Arc<Map>> {
        let now = self.now();
        let index = if leader == self.me {
            self.read_index_here().await
        } else if now.health.failure().is_some() {
            return match now.caller.ask(leader, Request::Map, READ_ATTEMPT).await {
                Ok(Answer::Map(map)) => Attempt::Done(Arc::from(map)),
                Ok(Answer::NotLeader(leader)) => Attempt::Again(leader),
                _ => Attempt::Again(None),
            };
        } else {
            match now.caller.ask(leader, Request::Read, READ_ATTEMPT).await {
                Ok(Answer::Read(index)) => Attempt::Done(index),
                Ok(Answer::NotLeader(leader)) => Attempt::Again(leader),
                _ => Attempt::Again(None),
            }
        };
        match index {
            Attempt::Done(index) if self.has_applied(index).await => {
                Attempt::Done(self.life.shown.map())
            }
            Attempt::Done(_) => Attempt::Again(None),
            Attempt::Again(leader) => Attempt::Again(leader),
        }
    }

    /// Whom to ask: the cell that was named, the leader, or for a cell that is out of the group,
    /// one member after the other.
    fn target(&self, named: Option<CellId>, attempt: usize) -> Option<CellId> {
        let metrics = self.now().raft.metrics();
        let now = metrics.borrow();
        if now.running_state.is_ok() {
            return named.or(now.current_leader);
        }
        let others: Vec<_> =
            now.membership_config.voter_ids().filter(|it| *it != self.me).collect();
        named.filter(|it| *it != self.me).or(others.get(attempt % others.len().max(1)).copied())
    }

    /// Whether `leader` is the one that this cell follows, and is silent. A cell that is out of the
    /// group hears no leader at all.
    async fn has_lost(&self, leader: CellId) -> bool {
        self.leader() == Some(leader) && !self.now().hears(leader).await
    }

    /// A place among the calls that are under way.
    async fn place(&self, deadline: Instant) -> Result<SemaphorePermit<'_>, Unavailable> {
        let place = timeout_at(deadline, self.calls.acquire()).await;
        place.map_err(|_| Unavailable::Busy)?.map_err(|_| Unavailable::Stopped)
    }

    /// Waits a little, or until another cell leads.
    async fn pause(&self, metrics: &mut watch::Receiver<RaftMetrics<CellId, openraft::EmptyNode>>) {
        let before = metrics.borrow_and_update().current_leader;
        let changes = async {
            if metrics.wait_for(|now| now.current_leader != before).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let _ = timeout(PAUSE, changes).await;
    }

    /// Why nothing was done until the deadline.
    fn reason(&self) -> Unavailable {
        let now = self.now();
        match now.health.failure() {
            Some(failure) => Unavailable::Storage(failure.clone()),
            None if now.raft.metrics().borrow().running_state.is_err() => Unavailable::Stopped,
            None => Unavailable::NoLeader,
        }
    }
}

/// Waits until `leader` is not heard any more. One that was not heard at all may be heard yet.
async fn falls_silent<T: Transport>(now: &Member<T>, leader: CellId) {
    let mut was_heard = false;
    loop {
        let is_heard = now.hears(leader).await;
        if was_heard && !is_heard {
            return;
        }
        was_heard |= is_heard;
        sleep(LOOK).await;
    }
}

impl<T: Transport> Coordinator for Quorum<T> {
    async fn propose(&self, command: Command) -> Outcome {
        let deadline = Instant::now() + DEADLINE;
        let _place = match self.place(deadline).await {
            Ok(place) => place,
            Err(unavailable) => return Outcome::Unavailable(unavailable),
        };
        let mut metrics = self.now().raft.metrics();
        let mut named = None;
        for attempt in 0.. {
            let limit = deadline.saturating_duration_since(Instant::now());
            if limit.is_zero() {
                break;
            }
            let attempt = match self.target(named, attempt) {
                Some(leader) if leader == self.me => {
                    let here = timeout(limit, self.propose_here(command)).await;
                    here.unwrap_or(Attempt::Done(Outcome::Unknown))
                }
                Some(leader) => {
                    let is_lost = named != Some(leader) && self.has_lost(leader).await;
                    let limit = deadline.saturating_duration_since(Instant::now());
                    if is_lost {
                        self.relay(leader, command, (attempt, limit)).await
                    } else {
                        self.forward(leader, command, limit).await
                    }
                }
                None => Attempt::Again(None),
            };
            match attempt {
                Attempt::Done(outcome) => return outcome,
                Attempt::Again(leader) => named = leader,
            }
            self.pause(&mut metrics).await;
        }
        Outcome::Unavailable(self.reason())
    }

    async fn read(&self) -> Result<Arc<Map>, Unavailable> {
        let deadline = Instant::now() + DEADLINE;
        let _place = self.place(deadline).await?;
        let mut metrics = self.now().raft.metrics();
        let mut named = None;
        for attempt in 0.. {
            if Instant::now() >= deadline {
                break;
            }
            if let Some(leader) = self.target(named, attempt) {
                match timeout_at(deadline, self.read_attempt(leader)).await {
                    Ok(Attempt::Done(map)) => return Ok(map),
                    Ok(Attempt::Again(leader)) => named = leader,
                    Err(_) => return Err(Unavailable::Behind),
                }
            }
            self.pause(&mut metrics).await;
        }
        Err(self.reason())
    }

    fn watch(&self) -> watch::Receiver<Arc<Map>> {
        self.life.shown.watchers.subscribe()
    }
}

impl<T: Transport> Drop for Quorum<T> {
    /// The group would go on without the value: it holds its own channel open.
    fn drop(&mut self) {
        self.follows.abort();
        let now = self.now();
        now.abort();
        self.runtime.spawn(async move { now.raft.shutdown().await });
    }
}
