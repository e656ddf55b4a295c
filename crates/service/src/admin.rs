//! Commands about the cell instead of an item.
//!
//! What tunes memcached's slabs and queues is answered as memcached answers it and changes
//! nothing: there are no size classes and no crawler here to tune.

use crate::dump::wants_items;
use crate::meta::CLASS;
use crate::worker::Service;
use base::{Budget, Now};
use engine::NoSink;
use memcache::{CrawlerCommand, Expiry, Refusal, Request, SlabsCommand, expiry, reply};
use session::{Conn, Outcome, Reply};

/// Items that one `lru_crawler crawl` looks at.
const CRAWL_ITEMS_MAX: u32 = 100_000;

impl Service {
    #[cold]
    pub(crate) fn administrate(
        &mut self,
        now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Outcome {
        let (line, noreply) = match request {
            Request::Stats { args } => {
                self.stats(now, *args, reply.bytes_mut());
                return Outcome::Done;
            }
            Request::FlushAll { delay, noreply } => (self.flush_all(now, *delay), *noreply),
            Request::Version => {
                reply::version(reply.bytes_mut(), &self.cell.options.version);
                return Outcome::Done;
            }
            Request::Verbosity { level, noreply } => {
                self.cell.host.set_verbosity(*level);
                (reply::OK, *noreply)
            }
            Request::CacheMemlimit { mebibytes, noreply } => (self.limit(*mebibytes), *noreply),
            Request::Shutdown { graceful } => {
                if self.cell.options.allow_shutdown {
                    self.cell.host.shutdown(*graceful);
                    return Outcome::Close;
                }
                (reply::SHUTDOWN_DISABLED, false)
            }
            Request::LruCrawler(CrawlerCommand::Metadump { classes }) => {
                return self.metadump(now, conn, classes, reply);
            }
            Request::LruCrawler(CrawlerCommand::Mgdump { classes }) => {
                return self.mgdump(now, conn, classes, reply);
            }
            Request::LruCrawler(CrawlerCommand::Crawl { classes }) => {
                (self.crawl(now, classes), false)
            }
            Request::LruCrawler(_) => (reply::OK, false),
            Request::Slabs { command, noreply } => (slabs(*command), *noreply),
            Request::Lru { noreply, .. } => (reply::OK, *noreply),
            Request::Watch { .. } => (reply::WATCH_DISABLED, false),
            Request::RefreshCerts { noreply } => (Refusal::UnknownCommand.line(), *noreply),
            request => unreachable!("{request:?} is executed before this"),
        };
        if !noreply {
            reply.bytes_mut().extend_from_slice(line);
        }
        Outcome::Done
    }

    fn crawl(&mut self, now: Now, classes: &[u8]) -> &'static [u8] {
        match wants_items(classes) {
            None => return reply::BAD_CLASS,
            Some(false) => {}
            Some(true) => {
                let (engine, pin) = self.engine();
                engine.tend(pin, now, CRAWL_ITEMS_MAX, &mut NoSink);
            }
        }
        reply::OK
    }

    fn flush_all(&mut self, now: Now, delay: Option<i64>) -> &'static [u8] {
        if !self.cell.options.allow_flush {
            return reply::FLUSH_DISABLED;
        }
        self.counters.cmd_flush.add(1);
        let due_s = match expiry(delay.unwrap_or(0), now.expiry_s) {
            Expiry::At(second) => Some(second),
            Expiry::Never | Expiry::Expired => None,
        };
        self.cell.flush(due_s);
        reply::OK
    }

    fn limit(&mut self, mebibytes: u32) -> &'static [u8] {
        let bytes = u64::from(mebibytes) << 20;
        if bytes > self.cell.engine.reserve_bytes() {
            return b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";
        }
        self.cell.budget.resize(bytes);
        reply::OK
    }
}

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
