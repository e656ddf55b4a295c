//! `stats`: what memcached's exporters read, from counters that are summed when asked for.
//!
//! There is one class of sizes, numbered 1, so that `items` and `slabs` parse; what has no
//! counterpart is left out or constant, and docs/stats.md says which.

use crate::cell::Baseline;
use crate::worker::Service;
use base::{Now, Owner};
use memcache::{Words, reply};
use std::fmt::Display;

/// Microseconds of a second, for times in `seconds.micros`.
const MICROS: u64 = 1_000_000;

impl Service {
    pub(crate) fn stats(&mut self, now: Now, mut args: Words<'_>, out: &mut Vec<u8>) {
        match args.next() {
            None => self.general(now, out),
            Some(b"settings") => {
                for (name, value) in &self.cell.options.settings {
                    reply::stat(out, name, value);
                }
            }
            Some(b"items") => self.items(out),
            Some(b"slabs") => self.slabs(out),
            Some(b"conns") => self.conns(out),
            Some(b"sizes") => reply::stat(out, "sizes_status", "disabled"),
            Some(b"reset") => {
                self.cell.reset();
                out.extend_from_slice(reply::RESET);
                return;
            }
            Some(b"cachedump") => {
                out.extend_from_slice(b"CLIENT_ERROR stats cachedump not allowed\r\n");
                return;
            }
            Some(b"detail") => {
                out.extend_from_slice(b"CLIENT_ERROR stats detail is not kept\r\n");
                return;
            }
            Some(_) => {
                out.extend_from_slice(b"ERROR\r\n");
                return;
            }
        }
        out.extend_from_slice(reply::END);
    }

    fn general(&self, now: Now, out: &mut Vec<u8>) {
        let base = self.cell.baseline();
        self.process(now, &base, out);
        self.requests(&base, out);
        self.memory(&base, out);
    }

    fn process(&self, now: Now, base: &Baseline, out: &mut Vec<u8>) {
        let host = &self.cell.host;
        let (connections, rusage) = (host.connections(), host.rusage());
        let mut stat = |name: &str, value: &dyn Display| reply::stat(out, name, value);
        stat("pid", &std::process::id());
        stat("uptime", &now.expiry_s.saturating_sub(self.cell.started_s));
        stat("time", &now.expiry_s);
        stat("version", &self.cell.options.version);
        stat("pointer_size", &usize::BITS);
        stat("rusage_user", &seconds(rusage.user_us));
        stat("rusage_system", &seconds(rusage.system_us));
        stat("max_connections", &connections.max);
        stat("curr_connections", &connections.open);
        let was = base.connections;
        stat("total_connections", &(connections.accepted - was.accepted));
        stat("rejected_connections", &(connections.rejected - was.rejected));
        stat("connection_structures", &connections.open);
        stat("bytes_read", &(connections.bytes_in - was.bytes_in));
        stat("bytes_written", &(connections.bytes_out - was.bytes_out));
        stat("read_calls", &(connections.recv_calls - was.recv_calls));
        stat("write_calls", &(connections.send_calls - was.send_calls));
        stat("readable_events", &(connections.readable - was.readable));
        stat("accepting_conns", &1);
        stat("listen_disabled_num", &(connections.accept_stops - was.accept_stops));
        stat("idle_kicks", &(connections.idle_kicks - was.idle_kicks));
        stat("conn_yields", &(connections.yields - was.yields));
        stat("threads", &connections.threads);
    }

    fn requests(&self, base: &Baseline, out: &mut Vec<u8>) {
        let (is, was) = (self.cell.counters(), base.requests);
        macro_rules! since {
            ($($name:ident)*) => {
                $(reply::stat(out, stringify!($name), is.$name - was.$name);)*
            };
        }
        since! {
            cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses
            delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits
            cas_misses cas_hits cas_badval touch_hits touch_misses
            store_too_large store_no_memory auth_cmds auth_errors
        }
    }

    fn memory(&self, base: &Baseline, out: &mut Vec<u8>) {
        let engine = &self.cell.engine;
        let (is, was, usage) = (engine.counters(), base.engine, engine.usage());
        let mut stat = |name: &str, value: u64| reply::stat(out, name, value);
        stat("limit_maxbytes", self.cell.budget.total());
        stat("hash_bytes", usage.index_bytes);
        stat("hash_is_expanding", 0);
        stat("bytes", is.item_words * 8);
        stat("curr_items", is.items);
        stat("total_items", is.stored + is.overwritten - was.stored - was.overwritten);
        stat("slab_global_page_pool", 0);
        stat("expired_unfetched", is.expired_unread - was.expired_unread);
        stat("evicted_unfetched", is.evicted_unread - was.evicted_unread);
        stat("evictions", is.evicted - was.evicted);
        stat("reclaimed", is.expired - was.expired);
        stat("moves_within_lru", is.kept - was.kept);
        stat("compacted", is.compacted - was.compacted);
        stat("ghost_hits", is.ghost_hits - was.ghost_hits);
        stat("torn_reads", is.torn - was.torn);
        stat("housekeeping_items_max", usage.paid_items_max);
        for owner in Owner::ALL {
            let name = format!("budget_{owner:?}").to_lowercase();
            stat(&name, self.cell.budget.used(owner));
        }
    }

    fn items(&self, out: &mut Vec<u8>) {
        let base = self.cell.baseline();
        let (is, was) = (self.cell.engine.counters(), base.engine);
        if is.items == 0 {
            return;
        }
        let mut stat = |name: &str, value: u64| reply::stat(out, name, value);
        stat("items:1:number", is.items);
        stat("items:1:mem_requested", is.item_words * 8);
        stat("items:1:evicted", is.evicted - was.evicted);
        stat("items:1:evicted_unfetched", is.evicted_unread - was.evicted_unread);
        stat("items:1:expired_unfetched", is.expired_unread - was.expired_unread);
        stat("items:1:reclaimed", is.expired - was.expired);
        stat("items:1:outofmemory", 0);
    }

    fn slabs(&self, out: &mut Vec<u8>) {
        let base = self.cell.baseline();
        let (is, was) = (self.cell.counters(), base.requests);
        let (items, usage) = (self.cell.engine.counters(), self.cell.engine.usage());
        let mut stat = |name: &str, value: u64| reply::stat(out, name, value);
        stat("1:chunk_size", usage.segment_bytes);
        stat("1:chunks_per_page", 1);
        stat("1:total_pages", usage.segments);
        stat("1:total_chunks", usage.segments);
        stat("1:used_chunks", usage.segments);
        stat("1:free_chunks", 0);
        stat("1:mem_requested", items.item_words * 8);
        stat("1:get_hits", is.get_hits - was.get_hits);
        stat("1:cmd_set", is.cmd_set - was.cmd_set);
        stat("1:delete_hits", is.delete_hits - was.delete_hits);
        stat("1:incr_hits", is.incr_hits - was.incr_hits);
        stat("1:decr_hits", is.decr_hits - was.decr_hits);
        stat("1:cas_hits", is.cas_hits - was.cas_hits);
        stat("1:cas_badval", is.cas_badval - was.cas_badval);
        stat("1:touch_hits", is.touch_hits - was.touch_hits);
        stat("active_slabs", 1);
        stat("total_malloced", usage.segments * usage.segment_bytes);
    }

    fn conns(&self, out: &mut Vec<u8>) {
        for conn in self.cell.host.reports() {
            let number = conn.number;
            let mut stat = |name: &str, value: &dyn Display| {
                reply::stat(out, &format!("{number}:{name}"), value);
            };
            stat("addr", &conn.address);
            stat("listen_addr", &conn.listener);
            stat("state", &conn.state);
            stat("secs_since_last_cmd", &conn.idle_s);
        }
    }
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / MICROS, micros % MICROS)
}
