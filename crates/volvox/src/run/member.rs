//! Wiring of a cell in a ring: who it is, its links, and the threads that keep it.
//!
//! ```text
//! directory, seeds --control--> who it is --> RingCell --> server with links
//!                                                ^
//!                    keeper, leases -------------+
//! ```

use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use base::Now;
use control::{Control, ControlConfig, Founding, Seen, Starting};
use drivers::{Clock, Config, Driver, Listen, Server, check_free};
use peer::{Nonce, Secret};
use ring::{Addresses, CellId, Consistency, Map};
use service::{
    Cell, CopyReads, Finding, Flushing, Reach, RingCell, RingHost, RingIdentity, RingService,
};

use super::keeping::{Keeping, KeepingThread};
use super::repeats::Repeats;
use super::tier::TierThreads;
use crate::config::{self, RingSettings, Settings};
use crate::process::Request;

/// Where random bytes come from.
const RANDOM: &str = "/dev/urandom";

/// What takes what the workers have found.
type Finder = Box<dyn Fn(Seen) + Send + Sync>;

/// Refuses the path of a directory, which `setting` names, where something else is there.
pub(super) fn is_no_file(setting: &str, path: &Path) -> Result<(), String> {
    let (is_free, shown) = (path.is_dir() || !path.exists(), path.display());
    let wrong = || format!("{setting} {shown}: it is a file; name a directory, or remove it");
    is_free.then_some(()).ok_or_else(wrong)
}

/// A cell that is about to be one of a ring.
pub(super) struct Joining {
    starting: Starting,
    secret: Secret,
    links: SocketAddr,
    copy_reads: CopyReads,
    clock: Clock,
    notes: Arc<Repeats>,
}

/// What keeps a cell in its ring, until it is dropped.
pub(super) struct Member {
    ring: Arc<RingCell>,
    _control: Control,
    _keeping: KeepingThread,
}

impl Member {
    /// The cell as one of its ring.
    pub(super) fn ring(&self) -> &Arc<RingCell> {
        &self.ring
    }
}

impl Joining {
    /// Finds out who the cell is, which is to `listen` there for clients; `None` if it is to be in
    /// no ring. It asks none any more once the process `ends`. `tier`: what lies below its memory.
    ///
    /// # Errors
    /// What its directory, its addresses or its secret are refused for, or that no ring takes it.
    pub(super) fn of(
        settings: &Settings,
        (clock, listen): (&Clock, &[Listen]),
        ends: Arc<AtomicBool>,
        tier: Option<&TierThreads>,
    ) -> Result<Option<Self>, Box<dyn Error>> {
        let ring = &settings.ring;
        let Some(directory) = ring.directory.clone() else { return Ok(None) };
        is_no_file("ring.directory", &directory)?;
        let path = ring.secret_file.as_deref().expect("invariant: settings were checked");
        let secret = read_secret(path)?;
        let random = OpenRandom::open()?;
        let addresses = Addresses {
            control: address("ring.listen", &ring.listen)?,
            links: address("ring.links", &ring.links)?,
            clients: address("server.listen", &settings.server.listen)?,
        };
        // A ring that had taken the cell would wait for it.
        check_free(&Listen::Links(addresses.links))?;
        listen.iter().try_for_each(check_free)?;
        let seeds = ring.seeds.iter().map(|seed| address("ring.seeds", std::slice::from_ref(seed)));
        let consistency = Consistency { durability: ring.durability, reads: ring.reads };
        let founding = Founding { cells: ring.cells, copies: ring.copies as u8, consistency };
        let journal_of = tier.and_then(TierThreads::owner);
        let below = tier.map(|tier| tier.below(&settings.tier)).transpose()?;
        let config = ControlConfig {
            directory,
            addresses,
            journal_of: journal_of.map(|(ring, cell)| (ring, CellId(cell))),
            below: Some(below.unwrap_or_default()),
            secret: secret.clone(),
            seeds: seeds.collect::<Result<_, _>>()?,
            is_witness: false,
            founding: ring.seeds.is_empty().then_some(founding),
            clock: Arc::new(RingClock(clock.clone())),
            nonce: Arc::new(move || random.nonce()),
            ends,
        };
        let (links, clock) = (addresses.links, clock.clone());
        let notes = Arc::new(Repeats::new(clock.clone()));
        let copy_reads = copy_reads(ring, listen)?;
        let starting = Starting::begin(config, notes.clone().sink())?;
        Ok(Some(Self { starting, secret, links, copy_reads, clock, notes }))
    }

    /// Serves `cell` as one of the ring.
    ///
    /// # Errors
    /// What the system refuses.
    pub(super) fn serve(
        self,
        mut config: Config,
        cell: Arc<Cell>,
        tier: Option<&TierThreads>,
    ) -> Result<(Server, Member), Box<dyn Error>> {
        let Self { starting, secret, links, copy_reads, clock, notes } = self;
        let (ring, me, incarnation) = (starting.ring(), starting.cell(), starting.incarnation().0);
        tracing::info!("cell {me} of ring {ring:016x}, start {incarnation}");
        if let Some(tier) = tier {
            if let Some((of_ring, of_cell)) = tier.owner().filter(|owner| *owner != (ring, me.0)) {
                return Err(format!(
                    "tier.directory has the journal of cell {of_cell} of ring {of_ring:016x}: give \
                     this cell a directory of its own"
                )
                .into());
            }
            tier.claim(ring)?;
        }
        let identity = RingIdentity { ring, cell: me, incarnation };
        let finder: Arc<OnceLock<Finder>> = Arc::default();
        let (finds, random, broken) = (finder.clone(), OpenRandom::open()?, notes.clone());
        let find = move |finding| found(finding, &finds, &broken);
        let (nonce, expiry) = (Box::new(move || random.nonce()), clock.expiry().clone());
        let host = RingHost { nonce, find: Box::new(find), expiry, copy_reads };
        let ring_cell = RingCell::new(cell, identity, secret, host)?;
        if let Some(tier) = tier {
            tier.write_back_in(&ring_cell, &clock);
        }
        let nothing = Arc::new(Map::new(ring, u32::MAX, 1));
        let (plane, keeping) = Keeping::start(ring_cell.clone(), nothing, (clock, notes))?;
        let links_at = config.listen.len();
        config.listen.push(Listen::Links(links));
        // With a thread for each client, one worker has all links.
        let workers = match config.driver {
            Driver::Threads => 1,
            Driver::Epoll | Driver::Signal | Driver::Uring => config.workers,
        };
        let serves = ring_cell.clone();
        let server = Server::start(config, move |slot| {
            let (post, remote) = (slot.post.clone(), slot.remote.clone());
            serves.set_reach(Reach {
                workers,
                post: Box::new(move |worker, mail| {
                    post.send(worker, mail);
                }),
                release: Box::new(move |log| remote.release(log)),
            });
            RingService::new(serves.clone(), slot.worker, links_at)
        })?;
        let control = starting.run(plane);
        let _ = finder.set(Box::new(control.finder()));
        Ok((server, Member { ring: ring_cell, _control: control, _keeping: keeping }))
    }
}

/// Which reads copies may answer, of a cell that is to `listen` there for clients.
fn copy_reads(ring: &RingSettings, listen: &[Listen]) -> Result<CopyReads, Box<dyn Error>> {
    let mut listeners = Vec::new();
    for wanted in &ring.copy_reads_listen {
        let addresses = wanted.resolve()?;
        let is_one = |at: &Listen| matches!(at, Listen::Tcp(at) if addresses.contains(at));
        listeners.extend((0..listen.len()).filter(|number| is_one(&listen[*number])));
    }
    let age_ms = u16::try_from(ring.copy_reads_ms).unwrap_or(service::AGE_MS_MAX);
    let prefixes = ring.copy_reads_prefixes.iter().map(|prefix| prefix.as_bytes().into());
    let listeners = (!ring.copy_reads_listen.is_empty()).then_some(listeners);
    Ok(CopyReads { age_ms, prefixes: prefixes.collect(), listeners })
}

/// Passes on what the workers have found.
fn found(finding: Finding, finds: &OnceLock<Finder>, broken: &Repeats) {
    match finding {
        Finding::CaughtUp { at, cell } => find_by(finds, Seen::CaughtUp { at, cell }),
        Finding::Refuses { cell, range } => find_by(finds, Seen::Refuses { cell, range }),
        Finding::Recovers { version } => find_by(finds, Seen::Recovers { version }),
        Finding::Flushes(Flushing { worker, id, due_s, at_s }) => {
            find_by(finds, Seen::Flushes { worker: worker.0, id, due_s, at_s });
        }
        Finding::Ordered(order) => find_by(finds, Seen::Ordered(order)),
        Finding::Wants(command) => find_by(finds, Seen::Wants(command)),
        Finding::Restarts { .. } => {
            if let Err(error) = Request::Restart.raise() {
                broken.warn(&format!("it does not begin again: {error}"));
            }
        }
        Finding::Sealed { at } => find_by(finds, Seen::Sealed { at }),
        Finding::Begins => find_by(finds, Seen::Begins),
        // It has not said who it is.
        Finding::Broken { cell: CellId(0), what } => {
            broken.warn(&format!("a connection to ring.links: {what}"));
        }
        Finding::Broken { cell, what } => {
            broken.warn(&format!("the link to cell {cell}: {what}"));
        }
    }
}

fn find_by(finder: &OnceLock<Finder>, seen: Seen) {
    if let Some(find) = finder.get() {
        find(seen);
    }
}

/// The clock of the cell, as the control plane sets it.
pub(super) struct RingClock(pub(super) Clock);

impl control::Clock for RingClock {
    fn now(&self) -> Now {
        let mono_ns = self.0.now().mono_ns;
        Now { mono_ns, expiry_s: self.0.expiry().own_s(mono_ns) }
    }

    fn take(&self, second: u32) {
        self.0.expiry().take(second, self.0.now().mono_ns);
    }

    fn follow(&self, second: u32) {
        self.0.expiry().follow(second, self.0.now().mono_ns);
    }

    fn raise(&self, second: u32) {
        self.0.expiry().raise(second);
    }

    fn wall_s(&self) -> u32 {
        u32::try_from(Clock::wall_ns() / 1_000_000_000).unwrap_or(u32::MAX)
    }
}

/// The system's source of random bytes, open.
pub(super) struct OpenRandom(File);

impl OpenRandom {
    pub(super) fn open() -> Result<Self, Box<dyn Error>> {
        File::open(RANDOM).map(Self).map_err(|error| format!("{RANDOM}: {error}").into())
    }

    /// Bytes that nobody can guess.
    ///
    /// # Panics
    /// When the system has none: without them no handshake proves anything.
    pub(super) fn nonce(&self) -> Nonce {
        let mut nonce = Nonce::default();
        (&self.0).read_exact(&mut nonce).expect("the system has random bytes");
        nonce
    }
}

pub(super) fn read_secret(path: &Path) -> Result<Secret, Box<dyn Error>> {
    let shown = path.display();
    let bytes = fs::read(path).map_err(|error| format!("ring.secret_file {shown}: {error}"))?;
    let bytes = bytes.trim_ascii();
    let secret = Secret::new(bytes).ok_or_else(|| {
        let (has, least) = (bytes.len(), peer::SECRET_BYTES_MIN);
        format!("ring.secret_file {shown}: {has} bytes; a secret has at least {least}, add some")
    })?;
    Ok(secret)
}

pub(super) fn address(name: &str, of: &[config::Listen]) -> Result<SocketAddr, Box<dyn Error>> {
    let listen = of.first().ok_or_else(|| format!("{name}: no address; name one"))?;
    let found = listen.resolve().map_err(|error| format!("{name} {listen}: {error}"))?;
    let first = found.into_iter().next();
    first.ok_or_else(|| format!("{name} {listen}: the name has no address; write one").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_file_is_no_directory_of_a_cell() {
        let scratch = Scratch::new("member");
        let (file, absent) = (scratch.path("file"), scratch.path("absent"));
        fs::write(&file, "").expect("it can be written");
        let refused = is_no_file("ring.directory", &file).expect_err("it is a file");
        assert!(refused.starts_with("ring.directory "), "{refused}");
        assert!(refused.ends_with("it is a file; name a directory, or remove it"), "{refused}");
        let directory = absent.parent().expect("it is in one");
        assert_eq!([&absent, directory].map(|it| is_no_file("x", it)), [Ok(()), Ok(())]);
    }
}
