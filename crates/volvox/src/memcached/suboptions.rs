//! Every option of `-o` in memcached 1.6.45.
//!
//! A row: the name, what follows after `=`, what it is for, what it does here. The rules are those
//! of the table of flags.

use super::row::{Action, Argument, Flag, Special, Stat};

use Action::{Note, Pass, Refuse, RunPart, Set};
use Argument::{Decimal, Nothing, Number, Optional, Text, Word};

const INDEX: &str = "the index grows and shrinks by itself, one bucket at a time";
const NO_CLASSES: &str = "memory is cut into segments; each one holds items of all sizes";
const CHUNKS: &str = "a value that does not fit in half a segment is always kept in chunks";
const NO_LRU: &str = "eviction is S3-FIFO over segments; there are no LRU lists";
const EXPIRY: &str = "workers free segments whose items have all expired; there is no crawler";
const WATCH: &str = "there is no stream of log lines";
const BUDGET: &str = "connection buffers are part of the one memory budget, -m";
const DEAD: &str = "it changes nothing in memcached either";
const TIER: &str = "extstore has no counterpart; leave ext_* out, and see volvox serve --tier-dir";
const TLS: &str = "TLS is not built in; put a TLS proxy before the server";
const PROXY: &str = "there is no proxy mode; put memcached's own proxy before the server";
const SANDBOX: &str = "no filter of system calls is built in; confine the process from outside";
const U32_MAX: i64 = u32::MAX as i64;
const I32_MAX: i64 = i32::MAX as i64;

macro_rules! options {
    ($($name:literal $argument:expr => $about:literal, $action:expr;)*) => {
        &[$(Flag {
            short: None, name: $name, argument: $argument, about: $about, action: $action,
        }),*]
    };
}

/// Every option.
pub static SUBOPTIONS: &[Flag] = options! {
    "maxconns_fast" Nothing => "close new connections at once above the limit (default)",
        Set("server.maxconns_fast", "true");
    "no_maxconns_fast" Nothing => "let new connections wait above the limit",
        Set("server.maxconns_fast", "false");
    "idle_timeout" Number(0, I32_MAX) => "seconds after which silent connections are closed",
        Pass("server.idle_timeout_s");
    "track_sizes" Nothing => "count items per size for stats sizes",
        Note("items are not counted by size", Stat::None);
    "modern" Nothing => "options that will become the default: none in this release",
        Note(DEAD, Stat::None);
    "no_modern" Nothing => "defaults of memcached 1.4",
        RunPart(Special::NoModern, "of those defaults only no_maxconns_fast exists here");
    "hashpower" Number(12, 32) => "power of two of the first hash table",
        Note(INDEX, Stat::Given("hashpower_init", 1));
    "no_hashexpand" Nothing => "never grow the hash table", Note(INDEX, Stat::None);
    "hash_algorithm" Word(&["jenkins", "murmur3", "xxh3"]) => "hash of the table",
        Note("keys are hashed by CRC32 into slices, and by a keyed hash inside them",
            Stat::AsWritten("hash_algorithm"));
    "tail_repair_time" Number(10, I32_MAX) => "seconds after which a stuck item is freed",
        Note("there is no LRU tail where an item can get stuck",
            Stat::Given("tail_repair_time", 1));
    "slab_reassign" Nothing => "move pages between slab classes",
        Note(NO_CLASSES, Stat::Fixed(&[("slab_reassign", "yes")]));
    "no_slab_reassign" Nothing => "do not move pages between slab classes",
        Note(NO_CLASSES, Stat::Fixed(&[("slab_reassign", "no")]));
    "slab_automove" Optional(0, 2) => "how eagerly pages are moved",
        Note(NO_CLASSES, Stat::Given("slab_automove", 1));
    "no_slab_automove" Nothing => "do not move pages automatically",
        Note(NO_CLASSES, Stat::Fixed(&[("slab_automove", "0")]));
    "slab_automove_ratio" Decimal(0.0, 1.0) => "age ratio at which pages are moved",
        Note(NO_CLASSES, Stat::AsWritten("slab_automove_ratio"));
    "slab_automove_window" Number(3, 1800) => "seconds over which ages are compared",
        Note(NO_CLASSES, Stat::Given("slab_automove_window", 1));
    "slab_automove_freeratio" Decimal(0.0, 1.0) => "share of memory held free as a buffer",
        Note(NO_CLASSES, Stat::AsWritten("slab_automove_freeratio"));
    "slab_sizes" Text("list") => "sizes of the slab classes", Note(NO_CLASSES, Stat::None);
    "slab_chunk_max" Number(1, 1024) => "largest chunk in KiB",
        Note(CHUNKS, Stat::Given("slab_chunk_max", 1024));
    "no_chunked_items" Nothing => "store large items in one chunk",
        Note(CHUNKS, Stat::None);
    "lru_crawler" Nothing => "search for expired items in the background",
        Note(EXPIRY, Stat::Fixed(&[("lru_crawler", "yes")]));
    "no_lru_crawler" Nothing => "do not search for expired items",
        Note(EXPIRY, Stat::Fixed(&[("lru_crawler", "no")]));
    "lru_crawler_sleep" Number(0, 1_000_000) => "microseconds between crawled items",
        Note(EXPIRY, Stat::Given("lru_crawler_sleep", 1));
    "lru_crawler_tocrawl" Number(0, U32_MAX) => "items crawled per run",
        Note(EXPIRY, Stat::Given("lru_crawler_tocrawl", 1));
    "lru_maintainer" Nothing => "segmented LRU with its own thread",
        Note(NO_LRU, Stat::Fixed(&[("lru_maintainer_thread", "yes")]));
    "no_lru_maintainer" Nothing => "one plain LRU",
        Note(NO_LRU, Stat::Fixed(&[("lru_maintainer_thread", "no"), ("lru_segmented", "no")]));
    "hot_lru_pct" Number(1, 79) => "per cent of memory for the hot LRU",
        Note(NO_LRU, Stat::Given("hot_lru_pct", 1));
    "warm_lru_pct" Number(1, 79) => "per cent of memory for the warm LRU",
        Note(NO_LRU, Stat::Given("warm_lru_pct", 1));
    "hot_max_factor" Decimal(0.0, 1e9) => "age that moves an item out of the hot LRU",
        Note(NO_LRU, Stat::AsWritten("hot_max_factor"));
    "warm_max_factor" Decimal(0.0, 1e9) => "age that moves an item out of the warm LRU",
        Note(NO_LRU, Stat::AsWritten("warm_max_factor"));
    "temporary_ttl" Number(0, U32_MAX) => "lifetimes below this have an LRU of their own",
        Note("items of similar lifetime share segments; the limits are fixed",
            Stat::Given("temporary_ttl", 1));
    "watcher_logbuf_size" Number(1, U32_MAX) => "KiB of buffer per watcher",
        Note(WATCH, Stat::Given("watcher_logbuf_size", 1024));
    "worker_logbuf_size" Number(1, U32_MAX) => "KiB of watch buffer per worker",
        Note(WATCH, Stat::Given("worker_logbuf_size", 1024));
    "read_buf_mem_limit" Number(0, U32_MAX) => "MiB for buffers of connections",
        Note(BUDGET, Stat::Given("read_buf_mem_limit", 1 << 20));
    "resp_obj_mem_limit" Text("num") => "MiB for reply objects", Note(DEAD, Stat::None);
    "inline_ascii_resp" Nothing => "store a reply header with each item", Note(DEAD, Stat::None);
    "no_inline_ascii_resp" Nothing => "store no reply header", Note(DEAD, Stat::None);
    "drop_privileges" Nothing => "filter system calls after start", Refuse(SANDBOX);
    "no_drop_privileges" Nothing => "do not filter system calls", Note(SANDBOX, Stat::None);
    "relaxed_privileges" Nothing => "filter fewer system calls, for memcached's own tests",
        Note(SANDBOX, Stat::None);
    "sock_cookie_id" Number(0, U32_MAX) => "socket id for packet filters",
        Refuse("sockets carry no id here; filter by port or by cgroup");
    "ext_path" Text("file:size") => "file to store items in", Refuse(TIER);
    "ext_page_size" Text("num") => "MiB of a storage page", Refuse(TIER);
    "ext_wbuf_size" Text("num") => "MiB of a write buffer", Refuse(TIER);
    "ext_threads" Text("num") => "storage threads", Refuse(TIER);
    "ext_io_depth" Text("num") => "requests in flight per storage thread", Refuse(TIER);
    "ext_item_size" Text("num") => "store items larger than this", Refuse(TIER);
    "ext_item_age" Text("num") => "store items idle this long", Refuse(TIER);
    "ext_low_ttl" Text("num") => "items with less time to live are stored apart", Refuse(TIER);
    "ext_recache_rate" Text("num") => "one hit in N returns to memory", Refuse(TIER);
    "ext_compact_under" Text("num") => "free pages below which storage is compacted", Refuse(TIER);
    "ext_drop_under" Text("num") => "free pages below which cold items are dropped", Refuse(TIER);
    "ext_max_sleep" Text("num") => "longest pause of storage threads", Refuse(TIER);
    "ext_max_frag" Text("ratio") => "fill ratio below which pages are compacted", Refuse(TIER);
    "ext_drop_unread" Nothing => "drop unread items when compacting", Refuse(TIER);
    "proxy_config" Text("file") => "start as a proxy", Refuse(PROXY);
    "proxy_arg" Text("arg") => "argument of the proxy's script", Refuse(PROXY);
    "proxy_uring" Nothing => "io_uring for the proxy", Refuse(PROXY);
    "proxy_memprofile" Nothing => "profile of the proxy's script", Refuse(PROXY);
    "ssl_chain_cert" Text("file") => "certificate", Refuse(TLS);
    "ssl_key" Text("file") => "private key", Refuse(TLS);
    "ssl_verify_mode" Text("num") => "how peers are verified", Refuse(TLS);
    "ssl_keyformat" Text("num") => "format of the key", Refuse(TLS);
    "ssl_ciphers" Text("list") => "ciphers", Refuse(TLS);
    "ssl_ca_cert" Text("file") => "certificate authority", Refuse(TLS);
    "ssl_wbuf_size" Text("num") => "KiB of write buffer per connection", Refuse(TLS);
    "ssl_session_cache" Nothing => "sessions on the server", Refuse(TLS);
    "ssl_kernel_tls" Nothing => "TLS in the kernel", Refuse(TLS);
    "ssl_min_version" Text("num") => "lowest version", Refuse(TLS);
};
