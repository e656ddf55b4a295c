//! A cell becomes one of a ring: it founds one, joins one, or starts again.

use crate::calls::Calls;
use crate::config::{ControlConfig, ControlError, Plane, Seen};
use crate::hub::{Hub, Hubs, Reports};
use crate::known::Known;
use crate::member::{Loop, propose};
use crate::messages::{JOIN, Join, Joined};
use crate::time::KeptTime;
use crate::wire::{Message, Who, Wire};
use peer::{Frame, Identity, Purpose, Target};
use quorum::{Coordinator, DEADLINE, Directory, Outcome, Quorum};
use ring::{CellId, Command, Event, Incarnation, Map, Started, Verdict};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

/// How long a cell tries to be taken into a ring.
const JOINING: Duration = Duration::from_secs(60);
/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(100);
/// How long a seed may take to answer.
const ANSWERING: Duration = Duration::from_secs(4);
/// Events for the member that wait.
const EVENTS_MAX: usize = 4096;

/// A thread with a runtime of its own, which ends when this is dropped.
struct Thread {
    handle: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    fn start(name: &str) -> Result<Self, ControlError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ControlError::System)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let run = move || {
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = Some(thread.map_err(ControlError::System)?);
        Ok(Self { handle, end: Some(end), thread })
    }

    /// Runs `future` there, and waits for it.
    fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ControlError> {
        let (done, result) = std::sync::mpsc::sync_channel(1);
        self.handle.spawn(async move {
            let _ = done.send(future.await);
        });
        let ended = |_| ControlError::System(std::io::Error::other("a task of the ring has ended"));
        result.recv().map_err(ended)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed already.
            let _ = thread.join();
        }
    }
}

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
    threads: (Thread, Thread),
}

/// The control plane of a cell that runs. Dropping it ends it.
pub struct Control {
    events: mpsc::Sender<Event>,
    /// Versions of maps from which an operator wants this cell to go on alone.
    recovers: mpsc::Sender<u64>,
    quorum: Arc<Quorum<Hub>>,
    me: CellId,
    plane: Arc<dyn Plane>,
    _threads: (Thread, Thread),
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
        note: Box<dyn Fn(String) + Send + Sync>,
    ) -> Result<Self, ControlError> {
        let token = u64::from_le_bytes(first_bytes((config.nonce)()));
        let directory =
            Directory::open(&config.directory, token).map_err(ControlError::Directory)?;
        let incarnation = directory.incarnation();
        let threads = (Thread::start("ring")?, Thread::start("quorum")?);
        let started = Started { incarnation, addresses: config.addresses };
        let is_witness = config.is_witness;
        let join = Join { token: directory.token(), started, is_witness };
        let at = config.addresses.control;
        let listener = threads.0.run(TcpListener::bind(at))?;
        let listener = listener.map_err(|error| ControlError::Listen(at, error))?;
        let known = directory.identity();
        let (ring, cell, map) = match (known, config.founding) {
            (Some((ring, cell)), _) => (ring, cell, None),
            (None, _) if !config.seeds.is_empty() => {
                let Joined { cell, map } = join_any(&config, join, &threads.0)?;
                (map.ring, cell, Some(map))
            }
            (None, Some(_)) => {
                let ring = u64::from_le_bytes(first_bytes((config.nonce)())).max(1);
                (ring, CellId(1), None)
            }
            (None, None) => return Err(ControlError::NoRing(config.directory)),
        };
        let identity = Identity { ring, cell: cell.0, incarnation: incarnation.0 };
        let who = Who::new(&config.secret, identity);
        let events = mpsc::channel(EVENTS_MAX);
        let started_quorum = Arc::new(OnceLock::new());
        let reports = Broken { events: events.0.clone(), quorum: started_quorum.clone() };
        let nonce = config.nonce.clone();
        let runtimes = [&threads.0, &threads.1].map(|thread| thread.handle.clone());
        let hubs = Hubs::new(&who, &nonce, Box::new(reports), runtimes);
        let calls = Arc::new(Calls {
            who,
            nonce,
            events: events.0.clone(),
            quorum: OnceLock::new(),
            runtime: threads.1.handle.clone(),
            note,
        });
        threads.0.handle.spawn(calls.clone().serve(listener));
        let known_map = Known::of(&config.directory);
        if let Some(map) = map.clone().or_else(|| known_map.read()).filter(|it| it.ring == ring) {
            if map.cells.get(&cell).is_some_and(|known| known.is_witness != is_witness) {
                let directory = config.directory;
                return Err(ControlError::OtherKind { directory, is_witness: !is_witness });
            }
            hubs.adopt(&map);
        }
        let founds = known.is_none() && map.is_none();
        set_clock(&config, founds);
        let founding = config.founding.filter(|_| founds);
        let transport = hubs.calls.clone();
        let quorum = threads.1.run(async move {
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
        let proposer = quorum.clone();
        threads.1.handle.spawn(async move { start_in(&proposer, cell, started).await });
        let knows_time = founds;
        Ok(Self { ring, cell, incarnation, config, knows_time, hubs, quorum, events, threads })
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
        let (events, threads) = (self.events, self.threads);
        let (sender, receiver) = events;
        let runs = Loop {
            me: cell,
            incarnation,
            hubs,
            known: Known::of(&config.directory),
            quorum: quorum.clone(),
            runtime: threads.1.handle.clone(),
            plane: plane.clone(),
            clock: config.clock,
            knows_time,
            kept_time: KeptTime::of(&config.directory),
            has_noted: AtomicBool::new(false),
            events: sender.clone(),
        };
        let (recovers, recoveries) = mpsc::channel(1);
        threads.0.handle.spawn(runs.run(receiver, recoveries));
        Control { events: sender, recovers, quorum, me: cell, plane, _threads: threads }
    }
}

impl Control {
    /// Takes what the plane has found.
    pub fn finder(&self) -> impl Fn(Seen) + Send + Sync + 'static {
        let (events, maps, me) = (self.events.clone(), self.quorum.watch(), self.me);
        let recovers = self.recovers.clone();
        let (quorum, plane) = (self.quorum.clone(), self.plane.clone());
        let runtime = self._threads.1.handle.clone();
        move |seen| match seen {
            Seen::CaughtUp { at, cell } => {
                let _ = events.try_send(Event::CaughtUp { at, cell });
            }
            Seen::Flushes { due_s, at_s, .. } => {
                let (quorum, plane) = (quorum.clone(), plane.clone());
                runtime.spawn(async move {
                    let outcome = propose(&quorum, Command::Flush { due_s, at_s }).await;
                    plane.flushed(seen, outcome);
                });
            }
            Seen::Forgives { at } => {
                let _ = events.try_send(Event::Forgives { at });
            }
            Seen::Recovers { version } => {
                // One that is under way is enough.
                let _ = recovers.try_send(version);
            }
            Seen::Refuses { cell, range } => {
                let map = maps.borrow().clone();
                let is_meant = |of: &&ring::Range| range.is_none_or(|range| range == of.id);
                let led = map.ranges.iter().filter(|range| range.primary == me && range.has(cell));
                for range in led.filter(is_meant) {
                    let _ = events.try_send(Event::Refuses { at: range.stamp(), cell });
                }
            }
        }
    }

    /// The newest map.
    #[must_use]
    pub fn map(&self) -> Arc<Map> {
        self.quorum.watch().borrow().clone()
    }
}

/// Proposes the start of this life while the map does not have it: also of an agreement that goes
/// on from an earlier map.
async fn start_in(quorum: &Quorum<Hub>, cell: CellId, started: Started) {
    let mut maps = quorum.watch();
    let is_in = |map: &Map| map.cells.get(&cell).is_some_and(|it| it.started == started);
    while maps.wait_for(|map| !is_in(map)).await.is_ok() {
        // Refused: a later life of this cell has begun, or it is not in the map. It serves nothing.
        let outcome = quorum.propose(Command::Start { cell, started }).await;
        let Outcome::Verdict(Verdict::Applied { version, .. }) = outcome else {
            sleep(AGAIN).await;
            continue;
        };
        // It shows up here a little later, unless a map comes that does not go on from it.
        let _ = timeout(DEADLINE, maps.wait_for(|map| map.version >= version)).await;
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

/// Asks the seeds, one after the other, to be taken into their ring.
fn join_any(config: &ControlConfig, join: Join, thread: &Thread) -> Result<Joined, ControlError> {
    let identity = Identity { ring: 0, cell: 0, incarnation: join.started.incarnation.0 };
    let who = Who::new(&config.secret, identity);
    let (seeds, nonce) = (config.seeds.clone(), config.nonce.clone());
    let joined = thread.run(async move {
        let start = Instant::now();
        let mut reason = String::new();
        while start.elapsed() < JOINING {
            for seed in &seeds {
                match join_at(*seed, &who, (nonce)(), join).await {
                    Ok(joined) => return Ok(joined),
                    Err(why) => reason = format!("{seed}: {why}"),
                }
            }
            sleep(AGAIN).await;
        }
        Err(reason)
    })?;
    joined.map_err(|reason| ControlError::NotJoined { seeds: config.seeds.clone(), reason })
}

async fn join_at(
    seed: SocketAddr,
    who: &Who,
    nonce: peer::Nonce,
    join: Join,
) -> Result<Joined, String> {
    let target = Target { cell: 0, purpose: Purpose::Control };
    let wire = Wire::connect(seed, who, target, nonce).await;
    let mut wire = wire.map_err(|error| error.to_string())?;
    let body = serde_json::to_vec(&join).map_err(|error| error.to_string())?;
    let call = Frame::Call { id: 1, kind: JOIN, body: &body };
    wire.writer.send(&call).await.map_err(|error| error.to_string())?;
    match timeout(ANSWERING, wire.reader.next()).await {
        Ok(Ok(Message::Answer { ok: true, body, .. })) => {
            serde_json::from_slice(&body).map_err(|error| error.to_string())
        }
        Ok(Ok(_)) => Err("it cannot now".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it does not answer".to_owned()),
    }
}

fn first_bytes(nonce: peer::Nonce) -> [u8; 8] {
    std::array::from_fn(|at| nonce[at])
}
