//! The table of settings: one row each, read by every source and every printer.
//!
//! A row: `section.name`, the flag, unit and range, the meaning. The path of the field is also its
//! name in the file and in the environment. A value in range fits the type of its field. Sizes are
//! in bytes.

use super::field::{Field, Rule, Unit};
use super::settings::Settings;

/// One setting.
pub struct Key {
    /// Section of the file.
    pub section: &'static str,
    /// Name within the section.
    pub name: &'static str,
    /// Long flag of `volvox serve`, without its dashes.
    pub flag: &'static str,
    /// Unit and range.
    pub rule: Rule,
    /// What it means, for people.
    pub about: &'static str,
    /// The field, to read.
    pub get: fn(&Settings) -> &dyn Field,
    /// The field, to change.
    pub get_mut: fn(&mut Settings) -> &mut dyn Field,
}

impl Key {
    /// `section.name`, as messages call it.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// Its variable in the environment.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("VOLVOX_{}_{}", self.section, self.name).to_ascii_uppercase()
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// For what is no number.
const ANY: Rule = Rule { unit: Unit::None, range: 0..=u64::MAX };

/// Seconds, of which 0 means for ever.
const TIMEOUT: Rule = Rule { unit: Unit::Seconds, range: 0..=(1 << 31) - 1 };

const fn count(min: u64, max: u64) -> Rule {
    Rule { unit: Unit::Count, range: min..=max }
}

macro_rules! keys {
    ($($section:ident.$name:ident $flag:literal $rule:expr => $about:literal;)*) => {
        &[$(Key {
            section: stringify!($section),
            name: stringify!($name),
            flag: $flag,
            rule: $rule,
            about: $about,
            get: |settings| &settings.$section.$name,
            get_mut: |settings| &mut settings.$section.$name,
        }),*]
    };
}

/// Every setting, section by section, in the order of the file.
pub static KEYS: &[Key] = keys! {
    server.listen "listen" ANY =>
        "TCP addresses to listen on, each host:port. * is every interface, IPv4 and IPv6; with \
         port 0 the system chooses one; an empty list means no TCP. The default is reachable from \
         this machine only (volvox memcached: from every interface, as memcached is).";
    server.unix_socket "unix-socket" ANY =>
        "Path of a Unix socket to listen on, beside TCP; empty for none. A socket left behind by \
         a dead process is replaced; any other file at that path is an error.";
    server.unix_mode "unix-mode" Rule { unit: Unit::Octal, range: 0..=0o777 } =>
        "Permission bits of the Unix socket, in octal.";
    server.driver "driver" ANY =>
        "How bytes are moved. epoll: workers, each with its own event loop. signal: the same, \
         notified by real-time signals. uring: the same, io_uring receives and sends; epoll \
         serves where the system refuses io_uring. threads: one blocking thread for each client. \
         auto: epoll, which runs on every Linux.";
    server.workers "workers" count(0, 1024) =>
        "Worker threads of an event-driven driver; 0 means one per core (volvox memcached: 4).";
    server.connections_max "connections-max" count(1, 10_000_000) =>
        "Client connections served at once. The limit on open files is raised to match.";
    server.maxconns_fast "maxconns-fast" ANY =>
        "Above connections_max, answer with an error and close (true), or leave new clients \
         waiting in the backlog (false).";
    server.idle_timeout_s "idle-timeout-s" TIMEOUT =>
        "Seconds after which a connection is closed whose client neither sends nor receives; 0 \
         means never.";
    server.stall_timeout_s "stall-timeout-s" TIMEOUT =>
        "Seconds after which a connection is closed whose client receives nothing of its replies, \
         or sends nothing more of a request above 2 KiB that it has begun: both take memory \
         meanwhile. 0 means never.";
    server.backlog "backlog" count(1, 1 << 20) =>
        "Connections that the kernel may hold until they are accepted.";
    server.requests_per_turn "requests-per-turn" count(1, 1 << 30) =>
        "Requests served for one connection before the next one has its turn.";
    server.auth_file "auth-file" ANY =>
        "File of user:password lines (at most 8). When set, a client must authenticate first, by \
         a set whose value is \"user password\". Read again on SIGHUP.";
    memory.limit "memory-limit" Rule { unit: Unit::Mebibytes, range: MIB..=4 * TIB } =>
        "The whole memory budget: items, index, buffers and connections. A bare number counts \
         MiB.";
    memory.item_bytes_max "item-bytes-max" Rule { unit: Unit::Bytes, range: 1024..=GIB } =>
        "Bytes of the largest value, and 64 more for a header and a short key; at most half of the \
         memory limit. With effect_log, in a ring and above a tier, a value fits in half of a log, \
         at most 1.3 percent of the memory limit: a larger size is an error, and the default is \
         lowered.";
    memory.evict "evict" ANY =>
        "When memory is full, evict items (true), or answer with an error (false).";
    memory.effect_log "effect-log" ANY =>
        "For tests and measurements: keep a log of all changes, out of the memory limit, which the \
         workers themselves read. off, on, or gated: replies wait until the log has passed what \
         they show.";
    memory.huge_pages "huge-pages" ANY =>
        "Ask the kernel for huge pages: fewer TLB misses, memory committed in larger steps.";
    memory.prefault "prefault" ANY =>
        "Touch three quarters of the memory at start instead of when it is first used. The rest is \
         for the index and for connections.";
    memory.lock "lock-memory" ANY =>
        "Lock all memory against swapping; needs a high enough limit on locked memory.";
    ring.directory "ring-directory" ANY =>
        "Directory of the cell in a ring: who it is, and its part of what all cells agree on. \
         Never give it to two cells. Empty: the cell is in no ring.";
    ring.listen "ring-listen" ANY =>
        "Address for heartbeats and agreement between cells, one host:port that other cells reach. \
         Peers prove that they know the secret of the ring; what they send is not encrypted.";
    ring.links "ring-links" ANY =>
        "Address for requests and copies between cells, likewise.";
    ring.seeds "ring-seeds" ANY =>
        "Where a new cell asks to join: ring.listen of some cells of the ring. Empty: a new cell \
         founds a ring, if it states ring.cells where it runs as volvox join.";
    ring.cells "ring-cells" count(1, 1024) =>
        "The number of cells with which a new ring forms; later cells are spares.";
    ring.copies "ring-copies" count(1, 3) =>
        "Copies of everything in a new ring, the primary included, each in another cell.";
    ring.durability "ring-durability" ANY =>
        "What an answer to a change waits for in a new ring: d0, nothing; d1, every copy in sync; \
         d2, the same, and changes are refused while there is one copy. Meta requests choose by \
         their flag P.";
    ring.reads "ring-reads" ANY =>
        "What a read rests on in a new ring: lease, that every copy grants the primary a lease; \
         fence, asking every copy after the read, which relies on no clock.";
    ring.secret_file "ring-secret-file" ANY =>
        "File with the secret of the ring, 16 bytes at least, the same for all cells. Keep it \
         readable by its user alone.";
    ring.drain_s "ring-drain-s" Rule { unit: Unit::Seconds, range: 0..=3_600 } =>
        "Longest that a cell waits after SIGTERM until others have taken all that it has. 0: it \
         ends at once, and the others find that out.";
    ring.copy_reads_ms "ring-copy-reads-ms" count(0, service::AGE_MS_MAX as u64) =>
        "How many milliseconds old an answer to a get of a client of this cell may be: then a copy \
         may give it where requests wait at the primary. Below 100 copies can often not. 0: \
         only the primary answers, but for meta requests that choose by their flag L.";
    ring.copy_reads_prefixes "ring-copy-reads-prefixes" ANY =>
        "Copies answer only for keys that begin with one of these. Empty: for all keys.";
    ring.copy_reads_listen "ring-copy-reads-listen" ANY =>
        "Copies answer only clients that connect to these of the addresses in server.listen. \
         Empty: all clients.";
    tier.directory "tier-dir" ANY =>
        "Directory of a journal and of a database below the memory: what is stored outlives the \
         process and the memory. Each cell has one of its own. Empty: the cell has no tier.";
    tier.database "tier-database" ANY =>
        "What keeps what is written back. redb: one file in the directory of the tier. files: a \
         file for each key there, which other programs can read. s3://BUCKET/ROOT and \
         gs://BUCKET/ROOT: pages of keys in a bucket (a binary with the features s3 and gcs). \
         file:DIRECTORY: the same in a directory. Only the cells of one ring may share one.";
    tier.bucket_endpoint "tier-bucket-endpoint" ANY =>
        "Address of the service of the bucket, http://HOST:PORT or https://HOST. Empty: that in \
         AWS_ENDPOINT_URL or STORAGE_EMULATOR_HOST, or the service's own. Credentials come from \
         the environment, as for the tools of the services.";
    tier.bucket_region "tier-bucket-region" ANY =>
        "Region of a bucket of S3. Empty: that in AWS_REGION or AWS_DEFAULT_REGION.";
    tier.bucket_timeout_s "tier-bucket-timeout-s" Rule { unit: Unit::Seconds, range: 1..=300 } =>
        "Seconds that a request to the bucket may take.";
    tier.page_bytes "tier-page-bytes" Rule { unit: Unit::Bytes, range: 16 * KIB..=4 * MIB } =>
        "The longest page of a bucket: all keys of a page are written for one that changes.";
    tier.apart_from "tier-apart-from" Rule { unit: Unit::Bytes, range: 0..=MIB } =>
        "In a bucket, a longer value is an object of its own, and not part of a page.";
    tier.ack "tier-ack" ANY =>
        "What the answer to a change promises. memory: the cell has it, and it is in the journal \
         soon. os: it survives the end of the process; a power cut may take the last second. disk: \
         it survives a power cut. backend: it is in the database too, which costs a sync of each.";
    tier.prefixes "tier-prefixes" ANY =>
        "The same for keys with a prefix, as a list of PREFIX=LEVEL, at most 64: the longest \
         prefix that fits decides, and tier.ack where none does. The level none: such keys are in \
         memory alone, as without a tier. The level around: as backend, and what was stored leaves \
         memory once the database has it; the next read loads it. In a ring all answers wait as \
         those at the highest level do.";
    tier.journal "tier-journal" Rule { unit: Unit::Bytes, range: 19 * MIB..=TIB } =>
        "Most bytes of the journal, which holds what is not in the database yet. Changes wait when \
         it is full. For each log it needs 19 MiB and 32 of the longest items. By default at most \
         a tenth of the disk.";
    tier.age_s "tier-age-s" Rule { unit: Unit::Seconds, range: 0..=86_400 } =>
        "Seconds that a change is in the journal, durably, before it is written to the database: a \
         key that changes again meanwhile is written once. By default 5, and 30 above a bucket.";
    tier.salvage "tier-salvage" ANY =>
        "For one start, where the journal is corrupt: bring what can be read of it into the \
         database, list what is lost, and begin a new journal. Older values may come back.";
    tier.adopt "tier-adopt" ANY =>
        "For one start, where the journal is lost: a new one takes over the database or the bucket \
         that the lost one has written. What was not written back is gone. The lost journal is \
         refused from then on, and a cell that still runs above the bucket writes nothing more.";
    tier.change_levels "tier-change-levels" ANY =>
        "For one start of each cell of a ring, one after the other, with which all get another \
         tier.ack or other tier.prefixes: the cell starts also where others have theirs still. \
         Until the last one has started so, answers promise the lower of both.";
    tier.ring_preview "tier-ring-preview" ANY =>
        "A preview: puts the cells of a ring above a bucket that they share. What is not finished \
         is listed in decision 0016.";
    protocol.allow_flush_all "allow-flush-all" ANY => "Serve flush_all.";
    protocol.allow_dump "allow-dump" ANY =>
        "Serve the commands that list keys: stats cachedump, lru_crawler metadump and mgdump.";
    protocol.allow_shutdown "allow-shutdown" ANY => "Serve shutdown, which stops the cell.";
    protocol.allow_tier_policy "allow-tier-policy" ANY =>
        "Serve stats tier policy, which changes what answers above a tier promise.";
    protocol.allow_tier_discard "allow-tier-discard" ANY =>
        "Serve stats tier discard, which gives up changes that a tier has not written back: their \
         keys have older values then, or none.";
    process.user "user" ANY =>
        "User to become when started as root; empty to stay root (volvox memcached stays root only \
         with -u root).";
    process.pid_file "pid-file" ANY =>
        "File that holds the process id while the cell runs; empty for none.";
    process.daemon "daemon" ANY =>
        "Run in the background, without a terminal; the command returns once the cell listens.";
    process.core_dumps "core-dumps" ANY =>
        "Raise the limit on core files as far as the system allows; fail if none can be written.";
    log.level "log-level" ANY =>
        "The least severe message that is logged: error, warn, info, debug or trace. Of \
         requests only cache_memlimit is logged; debug and trace add nothing to info in this \
         version.";
    log.file "log-file" ANY =>
        "File to append the log to; empty for none. Opened again on SIGHUP.";
    log.stderr "log-stderr" ANY => "Log to standard error.";
};

/// The row of `section.name`.
#[must_use]
pub fn key_index(path: &str) -> Option<usize> {
    KEYS.iter().position(|key| key.path() == path)
}

/// The setting whose path, or bare name, is most like `written`.
#[must_use]
pub fn nearest_key(written: &str) -> &'static Key {
    let likeness = |key: &Key| {
        let path = strsim::normalized_damerau_levenshtein(written, &key.path());
        let tail = written.rsplit_once('.').map_or(written, |(_, tail)| tail);
        path.max(strsim::normalized_damerau_levenshtein(tail, key.name))
    };
    KEYS.iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .expect("invariant: the table has rows")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_flags_and_variables_are_unique() {
        let distinct = |names: Vec<String>| names.into_iter().collect::<HashSet<_>>().len();
        assert_eq!(distinct(KEYS.iter().map(Key::path).collect()), KEYS.len());
        assert_eq!(distinct(KEYS.iter().map(Key::variable).collect()), KEYS.len());
        assert_eq!(distinct(KEYS.iter().map(|k| k.flag.to_owned()).collect()), KEYS.len());
    }

    #[test]
    fn what_a_field_shows_it_reads() {
        let mut settings = Settings::default();
        for key in KEYS {
            let shown = (key.get)(&settings).show(&key.rule);
            let read = (key.get_mut)(&mut settings).read(&shown, &key.rule);
            assert_eq!(read, Ok(()), "{}", key.path());
        }
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn the_nearest_key_is_found() {
        let cases = [
            ("server.worker", "server.workers"),
            ("workers", "server.workers"),
            ("memory.limits", "memory.limit"),
            ("log.levle", "log.level"),
            ("server.idle_timeout", "server.idle_timeout_s"),
        ];
        for (written, nearest) in cases {
            assert_eq!(nearest_key(written).path(), nearest, "{written}");
        }
    }
}
