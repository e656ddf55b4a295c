//! What the control plane of a cell is started with, and what it says to the rest of the process.

use base::Now;
use peer::{Nonce, Secret};
use quorum::{DirectoryError, StartError};
use ring::{
    Addresses, Below, CellId, Change, Command, Consistency, Granted, Map, Memory, Order, Outcome,
    Outlook, Range, RangeId, Refusal, Stamp, Started,
};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A new ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Founding {
    /// The number of cells with which it forms.
    pub cells: u32,
    /// Copies of each range, the primary included.
    pub copies: u8,
    /// What its replies mean.
    pub consistency: Consistency,
}

impl Founding {
    /// The first map of `ring`: the founder is in it before any other can join, so the first cell
    /// has the first number.
    pub(crate) fn map(self, ring: u64, token: u64, started: Started) -> Map {
        let map = Map::new(ring, self.cells, self.copies);
        let mut map = map.with_consistency(self.consistency);
        map.apply(&Command::Join { token, started });
        map
    }
}

/// What a cell is started with.
pub struct ControlConfig {
    /// The directory of the cell.
    pub directory: PathBuf,
    /// Where this cell is reached.
    pub addresses: Addresses,
    /// The ring and the cell whose journal this start has, whole, if it has one.
    pub journal_of: Option<(u64, CellId)>,
    /// What lies below the memory of the cell: all cells of a ring have the same. Above a tier, a
    /// range that it had last, without its journal, waits for an operator. `None`: a witness.
    pub below: Option<Below>,
    /// The secret of the cluster.
    pub secret: Secret,
    /// The control addresses of other cells, to join their ring.
    pub seeds: Vec<SocketAddr>,
    /// Whether it is a witness, which has no part in any range. A witness founds no ring.
    pub is_witness: bool,
    /// The ring to found, where there is none to join and the directory is new.
    pub founding: Option<Founding>,
    /// The clock of the cell.
    pub clock: Arc<dyn Clock>,
    /// Random bytes for one handshake.
    pub nonce: Arc<dyn Fn() -> Nonce + Send + Sync>,
    /// Set when the process is to end: no ring is asked any more.
    pub ends: Arc<AtomicBool>,
}

/// The clock of a cell, as the control plane sets it.
pub trait Clock: Send + Sync + 'static {
    /// The present moment, with the cell's own second, whether or not requests are shown it.
    fn now(&self) -> Now;

    /// `second` begins now in the ring. Only before anything is served.
    fn take(&self, second: u32);

    /// `second` has begun in the ring.
    fn follow(&self, second: u32);

    /// Requests may be shown `second`, once it has begun.
    fn raise(&self, second: u32);

    /// What the clock of the machine shows, in seconds since 1970.
    fn wall_s(&self) -> u32;
}

/// What serves requests, as the control plane sees it. Its calls return at once.
pub trait Plane: Send + Sync + 'static {
    /// Goes by `map` from now on. `holds`: by range, until when it commits nothing of what it
    /// begins to lead.
    fn adopt(&self, map: Arc<Map>, holds: BTreeMap<RangeId, u64>);

    /// As the primary of `range` in `epoch`, it may answer until `until_ns`.
    fn extend(&self, range: RangeId, epoch: u32, until_ns: u64);

    /// What `primary` has granted this cell, which copies its changes.
    fn granted(&self, primary: CellId, granted: Granted);

    /// Whether this cell may answer now as the primary of `range`.
    fn serves(&self, range: &Range) -> bool;

    /// A range that was sealed as `at` says is not handed over now, and is to be served again.
    fn unseal(&self, at: Stamp);

    /// `cell` is ready to learn what the map of `version` wants it to.
    fn hear_ready(&self, cell: CellId, version: u64);

    /// The version of the map for which this cell is ready to learn.
    fn ready_version(&self) -> u64;

    /// What this cell holds now.
    fn memory(&self) -> Memory;

    /// The map has changed. `is_old`: before this start of the cell, or while it was absent.
    fn record(&self, change: Change, is_old: bool);

    /// What came of [`Seen::Flushes`], which was this.
    fn flushed(&self, flush: Seen, outcome: Outcome);

    /// What the cell sees of the others now.
    fn see(&self, outlook: Outlook);

    /// Something that an operator should know.
    fn note(&self, text: String);

    /// This life of the cell is over: it must answer nobody any more.
    fn end(&self, why: String);
}

/// What the plane has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A learner has all of a range, and its acknowledgements count.
    CaughtUp {
        /// The range, as it is in the map.
        at: Stamp,
        /// The learner.
        cell: CellId,
    },
    /// A copy takes no more changes.
    Refuses {
        /// Of which range; `None`: of all that this cell leads.
        range: Option<RangeId>,
        /// The copy.
        cell: CellId,
    },
    /// A client asks for a delayed flush. [`Plane::flushed`] takes what came of it.
    Flushes {
        /// The number of the worker that waits for it.
        worker: u16,
        /// Its number there.
        id: u64,
        /// The second in which it is due.
        due_s: u32,
        /// The second at which it is asked for.
        at_s: u32,
    },
    /// An operator wants something of a range.
    Ordered(Order),
    /// What is wanted of a cell. Who wants that looks at the map, and says it again.
    Wants(Command),
    /// A range that is to become another is served no more, and all copies have all of it.
    Sealed {
        /// The range, as it is in the map.
        at: Stamp,
    },
    /// The cell begins to lead something, as soon as it may answer.
    Begins,
    /// An operator says that the voters are lost for ever.
    Recovers {
        /// The version of the map from which this cell is to go on.
        version: u64,
    },
}

/// Why a cell does not become one of a ring. A message names the value, the limit and the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum ControlError {
    /// Its directory cannot be used.
    Directory(DirectoryError),
    /// The coordinator does not start.
    Quorum(StartError),
    /// The control address cannot be listened on.
    Listen(SocketAddr, std::io::Error),
    /// A thread or a runtime is refused by the system.
    System(std::io::Error),
    /// Nobody takes it into a ring.
    NotJoined {
        /// Who was asked.
        seeds: Vec<SocketAddr>,
        /// What the last one said.
        reason: String,
    },
    /// The process was to end while it asked.
    Ended {
        /// What the last cell that was asked said.
        reason: String,
    },
    /// The directory is of a cell, and is to be of a witness, or the other way round.
    OtherKind {
        /// The directory.
        directory: PathBuf,
        /// Whether it is of a witness.
        is_witness: bool,
    },
    /// The directory is of a cell of one ring, and a seed is in another.
    OtherRing {
        /// The directory.
        directory: PathBuf,
        /// Its ring.
        ring: u64,
        /// The seed that has answered first.
        seed: SocketAddr,
        /// The ring of that.
        other: u64,
    },
    /// There is neither a ring to found nor one to join, and the directory is new.
    NoRing(PathBuf),
    /// The ring refuses it, with the settings that it has.
    Refused(Refusal),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(f),
            Self::Quorum(error) => error.fmt(f),
            Self::Listen(address, error) => {
                write!(f, "ring.listen {address}: {error}; choose a free address of this machine")
            }
            Self::System(error) => write!(f, "cannot start the threads of the ring: {error}"),
            Self::NotJoined { seeds, reason } => {
                let seeds: Vec<_> = seeds.iter().map(SocketAddr::to_string).collect();
                let seeds = seeds.join(", ");
                write!(
                    f,
                    "no cell at {seeds} takes this one into its ring: {reason}; check ring.seeds \
                     and ring.secret_file"
                )
            }
            Self::Ended { reason } => {
                write!(f, "ended by a signal before a ring has taken this cell: {reason}")
            }
            Self::OtherKind { directory, is_witness } => {
                let (kept, wanted) = match is_witness {
                    true => ("a witness", "a cell"),
                    false => ("a cell", "a witness"),
                };
                let directory = directory.display();
                write!(f, "{directory} is of {kept}, and cannot be of {wanted}: choose another")
            }
            Self::OtherRing { directory, ring, seed, other } => write!(
                f,
                "{} is of a cell of ring {ring:016x}, and {seed}, of ring.seeds, is in ring \
                 {other:016x}: name the directory of this cell, or seeds of its ring",
                directory.display()
            ),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::NoRing(directory) => write!(
                f,
                "{} is of no ring yet: set ring.seeds to join one, or leave it empty and set \
                 ring.cells to found one",
                directory.display()
            ),
        }
    }
}

impl std::error::Error for ControlError {}
