//! A cell becomes one of a ring: it founds one, joins one, or starts again.

use crate::calls::Calls;
use crate::config::{ControlConfig, ControlError, Plane};
use crate::hub::{Hub, Hubs, Reports};
use crate::join::{Note, check_ring, join_any};
use crate::keeps::Keeps;
use crate::known::Known;
use crate::member_loop::MemberLoop;
use crate::messages::{Join, Joined};
use crate::running::Control;
use crate::threads::Threads;
use crate::time::KeptTime;
use crate::wire::Who;
use peer::Identity;
use quorum::{Coordinator, DEADLINE, Directory, Outcome, Quorum};
use ring::{CellId, Command, Event, Incarnation, Map, Refusal, Started, Verdict};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Between two attempts to propose a start.
const AGAIN: Duration = Duration::from_millis(100);
/// The same where it was applied and is not in the map.
const LATER: Duration = Duration::from_secs(1);
/// Events for the member that wait.
const EVENTS_MAX: usize = 4096;

/// A cell that knows who it is, and does not serve yet.
pub struct Starting {
    ring: u64,
    cell: CellId,
    incarnation: Incarnation,
    config: ControlConfig,
    knows_time: bool,
    hubs: Hubs,
    quorum: Arc<Quorum<Hub>>,
    events: (mpsc::Sender<Event>, mpsc::Receiver<Event>),
    refused: mpsc::Receiver<Refusal>,
    threads: Threads,
}

struct Broken {
    events: mpsc::Sender<Event>,
    /// Once it has started.
    quorum: Arc<OnceLock<Arc<Quorum<Hub>>>>,
}

impl Reports for Broken {
    fn broken(&self, cell: CellId) {
        let _ = self.events.try_send(Event::Broken(cell));
        if let Some(quorum) = self.quorum.get() {
            quorum.suspect(cell);
        }
    }
}

impl Starting {
    /// Finds out who this cell is. `note` takes what an operator should know.
    ///
    /// # Errors
    /// When its directory, its address or its secret cannot be used, or no ring takes it.
    pub fn begin(
        config: ControlConfig,
        note: Arc<dyn Fn(String) + Send + Sync>,
    ) -> Result<Self, ControlError> {
        let token = random(&config);
        let directory =
            Directory::open(&config.directory, token).map_err(ControlError::Directory)?;
        let incarnation = directory.incarnation();
        let threads = Threads::start()?;
        let started = start_of(&config, &directory);
        let join = Join { token: directory.token(), started, is_witness: config.is_witness };
        let at = config.addresses.control;
        let listener = threads.ring.run(TcpListener::bind(at))?;
        let listener = listener.map_err(|error| ControlError::Listen(at, error))?;
        let is_new = directory.identity().is_none();
        let Identified { ring, cell, map } =
            identify(&config, &directory, join, (&threads, &note))?;
        let identity = Identity { ring, cell: cell.0, incarnation: incarnation.0 };
        let who = Who::new(&config.secret, identity);
        let events = mpsc::channel(EVENTS_MAX);
        let started_quorum = Arc::new(OnceLock::new());
        let reports = Broken { events: events.0.clone(), quorum: started_quorum.clone() };
        let nonce = config.nonce.clone();
        let hubs = Hubs::new(
            (&who, config.addresses.control),
            &nonce,
            Box::new(reports),
            threads.runtimes(),
        );
        let calls = Arc::new(Calls {
            who,
            nonce,
            events: events.0.clone(),
            quorum: OnceLock::new(),
            runtime: threads.quorum.handle.clone(),
            note,
        });
        threads.ring.handle.spawn(calls.clone().serve(listener));
        let known_map = Known::of(&config.directory);
        if let Some(map) = map.clone().or_else(|| known_map.read()).filter(|it| it.ring == ring) {
            check_known(&map, cell, &config, &started)?;
            hubs.adopt(&map);
        }
        let founds = is_new && map.is_none();
        set_clock(&config, founds);
        let founding = config.founding.filter(|_| founds);
        let transport = hubs.calls.clone();
        let quorum = threads.quorum.run(async move {
            match founding {
                Some(founding) => {
                    let map = founding.map(ring, join.token, started);
                    Quorum::found(directory, cell, map, transport).await
                }
                None => Quorum::open(directory, ring, cell, transport).await,
            }
        })?;
        let quorum = Arc::new(quorum.map_err(ControlError::Quorum)?);
        let _ = calls.quorum.set(quorum.clone());
        let _ = started_quorum.set(quorum.clone());
        hubs.adopt(&quorum.watch().borrow());
        let (refuses, refused) = mpsc::channel(1);
        threads.quorum.handle.spawn(start_in(quorum.clone(), cell, started, refuses));
        Ok(Self {
            ring,
            cell,
            incarnation,
            config,
            knows_time: founds,
            hubs,
            quorum,
            events,
            refused,
            threads,
        })
    }

    /// The ring that it is of.
    #[must_use]
    pub fn ring(&self) -> u64 {
        self.ring
    }

    /// Which cell it is.
    #[must_use]
    pub fn cell(&self) -> CellId {
        self.cell
    }

    /// Which life of it this is.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Goes on: `plane` serves what the map says.
    #[must_use]
    pub fn run(self, plane: Arc<dyn Plane>) -> Control {
        let Self { cell, incarnation, config, knows_time, hubs, quorum, .. } = self;
        let (events, refused, threads) = (self.events, self.refused, self.threads);
        let (sender, receiver) = events;
        let runs = MemberLoop {
            me: cell,
            incarnation,
            hubs,
            keeps: Keeps::start(&config.directory, &threads.quorum.handle, &plane),
            quorum: quorum.clone(),
            runtime: threads.quorum.handle.clone(),
            plane: plane.clone(),
            clock: config.clock,
            knows_time,
            has_noted: AtomicBool::new(false),
            recovers_from: Arc::new(AtomicU64::new(u64::MAX)),
            events: sender.clone(),
        };
        let (recovers, recoveries) = mpsc::channel(1);
        threads.ring.handle.spawn(runs.run(receiver, recoveries, refused));
        Control { events: sender, recovers, quorum, me: cell, plane, threads }
    }
}

/// The start that this is.
fn start_of(config: &ControlConfig, directory: &Directory) -> Started {
    let (identity, below) = (directory.identity(), config.below);
    Started {
        has_journal: identity.is_some() && identity == config.journal_of,
        has_tier: below.is_some_and(|below| below.bucket.is_some()),
        below,
        ..Started::new(directory.incarnation(), config.addresses)
    }
}

/// Refuses a start as another kind, or above another bucket, than the map says, before the bucket
/// is made that of the ring. What changes, the levels and the edition, the newest map decides; this
/// one may be another.
fn check_known(
    map: &Map,
    cell: CellId,
    config: &ControlConfig,
    started: &Started,
) -> Result<(), ControlError> {
    let is_witness = config.is_witness;
    if map.cells.get(&cell).is_some_and(|known| known.is_witness != is_witness) {
        let directory = config.directory.clone();
        return Err(ControlError::OtherKind { directory, is_witness: !is_witness });
    }
    match map.check_start(cell, started) {
        Err(Refusal::OtherBelow(other)) if other.is_of_levels() => Ok(()),
        Err(Refusal::EarlierBuild { .. }) => Ok(()),
        checked => checked.map_err(ControlError::Refused),
    }
}

/// Proposes the start of this life while the map does not have it: also of an agreement that goes
/// on from an earlier map. `refuses` takes why it is refused for good.
async fn start_in(
    quorum: Arc<Quorum<Hub>>,
    cell: CellId,
    started: Started,
    refuses: mpsc::Sender<Refusal>,
) {
    let mut maps = quorum.watch();
    let is_in = |map: &Map| map.cells.get(&cell).is_some_and(|it| it.started == started);
    while maps.wait_for(|map| !is_in(map)).await.is_ok() {
        match quorum.propose(Command::Start { cell, started }).await {
            // It shows up here a little later, unless a map comes that does not go on from it, or
            // who leads is of an earlier build, and leaves out what that does not know.
            Outcome::Verdict(Verdict::Applied { version, .. }) => {
                let _ = timeout(DEADLINE, maps.wait_for(|map| map.version >= version)).await;
                if !is_in(&maps.borrow()) {
                    sleep(LATER).await;
                }
            }
            Outcome::Verdict(Verdict::Refused(refusal)) if refusal.is_for_good() => {
                let _ = refuses.send(refusal).await;
                return;
            }
            // A later life of this cell has begun, or it is not in the map. It serves nothing.
            _ => sleep(AGAIN).await,
        }
    }
}

/// Sets the clock to what the directory has kept, if that is later. A founder begins the time of
/// the ring.
fn set_clock(config: &ControlConfig, founds: bool) {
    let clock = &config.clock;
    if let Some(second) = KeptTime::of(&config.directory).read() {
        clock.follow(second);
    }
    if founds {
        clock.take(clock.now().expiry_s);
    }
}

/// Who a cell is, and the map of the ring that has just taken it.
struct Identified {
    ring: u64,
    cell: CellId,
    map: Option<Map>,
}

/// Who this cell is: by its directory, or by the ring that it joins or founds.
fn identify(
    config: &ControlConfig,
    directory: &Directory,
    join: Join,
    (threads, note): (&Threads, &Note),
) -> Result<Identified, ControlError> {
    match (directory.identity(), config.founding.is_some()) {
        (Some((ring, cell)), _) => {
            check_ring(config, ring, &threads.ring)?;
            Ok(Identified { ring, cell, map: None })
        }
        (None, _) if !config.seeds.is_empty() => {
            let Joined { cell, map } = join_any(config, join, (&threads.ring, note))?;
            Ok(Identified { ring: map.ring, cell, map: Some(map) })
        }
        (None, true) => Ok(Identified { ring: random(config).max(1), cell: CellId(1), map: None }),
        (None, false) => Err(ControlError::NoRing(config.directory.clone())),
    }
}

/// A random number.
fn random(config: &ControlConfig) -> u64 {
    let nonce = (config.nonce)();
    u64::from_le_bytes(std::array::from_fn(|at| nonce[at]))
}
