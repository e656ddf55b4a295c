//! Wiring: settings become a budget, a cell and a server, and signals end them.

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::{Budget, MemoryBudget, Owner};
use drivers::{Address, Clock, Config, Listen, Remote, Server};
use engine::EngineConfig;
use service::{Cell, Options, Service};
use session::{Bounds, Resources};

use crate::auth::Claim;
use crate::config::{Driver, Settings};
use crate::driver;
use crate::host::Process;
use crate::launch::Launch;
use crate::memcached::stats_settings;
use crate::signals::Request;

/// What `version` answers: clients read the memcached release whose commands we speak.
const VERSION: &str = concat!("1.6.45-volvox-", env!("CARGO_PKG_VERSION"));

/// Bytes of an item that are not its value, as memcached counts them with a short key.
const ITEM_OVERHEAD_BYTES: u64 = 64;

/// The limit may be raised at run time to so many times what it was at the start.
const LIMIT_GROWTH: u64 = 4;

/// Buffers of connections may take one part in so many of the limit.
const CONNECTIONS_PART: u64 = 4;

/// Leases on the engine beyond one per worker.
const SPARE_LOCALS: usize = 2;

/// Leases on the engine under a thread per client, for each core.
const LOCALS_PER_CORE: usize = 2;

/// How long a drain waits for clients to finish.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);

/// Serves until told to stop.
///
/// # Errors
/// When memory or an address is refused; nothing was served then.
pub fn serve(mut launch: Launch) -> Result<(), Box<dyn Error>> {
    let budget = MemoryBudget::new(launch.settings.memory.limit);
    let remote = Arc::new(OnceLock::new());
    let cell = cell(&launch, &budget, remote.clone())?;
    let server = start(&launch, &budget, &cell)?;
    // The cell answers `stats` from here on with the server's counters.
    let _ = remote.set(server.remote());
    launch.listening(&tcp_addresses(&server))?;
    loop {
        match launch.signals.wait() {
            Request::Reload => launch.reload(),
            Request::Drain => {
                tracing::info!("draining: no new clients, those here may finish");
                server.drain(DRAIN_LIMIT);
                break;
            }
            Request::Stop => {
                tracing::info!("stopping");
                server.stop();
                break;
            }
        }
    }
    server.join();
    Ok(())
}

fn cell(
    launch: &Launch,
    budget: &Arc<MemoryBudget>,
    remote: Arc<OnceLock<Remote>>,
) -> Result<Arc<Cell>, Box<dyn Error>> {
    let settings = &launch.settings;
    let now = Clock::new().now();
    let workers = launch.workers();
    let threads = threads(settings);
    let config = EngineConfig {
        reserve_bytes: settings.memory.limit.saturating_mul(LIMIT_GROWTH),
        evict: settings.memory.evict,
        locals: if threads { workers * LOCALS_PER_CORE } else { workers } + SPARE_LOCALS,
        huge_pages: settings.memory.huge_pages,
        prefault: settings.memory.prefault,
        hash_seed: random(),
        version_seed: Some(random()),
        value_bytes_max: value_bytes_max(settings) as usize,
        ..EngineConfig::new(settings.memory.limit)
    };
    let users = launch.users.clone();
    let authenticate = users.map(|users| -> service::Authenticate {
        Box::new(move |claim| users.check(claim) == Claim::Accepted)
    });
    let limits =
        memcache::Limits { value_bytes_max: value_bytes_max(settings), ..Default::default() };
    let options = Options {
        version: VERSION.to_owned(),
        limits,
        allow_flush: settings.protocol.allow_flush_all,
        allow_shutdown: settings.protocol.allow_shutdown,
        allow_dump: settings.protocol.allow_dump,
        authenticate,
        connection_bytes_max: settings.memory.limit / CONNECTIONS_PART,
        keep_leases: !threads,
        settings: stats_settings(settings, &launch.reported, workers),
    };
    let host = Process {
        remote,
        logging: launch.logging.clone(),
        connections_max: settings.server.connections_max as u64,
        workers: workers as u64,
    };
    Ok(Cell::new(config, budget.clone(), options, Box::new(host), now)?)
}

fn start(
    launch: &Launch,
    budget: &Arc<MemoryBudget>,
    cell: &Arc<Cell>,
) -> Result<Server, Box<dyn Error>> {
    let server = &launch.settings.server;
    budget.share(Owner::Connections, 0, launch.settings.memory.limit / CONNECTIONS_PART);
    let bounds = Bounds { requests_per_turn: server.requests_per_turn, ..Bounds::default() };
    let config = Config {
        driver: driver::choose(server.driver),
        listen: listen(&launch.settings)?,
        workers: u16::try_from(launch.workers()).unwrap_or(u16::MAX),
        backlog: server.backlog,
        connections_max: u32::try_from(server.connections_max).unwrap_or(u32::MAX),
        reject_at_limit: server.maxconns_fast,
        idle_timeout_s: u32::try_from(server.idle_timeout_s).unwrap_or(u32::MAX),
        ..Config::new(Resources { bounds, budget: budget.clone() })
    };
    let cell = cell.clone();
    let server = Server::start(config, move |slot| {
        Service::new(cell.clone(), slot.worker == session::WorkerId(0))
    })?;
    Ok(server)
}

/// A number that nobody else can guess.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn threads(settings: &Settings) -> bool {
    settings.server.driver == Driver::Threads
}

fn value_bytes_max(settings: &Settings) -> u64 {
    settings.memory.item_bytes_max.saturating_sub(ITEM_OVERHEAD_BYTES)
}

/// Every address to listen on. Where a name stands for two, the system may know only IPv4.
fn listen(settings: &Settings) -> Result<Vec<Listen>, Box<dyn Error>> {
    let mut listen = Vec::new();
    for wanted in &settings.server.listen {
        let addresses =
            wanted.resolve().map_err(|error| format!("server.listen {wanted}: {error}"))?;
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
