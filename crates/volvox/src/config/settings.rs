//! The settings as the rest of the program sees them: typed, ranged, complete.
//!
//! The names of sections and fields are the names in the TOML file, letter for letter; the table in
//! `keys.rs` fails to compile when they differ. A value in here has passed its range check;
//! relations between values are checked by [`super::load`].

use std::path::PathBuf;

use ring::{Durability, Reads};
use tier::{Ack, PrefixRule, Rules, RulesError};

use super::choice::{Driver, EffectLog, Level};
use super::database::Database;
use super::listen::Listen;
use super::prefix::KeyPrefix;

const MIB: u64 = 1 << 20;

/// Bytes of an item that are not its value, as memcached counts them for a short key.
pub(super) const ITEM_OVERHEAD_BYTES: u64 = 64;

/// Everything that can be set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// `[server]`: where clients connect and how they are served.
    pub server: ServerSettings,
    /// `[memory]`: the budget and how it is held.
    pub memory: MemorySettings,
    /// `[ring]`: the ring of cells that this one belongs to, if any.
    pub ring: RingSettings,
    /// `[tier]`: what lies below the memory, if anything does.
    pub tier: TierSettings,
    /// `[protocol]`: commands that an operator may switch on or off.
    pub protocol: ProtocolSettings,
    /// `[process]`: the process as the system sees it.
    pub process: ProcessSettings,
    /// `[log]`: what is written about the cell itself; of requests only `cache_memlimit` is logged.
    pub log: LogSettings,
}

/// Where clients connect and how they are served.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSettings {
    /// TCP addresses; empty for none.
    pub listen: Vec<Listen>,
    /// Path of a Unix socket.
    pub unix_socket: Option<PathBuf>,
    /// Permission bits of the Unix socket.
    pub unix_mode: u32,
    /// How bytes are moved.
    pub driver: Driver,
    /// Worker threads; 0 for one per core.
    pub workers: usize,
    /// Client connections served at once.
    pub connections_max: usize,
    /// Above `connections_max`: refuse at once (true) or let clients wait (false).
    pub maxconns_fast: bool,
    /// Seconds after which a connection is closed whose client neither sends nor receives; 0 for
    /// never.
    pub idle_timeout_s: u64,
    /// Seconds after which a connection is closed whose client receives nothing of its replies, or
    /// sends nothing more of a long request; 0 for never.
    pub stall_timeout_s: u64,
    /// Connections the kernel may hold before they are accepted.
    pub backlog: u32,
    /// Requests served for one connection before the next has its turn.
    pub requests_per_turn: u32,
    /// File of `user:password` lines; clients must authenticate when it is set.
    pub auth_file: Option<PathBuf>,
}

/// The budget and how it is held.
#[derive(Clone, Debug, PartialEq)]
pub struct MemorySettings {
    /// Bytes for everything: items, index, buffers.
    pub limit: u64,
    /// Bytes of the largest item, its key and header included.
    pub item_bytes_max: u64,
    /// When full: evict items (true) or answer with an error (false).
    pub evict: bool,
    /// Whether to keep a log of effects for tests and measurements.
    pub effect_log: EffectLog,
    /// Ask the kernel for huge pages.
    pub huge_pages: bool,
    /// Touch three quarters of the memory at start.
    pub prefault: bool,
    /// Lock all memory against swapping.
    pub lock: bool,
}

/// The ring of cells that this one belongs to, if any.
#[derive(Clone, Debug, PartialEq)]
pub struct RingSettings {
    /// The directory of the cell: its identity, and its part of what all cells agree on. Absent: it
    /// is in no ring.
    pub directory: Option<PathBuf>,
    /// The address for heartbeats and agreement, one.
    pub listen: Vec<Listen>,
    /// The address for requests and copies, one.
    pub links: Vec<Listen>,
    /// Addresses of [`RingSettings::listen`] of other cells, to join their ring.
    pub seeds: Vec<Listen>,
    /// The number of cells with which a new ring forms.
    pub cells: u32,
    /// Copies of everything in a new ring, the primary included.
    pub copies: u32,
    /// What an answer to a change waits for in a new ring.
    pub durability: Durability,
    /// What a read rests on in a new ring.
    pub reads: Reads,
    /// File with the secret that all cells of the ring share.
    pub secret_file: Option<PathBuf>,
    /// Seconds that it waits at most until others have taken what it has, after SIGTERM.
    pub drain_s: u64,
    /// How many milliseconds old an answer of a copy to a client of this cell may be. 0: copies
    /// answer only what asks for it.
    pub copy_reads_ms: u32,
    /// Copies answer only for keys that begin with one of these. Empty: for all.
    pub copy_reads_prefixes: Vec<KeyPrefix>,
    /// Copies answer only clients of these of [`ServerSettings::listen`]. Empty: of all.
    pub copy_reads_listen: Vec<Listen>,
}

/// What lies below the memory, if anything does.
#[derive(Clone, Debug, PartialEq)]
pub struct TierSettings {
    /// The directory of the journal and of the database below it. Absent: the cell has no tier.
    pub directory: Option<PathBuf>,
    /// What keeps what is written back.
    pub database: Database,
    /// The address of the service of a bucket; absent: the environment's, or the service's own.
    pub bucket_endpoint: Option<String>,
    /// The region of a bucket of S3; absent: the environment's.
    pub bucket_region: Option<String>,
    /// Longest that a request to a bucket may take, in seconds.
    pub bucket_timeout_s: u64,
    /// The longest page of a bucket, in bytes.
    pub page_bytes: u64,
    /// In a bucket, longer records are objects of their own, in bytes.
    pub apart_from: u64,
    /// How much the answer to a change promises.
    pub ack: Ack,
    /// The same for keys with these prefixes: the longest that fits decides.
    pub prefixes: Vec<PrefixRule>,
    /// Most bytes of the journal.
    pub journal: u64,
    /// Seconds that a change is durable before it is written back.
    pub age_s: u64,
    /// Whether a corrupt journal is passed over.
    pub salvage: bool,
    /// Whether a new journal takes over what another one has written below.
    pub adopt: bool,
    /// Whether a cell of a ring starts also where others have other levels.
    pub change_levels: bool,
    /// Whether the cell of a ring may have a tier, which is not finished.
    pub ring_preview: bool,
}

/// Commands that an operator may switch on or off.
#[derive(Clone, Debug, PartialEq)]
pub struct ProtocolSettings {
    /// `flush_all`.
    pub allow_flush_all: bool,
    /// `stats cachedump`, `lru_crawler metadump` and `mgdump`.
    pub allow_dump: bool,
    /// `shutdown`.
    pub allow_shutdown: bool,
    /// `stats tier policy`.
    pub allow_tier_policy: bool,
    /// `stats tier discard`.
    pub allow_tier_discard: bool,
}

/// The process as the system sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessSettings {
    /// User to become when started as root.
    pub user: Option<String>,
    /// File that holds the process id while the cell runs.
    pub pid_file: Option<PathBuf>,
    /// Run in the background, without a terminal.
    pub daemon: bool,
    /// Raise the limit on core files as far as the system allows.
    pub core_dumps: bool,
}

/// What is written about the cell itself.
#[derive(Clone, Debug, PartialEq)]
pub struct LogSettings {
    /// The least severe message that is written.
    pub level: Level,
    /// File to append to.
    pub file: Option<PathBuf>,
    /// Write to standard error.
    pub stderr: bool,
}

impl Settings {
    /// Whether the cell keeps a log of effects: a cell of a ring, or above a tier, does, and has no
    /// setting for it.
    #[must_use]
    pub fn keeps_effect_log(&self) -> bool {
        let has_readers = self.ring.directory.is_some() || self.tier.directory.is_some();
        has_readers || self.memory.effect_log != EffectLog::Off
    }
}

impl TierSettings {
    /// How much an answer promises, by the prefix of its key.
    ///
    /// # Errors
    /// When the prefixes are not clear.
    pub fn rules(&self) -> Result<Rules, RulesError> {
        Rules::new(self.ack, self.prefixes.clone())
    }
}

impl MemorySettings {
    /// Bytes of the largest value.
    #[must_use]
    pub fn value_bytes_max(&self) -> u64 {
        self.item_bytes_max.saturating_sub(ITEM_OVERHEAD_BYTES)
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen: vec![Listen::new(Some("127.0.0.1"), Listen::PORT_DEFAULT)],
            unix_socket: None,
            unix_mode: 0o700,
            driver: Driver::Auto,
            workers: 0,
            connections_max: 1024,
            maxconns_fast: true,
            idle_timeout_s: 0,
            stall_timeout_s: 120,
            backlog: 1024,
            requests_per_turn: 1024,
            auth_file: None,
        }
    }
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            limit: 64 * MIB,
            item_bytes_max: MIB,
            evict: true,
            effect_log: EffectLog::Off,
            huge_pages: false,
            prefault: false,
            lock: false,
        }
    }
}

impl Default for RingSettings {
    fn default() -> Self {
        Self {
            directory: None,
            listen: vec![Listen::new(Some("127.0.0.1"), Listen::PORT_DEFAULT + 1000)],
            links: vec![Listen::new(Some("127.0.0.1"), Listen::PORT_DEFAULT + 2000)],
            seeds: Vec::new(),
            cells: 3,
            copies: 2,
            durability: Durability::D1,
            reads: Reads::Lease,
            secret_file: None,
            drain_s: 20,
            copy_reads_ms: 0,
            copy_reads_prefixes: Vec::new(),
            copy_reads_listen: Vec::new(),
        }
    }
}

impl Default for TierSettings {
    fn default() -> Self {
        Self {
            directory: None,
            database: Database::Redb,
            bucket_endpoint: None,
            bucket_region: None,
            bucket_timeout_s: 10,
            page_bytes: MIB / 2,
            apart_from: MIB / 16,
            ack: Ack::Os,
            prefixes: Vec::new(),
            journal: 4096 * MIB,
            age_s: 5,
            salvage: false,
            adopt: false,
            change_levels: false,
            ring_preview: false,
        }
    }
}

impl Default for ProtocolSettings {
    fn default() -> Self {
        Self {
            allow_flush_all: true,
            allow_dump: true,
            allow_shutdown: false,
            allow_tier_policy: true,
            allow_tier_discard: false,
        }
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { level: Level::Info, file: None, stderr: true }
    }
}
