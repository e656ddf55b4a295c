//! `stats`: what memcached's exporters read, from counters that are summed when asked for.
//!
//! The general report has the names that memcached has when it runs without its crawler and its
//! maintainer, in its order; what has no counterpart here is constant, and docs/stats.md says
//! which. What only this server counts stands in a report of its own, `stats volvox`. There is one
//! class of sizes, numbered 1, so that `items` and `slabs` parse.

use crate::cell::Baseline;
use crate::worker::Service;
use base::{Now, Owner};
use memcache::{Refusal, Words, reply};
use std::fmt::Display;

/// Microseconds of a second, for times in `seconds.micros`.
const MICROS: u64 = 1_000_000;

/// Bytes of one place in memcached's hash table, by which `hash_power_level` is told.
const HASH_PLACE_BYTES: u64 = 8;

impl Service {
    pub(crate) fn stats(&mut self, now: Now, mut args: Words<'_>, out: &mut Vec<u8>) {
        match args.next() {
            None => self.general(now, out),
            Some(b"settings") => self.settings(out),
            Some(b"items") => self.items(out),
            Some(b"slabs") => self.slabs(out),
            Some(b"conns") => self.conns(out),
            Some(b"volvox") => self.own(out),
            Some(b"sizes") => reply::stat(out, "sizes_status", "disabled"),
            Some(b"reset") => {
                self.cell.reset();
                out.extend_from_slice(reply::RESET);
                return;
            }
            Some(b"cachedump") => {
                if let Some(line) = self.cachedump(now, args, out) {
                    out.extend_from_slice(line);
                    return;
                }
            }
            Some(b"detail") => {
                out.extend_from_slice(b"CLIENT_ERROR stats detail is not kept\r\n");
                return;
            }
            Some(_) => {
                out.extend_from_slice(Refusal::UnknownCommand.line());
                return;
            }
        }
        out.extend_from_slice(reply::END);
    }

    fn general(&self, now: Now, out: &mut Vec<u8>) {
        let base = self.cell.baseline();
        self.process(now, &base, out);
        self.requests(&base, out);
        self.connections(&base, out);
        self.memory(&base, out);
    }

    fn process(&self, now: Now, base: &Baseline, out: &mut Vec<u8>) {
        let host = &self.cell.host;
        let (connections, rusage) = (host.connections(), host.rusage());
        let was = base.connections;
        let mut stat = |name: &str, value: &dyn Display| reply::stat(out, name, value);
        stat("pid", &std::process::id());
        stat("uptime", &now.expiry_s.saturating_sub(self.cell.started_s));
        stat("time", &now.expiry_s);
        stat("version", &self.cell.options.version);
        stat("libevent", &"none");
        stat("pointer_size", &usize::BITS);
        stat("rusage_user", &seconds(rusage.user_us));
        stat("rusage_system", &seconds(rusage.system_us));
        stat("max_connections", &connections.max);
        stat("curr_connections", &connections.open);
        stat("total_connections", &(connections.accepted - was.accepted));
        stat("rejected_connections", &(connections.rejected - was.rejected));
        stat("connection_structures", &connections.open);
        zeros(out, &["response_obj_oom", "response_obj_count", "response_obj_bytes"]);
        let kept_bytes = self.cell.budget.used(Owner::Connections);
        zeros(out, &["read_buf_count"]);
        reply::stat(out, "read_buf_bytes", kept_bytes);
        zeros(out, &["read_buf_bytes_free", "read_buf_oom", "reserved_fds"]);
    }

    fn requests(&self, base: &Baseline, out: &mut Vec<u8>) {
        let (is, was) = (self.cell.counters(), base.requests);
        let (items, items_was) = (self.cell.engine.counters(), base.engine);
        macro_rules! since {
            ($($name:ident)*) => {
                $(reply::stat(out, stringify!($name), is.$name - was.$name);)*
            };
        }
        let asked = (is.get_hits + is.get_misses) - (was.get_hits + was.get_misses);
        reply::stat(out, "cmd_get", asked);
        since!(cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses);
        reply::stat(out, "get_expired", items.read_expired - items_was.read_expired);
        reply::stat(out, "get_flushed", items.read_flushed - items_was.read_flushed);
        since! {
            delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits
            cas_misses cas_hits cas_badval touch_hits touch_misses
            store_too_large store_no_memory auth_cmds auth_errors
        }
    }

    fn connections(&self, base: &Baseline, out: &mut Vec<u8>) {
        let (is, was) = (self.cell.host.connections(), base.connections);
        let mut stat = |name: &str, value: u64| reply::stat(out, name, value);
        stat("bytes_read", is.bytes_in - was.bytes_in);
        stat("bytes_written", is.bytes_out - was.bytes_out);
        stat("limit_maxbytes", self.cell.budget.total());
        stat("accepting_conns", u64::from(is.accepting));
        stat("listen_disabled_num", is.accept_stops - was.accept_stops);
        stat("time_in_listen_disabled_us", 0);
        stat("threads", is.threads);
        stat("conn_yields", is.yields - was.yields);
        // As in memcached, it stands only where silent clients are closed at all.
        let mut settings = self.cell.options.settings.iter();
        if settings.any(|(name, value)| *name == "idle_timeout" && value != "0") {
            stat("idle_kicks", is.idle_kicks - was.idle_kicks);
        }
    }

    fn memory(&self, base: &Baseline, out: &mut Vec<u8>) {
        let engine = &self.cell.engine;
        let (is, was, usage) = (engine.counters(), base.engine, engine.usage());
        let places = (usage.index_bytes / HASH_PLACE_BYTES).max(1);
        reply::stat(out, "hash_power_level", places.ilog2());
        reply::stat(out, "hash_bytes", usage.index_bytes);
        zeros(out, &WITHOUT_SLABS);
        let mut stat = |name: &str, value: u64| reply::stat(out, name, value);
        stat("bytes", is.item_words * 8);
        stat("curr_items", is.items);
        stat("total_items", is.stored + is.overwritten - was.stored - was.overwritten);
        stat("slab_global_page_pool", 0);
        stat("expired_unfetched", is.expired_unread - was.expired_unread);
        stat("evicted_unfetched", is.evicted_unread - was.evicted_unread);
        stat("evictions", is.evicted - was.evicted);
        stat("reclaimed", is.expired - was.expired);
        zeros(out, &["crawler_reclaimed", "crawler_items_checked", "lrutail_reflocked"]);
    }

    /// What memcached has no name for.
    fn own(&self, out: &mut Vec<u8>) {
        let base = self.cell.baseline();
        let (host, was) = (self.cell.host.connections(), base.connections);
        let (items, items_was) = (self.cell.engine.counters(), base.engine);
        let usage = self.cell.engine.usage();
        let refused = self.cell.counters().refused - base.requests.refused;
        let mut stat = |name: &str, value: u64| reply::stat(out, name, value);
        stat("read_calls", host.recv_calls - was.recv_calls);
        stat("write_calls", host.send_calls - was.send_calls);
        stat("readable_events", host.readable - was.readable);
        stat("signals_lost", host.signals_lost - was.signals_lost);
        stat("stall_kicks", host.stall_kicks - was.stall_kicks);
        stat("memory_kicks", host.memory_kicks - was.memory_kicks);
        stat("refused", refused);
        stat("segment_bytes", usage.segment_bytes);
        stat("segments", usage.segments);
        stat("segments_small", usage.segments_small);
        stat("segments_main", usage.segments_main);
        stat("segments_drained", items.drained - items_was.drained);
        stat("items_kept", items.kept - items_was.kept);
        stat("items_compacted", items.compacted - items_was.compacted);
        stat("ghost_hits", items.ghost_hits - items_was.ghost_hits);
        stat("torn_reads", items.torn - items_was.torn);
        stat("rooms_made", items.rooms_made - items_was.rooms_made);
        stat("room_waits", items.waits - items_was.waits);
        stat("room_items_max", usage.room_items_max);
        stat("housekeeping_items_max", usage.paid_items_max);
        for owner in Owner::ALL {
            let name = format!("budget_{owner:?}").to_lowercase();
            stat(&name, self.cell.budget.used(owner));
        }
    }

    fn settings(&self, out: &mut Vec<u8>) {
        for (name, value) in &self.cell.options.settings {
            if *name == "maxbytes" {
                reply::stat(out, name, self.cell.budget.total());
            } else {
                reply::stat(out, name, value);
            }
        }
    }

    fn items(&self, out: &mut Vec<u8>) {
        let base = self.cell.baseline();
        let (is, was) = (self.cell.engine.counters(), base.engine);
        if is.items == 0 {
            return;
        }
        let lacked = self.cell.counters().store_no_memory - base.requests.store_no_memory;
        let mut stat = |name: &str, value: u64| reply::stat(out, &format!("items:1:{name}"), value);
        stat("number", is.items);
        stat("mem_requested", is.item_words * 8);
        stat("evicted", is.evicted - was.evicted);
        stat("evicted_nonzero", 0);
        stat("evicted_time", 0);
        stat("outofmemory", lacked);
        stat("tailrepairs", 0);
        stat("reclaimed", is.expired - was.expired);
        stat("expired_unfetched", is.expired_unread - was.expired_unread);
        stat("evicted_unfetched", is.evicted_unread - was.evicted_unread);
        stat("crawler_reclaimed", 0);
        stat("crawler_items_checked", 0);
        stat("lrutail_reflocked", 0);
        stat("direct_reclaims", is.rooms_made - was.rooms_made);
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
        stat("1:free_chunks_end", 0);
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
            if !conn.listener.is_empty() {
                stat("listen_addr", &conn.listener);
            }
            stat("state", &conn.state);
            stat("secs_since_last_cmd", &conn.idle_s);
        }
    }
}

/// Names of the general report that describe parts of memcached which do not exist here.
const WITHOUT_SLABS: [&str; 18] = [
    "hash_is_expanding",
    "slab_reassign_rescues",
    "slab_reassign_chunk_rescues",
    "slab_reassign_inline_reclaim",
    "slab_reassign_busy_items",
    "slab_reassign_busy_deletes",
    "slab_reassign_busy_nomem",
    "slab_reassign_last_busy_status",
    "slab_reassign_running",
    "slabs_moved",
    "malloc_fails",
    "log_worker_dropped",
    "log_worker_written",
    "log_watcher_skipped",
    "log_watcher_sent",
    "log_watchers",
    "unexpected_napi_ids",
    "round_robin_fallback",
];

fn zeros(out: &mut Vec<u8>, names: &[&str]) {
    for name in names {
        reply::stat(out, name, 0);
    }
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / MICROS, micros % MICROS)
}
