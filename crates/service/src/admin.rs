//! Commands about the cell instead of an item: statistics, flushing, dumps, administration.
//!
//! Commands that tune memcached's slabs and queues get memcached's reply and change nothing: there
//! are no size classes and no crawler here.

use crate::cell::LimitRefused;
use crate::dump::{METADUMP, MGDUMP, dump, wants_items};
use crate::facts::CLASS;
use crate::park::Park;
use crate::stats::stats;
use crate::worker::Worker;
use base::Now;
use memcache::{CrawlerCommand, Expiry, Refusal, Request, SlabsCommand, expiry, reply};
use session::{Conn, Outcome, Reply};

/// The reply to a `flush_all` for which the log had no space in time.
const LOG_FULL: &[u8] = b"SERVER_ERROR the log is full\r\n";

/// The most items that one `lru_crawler crawl` examines.
const CRAWL_ITEMS_MAX: u32 = 100_000;

/// Executes a command that is about no item.
#[cold]
pub(crate) fn administrate(
    worker: &mut Worker,
    now: Now,
    conn: &mut Conn,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Outcome {
    let (line, noreply) = match request {
        Request::Stats(args) => {
            stats(worker, now, *args, reply.bytes_mut());
            return Outcome::Done;
        }
        Request::FlushAll { delay, noreply } => match flush_all(worker, now, *delay) {
            Ok(line) => (line, *noreply),
            Err(Park) => return Outcome::Park,
        },
        Request::Version => {
            reply::version(reply.bytes_mut(), &worker.cell().options().version);
            return Outcome::Done;
        }
        Request::Verbosity { level, noreply } => {
            worker.cell().host().set_verbosity(*level);
            (reply::OK, *noreply)
        }
        Request::Shutdown { graceful } => {
            if worker.cell().options().allow_shutdown {
                worker.cell().host().shutdown(*graceful);
                return Outcome::Close;
            }
            (reply::SHUTDOWN_DISABLED, false)
        }
        Request::LruCrawler(CrawlerCommand::Metadump { classes }) => {
            return dump(worker, now, conn, &METADUMP, classes, reply);
        }
        Request::LruCrawler(CrawlerCommand::Mgdump { classes }) => {
            return dump(worker, now, conn, &MGDUMP, classes, reply);
        }
        Request::LruCrawler(CrawlerCommand::Crawl { classes }) => {
            (crawl(worker, now, classes), false)
        }
        Request::LruCrawler(_) => (reply::OK, false),
        Request::Slabs { command, noreply } => (slabs(*command), *noreply),
        Request::Lru { noreply, .. } => (reply::OK, *noreply),
        Request::Watch(_) => (reply::WATCH_DISABLED, false),
        // As memcached: there is no cluster.
        Request::ConfigCluster | Request::CellCycle(_) => (Refusal::UnknownCommand.line(), false),
        Request::RefreshCerts { noreply } => (Refusal::UnknownCommand.line(), *noreply),
        request => unreachable!("{request:?} is executed before this"),
    };
    if !noreply {
        reply.bytes_mut().extend_from_slice(line);
    }
    Outcome::Done
}

/// `lru_crawler crawl`: looks for expired items now.
fn crawl(worker: &mut Worker, now: Now, classes: &[u8]) -> &'static [u8] {
    match wants_items(classes) {
        None => return reply::BAD_CLASS,
        Some(false) => {}
        Some(true) => {
            worker.tend(now, CRAWL_ITEMS_MAX);
        }
    }
    reply::OK
}

fn flush_all(worker: &mut Worker, now: Now, delay: Option<i64>) -> Result<&'static [u8], Park> {
    if !worker.cell().options().allow_flush {
        return Ok(reply::FLUSH_DISABLED);
    }
    let flushed = match expiry(delay.unwrap_or(0), now.expiry_s) {
        Expiry::At(second) => worker.flush_later(second),
        Expiry::Never | Expiry::Expired => worker.flush(),
    };
    if flushed.is_err() {
        worker.parks()?;
        return Ok(LOG_FULL);
    }
    worker.counters().cmd_flush.add(1);
    Ok(reply::OK)
}

/// `cache_memlimit`: changes the limit on memory, within what the cell can work with and the
/// address space that is reserved.
pub(crate) fn limit(worker: &Worker, mebibytes: u32, noreply: bool, reply: &mut Reply) {
    let resized = worker.cell().resize(u64::from(mebibytes) << 20);
    if noreply {
        return;
    }
    let out = reply.bytes_mut();
    match resized {
        Ok(()) => out.extend_from_slice(reply::OK),
        Err(LimitRefused::TooLow { bytes_min }) => {
            let least = bytes_min.div_ceil(1 << 20);
            let line = format!("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than {least}m\r\n");
            out.extend_from_slice(line.as_bytes());
        }
        Err(LimitRefused::TooHigh { bytes_max }) => {
            let most = bytes_max >> 20;
            let line = format!("cannot set maxbytes to more than {most}m before a restart\r\n");
            out.extend_from_slice(b"MEMLIMIT_ADJUST_FAILED ");
            out.extend_from_slice(line.as_bytes());
        }
    }
}

/// `slabs`: the replies of a memcached that has one class and no spare page.
fn slabs(command: SlabsCommand) -> &'static [u8] {
    match command {
        SlabsCommand::Reassign { source, target } if source == target => {
            b"SAME src and dst class are identical\r\n"
        }
        SlabsCommand::Reassign { source, target } => {
            let only = CLASS.cast_signed();
            if (-1..=only).contains(&source) && target == only {
                b"NOSPARE source class has no spare pages\r\n"
            } else {
                b"BADCLASS invalid src or dst class id\r\n"
            }
        }
        _ => reply::OK,
    }
}
