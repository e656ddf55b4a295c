//! How openraft reaches another member: its three calls, over the transport of the caller.

use super::body::{Answer, Request};
use super::caller::Caller;
use super::types::{Types, Vote};
use crate::transport::{Transport, Unreachable};
use openraft::error::{Fatal, RPCError, RaftError, ReplicationClosed, StreamingError};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, OptionalSend, RaftNetwork, RaftNetworkFactory, Snapshot};
use ring::CellId;
use std::future::Future;
use std::time::Duration;

/// How long a leader waits before it calls a member again that did not answer.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a vote or a snapshot may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Makes a link to each member.
pub struct Links<T>(pub Caller<T>);

/// The link to one member.
pub struct Link<T> {
    caller: Caller<T>,
    to: CellId,
}

/// A member that did not answer, as openraft wants it.
#[derive(Debug)]
struct Silent(CellId);

impl std::fmt::Display for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cell {} did not answer", self.0)
    }
}

impl std::error::Error for Silent {}

impl<T: Transport> RaftNetworkFactory<Types> for Links<T> {
    type Network = Link<T>;

    async fn new_client(&mut self, target: CellId, _node: &EmptyNode) -> Link<T> {
        Link { caller: self.0.clone(), to: target }
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
        let of = |answer| match answer {
            Answer::Append(response) => Some(response),
            _ => None,
        };
        Ok(self.ask(Request::Append(request), option.hard_ttl(), of).await?)
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
