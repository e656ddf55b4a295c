//! Requests as text again: one canonical form of each, for a cell that forwards it to another one.
//!
//! The other cell parses the text by the same rules, so it means there what it has meant here.
//! Words stand one space apart, and numbers have no leading zeroes. Words that the parser has
//! ignored are gone. Keys, flags of meta commands and opaques are as the client wrote them.
//!
//! The other cell takes every text if its limits are the same: a line that could be too long is not
//! longer than the one that the client sent. A request must come from the parser: a key that was
//! made by hand could hold a space or a line end, which is not escaped.

use crate::limits::LINE_BYTES_MAX;
use crate::meta::MetaArgs;
use crate::request::{
    CrawlerCommand, Direction, LruCommand, Request, SlabsCommand, Store, StoreVerb,
};
use crate::text::number;

/// Appends the canonical text of `request`.
pub fn write(request: &Request<'_>, out: &mut Vec<u8>) {
    match *request {
        Request::Get { keys, with_cas } => {
            let name = if with_cas { "gets" } else { "get" };
            Line::new(name, out).words(keys.words()).end();
        }
        Request::Gat { exptime, keys, with_cas } => {
            let name = if with_cas { "gats" } else { "gat" };
            Line::new(name, out).signed(exptime).words(keys.words()).end();
        }
        Request::Store(store) => write_store(&store, out),
        // Without a word after it, a key of this name would be taken for the wish.
        Request::Delete { key, noreply: false } if key.as_bytes() == NOREPLY => {
            Line::new("delete", out).word(NOREPLY).number(0).end();
        }
        Request::Delete { key, noreply } => {
            Line::new("delete", out).word(key.as_bytes()).noreply(noreply).end();
        }
        Request::Arith { key, delta, direction, noreply } => {
            let name = match direction {
                Direction::Increment => "incr",
                Direction::Decrement => "decr",
            };
            Line::new(name, out).word(key.as_bytes()).number(delta).noreply(noreply).end();
        }
        Request::Touch { key, exptime, noreply } => {
            Line::new("touch", out).word(key.as_bytes()).signed(exptime).noreply(noreply).end();
        }
        Request::MetaGet(args) => write_meta("mg", &args, out),
        Request::MetaSet { args, value, mode: _ } => {
            let line = Line::new("ms", out).word(args.key.token()).number(value.len() as u64);
            line.words(args.flags.words()).end();
            write_value(value, out);
        }
        Request::MetaDelete(args) => write_meta("md", &args, out),
        Request::MetaArith { args, direction: _ } => write_meta("ma", &args, out),
        Request::MetaDebug(key) => {
            let flag: Option<&[u8]> = key.is_binary().then_some(b"b");
            Line::new("me", out).word(key.token()).words(flag).end();
        }
        Request::MetaNoop => Line::new("mn", out).end(),
        ref other => write_operation(other, out),
    }
}

/// The last word of a request whose client wants no reply.
const NOREPLY: &[u8] = b"noreply";

fn write_store(store: &Store<'_>, out: &mut Vec<u8>) {
    let Store { verb, key, flags, exptime, value, noreply } = *store;
    let (name, unique) = match verb {
        StoreVerb::Set => ("set", None),
        StoreVerb::Add => ("add", None),
        StoreVerb::Replace => ("replace", None),
        StoreVerb::Append => ("append", None),
        StoreVerb::Prepend => ("prepend", None),
        StoreVerb::Cas(unique) => ("cas", Some(unique)),
    };
    let line = Line::new(name, out).word(key.as_bytes()).number(flags.into()).signed(exptime);
    let line = line.number(value.len() as u64);
    match unique {
        Some(unique) => line.number(unique),
        None => line,
    }
    .noreply(noreply)
    .end();
    write_value(value, out);
}

/// A meta command without a value. Its mode is one of its flags.
fn write_meta(name: &str, args: &MetaArgs<'_>, out: &mut Vec<u8>) {
    Line::new(name, out).word(args.key.token()).words(args.flags.words()).end();
}

fn write_value(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(value);
    out.extend_from_slice(LINE_END);
}

/// The commands about a whole cell.
fn write_operation(request: &Request<'_>, out: &mut Vec<u8>) {
    match *request {
        Request::Stats(words) => Line::new("stats", out).words(words).end(),
        Request::Watch(words) => Line::new("watch", out).words(words).end(),
        Request::FlushAll { delay, noreply } => {
            let line = Line::new("flush_all", out);
            match delay {
                Some(delay) => line.signed(delay),
                None => line,
            }
            .noreply(noreply)
            .end();
        }
        Request::Version => Line::new("version", out).end(),
        Request::Verbosity { level, noreply } => {
            Line::new("verbosity", out).number(level.into()).noreply(noreply).end();
        }
        Request::Quit => Line::new("quit", out).end(),
        Request::CacheMemlimit { mebibytes, noreply } => {
            Line::new("cache_memlimit", out).number(mebibytes.into()).noreply(noreply).end();
        }
        Request::Shutdown { graceful } => {
            let mode: Option<&[u8]> = graceful.then_some(b"graceful");
            Line::new("shutdown", out).words(mode).end();
        }
        Request::LruCrawler(command) => write_crawler(command, Line::new("lru_crawler", out)),
        Request::Slabs { command, noreply } => {
            write_slabs(command, Line::new("slabs", out)).noreply(noreply).end();
        }
        Request::Lru { command, noreply } => {
            write_lru(command, Line::new("lru", out)).noreply(noreply).end();
        }
        Request::ConfigCluster => Line::new("config get cluster", out).end(),
        Request::CellCycle(words) => Line::new("cellcycle", out).words(words).end(),
        Request::RefreshCerts { noreply } => {
            Line::new("refresh_certs", out).noreply(noreply).end();
        }
        Request::Get { .. }
        | Request::Gat { .. }
        | Request::Store(_)
        | Request::Delete { .. }
        | Request::Arith { .. }
        | Request::Touch { .. }
        | Request::MetaGet(_)
        | Request::MetaSet { .. }
        | Request::MetaDelete(_)
        | Request::MetaArith { .. }
        | Request::MetaDebug(_)
        | Request::MetaNoop => unreachable!("invariant: the caller has written these"),
    }
}

fn write_crawler(command: CrawlerCommand<'_>, line: Line<'_>) {
    match command {
        CrawlerCommand::Enable => line.word(b"enable"),
        CrawlerCommand::Disable => line.word(b"disable"),
        CrawlerCommand::Sleep { pause_us } => line.word(b"sleep").number(pause_us.into()),
        CrawlerCommand::ToCrawl { items } => line.word(b"tocrawl").number(items.into()),
        CrawlerCommand::Crawl { classes } => line.word(b"crawl").word(classes),
        CrawlerCommand::Metadump { classes } => line.word(b"metadump").word(classes),
        CrawlerCommand::Mgdump { classes } => line.word(b"mgdump").word(classes),
    }
    .end();
}

fn write_slabs(command: SlabsCommand, line: Line<'_>) -> Line<'_> {
    match command {
        SlabsCommand::Reassign { source, target } => {
            line.word(b"reassign").signed(source.into()).signed(target.into())
        }
        SlabsCommand::Automove { level } => line.word(b"automove").number(level.into()),
        SlabsCommand::AutomoveRatio(ratio) => line.word(b"automove").word(b"ratio").ratio(ratio),
        SlabsCommand::AutomoveFreeRatio(ratio) => {
            line.word(b"automove").word(b"freeratio").ratio(ratio)
        }
        SlabsCommand::AutomoveWindow { samples } => {
            line.word(b"automove").word(b"window").number(samples.into())
        }
    }
}

fn write_lru(command: LruCommand, line: Line<'_>) -> Line<'_> {
    match command {
        LruCommand::Tune { hot_percent, warm_percent, hot_factor, warm_factor } => {
            let line = line.word(b"tune").number(hot_percent.into()).number(warm_percent.into());
            line.ratio(hot_factor).ratio(warm_factor)
        }
        LruCommand::Mode { segmented: true } => line.word(b"mode").word(b"segmented"),
        LruCommand::Mode { segmented: false } => line.word(b"mode").word(b"flat"),
        LruCommand::TempTtl { ttl_s } => line.word(b"temp_ttl").signed(ttl_s.map_or(-1, i64::from)),
    }
}

/// The end of a value, and of nearly all lines.
const LINE_END: &[u8] = b"\r\n";

/// A line that is being written.
struct Line<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
}

impl<'o> Line<'o> {
    fn new(name: &str, out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(name.as_bytes());
        Self { out, start }
    }

    fn word(self, word: &[u8]) -> Self {
        self.out.push(b' ');
        self.out.extend_from_slice(word);
        self
    }

    fn words<'w>(self, words: impl IntoIterator<Item = &'w [u8]>) -> Self {
        words.into_iter().fold(self, Self::word)
    }

    fn number(self, number: u64) -> Self {
        self.out.push(b' ');
        number::push(self.out, number);
        self
    }

    fn signed(self, number: i64) -> Self {
        self.out.push(b' ');
        if number < 0 {
            self.out.push(b'-');
        }
        number::push(self.out, number.unsigned_abs());
        self
    }

    /// The shortest decimal fraction that is parsed to the same number.
    fn ratio(self, ratio: f64) -> Self {
        self.word(ratio.to_string().as_bytes())
    }

    fn noreply(self, noreply: bool) -> Self {
        self.words(noreply.then_some(NOREPLY))
    }

    /// Ends the line. Of those that are as long as a line may be, the client ended some with a lone
    /// `\n`: a `\r` more would be too much. A `\r` at the end of a key must keep one after it.
    fn end(self) {
        let text = &self.out[self.start..];
        let is_long = text.len() >= LINE_BYTES_MAX && !text.ends_with(b"\r");
        self.out.extend_from_slice(if is_long { b"\n" } else { LINE_END });
    }
}
