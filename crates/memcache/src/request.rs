//! Requests as they are carried out: every classic and meta command, borrowed from the input.
//!
//! What stands here has passed all checks that need no item: keys fit, numbers are numbers, the
//! value is whole. Times are as the client sent them; [`crate::expiry()`] gives them their meaning.

use crate::key::{Key, KeyToken, Keys};
use crate::meta::MetaFlags;
use crate::words::Words;

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
    /// `gat`, `gats`: values of keys, whose expiry is set on the way.
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
        /// Whether the reply is unwanted.
        noreply: bool,
    },
    /// `incr`, `decr`.
    Arith {
        /// The key.
        key: Key<'a>,
        /// By how much.
        delta: u64,
        /// Up or down.
        direction: Direction,
        /// Whether the reply is unwanted.
        noreply: bool,
    },
    /// `touch`: a new expiry for a key.
    Touch {
        /// The key.
        key: Key<'a>,
        /// The new expiry.
        exptime: i64,
        /// Whether the reply is unwanted.
        noreply: bool,
    },
    /// `mg`.
    MetaGet {
        /// The key.
        key: KeyToken<'a>,
        /// The flags.
        flags: MetaFlags<'a>,
    },
    /// `ms`.
    MetaSet {
        /// The key.
        key: KeyToken<'a>,
        /// What to do with the value.
        mode: MetaMode,
        /// The flags.
        flags: MetaFlags<'a>,
        /// The value.
        value: &'a [u8],
    },
    /// `md`.
    MetaDelete {
        /// The key.
        key: KeyToken<'a>,
        /// The flags.
        flags: MetaFlags<'a>,
    },
    /// `ma`.
    MetaArith {
        /// The key.
        key: KeyToken<'a>,
        /// Up or down.
        direction: Direction,
        /// The flags.
        flags: MetaFlags<'a>,
    },
    /// `me`: what is known about an item, for people.
    MetaDebug {
        /// The key.
        key: KeyToken<'a>,
    },
    /// `mn`: answered with `MN`, after everything before it.
    MetaNoop,
    /// `stats`.
    Stats {
        /// Which ones.
        args: Words<'a>,
    },
    /// `flush_all`.
    FlushAll {
        /// When, as an expiry time; now when absent, zero or negative.
        delay: Option<i64>,
        /// Whether the reply is unwanted.
        noreply: bool,
    },
    /// `version`.
    Version,
    /// `verbosity`.
    Verbosity {
        /// How much to log.
        level: u32,
        /// Whether the reply is unwanted.
        noreply: bool,
    },
    /// `quit`: close without a word.
    Quit,
    /// `cache_memlimit`.
    CacheMemlimit {
        /// The new size of the cache.
        mebibytes: u32,
        /// Whether the reply is unwanted.
        noreply: bool,
    },
    /// `shutdown`.
    Shutdown {
        /// Whether clients may finish first.
        graceful: bool,
    },
    /// `lru_crawler`.
    LruCrawler(CrawlerCommand<'a>),
    /// `slabs`.
    Slabs {
        /// What to do.
        command: SlabsCommand,
        /// Whether the reply is unwanted.
        noreply: bool,
    },
    /// `lru`.
    Lru {
        /// What to do.
        command: LruCommand,
        /// Whether the reply is unwanted.
        noreply: bool,
    },
    /// `watch`: turn the connection into a log.
    Watch {
        /// What to log; fetches when empty.
        args: Words<'a>,
    },
    /// `refresh_certs`: read the TLS certificates again. Unknown to a server without TLS.
    RefreshCerts {
        /// Whether the reply is unwanted.
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
    /// Which one.
    pub verb: StoreVerb,
    /// The key.
    pub key: Key<'a>,
    /// The client's own 32 bits, kept beside the value. Unused by `append` and `prepend`.
    pub flags: u32,
    /// The expiry. Unused by `append` and `prepend`.
    pub exptime: i64,
    /// The value, without its line end.
    pub value: &'a [u8],
    /// Whether the reply is unwanted.
    pub noreply: bool,
}

/// On what condition a value is stored, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreVerb {
    /// Always.
    Set,
    /// If the key is not there.
    Add,
    /// If the key is there.
    Replace,
    /// Behind the value that is there.
    Append,
    /// Before the value that is there.
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
    /// `A`. With the flag `N` a missing item is made.
    Append,
    /// `P`. With the flag `N` a missing item is made.
    Prepend,
    /// `R`. With the flag `C` it compares versions.
    Replace,
}

/// Which way a number moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Up, wrapping at 64 bits.
    Increment,
    /// Down, stopping at zero.
    Decrement,
}

/// `lru_crawler`: `classes` is `all`, `hash` or numbers with commas, as the client wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlerCommand<'a> {
    /// `enable`.
    Enable,
    /// `disable`.
    Disable,
    /// `sleep`: how long between items, at most a second.
    Sleep {
        /// The pause.
        pause_us: u32,
    },
    /// `tocrawl`: how many items per class and run.
    ToCrawl {
        /// The number; no limit when zero.
        items: u32,
    },
    /// `crawl`: look for expired items now.
    Crawl {
        /// Where.
        classes: &'a [u8],
    },
    /// `metadump`: list every key with what is known about it.
    Metadump {
        /// Where.
        classes: &'a [u8],
    },
    /// `mgdump`: list every key as an `mg` command.
    Mgdump {
        /// Where.
        classes: &'a [u8],
    },
}

/// `slabs`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SlabsCommand {
    /// `reassign`: move a page.
    Reassign {
        /// The class that gives it.
        source: i32,
        /// The class that gets it.
        target: i32,
    },
    /// `automove`: 0 off, 1 slow, 2 aggressive.
    Automove {
        /// How eagerly.
        level: u32,
    },
    /// `automove ratio`.
    AutomoveRatio(f64),
    /// `automove freeratio`.
    AutomoveFreeRatio(f64),
    /// `automove window`: over how many samples it judges.
    AutomoveWindow {
        /// The number, 3 to 1800.
        samples: u32,
    },
}

/// `lru`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LruCommand {
    /// `tune`: shares and ages of the queues.
    Tune {
        /// Percent of memory for new items.
        hot_percent: u32,
        /// Percent of memory for items read since.
        warm_percent: u32,
        /// Age of hot items against cold ones.
        hot_factor: f64,
        /// Age of warm items against cold ones.
        warm_factor: f64,
    },
    /// `mode`: one queue or three.
    Mode {
        /// Whether three.
        segmented: bool,
    },
    /// `temp_ttl`: items that live shorter than this stay out of the queues.
    TempTtl {
        /// The bound; off when absent.
        ttl_s: Option<u32>,
    },
}
