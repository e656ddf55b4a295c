//! `stats ring`: the map that this cell goes by, and what it does itself. `stats ring log`: how the
//! map has changed. `stats ring load`: how often this cell has executed something for each part of
//! what it leads. `stats ring key KEY`: what this cell itself holds of a key; with a `b` after
//! it, KEY is in base64.
//!
//! What an operator wants has the same form, see `orders`.

use super::cell::RingCell;
use super::history::Past;
use super::orders;
use crate::worker::Worker;
use base::{Now, SliceId};
use memcache::{KEY_BYTES_MAX, KeyToken, Refusal, Words, reply};
use ring::{Agreement, CellId, Learned, Map};
use session::Reply;
use std::fmt::Display;

/// Appends the report that `words` name.
pub(crate) fn report(
    worker: &mut Worker,
    ring: &RingCell,
    now: Now,
    mut words: Words<'_>,
    reply: &mut Reply,
) {
    let out = reply.bytes_mut();
    if orders::give(ring, words, out) {
        return;
    }
    match (words.next(), words.next(), words.next()) {
        (None, ..) => whole(ring, now, out),
        (Some(b"log"), None, _) => log(ring, out),
        (Some(b"load"), None, _) => load(ring, out),
        (Some(b"key"), Some(key), None) if key.len() <= KEY_BYTES_MAX => {
            held(worker, ring, (key, now), out);
        }
        (Some(b"key"), Some(token), Some(b"b")) => {
            let Some(token) = KeyToken::binary(token) else {
                out.extend_from_slice(Refusal::BadFormat.line());
                return;
            };
            let mut scratch = [0; KEY_BYTES_MAX];
            held(worker, ring, (token.key(&mut scratch).as_bytes(), now), out);
        }
        _ => {
            out.extend_from_slice(Refusal::UnknownCommand.line());
            return;
        }
    }
    out.extend_from_slice(reply::END);
}

fn whole(ring: &RingCell, now: Now, out: &mut Vec<u8>) {
    let past = ring.history.past();
    let (map, identity) = (ring.map(), ring.identity);
    reply::stat(out, "ring", format_args!("{:016x}", identity.ring));
    reply::stat(out, "cell", identity.cell);
    reply::stat(out, "start", identity.incarnation);
    reply::stat(out, "map_version", map.version);
    reply::stat(out, "recoveries", Agreement::recoveries(map.version));
    // Before the first map nothing is known of what is wanted.
    let has_map = u32::from(map.version > 0);
    reply::stat(out, "cells_wanted", has_map * map.cells_wanted);
    reply::stat(out, "copies_wanted", has_map * u32::from(map.copies_wanted));
    reply::stat(out, "durability", map.consistency.durability);
    reply::stat(out, "reads", map.consistency.reads);
    reply::stat(out, "ranges", map.ranges.len());
    let short = map.ranges.iter().filter(|range| range.is_short(map.copies_wanted)).count();
    reply::stat(out, "ranges_short_of_copies", short);
    let step = map.division_step(ring.identity.cell);
    if step > 1 {
        reply::stat(out, "division_step", step);
    }
    reply::stat(out, "edition", map.edition);
    reply::stat(out, "losses", map.ranges.iter().map(|range| range.losses).sum::<u32>());
    let counters = ring.cell.counters();
    reply::stat(out, "copy_reads", counters.copy_reads);
    reply::stat(out, "copy_reads_refused", counters.copy_reads_refused);
    reply::stat(out, "time", now.expiry_s);
    if let Some(flush) = map.flushes.latest() {
        reply::stat(out, "flush", flush.number);
        reply::stat(out, "flush_due", flush.due_s);
    }
    if let Some(outlook) = &past.outlook {
        reply::stat(out, "clock_ahead", outlook.wall_ahead_s);
        reply::stat(out, "leader", list(outlook.leader));
        reply::stat(out, "voters", list(outlook.voters.iter().copied()));
    }
    for (id, cell) in &map.cells {
        let mut stat = |name: &str, value: &dyn Display| {
            reply::stat(out, &format!("cell:{id}:{name}"), value);
        };
        let addresses = cell.started.addresses;
        stat("clients", &addresses.clients);
        stat("control", &addresses.control);
        stat("links", &addresses.links);
        stat("start", &cell.started.incarnation.0);
        stat("edition", &cell.started.edition);
        if cell.is_witness {
            stat("witness", &"yes");
        }
        if let Some(how) = cell.leaves {
            stat("leaves", &if how.is_absorbed { "absorbed" } else { "drained" });
            if how.is_forced {
                stat("leaves_forced", &"yes");
            }
        }
        if let Some(outlook) = &past.outlook {
            stat("heard", &if outlook.heard.contains(id) { "yes" } else { "no" });
            if let Some((_, ahead)) = outlook.apart.iter().find(|(cell, _)| cell == id) {
                stat("time_ahead", ahead);
            }
        }
    }
    ranges(ring, (&map, &past), now, out);
    copies(ring, out);
}

/// Each range, and what this cell knows of those that it leads.
fn ranges(ring: &RingCell, (map, past): (&Map, &Past), now: Now, out: &mut Vec<u8>) {
    for range in &map.ranges {
        let mut stat = |name: &str, value: &dyn Display| {
            reply::stat(out, &format!("range:{}:{name}", range.id), value);
        };
        stat("slices", &format_args!("{}-{}", range.start, range.end - 1));
        stat("primary", &range.primary);
        stat("copies", &list(range.copies.iter().copied()));
        stat("learner", &list(range.learner));
        if let Some(cell) = range.moves_to {
            stat("moves_to", &cell);
        }
        if let Some(cell) = range.leaves {
            stat("leaves", &cell);
        }
        if let Some(into) = range.divides {
            stat("divides", &format_args!("{} {}", into.slice, into.cell));
        }
        if let Some(other) = range.unites_with {
            stat("unites_with", &other);
        }
        if let Some(cell) = range.home {
            stat("home", &cell);
        }
        if range.is_absorbed {
            stat("absorbed", &"yes");
        }
        if range.waits_for_operator {
            stat("waits_for_operator", &"yes");
        }
        if !range.journals.is_empty() {
            stat("journals", &list(range.journals.iter().copied()));
        }
        stat("epoch", &range.epoch);
        stat("config", &range.config);
        stat("losses", &range.losses);
        if let Some(since_s) = past.short_since_s.get(&range.id) {
            stat("short_since", since_s);
        }
        let learned = past.learned.get(&range.id).filter(|_| range.learner.is_some());
        if let Some(Learned { bytes, about_bytes, took_ns }) = learned {
            stat("learned", &format_args!("{bytes} {about_bytes} {}", took_ns / 1_000_000));
        }
        if range.primary == ring.identity.cell {
            let serves = if ring.may_answer(range, now) { "yes" } else { "no" };
            stat("serves", &serves);
            stat("flushed", &ring.flushed.of_all(range.slices()));
        }
    }
}

/// How far the copies of what this cell leads are behind it.
fn copies(ring: &RingCell, out: &mut Vec<u8>) {
    for copy in ring.copies().iter() {
        for (lane, log) in ring.log.lanes.logs() {
            let unconfirmed = log.end().saturating_sub(copy.acked(lane.index()));
            let name = format!("copy:{}:{}:unconfirmed", copy.cell, lane.index());
            reply::stat(out, &name, unconfirmed);
        }
    }
}

fn log(ring: &RingCell, out: &mut Vec<u8>) {
    for (at_s, change) in &ring.history.past().changes {
        let mut stat = |name: &dyn Display, value: &dyn Display| {
            reply::stat(out, &format!("map:{}:{name}", change.version), value);
        };
        stat(&"before", &change.before);
        stat(&"time", at_s);
        stat(&"cause", &change.cause);
        for (at, line) in change.lines.iter().enumerate() {
            stat(&(at + 1), line);
        }
    }
}

/// How often this cell has executed something for each part of what it leads.
fn load(ring: &RingCell, out: &mut Vec<u8>) {
    let (map, cell) = (ring.map(), ring.identity.cell);
    reply::stat(out, "ring", format_args!("{:016x}", ring.identity.ring));
    reply::stat(out, "cell", cell);
    reply::stat(out, "start", ring.identity.incarnation);
    reply::stat(out, "map_version", map.version);
    for range in map.ranges.iter().filter(|range| range.primary == cell) {
        let parts = ring.loads.parts(range.slices()).map(|count| count.to_string());
        let parts = parts.collect::<Vec<_>>().join(" ");
        let mut stat = |name: &str, value: &dyn Display| {
            reply::stat(out, &format!("range:{}:{name}", range.id), value);
        };
        stat("slices", &format_args!("{}-{}", range.start, range.end - 1));
        stat("parts", &parts);
    }
}

/// What this cell holds of `key`, confirmed by copies or not.
fn held(worker: &mut Worker, ring: &RingCell, (key, now): (&[u8], Now), out: &mut Vec<u8>) {
    let (map, slice) = (ring.map(), SliceId::of(key));
    reply::stat(out, "slice", slice.index());
    if let Some(range) = map.range_of(slice) {
        reply::stat(out, "range", range.id);
        reply::stat(out, "primary", range.primary);
        reply::stat(out, "copies", list(range.copies.iter().copied()));
    }
    worker.begin(now);
    let key = worker.cell().engine().key(key);
    let found = worker.cell().engine().peek(worker.pin(), &key, now);
    reply::stat(out, "holds", if found.is_some() { "yes" } else { "no" });
    if let Some(found) = found {
        reply::stat(out, "bytes", found.size_bytes);
        reply::stat(out, "value_bytes", found.value_bytes);
        reply::stat(out, "cas", found.cas);
        reply::stat(out, "expiry", found.expiry_s);
    }
}

/// Cells with commas between them; `none` if there is none.
fn list(cells: impl IntoIterator<Item = CellId>) -> String {
    let cells: Vec<_> = cells.into_iter().map(|cell| cell.to_string()).collect();
    if cells.is_empty() { "none".to_owned() } else { cells.join(",") }
}
