//! How openraft reaches another member: its three calls, over the transport of the caller.

use super::body::{Answer, Request};
use super::caller::Caller;
use super::turns::{Confirmed, Pending, Turns};
use super::types::{Types, Vote};
use crate::transport::{Transport, Unreachable};
use openraft::error::{Fatal, RPCError, RaftError, ReplicationClosed, StreamingError};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, OptionalSend, RaftNetwork, RaftNetworkFactory, Snapshot};
use ring::CellId;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a leader waits before it calls a member again that did not answer.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a vote or a snapshot may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Makes a link to each member.
pub struct Links<T> {
    caller: Caller<T>,
    matched: Matched,
    unable: Unable,
    turns: Turns,
}

/// The link to one member.
pub struct Link<T> {
    caller: Caller<T>,
    to: CellId,
    matched: Matched,
    unable: Unable,
    turns: Turns,
    confirmed: Confirmed,
}

/// The members whose last answer was that they cannot write. A clone is the same set.
#[derive(Clone, Default)]
pub struct Unable(Arc<Mutex<BTreeSet<CellId>>>);

/// For each member, up to which entry it said that it has all, to which leadership.
///
/// A disk that loses what it had acknowledged makes a member say later that it has less. openraft
/// asserts that this never happens, so it would end the leader, and each leader after it. Here such
/// a member is one that does not answer, until another leads.
#[derive(Clone, Default)]
struct Matched(Arc<Mutex<BTreeMap<CellId, (Vote, u64)>>>);

/// A member that did not answer, as openraft wants it.
#[derive(Debug)]
struct Silent(CellId);

impl std::fmt::Display for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cell {} did not answer, or has lost entries", self.0)
    }
}

impl Unable {
    /// All of them.
    pub fn cells(&self) -> BTreeSet<CellId> {
        self.0.lock().expect("no holder of this lock panics").clone()
    }

    /// Notes what `cell` has answered.
    fn note(&self, cell: CellId, answer: &Answer) {
        let mut all = self.0.lock().expect("no holder of this lock panics");
        match answer {
            Answer::CannotWrite => all.insert(cell),
            _ => all.remove(&cell),
        };
    }
}

impl Matched {
    /// Notes what `cell` has. `sent` are the entry before those that it was sent, and the last of
    /// them. Returns whether it has lost entries.
    fn note(
        &self,
        cell: CellId,
        vote: Vote,
        sent: (Option<u64>, Option<u64>),
        answer: &AppendEntriesResponse<CellId>,
    ) -> bool {
        let mut all = self.0.lock().expect("no holder of this lock panics");
        let before = all.get(&cell).filter(|(of, _)| *of == vote).map(|(_, index)| *index);
        let has = match answer {
            AppendEntriesResponse::Success => sent.1,
            AppendEntriesResponse::PartialSuccess(last) => last.map(|last| last.index),
            AppendEntriesResponse::HigherVote(_) => None,
            AppendEntriesResponse::Conflict => return before.is_some() && sent.0 <= before,
        };
        if let Some(has) = has.max(before) {
            all.insert(cell, (vote, has));
        }
        false
    }
}

impl std::error::Error for Silent {}

impl<T> Links<T> {
    /// Links by way of `caller`, which note in `unable` who cannot write. Heartbeats are sent as
    /// `turns` says.
    pub fn new(caller: Caller<T>, unable: Unable, turns: Turns) -> Self {
        Self { caller, matched: Matched::default(), unable, turns }
    }
}

impl<T: Transport> RaftNetworkFactory<Types> for Links<T> {
    type Network = Link<T>;

    async fn new_client(&mut self, target: CellId, _node: &EmptyNode) -> Link<T> {
        Link {
            caller: self.caller.clone(),
            to: target,
            matched: self.matched.clone(),
            unable: self.unable.clone(),
            turns: self.turns.clone(),
            confirmed: Confirmed::default(),
        }
    }
}

impl<T: Transport> Link<T> {
    /// Asks, and takes from the answer what `of` finds in it.
    async fn ask<A>(
        &self,
        request: Request,
        limit: Duration,
        of: impl FnOnce(Answer) -> Option<A>,
    ) -> Result<A, openraft::error::Unreachable> {
        let answer: Result<Answer, Unreachable> = self.caller.ask(self.to, request, limit).await;
        let answer = answer.inspect(|answer| self.unable.note(self.to, answer));
        let silent = || openraft::error::Unreachable::new(&Silent(self.to));
        answer.ok().and_then(of).ok_or_else(silent)
    }
}

type Failed = RPCError<CellId, EmptyNode, RaftError<CellId>>;

impl<T: Transport> RaftNetwork<Types> for Link<T> {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<CellId>, Failed> {
        let turn = self.turns.of(self.to);
        if turn.is_some_and(|turn| self.confirmed.covers(&request, turn)) {
            return Ok(AppendEntriesResponse::Success);
        }
        self.confirmed = Confirmed::default();
        let pending = Pending::of(&request);
        let of = |answer| match answer {
            Answer::Append(response) => Some(response),
            _ => None,
        };
        let (vote, before) = (request.vote, request.prev_log_id.map(|log_id| log_id.index));
        let last = request.entries.last().map_or(before, |entry| Some(entry.log_id.index));
        let answer = self.ask(Request::Append(request), option.hard_ttl(), of).await?;
        if self.matched.note(self.to, vote, (before, last), &answer) {
            return Err(openraft::error::Unreachable::new(&Silent(self.to)).into());
        }
        if matches!(answer, AppendEntriesResponse::Success) {
            self.confirmed = pending.confirmed();
        }
        Ok(answer)
    }

    async fn vote(
        &mut self,
        request: VoteRequest<CellId>,
        option: RPCOption,
    ) -> Result<VoteResponse<CellId>, Failed> {
        let of = |answer| match answer {
            Answer::Vote(response) => Some(response),
            _ => None,
        };
        Ok(self.ask(Request::Vote(request), option.hard_ttl().min(LIMIT), of).await?)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<Types>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<CellId>, StreamingError<Types, Fatal<CellId>>> {
        let Snapshot { meta, snapshot: map } = snapshot;
        let of = |answer| match answer {
            Answer::Snapshot(response) => Some(response),
            _ => None,
        };
        let asked = self.ask(Request::Snapshot { vote, meta, map }, LIMIT, of);
        tokio::select! {
            answer = asked => Ok(answer?),
            closed = cancel => Err(closed.into()),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(PAUSE))
    }
}
