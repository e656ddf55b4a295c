//! What the Raft group is made of.

use openraft::{EmptyNode, Entry};
use ring::{CellId, Command, Map, Verdict};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

openraft::declare_raft_types!(
    /// The types of the group.
    pub Types:
        D = Proposal,
        R = Option<Verdict>,
        NodeId = CellId,
        Node = EmptyNode,
        Entry = Entry<Types>,
        SnapshotData = Map,
);

pub type Raft = openraft::Raft<Types>;
pub type LogId = openraft::LogId<CellId>;
pub type Vote = openraft::Vote<CellId>;
pub type Membership = openraft::StoredMembership<CellId, EmptyNode>;
pub type SnapshotMeta = openraft::SnapshotMeta<CellId, EmptyNode>;
pub type StorageError = openraft::StorageError<CellId>;

/// What an entry of the log says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Change {
    /// The ring begins with this map: the first entry after the first voter.
    Found(Box<Map>),
    /// A command.
    Command(Command),
}

/// A change, and at the cell that proposed it, whether it has reached the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Proposal {
    pub change: Change,
    /// Once it may be in the log of this cell, another leader may find it there, and it may be
    /// applied whatever this cell answers.
    #[serde(skip)]
    logged: Arc<AtomicBool>,
}

impl Proposal {
    pub fn new(change: Change) -> Self {
        Self { change, logged: Arc::default() }
    }

    /// It is about to be written to the log of this cell.
    pub fn set_logged(&self) {
        self.logged.store(true, Ordering::Release);
    }

    /// Whether it may be in the log of this cell.
    pub fn is_logged(&self) -> bool {
        self.logged.load(Ordering::Acquire)
    }
}
