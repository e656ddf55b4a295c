//! A cell of the group.

use crate::coordinator::{Coordinator, Outcome, Unavailable};
use crate::disk::{Directory, DirectoryError, DiskError, DiskFailure};
use crate::transport::Transport;
use ring::{CellId, Command, Map};
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// Most bytes of a body: the longest is a whole map of a ring with as many cells as it can have.
pub const BODY_MAX: usize = 8 << 20;

/// Why a cell cannot take part.
#[derive(Debug)]
pub enum StartError {
    /// Its directory is in use, or of another cell.
    Directory(DirectoryError),
    /// A file of it cannot be used.
    Disk(DiskError),
    /// The Raft group did not start.
    Group(String),
}

/// A cell of the group: a voter, or one that learns.
pub struct Quorum<T: Transport> {
    map: watch::Sender<Arc<Map>>,
    transport: Arc<T>,
    directory: Directory,
}

impl<T: Transport> Quorum<T> {
    /// The first cell of a new ring, alone. Binds the directory to `map.ring` and `me`. A directory
    /// that is bound already is refused: use [`open`](Self::open).
    ///
    /// Must be polled on a tokio runtime with its timers; tasks are started on it.
    pub async fn found(
        mut directory: Directory,
        me: CellId,
        map: Map,
        transport: T,
    ) -> Result<Self, StartError> {
        directory.set_identity(map.ring, me).map_err(StartError::Directory)?;
        Ok(Self {
            map: watch::Sender::new(Arc::new(map)),
            transport: Arc::new(transport),
            directory,
        })
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
        Self::found(directory, me, Map::new(ring, 1, 1), transport).await
    }

    /// Answers what [`Transport::call`] of the cell `from` sent. The answer may be empty.
    pub async fn handle(&self, from: CellId, body: &[u8]) -> Vec<u8> {
        let _ = (from, body, &self.transport);
        Vec::new()
    }

    /// Says which cells run. The leader brings the voters to what [`voters`](crate::voters) says,
    /// and adds all other cells of the map as learners. Other cells do nothing. Ends within
    /// [`DEADLINE`](crate::DEADLINE), whether it is done or not: call it again while it is `false`.
    pub async fn set_present(&self, present: &[CellId]) -> bool {
        present.is_empty()
    }

    /// The leader, as far as this cell knows.
    #[must_use]
    pub fn leader(&self) -> Option<CellId> {
        None
    }

    /// The cells that vote, as far as this cell knows.
    #[must_use]
    pub fn members(&self) -> std::collections::BTreeSet<CellId> {
        std::collections::BTreeSet::new()
    }

    /// Whether this cell can write. Once it could not, it does not vote until it starts again.
    pub fn storage(&self) -> Result<(), DiskFailure> {
        Ok(())
    }

    /// The directory of this cell.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Ends all tasks and releases the directory when the value is dropped.
    pub async fn stop(&self) {}
}

impl<T: Transport> Coordinator for Quorum<T> {
    async fn propose(&self, _command: Command) -> Outcome {
        Outcome::Unavailable(Unavailable::Stopped)
    }

    async fn read(&self) -> Result<Arc<Map>, Unavailable> {
        Err(Unavailable::Stopped)
    }

    fn watch(&self) -> watch::Receiver<Arc<Map>> {
        self.map.subscribe()
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(f),
            Self::Disk(error) => error.fmt(f),
            Self::Group(message) => write!(f, "the group of voters did not start: {message}"),
        }
    }
}

impl std::error::Error for StartError {}
