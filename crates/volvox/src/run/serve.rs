//! Wiring: settings become a budget, a cell and a server, and a signal ends them.
//!
//! The main thread starts the others and then only waits for signals, until the server has ended.
//! All memory that lasts comes from the one budget; connections may take a fixed part of it. Sizes
//! are in bytes.

use std::error::Error;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use base::MemoryBudget;
use drivers::{Address, Clock, Config, Listen, Remote, Server};
use engine::EngineConfig;
use service::{Cell, EffectLogOptions, Options, Service};
use session::{Bounds, Resources};

use super::driver::Chosen;
use super::host::CellHost;
use super::launch::{Launch, LaunchOptions};
use super::leaving;
use super::member::{Joining, Member};
use super::passed;
use super::random::random;
use super::startup;
use super::tier::{Below, LOADERS, TierThreads};
use crate::config::{EffectLog, Loaded, Settings};
use crate::memcached::{COMPATIBLE_VERSION, stats_settings};
use crate::process::{self, Closer, Program, Request, Stage};

/// `cache_memlimit` can raise the limit to this multiple of the limit at start.
const LIMIT_GROWTH: u64 = 4;

/// Buffers of connections may take the limit divided by this.
const CONNECTIONS_PART: u64 = 4;

/// `Local`s of the engine beyond one per worker.
const SPARE_LOCALS: usize = 2;

/// `Local`s of the engine per core, if each client has a thread.
const LOCALS_PER_CORE: usize = 2;

/// How long a drain waits for clients to finish.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);

/// Serves until a signal ends it; returns the code to exit with. With `process.daemon` the parent
/// returns as soon as its child listens.
///
/// # Errors
/// What the system, a file, memory or an address refuses; nothing was served then.
pub fn serve(loaded: Loaded, options: LaunchOptions) -> Result<u8, Box<dyn Error>> {
    let announcement = match loaded.settings.process.daemon.then(process::split) {
        None => None,
        Some(Ok(Stage::Child(announcement))) => Some(announcement),
        Some(Ok(Stage::Parent(code))) => return Ok(code),
        Some(Err(error)) => return Err(format!("cannot run in the background: {error}").into()),
    };
    engine::bound_freed_memory();
    let mut launch = Launch::prepare(loaded, options, announcement)?;
    let settings = &launch.loaded.settings;
    passed::keep_all();
    let chosen = Chosen::new(settings.server.driver, launch.loaded.origin("server.driver"));
    let too_large = startup::memory_warning(&launch.loaded, process::machine_bytes());
    for warning in chosen.warning.iter().chain(&too_large) {
        tracing::warn!("{warning}");
    }
    let (budget, clock) = (MemoryBudget::new(settings.memory.limit), Clock::new());
    let remote = Arc::new(OnceLock::new());
    let below = Below::recover(&launch.loaded, &budget, &clock)?;
    let cell = cell(&launch, &chosen, &budget, (&clock, remote.clone()))?;
    let tier = below.map(|below| below.begin(&cell, &clock)).transpose()?;
    let config = server_config(&launch, &chosen, &budget, clock.clone())?;
    let ends = launch.signals.ends();
    let joining = Joining::of(settings, (&clock, &config.listen), ends, tier.as_ref())?;
    let (server, member) = match joining {
        None => (serve_alone(config, cell, tier.as_ref())?, None),
        Some(joining) => {
            let (server, member) = joining.serve(config, cell, tier.as_ref())?;
            (server, Some(member))
        }
    };
    // The cell answers `stats` from here on with the server's counters.
    let _ = remote.set(server.remote());
    passed::close_others();
    let addresses = tcp_addresses(&server);
    let lines = startup::lines(&launch.loaded, &addresses, &chosen, launch.workers());
    launch.listening(&addresses, &lines)?;
    let (remote, closer) = (server.remote(), launch.signals.closer());
    let end = thread::Builder::new().name("end".to_owned()).spawn(move || end(server, closer))?;
    // With the sockets for clients, where the process begins again.
    let (program, mut is_leaving, mut again) = (Program::of_process(), false, None);
    // Until the server has ended, a drain can still be stopped.
    while let Some(request) = launch.signals.wait() {
        match request {
            Request::Reload => launch.reload(),
            Request::Drain => {
                tracing::info!("draining: no new clients; closes each between two of its requests");
                remote.drain(DRAIN_LIMIT);
            }
            Request::Leave | Request::Restart
                if let Some(member) = member.as_ref().filter(|_| !is_leaving) =>
            {
                is_leaving = true;
                again = (request == Request::Restart).then(|| passed::listening(&remote));
                leaves(member, launch.loaded.settings.ring.drain_s, remote.clone())?;
            }
            Request::Leave | Request::Restart | Request::Stop => {
                again = (request == Request::Restart).then(|| passed::listening(&remote));
                tracing::info!("stopping");
                remote.stop();
            }
        }
    }
    end.join().unwrap_or_else(|panic| resume_unwind(panic));
    drop(member);
    let ended = tier.map_or(Ok(()), TierThreads::end);
    if let Some(kept) = again {
        ended.into_iter().for_each(drop);
        drop(launch);
        return Err(format!("cannot begin again: {}", program?.begin_again(kept)).into());
    }
    ended?;
    Ok(0)
}

/// Has the cell leave its ring, within a time limit, and stops it then.
fn leaves(member: &Member, limit_s: u64, remote: Remote) -> Result<(), Box<dyn Error>> {
    let (ring, limit) = (member.ring().clone(), Duration::from_secs(limit_s));
    tracing::info!("leaving the ring, for {limit_s} s at most; a second signal stops at once");
    thread::Builder::new().name("leave".to_owned()).spawn(move || {
        leaving::leave(&ring, limit);
        tracing::info!("stopping");
        remote.stop();
    })?;
    Ok(())
}

/// Waits for the end of the server, then ends the wait for signals, even after a panic.
fn end(server: Server, closer: Closer) {
    let ended = catch_unwind(AssertUnwindSafe(|| server.join()));
    closer.close();
    ended.unwrap_or_else(|panic| resume_unwind(panic));
}

fn cell(
    launch: &Launch,
    chosen: &Chosen,
    budget: &Arc<MemoryBudget>,
    (clock, remote): (&Clock, Arc<OnceLock<Remote>>),
) -> Result<Arc<Cell>, Box<dyn Error>> {
    let settings = &launch.loaded.settings;
    let now = clock.now();
    let workers = launch.workers();
    let threads = chosen.driver == drivers::Driver::Threads;
    let config = EngineConfig {
        reserve_bytes: settings.memory.limit.saturating_mul(LIMIT_GROWTH),
        evict: settings.memory.evict,
        locals: appending(workers, threads) + SPARE_LOCALS + of_tier(settings),
        huge_pages: settings.memory.huge_pages,
        prefault: settings.memory.prefault,
        hash_seed: random(),
        // Above a tier the versions go on from where the journal says.
        version_seed: is_seeded(settings).then(random),
        value_bytes_max: settings.memory.value_bytes_max() as usize,
        ..EngineConfig::new(settings.memory.limit)
    };
    let users = launch.users.clone();
    let authenticate = users.map(|users| -> service::Authenticate {
        Box::new(move |credentials| users.check(credentials))
    });
    let limits = memcache::Limits {
        value_bytes_max: settings.memory.value_bytes_max(),
        ..Default::default()
    };
    let options = Options {
        // What `version` answers: clients read the memcached release whose commands we speak. Some
        // look for it at the end of the line, so nothing follows it.
        version: COMPATIBLE_VERSION.to_owned(),
        limits,
        allow_flush: settings.protocol.allow_flush_all,
        allow_shutdown: settings.protocol.allow_shutdown,
        allow_policy: settings.protocol.allow_tier_policy,
        allow_discard: settings.protocol.allow_tier_discard,
        allow_dump: settings.protocol.allow_dump,
        authenticate,
        connections_part: CONNECTIONS_PART,
        keep_leases: !threads,
        settings: stats_settings(settings, &launch.reported, chosen.name(), workers),
        effect_log: effect_log(settings, workers, threads),
    };
    let host = CellHost {
        remote,
        logging: launch.logging.clone(),
        level: settings.log.level,
        connections_max: settings.server.connections_max as u64,
        workers: workers as u64,
    };
    Ok(Cell::new(config, budget.clone(), options, Box::new(host), now)?)
}

/// Whether versions begin somewhere: above a tier they go on from where the journal says. In a ring
/// the map says where.
fn is_seeded(settings: &Settings) -> bool {
    settings.tier.directory.is_none() || settings.ring.directory.is_some()
}

/// Threads of the tier that use the engine.
fn of_tier(settings: &Settings) -> usize {
    if settings.tier.directory.is_some() { LOADERS } else { 0 }
}

/// Batches that run at the same time.
fn appending(workers: usize, threads: bool) -> usize {
    if threads { workers * LOCALS_PER_CORE } else { workers }
}

fn effect_log(settings: &Settings, workers: usize, threads: bool) -> Option<EffectLogOptions> {
    let in_ring = settings.ring.directory.is_some();
    let has_readers = in_ring || settings.tier.directory.is_some();
    let gates = has_readers || settings.memory.effect_log == EffectLog::Gated;
    let value_bytes_max = settings.memory.value_bytes_max();
    // What keeps a cell in its ring appends too, and what writes back for it.
    let sinks = match threads {
        true => appending(workers, threads) + SPARE_LOCALS,
        false => workers,
    } + 2 * usize::from(in_ring)
        + of_tier(settings);
    let options =
        EffectLogOptions { lanes: workers, workers: sinks, value_bytes_max, gates, has_readers };
    settings.keeps_effect_log().then_some(options)
}

fn server_config(
    launch: &Launch,
    chosen: &Chosen,
    budget: &Arc<MemoryBudget>,
    clock: Clock,
) -> Result<Config, Box<dyn Error>> {
    let settings = &launch.loaded.settings;
    let server = &settings.server;
    let bounds = Bounds { requests_per_turn: server.requests_per_turn, ..Bounds::default() };
    Ok(Config {
        driver: chosen.driver,
        listen: listen(settings)?,
        workers: u16::try_from(launch.workers()).unwrap_or(u16::MAX),
        backlog: server.backlog,
        connections_max: u32::try_from(server.connections_max).unwrap_or(u32::MAX),
        reject_at_limit: server.maxconns_fast,
        idle_timeout_s: u32::try_from(server.idle_timeout_s).unwrap_or(u32::MAX),
        stall_timeout_s: u32::try_from(server.stall_timeout_s).unwrap_or(u32::MAX),
        clock,
        ..Config::new(Resources { bounds, budget: budget.clone() })
    })
}

/// Serves a cell that is in no ring.
fn serve_alone(
    config: Config,
    cell: Arc<Cell>,
    tier: Option<&TierThreads>,
) -> Result<Server, Box<dyn Error>> {
    let tiered = tier.map(|tier| tier.tiered().clone());
    let server = Server::start(config, move |slot| {
        if let Some(tiered) = &tiered {
            TierThreads::reach(tiered, &slot);
        }
        Service::of_worker(cell.clone(), slot.worker, slot.worker == session::WorkerId(0))
    })?;
    Ok(server)
}

/// Every address to listen on. A name with an IPv4 and an IPv6 address means the IPv4 one alone if
/// the system has no IPv6.
fn listen(settings: &Settings) -> Result<Vec<Listen>, Box<dyn Error>> {
    let mut listen = Vec::new();
    for wanted in &settings.server.listen {
        let addresses = wanted.resolve().map_err(|error| {
            format!("server.listen {wanted}: {error}; correct the name, or write an address")
        })?;
        let choice = addresses.iter().any(SocketAddr::is_ipv4);
        let usable = addresses.iter().filter(|at| at.is_ipv4() || !choice || has_ipv6());
        listen.extend(usable.map(|at| Listen::Tcp(*at)));
    }
    if let Some(path) = &settings.server.unix_socket {
        listen.push(Listen::Unix { path: path.clone(), mode: settings.server.unix_mode });
    }
    Ok(listen)
}

fn has_ipv6() -> bool {
    std::net::UdpSocket::bind((std::net::Ipv6Addr::LOCALHOST, 0)).is_ok()
}

fn tcp_addresses(server: &Server) -> Vec<SocketAddr> {
    let tcp = |address| match address {
        Address::Tcp(address) => Some(address),
        _ => None,
    };
    server.addresses().into_iter().filter_map(tcp).collect()
}
