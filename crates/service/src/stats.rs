//! `stats`: the reports that memcached's exporters read, composed when they are requested.
//!
//! The general report has the names of a memcached that runs without LRU crawler and LRU
//! maintainer, in its order. A name without a counterpart here has a constant value; docs/stats.md
//! says which. What only this server counts is in a report of its own, `stats volvox`. There is one
//! class of sizes, numbered 1, so that clients can parse `items` and `slabs`.
//!
//! Invariants: every line of a report is `STAT name value`. `items` and `slabs` have no name that
//! memcached does not have, because an exporter may refuse it.
//!
//! Sizes are bytes. Counts are since the start or the latest `stats reset`.

use crate::cell::{Baseline, Cell};
use crate::dump::cachedump;
use crate::tiered::Tiered;
use crate::worker::Worker;
use base::{Now, Owner};
use memcache::{Refusal, Words, reply};
use std::fmt::Display;
use tier::{Checked, Discard, Discarded, GivenUp, PrefixRule, Rules, Stage};

/// Microseconds per second.
const MICROS: u64 = 1_000_000;

/// Bytes of one entry of memcached's hash table, which `hash_power_level` counts.
const HASH_ENTRY_BYTES: u64 = 8;

/// Appends a `STAT` line for each name, with a prefix for all.
macro_rules! stats {
    ($out:ident, $prefix:literal, $($name:ident: $value:expr,)*) => {
        $(reply::stat($out, concat!($prefix, stringify!($name)), $value);)*
    };
}

/// Keys that were given up and are named, at most.
const KEYS_SHOWN: usize = 1000;

/// Appends a `STAT` line for each named field of a structure.
macro_rules! fields {
    ($out:ident, $prefix:literal, $from:ident: $($name:ident)*) => {
        stats! { $out, $prefix, $($name: $from.$name,)* }
    };
}

/// Executes `stats`: `args` are the name of the report and its arguments.
pub(crate) fn stats(worker: &mut Worker, now: Now, mut args: Words<'_>, out: &mut Vec<u8>) {
    let cell = worker.cell();
    match args.next() {
        None => general(cell, now, out),
        Some(b"settings") => settings(cell, out),
        Some(b"items") => items(cell, out),
        Some(b"slabs") => slabs(cell, out),
        Some(b"conns") => conns(cell, out),
        Some(b"volvox") => volvox(cell, out),
        Some(b"tier") => match args.next() {
            None => tier(cell, out),
            Some(b"flush") => {
                out.extend_from_slice(of_tier(cell, Tiered::want_all));
                return;
            }
            Some(b"retry") => {
                out.extend_from_slice(of_tier(cell, Tiered::retry));
                return;
            }
            Some(b"discarded") => tier_discarded(cell, out),
            Some(b"checked") => tier_checked(cell, out),
            Some(name @ (b"policy" | b"discard" | b"check")) => {
                let done = match name {
                    b"policy" => tier_policy(cell, args),
                    b"check" => tier_check(cell),
                    _ => tier_discard(cell, args),
                };
                let line = match done {
                    Ok(()) => reply::OK.to_vec(),
                    Err(why) => format!("CLIENT_ERROR {why}\r\n").into_bytes(),
                };
                out.extend_from_slice(&line);
                return;
            }
            Some(_) => {
                out.extend_from_slice(Refusal::UnknownCommand.line());
                return;
            }
        },
        Some(b"sizes") => reply::stat(out, "sizes_status", "disabled"),
        Some(b"reset") => {
            cell.reset();
            out.extend_from_slice(reply::RESET);
            return;
        }
        Some(b"cachedump") => {
            if let Some(line) = cachedump(worker, now, args, out) {
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

fn general(cell: &Cell, now: Now, out: &mut Vec<u8>) {
    let base = cell.baseline();
    process(cell, now, &base, out);
    requests(cell, &base, out);
    connections(cell, &base, out);
    memory(cell, &base, out);
}

fn process(cell: &Cell, now: Now, base: &Baseline, out: &mut Vec<u8>) {
    let (is, rusage) = (cell.host().connections(), cell.host().rusage());
    let was = base.connections;
    stats! { out, "",
        pid: std::process::id(),
        uptime: cell.uptime_s(now),
        time: now.expiry_s,
        version: &cell.options().version,
        libevent: "none",
        pointer_size: usize::BITS,
        rusage_user: seconds(rusage.user_us),
        rusage_system: seconds(rusage.system_us),
        max_connections: is.max,
        curr_connections: is.open,
        total_connections: is.accepted - was.accepted,
        rejected_connections: is.rejected - was.rejected,
        connection_structures: is.open,
        response_obj_oom: 0, response_obj_count: 0, response_obj_bytes: 0,
        read_buf_count: 0,
        read_buf_bytes: cell.budget().used(Owner::Connections),
        read_buf_bytes_free: 0, read_buf_oom: 0, reserved_fds: 0,
    }
}

fn requests(cell: &Cell, base: &Baseline, out: &mut Vec<u8>) {
    let since = cell.counters().since(&base.requests);
    let items = cell.engine().counters().since(&base.engine);
    reply::stat(out, "cmd_get", since.get_hits + since.get_misses);
    fields! { out, "", since: cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses }
    stats! { out, "", get_expired: items.read_expired, get_flushed: items.read_flushed, }
    fields! { out, "", since:
        delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits
        cas_misses cas_hits cas_badval touch_hits touch_misses
        store_too_large store_no_memory auth_cmds auth_errors
    }
}

fn connections(cell: &Cell, base: &Baseline, out: &mut Vec<u8>) {
    let (is, was) = (cell.host().connections(), base.connections);
    stats! { out, "",
        bytes_read: is.bytes_in - was.bytes_in,
        bytes_written: is.bytes_out - was.bytes_out,
        limit_maxbytes: cell.budget().total(),
        accepting_conns: u64::from(is.accepting),
        listen_disabled_num: is.accept_stops - was.accept_stops,
        time_in_listen_disabled_us: 0,
        threads: is.threads,
        conn_yields: is.yields - was.yields,
    }
    // As in memcached, it is there only if silent clients are closed at all.
    let mut settings = cell.options().settings.iter();
    if settings.any(|(name, value)| *name == "idle_timeout" && value != "0") {
        reply::stat(out, "idle_kicks", is.idle_kicks - was.idle_kicks);
    }
}

fn memory(cell: &Cell, base: &Baseline, out: &mut Vec<u8>) {
    let (is, usage) = (cell.engine().counters(), cell.engine().usage());
    let since = is.since(&base.engine);
    let entries = (usage.index_bytes / HASH_ENTRY_BYTES).max(1);
    stats! { out, "",
        hash_power_level: entries.ilog2(),
        hash_bytes: usage.index_bytes,
        hash_is_expanding: 0,
        slab_reassign_rescues: 0, slab_reassign_chunk_rescues: 0,
        slab_reassign_inline_reclaim: 0, slab_reassign_busy_items: 0,
        slab_reassign_busy_deletes: 0, slab_reassign_busy_nomem: 0,
        slab_reassign_last_busy_status: 0, slab_reassign_running: 0, slabs_moved: 0,
        malloc_fails: 0,
        log_worker_dropped: 0, log_worker_written: 0, log_watcher_skipped: 0,
        log_watcher_sent: 0, log_watchers: 0,
        unexpected_napi_ids: 0, round_robin_fallback: 0,
        bytes: is.item_words * 8,
        curr_items: is.items,
        total_items: since.stored + since.overwritten,
        slab_global_page_pool: 0,
        expired_unfetched: since.expired_unread,
        evicted_unfetched: since.evicted_unread,
        evictions: since.evicted,
        reclaimed: since.expired,
        crawler_reclaimed: 0, crawler_items_checked: 0, lrutail_reflocked: 0,
    }
}

/// `stats volvox`: what memcached has no name for.
fn volvox(cell: &Cell, out: &mut Vec<u8>) {
    let base = cell.baseline();
    let (host, was) = (cell.host().connections(), base.connections);
    let items = cell.engine().counters().since(&base.engine);
    let usage = cell.engine().usage();
    stats! { out, "",
        version: env!("CARGO_PKG_VERSION"),
        wait_calls: host.wait_calls - was.wait_calls,
        read_calls: host.recv_calls - was.recv_calls,
        write_calls: host.send_calls - was.send_calls,
        readable_events: host.readable - was.readable,
        signals_lost: host.signals_lost - was.signals_lost,
        stall_kicks: host.stall_kicks - was.stall_kicks,
        upload_kicks: host.upload_kicks - was.upload_kicks,
        memory_kicks: host.memory_kicks - was.memory_kicks,
        refused: cell.counters().since(&base.requests).refused,
    }
    fields! { out, "", usage: segment_bytes segments segments_small segments_main }
    stats! { out, "",
        segments_drained: items.drained,
        items_kept: items.kept,
        items_compacted: items.compacted,
        ghost_hits: items.ghost_hits,
        torn_reads: items.torn,
        rooms_made: items.rooms_made,
        room_waits: items.waits,
        room_items_max: usage.room_items_max,
        housekeeping_items_max: usage.paid_items_max,
    }
    for owner in Owner::ALL {
        let name = format!("budget_{owner:?}").to_lowercase();
        reply::stat(out, &name, cell.budget().used(owner));
    }
}

/// `stats tier flush` and `stats tier retry`, which are no reports: everything is written back at
/// once.
fn of_tier(cell: &Cell, ask: impl Fn(&Tiered)) -> &'static [u8] {
    match cell.tiered() {
        Some(tiered) => {
            ask(tiered);
            reply::OK
        }
        None => b"CLIENT_ERROR this cell has no tier\r\n",
    }
}

/// `stats tier policy LEVEL [PREFIX=LEVEL ...]`, which is no report: what replies promise soon,
/// until the cell ends. The report shows it once it holds.
fn tier_policy(cell: &Cell, args: Words<'_>) -> Result<(), String> {
    let tiered = cell.tiered().ok_or("this cell has no tier")?;
    if !cell.options().allow_policy {
        return Err("this cell refuses it: protocol.allow_tier_policy is off".to_owned());
    }
    let words: Result<Vec<_>, _> = args.map(std::str::from_utf8).collect();
    let words = words.map_err(|_| "a prefix is not UTF-8")?;
    let [level, prefixes @ ..] = &words[..] else {
        return Err("no level; write stats tier policy LEVEL [PREFIX=LEVEL ...]".to_owned());
    };
    let base = level.parse()?;
    let prefixes: Result<Vec<_>, _> = prefixes.iter().map(|word| word.parse()).collect();
    let rules = Rules::new(base, prefixes?).map_err(|error| error.to_string())?;
    tiered.want_rules(rules).map_err(|error| error.to_string())
}

/// `stats tier discard key KEY ...`, `prefix PREFIX` or `run NUMBER`, which is no report: changes
/// are given up soon, and `stats tier discarded` shows them.
fn tier_discard(cell: &Cell, mut args: Words<'_>) -> Result<(), String> {
    const USAGE: &str = "write stats tier discard key KEY ..., prefix PREFIX or run NUMBER";
    let tiered = cell.tiered().ok_or("this cell has no tier")?;
    if !cell.options().allow_discard {
        return Err("this cell refuses it: protocol.allow_tier_discard is off".to_owned());
    }
    if tiered.member().is_some() {
        return Err("a cell of a ring gives up no changes".to_owned());
    }
    let kind = args.next().ok_or(USAGE)?;
    let words: Vec<Box<[u8]>> = args.map(Into::into).collect();
    let which = match (kind, &words[..]) {
        (b"key", [_, ..]) => Discard::Keys(words),
        (b"prefix", [prefix]) => Discard::Prefix(prefix.clone()),
        (b"run", [number]) => {
            let number = std::str::from_utf8(number).ok().and_then(|it| it.parse().ok());
            Discard::Run(number.ok_or("the number of a run is not a number")?)
        }
        _ => return Err(USAGE.to_owned()),
    };
    match tiered.discard(which) {
        true => Ok(()),
        false => Err("other changes are just being given up; try again".to_owned()),
    }
}

/// `stats tier discarded`: what came of it, the last time.
fn tier_discarded(cell: &Cell, out: &mut Vec<u8>) {
    let Some(tiered) = cell.tiered() else {
        return reply::stat(out, "tier", "off");
    };
    let (count, discarded) = tiered.tier().discarded();
    let Discarded { given_up, young, changed, unreadable, has_more, failure } = discarded;
    stats! { out, "",
        discards: count,
        given_up: given_up.len(),
        young: young,
        changed: changed,
        unreadable: unreadable,
        has_more: if has_more { "yes" } else { "no" },
        leaving: tiered.tasks().leaving(),
        failure: failure.as_deref().unwrap_or("none"),
    }
    for GivenUp { key, what, .. } in given_up.iter().take(KEYS_SHOWN) {
        reply::stat(out, &format!("key:{}", String::from_utf8_lossy(key)), what);
    }
}

/// `stats tier check`, which is no report: what lies below memory is checked, and `stats tier
/// checked` shows what came of it.
fn tier_check(cell: &Cell) -> Result<(), String> {
    match cell.tiered().ok_or("this cell has no tier")?.want_check() {
        true => Ok(()),
        false => Err("a check is under way; stats tier checked shows it".to_owned()),
    }
}

/// `stats tier checked`: what the last check has found, or the one under way.
fn tier_checked(cell: &Cell, out: &mut Vec<u8>) {
    let Some(tiered) = cell.tiered() else {
        return reply::stat(out, "tier", "off");
    };
    let (count, checked) = tiered.tier().checked();
    let stage = match checked.stage {
        Stage::None => "none",
        Stage::Journal => "journal",
        Stage::Index => "index",
        Stage::Below => "below",
        Stage::Over => "over",
    };
    stats! { out, "", checks: count, stage: stage, }
    fields! { out, "", checked:
        journal_bytes journal_bytes_read freed batches places places_right changed
    }
    match checked.keys_below {
        Some(keys) => reply::stat(out, "keys_below", keys),
        None => reply::stat(out, "keys_below", "unknown"),
    }
    let Checked { wrong, findings, failure, .. } = &checked;
    stats! { out, "",
        wrong: wrong,
        failure: failure.as_deref().unwrap_or("none"),
    }
    for (number, what) in findings.iter().enumerate() {
        reply::stat(out, &format!("wrong:{number}"), what);
    }
}

fn tier(cell: &Cell, out: &mut Vec<u8>) {
    let Some(tiered) = cell.tiered() else {
        return reply::stat(out, "tier", "off");
    };
    let report = tiered.tier().report();
    let unflushed = tiered.unflushed().map(|why| format!("not written back: {why}"));
    let state = report.failure.as_deref().or(report.unprepared.as_deref());
    stats! { out, "",
        backend: &report.backend,
        state: state.or(unflushed.as_deref()).unwrap_or("ok"),
    }
    fields! { out, "", report:
        dirty_keys dirty_keys_max journal_bytes journal_bytes_max index_bytes
        lookups loads_journal loads_below loads_missing loads_failed
        flushed_keys flushed_bytes through repairs
    }
    reply::stat(out, "full_rounds", tiered.full_rounds());
    if let Some(requests) = report.requests {
        fields! { out, "bucket_", requests: writes written_bytes reads read_bytes lists deletes }
    }
    let rules = tiered.tier().rules().now();
    reply::stat(out, "ack", rules.base());
    for PrefixRule { prefix, policy } in rules.prefixes() {
        reply::stat(out, &format!("ack:{prefix}"), policy);
    }
}

fn settings(cell: &Cell, out: &mut Vec<u8>) {
    for (name, value) in &cell.options().settings {
        if *name == "maxbytes" {
            reply::stat(out, name, cell.budget().total());
        } else {
            reply::stat(out, name, value);
        }
    }
}

fn items(cell: &Cell, out: &mut Vec<u8>) {
    let base = cell.baseline();
    let is = cell.engine().counters();
    let since = is.since(&base.engine);
    if is.items == 0 {
        return;
    }
    stats! { out, "items:1:",
        number: is.items,
        mem_requested: is.item_words * 8,
        evicted: since.evicted,
        evicted_nonzero: 0, evicted_time: 0,
        outofmemory: cell.counters().since(&base.requests).store_no_memory,
        tailrepairs: 0,
        reclaimed: since.expired,
        expired_unfetched: since.expired_unread,
        evicted_unfetched: since.evicted_unread,
        crawler_reclaimed: 0, crawler_items_checked: 0, lrutail_reflocked: 0,
        direct_reclaims: since.rooms_made,
    }
}

fn slabs(cell: &Cell, out: &mut Vec<u8>) {
    let since = cell.counters().since(&cell.baseline().requests);
    let usage = cell.engine().usage();
    stats! { out, "1:",
        chunk_size: usage.segment_bytes,
        chunks_per_page: 1,
        total_pages: usage.segments,
        total_chunks: usage.segments,
        used_chunks: usage.segments,
        free_chunks: 0, free_chunks_end: 0,
    }
    fields! { out, "1:", since:
        get_hits cmd_set delete_hits incr_hits decr_hits cas_hits cas_badval touch_hits
    }
    reply::stat(out, "active_slabs", 1);
    reply::stat(out, "total_malloced", usage.segments * usage.segment_bytes);
}

fn conns(cell: &Cell, out: &mut Vec<u8>) {
    for conn in cell.host().reports() {
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

/// Microseconds as `seconds.micros`.
fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / MICROS, micros % MICROS)
}
