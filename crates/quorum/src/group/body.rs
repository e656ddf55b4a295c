//! What cells say to each other: JSON, with the ring that it is about. A body of another ring, one
//! that is too long and one that cannot be decoded get an empty answer.

use super::types::{LogId, SnapshotMeta, Types, Vote};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use ring::{CellId, Command, Map, Verdict};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Most bytes of a body: the longest is a whole map of a ring with as many cells as it can have.
pub const BODY_MAX: usize = 8 << 20;

/// What a cell asks of another.
#[derive(Serialize, Deserialize)]
pub enum Request {
    /// From a leader: entries, or none as a heartbeat.
    Append(AppendEntriesRequest<Types>),
    /// From a candidate.
    Vote(VoteRequest<CellId>),
    /// From a leader: the map, to a cell that is too far behind for entries.
    Snapshot { vote: Vote, meta: SnapshotMeta, map: Box<Map> },
    /// Would you vote for me, whose last entry is this? Nothing changes by it.
    Canvass { last: Option<LogId> },
    /// To the leader.
    Propose(Command),
    /// To the leader: up to which entry must a read of now have applied?
    Read,
    /// To the leader: the map of now.
    Map,
}

/// What a cell answers.
#[derive(Serialize, Deserialize)]
pub enum Answer {
    Append(AppendEntriesResponse<CellId>),
    Vote(VoteResponse<CellId>),
    Snapshot(SnapshotResponse<CellId>),
    Canvass(bool),
    /// The proposal was compared with the map.
    Verdict(Verdict),
    /// The proposal may be applied yet.
    Unknown,
    /// The index of the entry.
    Read(Option<u64>),
    Map(Box<Map>),
    /// Nothing was done: this cell does not lead, but perhaps that one does.
    NotLeader(Option<CellId>),
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    ring: u64,
    body: T,
}

/// The bytes of a request or an answer. `None` if they would be too many.
pub fn encode<T: Serialize>(ring: u64, body: T) -> Option<Vec<u8>> {
    let bytes = serde_json::to_vec(&Envelope { ring, body }).ok()?;
    (bytes.len() <= BODY_MAX).then_some(bytes)
}

/// The request or the answer, if it is one of this ring.
pub fn decode<T: DeserializeOwned>(ring: u64, bytes: &[u8]) -> Option<T> {
    if bytes.len() > BODY_MAX {
        return None;
    }
    let envelope: Envelope<T> = serde_json::from_slice(bytes).ok()?;
    (envelope.ring == ring).then_some(envelope.body)
}
