//! Cells of one ring in one process, with links that can be cut.

pub mod dice;
mod net;

use net::{Net, Wire};
use quorum::{Coordinator, Directory, DirectoryError, Outcome, Quorum};
use ring::{Addresses, CellId, Command, Incarnation, Map, Stamp, Started, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How long any wait of a test may take.
pub const WAIT: Duration = Duration::from_secs(20);
/// The ring of all tests.
pub const RING: u64 = 0xCE11;

/// A cell.
pub type Member = Quorum<Wire>;

/// Cells with their links and directories.
pub struct Cells {
    pub net: Net,
    scratch: PathBuf,
    running: BTreeMap<CellId, Arc<Member>>,
}

/// Waits until `what` gives a value.
pub async fn until<A, F: Future<Output = Option<A>>>(name: &str, what: impl Fn() -> F) -> A {
    let start = Instant::now();
    loop {
        if let Some(value) = what().await {
            return value;
        }
        assert!(start.elapsed() < WAIT, "not within {WAIT:?}: {name}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The start of a cell that is reached nowhere.
pub fn started(incarnation: Incarnation) -> Started {
    let at = SocketAddr::from(([127, 0, 0, 1], 1));
    let addresses = Addresses { control: at, links: at, clients: at };
    Started::new(incarnation, addresses)
}

/// The command by which a cell with this token joins.
pub fn join(token: u64) -> Command {
    Command::Join { token, started: started(Incarnation(1)) }
}

/// A map of three cells, each the primary of a range with one copy.
pub fn formed() -> Map {
    formed_of(3)
}

/// The same of this number of cells.
pub fn formed_of(cells: u32) -> Map {
    let mut map = Map::new(RING, cells, 2);
    let mut joins = (1..=u64::from(cells)).map(join);
    assert!(joins.all(|join| matches!(map.apply(&join), Verdict::Applied { .. })));
    map
}

/// What a command about the first range is compared with.
pub fn stamp(map: &Arc<Map>) -> Stamp {
    map.ranges[0].stamp()
}

impl Cells {
    /// Cell 1 alone, with a map of three cells.
    pub async fn founded() -> Self {
        Self::founded_with(formed()).await
    }

    /// Cell 1 alone, with this map.
    pub async fn founded_with(map: Map) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("quorum-cells-{}-{number}", std::process::id());
        let mut cells = Self {
            net: Net::default(),
            scratch: std::env::temp_dir().join(name),
            running: BTreeMap::new(),
        };
        let first = CellId(1);
        let directory = Directory::open(&cells.path(first), 1).unwrap();
        let wire = cells.net.wire(first);
        let member = Quorum::found(directory, first, map, wire).await.unwrap();
        cells.runs(first, member);
        cells
    }

    /// Three voters.
    pub async fn three() -> Self {
        let mut cells = Self::founded().await;
        cells.start(2).await;
        cells.start(3).await;
        cells.present(&[1, 2, 3]).await;
        assert_eq!(cells.voters(), ids(&[1, 2, 3]));
        cells
    }

    /// This number of cells, of which as many vote as may.
    pub async fn running(count: u32) -> Self {
        let mut cells = Self::founded_with(formed_of(count)).await;
        for id in 2..=count {
            cells.start(id).await;
        }
        cells.present(&(1..=count).collect::<Vec<_>>()).await;
        cells
    }

    /// Starts a cell, for the first time or again.
    pub async fn start(&mut self, id: u32) {
        let id = CellId(id);
        let path = self.path(id);
        let directory = until("the directory is released", || {
            let opened = Directory::open(&path, u64::from(id.0));
            async {
                match opened {
                    Err(DirectoryError::InUse(_)) => None,
                    opened => Some(opened.unwrap()),
                }
            }
        });
        let directory = directory.await;
        let member = Quorum::open(directory, RING, id, self.net.wire(id)).await.unwrap();
        self.runs(id, member);
    }

    fn runs(&mut self, id: CellId, member: Member) {
        let member = Arc::new(member);
        self.net.plug(id, &member);
        self.running.insert(id, member);
    }

    /// Ends a cell as a crash does: nothing more is sent, nothing more is written.
    pub async fn kill(&mut self, id: CellId) {
        self.net.unplug(id);
        let member = self.running.remove(&id).expect("it runs");
        member.stop().await;
    }

    /// Ends all that run.
    pub async fn end(mut self) {
        for id in self.running.keys().copied().collect::<Vec<_>>() {
            self.kill(id).await;
        }
    }

    /// A cell that runs.
    pub fn cell(&self, id: u32) -> Arc<Member> {
        self.running[&CellId(id)].clone()
    }

    /// All that run.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.running.values()
    }

    /// Where the files of a cell are.
    pub fn path(&self, id: CellId) -> PathBuf {
        self.scratch.join(id.to_string())
    }

    /// Waits for a leader that a majority follows, among the cells that run.
    pub async fn leader(&self) -> CellId {
        self.leader_among(self.running.keys().copied().collect()).await
    }

    /// Waits for a leader in which all of `cells` believe, itself one of them.
    pub async fn leader_among(&self, cells: BTreeSet<CellId>) -> CellId {
        until("a leader", || async {
            let named: BTreeSet<_> = cells.iter().map(|cell| self.running[cell].leader()).collect();
            let leader = named.first().copied().flatten()?;
            (named.len() == 1 && cells.contains(&leader)).then_some(leader)
        })
        .await
    }

    /// Brings the members to what `present` asks for.
    pub async fn present(&self, present: &[u32]) {
        let present: Vec<_> = present.iter().map(|id| CellId(*id)).collect();
        let wanted = quorum::voters(&present, &self.voters());
        until("the voters are as wanted", || async {
            let leader = self.running.iter().find(|(id, cell)| cell.leader() == Some(**id))?.1;
            let is_done = leader.set_present(&present).await;
            (is_done && leader.voters().len() == wanted.len()).then_some(())
        })
        .await;
    }

    /// The voters, as any cell that runs knows them.
    pub fn voters(&self) -> BTreeSet<CellId> {
        self.all().map(|cell| cell.voters()).max_by_key(BTreeSet::len).unwrap_or_default()
    }

    /// Waits until all that run have the same map, and returns it.
    pub async fn settled(&self) -> Arc<Map> {
        until("all have the same map", || async {
            let read = self.all().next()?.read().await.ok()?;
            let mut maps = self.all().map(|cell| cell.watch().borrow().clone());
            maps.all(|map| map == read).then_some(read)
        })
        .await
    }
}

/// Proposes until the verdict is known. Only for commands that can be applied twice.
pub async fn insist(cell: &impl Coordinator, command: Command) -> Verdict {
    until("a verdict", || async {
        match cell.propose(command).await {
            Outcome::Verdict(verdict) => Some(verdict),
            _ => None,
        }
    })
    .await
}

/// Settles the first range as it is, until that was applied `times` times.
pub async fn settle(cell: &impl Coordinator, times: usize) {
    for _ in 0..times {
        until("a settlement", || async {
            let at = stamp(&cell.read().await.ok()?);
            cell.propose(Command::Settle { at }).await.is_applied().then_some(())
        })
        .await;
    }
}

/// Ids of cells.
pub fn ids(cells: &[u32]) -> BTreeSet<CellId> {
    cells.iter().map(|id| CellId(*id)).collect()
}

impl Drop for Cells {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}
