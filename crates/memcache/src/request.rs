//! Requests, ready to be executed: every classic and meta command, borrowed from the input.
//!
//! Invariants: a request has passed every check that needs no item. Its keys have a legal length,
//! its numbers fit their types, and its value is complete.
//!
//! Times are as the client sent them; [`crate::expiry()`] says what they mean. Sizes are bytes.

use crate::key::{Key, KeyToken};
use crate::keys::Keys;
use crate::meta::MetaArgs;
use crate::text::Words;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request<'a> {
    /// `get`, `gets`: values of keys.
    Get {
        /// The keys.
        keys: Keys<'a>,
        /// Whether each value comes with its CAS token.
        with_cas: bool,
    },
    /// `gat`, `gats`: values of keys, which get a new expiry.
    Gat {
        /// The new expiry.
        exptime: i64,
        /// The keys.
        keys: Keys<'a>,
        /// Whether each value comes with its CAS token.
        with_cas: bool,
    },
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`.
    Store(Store<'a>),
    /// `delete`.
    Delete {
        /// The key.
        key: Key<'a>,
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// `incr`, `decr`.
    Arith {
        /// The key.
        key: Key<'a>,
        /// The amount to add or subtract.
        delta: u64,
        /// Up or down.
        direction: Direction,
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// `touch`: a new expiry for a key.
    Touch {
        /// The key.
        key: Key<'a>,
        /// The new expiry.
        exptime: i64,
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// `mg`.
    MetaGet(MetaArgs<'a>),
    /// `ms`.
    MetaSet {
        /// The key and the flags.
        args: MetaArgs<'a>,
        /// What to do with the value.
        mode: MetaMode,
        /// The value.
        value: &'a [u8],
    },
    /// `md`.
    MetaDelete(MetaArgs<'a>),
    /// `ma`.
    MetaArith {
        /// The key and the flags.
        args: MetaArgs<'a>,
        /// Up or down.
        direction: Direction,
    },
    /// `me`: all that is known about an item, for a person to read.
    MetaDebug(KeyToken<'a>),
    /// `mn`: answered with `MN`, after the replies to all earlier requests.
    MetaNoop,
    /// `stats`: the name of the report and its arguments; the general report if there is none.
    Stats(Words<'a>),
    /// `flush_all`.
    FlushAll {
        /// When, as an expiry time; now if absent, zero or negative.
        delay: Option<i64>,
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// `version`.
    Version,
    /// `verbosity`.
    Verbosity {
        /// How much to log.
        level: u32,
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// `quit`: close the connection without a reply.
    Quit,
    /// `cache_memlimit`.
    CacheMemlimit {
        /// The new size of the cache.
        mebibytes: u32,
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// `shutdown`.
    Shutdown {
        /// Whether the server waits until clients have finished.
        graceful: bool,
    },
    /// `lru_crawler`.
    LruCrawler(CrawlerCommand<'a>),
    /// `slabs`.
    Slabs {
        /// What to do.
        command: SlabsCommand,
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// `lru`.
    Lru {
        /// What to do.
        command: LruCommand,
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// `watch`: turn the connection into a stream of log lines: of those named, or of fetches.
    Watch(Words<'a>),
    /// `config get cluster`: the cells that a client may connect to, as ElastiCache answers that.
    ConfigCluster,
    /// `cellcycle`, in any case of letters: a command of CellCycle, for a cell of a ring.
    CellCycle(Words<'a>),
    /// `refresh_certs`: read the TLS certificates again. A server without TLS does not know it.
    RefreshCerts {
        /// Whether the client wants no reply.
        noreply: bool,
    },
}

impl<'a> Request<'a> {
    /// `get` of one key.
    #[inline]
    #[must_use]
    pub fn get(key: Key<'a>) -> Self {
        Self::Get { keys: Keys::one(key), with_cas: false }
    }
}

/// A classic storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// Which command.
    pub verb: StoreVerb,
    /// The key.
    pub key: Key<'a>,
    /// The client's own 32 bits, stored with the value. `append` and `prepend` ignore them.
    pub flags: u32,
    /// The expiry. `append` and `prepend` ignore it.
    pub exptime: i64,
    /// The value, without its line end.
    pub value: &'a [u8],
    /// Whether the client wants no reply.
    pub noreply: bool,
}

/// How a value is stored, and on what condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreVerb {
    /// Always.
    Set,
    /// If there is no item.
    Add,
    /// If there is an item.
    Replace,
    /// After the value of the item.
    Append,
    /// Before the value of the item.
    Prepend,
    /// If the item still has this version.
    Cas(u64),
}

/// The mode of `ms`, its flag `M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaMode {
    /// `S`, or no flag. With the flag `C` it compares versions.
    Set,
    /// `E`.
    Add,
    /// `A`. With the flag `N` a missing item is created.
    Append,
    /// `P`. With the flag `N` a missing item is created.
    Prepend,
    /// `R`. With the flag `C` it compares versions.
    Replace,
}

impl MetaMode {
    /// Whether the value is joined to the one that is there.
    #[must_use]
    pub fn joins(self) -> bool {
        matches!(self, Self::Append | Self::Prepend)
    }
}

/// Whether a number rises or falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Up, wrapping at 64 bits.
    Increment,
    /// Down, stopping at zero.
    Decrement,
}

/// The sub-commands of `lru_crawler`. `classes` is `all`, `hash` or numbers with commas between
/// them, as the client wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlerCommand<'a> {
    /// `enable`.
    Enable,
    /// `disable`.
    Disable,
    /// `sleep`: the pause between two items, at most a second.
    Sleep {
        /// The pause.
        pause_us: u32,
    },
    /// `tocrawl`: the most items per class and run.
    ToCrawl {
        /// The number; no limit if zero.
        items: u32,
    },
    /// `crawl`: look for expired items now.
    Crawl {
        /// The classes to search.
        classes: &'a [u8],
    },
    /// `metadump`: list every key with all that is known about its item.
    Metadump {
        /// The classes to list.
        classes: &'a [u8],
    },
    /// `mgdump`: list every key as an `mg` command.
    Mgdump {
        /// The classes to list.
        classes: &'a [u8],
    },
}

/// The sub-commands of `slabs`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SlabsCommand {
    /// `reassign`: move a page.
    Reassign {
        /// The class that gives it.
        source: i32,
        /// The class that gets it.
        target: i32,
    },
    /// `automove`: whether and how fast pages move on their own.
    Automove {
        /// 0 is off, 1 slow, 2 aggressive.
        level: u32,
    },
    /// `automove ratio`.
    AutomoveRatio(f64),
    /// `automove freeratio`.
    AutomoveFreeRatio(f64),
    /// `automove window`: the number of samples that a decision rests on.
    AutomoveWindow {
        /// The number, 3 to 1800.
        samples: u32,
    },
}

/// The sub-commands of `lru`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LruCommand {
    /// `tune`: shares and ages of the queues.
    Tune {
        /// Percent of memory for new items.
        hot_percent: u32,
        /// Percent of memory for items that were read again.
        warm_percent: u32,
        /// The age at which items leave the hot queue, as a part of the oldest cold item's age.
        hot_factor: f64,
        /// The same for the warm queue.
        warm_factor: f64,
    },
    /// `mode`: one queue, or several by age.
    Mode {
        /// Whether there are several.
        segmented: bool,
    },
    /// `temp_ttl`: items with less time to live than this get a queue of their own.
    TempTtl {
        /// The bound; off if absent.
        ttl_s: Option<u32>,
    },
}
