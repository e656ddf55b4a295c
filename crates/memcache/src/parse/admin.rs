//! The commands of operators, and every line that is no command.
//!
//! Sub-commands must be spelled in full, where memcached accepts any beginning of them. Nothing
//! here has an effect: a request is only understood and its numbers are checked.

use crate::refusal::Refusal;
use crate::request::{CrawlerCommand, LruCommand, Request, SlabsCommand};
use crate::text::number::{parse_i32, parse_u32};
use crate::text::{Words, has_noreply};

/// A larger memory limit is taken for a number of bytes.
const MEMLIMIT_MEBIBYTES_MAX: u32 = 1_000_000_000;

/// The smallest memory limit that memcached accepts.
const MEMLIMIT_MEBIBYTES_MIN: u32 = 8;

/// The longest pause of the crawler: one second.
const CRAWLER_PAUSE_US_MAX: u32 = 1_000_000;

/// The most percent of memory for the hot and the warm queue together.
const LRU_SHARES_MAX: u32 = 80;

type Understood<'a> = Result<Request<'a>, Refusal<'a>>;

/// The request on the line `text`.
pub(super) fn parse(text: &[u8]) -> Understood<'_> {
    let mut words = Words::new(text);
    let command = words.next().unwrap_or_default();
    let noreply = has_noreply(text);
    match command {
        b"flush_all" => flush_all(words, noreply),
        b"verbosity" => {
            let level = words.next().and_then(parse_u32).ok_or(Refusal::BadFormat)?;
            Ok(Request::Verbosity { level, noreply })
        }
        b"cache_memlimit" => cache_memlimit(words, noreply),
        b"shutdown" => match (words.next(), words.next()) {
            (None, _) => Ok(Request::Shutdown { graceful: false }),
            (Some(b"graceful"), None) => Ok(Request::Shutdown { graceful: true }),
            _ => Err(Refusal::BadShutdownMode),
        },
        b"lru_crawler" => lru_crawler(words).map(Request::LruCrawler),
        b"slabs" => slabs(words).map(|command| Request::Slabs { command, noreply }),
        b"lru" => lru(words).map(|command| Request::Lru { command, noreply }),
        b"config" => match (words.next(), words.next(), words.next()) {
            (Some(b"get"), Some(b"cluster"), None) => Ok(Request::ConfigCluster),
            _ => Err(Refusal::UnknownCommand),
        },
        _ if command.eq_ignore_ascii_case(b"cellcycle") => Ok(Request::CellCycle(words)),
        b"refresh_certs" => Ok(Request::RefreshCerts { noreply }),
        _ if words.last().is_some_and(|word| word.starts_with(b"HTTP/")) => Err(Refusal::Http),
        _ => Err(Refusal::UnknownCommand),
    }
}

fn flush_all(mut words: Words<'_>, noreply: bool) -> Understood<'_> {
    let alone = words.count() == usize::from(noreply);
    let delay = match words.next() {
        Some(word) if !alone => Some(parse_i32(word).ok_or(Refusal::BadExptime)?),
        _ => None,
    };
    Ok(Request::FlushAll { delay, noreply })
}

fn cache_memlimit(mut words: Words<'_>, noreply: bool) -> Understood<'_> {
    let mebibytes = words.next().and_then(parse_u32).ok_or(Refusal::UnknownCommand)?;
    if mebibytes < MEMLIMIT_MEBIBYTES_MIN {
        return Err(Refusal::MemlimitTooSmall);
    }
    if mebibytes > MEMLIMIT_MEBIBYTES_MAX {
        return Err(Refusal::MemlimitTooLarge);
    }
    Ok(Request::CacheMemlimit { mebibytes, noreply })
}

fn lru_crawler(mut words: Words<'_>) -> Result<CrawlerCommand<'_>, Refusal<'_>> {
    let command = words.next().unwrap_or_default();
    let argument = words.next();
    if words.next().is_some() {
        return Err(Refusal::UnknownCommand);
    }
    let count = |word| parse_u32(word).ok_or(Refusal::BadFormat);
    match (command, argument) {
        (b"enable", None) => Ok(CrawlerCommand::Enable),
        (b"disable", None) => Ok(CrawlerCommand::Disable),
        (b"sleep", Some(word)) => match count(word)? {
            pause_us if pause_us <= CRAWLER_PAUSE_US_MAX => Ok(CrawlerCommand::Sleep { pause_us }),
            _ => Err(Refusal::SleepTooLong),
        },
        (b"tocrawl", Some(word)) => Ok(CrawlerCommand::ToCrawl { items: count(word)? }),
        (b"crawl", Some(classes)) => Ok(CrawlerCommand::Crawl { classes }),
        (b"metadump", Some(classes)) => Ok(CrawlerCommand::Metadump { classes }),
        (b"mgdump", Some(classes)) => Ok(CrawlerCommand::Mgdump { classes }),
        _ => Err(Refusal::UnknownCommand),
    }
}

fn slabs(mut words: Words<'_>) -> Result<SlabsCommand, Refusal<'_>> {
    match (words.next(), words.count()) {
        (Some(b"reassign"), 2) => {
            let class = |word| parse_i32(word).and_then(|class| i32::try_from(class).ok());
            match (words.next().and_then(class), words.next().and_then(class)) {
                (Some(source), Some(target)) => Ok(SlabsCommand::Reassign { source, target }),
                _ => Err(Refusal::BadFormat),
            }
        }
        (Some(b"automove"), 1..) => automove(words),
        _ => Err(Refusal::UnknownCommand),
    }
}

fn automove(mut words: Words<'_>) -> Result<SlabsCommand, Refusal<'_>> {
    let (what, argument) = (words.next().unwrap_or_default(), words.next());
    let ratio = || argument.and_then(parse_f64).ok_or(Refusal::UnknownCommand);
    match what {
        b"ratio" => ratio().map(SlabsCommand::AutomoveRatio),
        b"freeratio" => ratio().map(SlabsCommand::AutomoveFreeRatio),
        b"window" => match argument.and_then(parse_u32).ok_or(Refusal::BadFormat)? {
            samples @ 3..=1800 => Ok(SlabsCommand::AutomoveWindow { samples }),
            _ => Err(Refusal::BadWindow),
        },
        level => match parse_u32(level).ok_or(Refusal::BadFormat)? {
            level @ 0..=2 => Ok(SlabsCommand::Automove { level }),
            _ => Err(Refusal::UnknownCommand),
        },
    }
}

fn lru(mut words: Words<'_>) -> Result<LruCommand, Refusal<'_>> {
    let command = words.next().unwrap_or_default();
    match (command, words.next()) {
        (b"tune", Some(hot)) => lru_tune(hot, words),
        (b"mode", Some(b"flat")) => Ok(LruCommand::Mode { segmented: false }),
        (b"mode", Some(b"segmented")) => Ok(LruCommand::Mode { segmented: true }),
        (b"temp_ttl", Some(word)) => {
            let ttl_s = parse_i32(word).ok_or(Refusal::UnknownCommand)?;
            Ok(LruCommand::TempTtl { ttl_s: u32::try_from(ttl_s).ok() })
        }
        _ => Err(Refusal::UnknownCommand),
    }
}

fn lru_tune<'a>(hot: &[u8], mut words: Words<'a>) -> Result<LruCommand, Refusal<'a>> {
    let mut word = || words.next();
    let (Some(hot_percent), Some(warm_percent), Some(hot_factor), Some(warm_factor)) = (
        parse_u32(hot),
        word().and_then(parse_u32),
        word().and_then(parse_f64),
        word().and_then(parse_f64),
    ) else {
        return Err(Refusal::UnknownCommand);
    };
    if hot_percent.saturating_add(warm_percent) > LRU_SHARES_MAX {
        return Err(Refusal::LruSharesTooLarge);
    }
    if hot_factor <= 0.0 || warm_factor <= 0.0 {
        return Err(Refusal::BadLruFactor);
    }
    Ok(LruCommand::Tune { hot_percent, warm_percent, hot_factor, warm_factor })
}

/// A finite decimal fraction.
fn parse_f64(word: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}
