//! `stats ring`: the map that this cell goes by, and what it does itself.

use super::cell::RingCell;
use base::Now;
use memcache::reply;
use ring::{CellId, Range};
use std::fmt::Display;

/// Appends the report.
pub(crate) fn report(ring: &RingCell, now: Now, out: &mut Vec<u8>) {
    let (map, identity) = (ring.map(), ring.identity);
    reply::stat(out, "ring", format_args!("{:016x}", identity.ring));
    reply::stat(out, "cell", identity.cell);
    reply::stat(out, "start", identity.incarnation);
    reply::stat(out, "map_version", map.version);
    reply::stat(out, "cells_wanted", map.cells_wanted);
    reply::stat(out, "copies_wanted", map.copies_wanted);
    reply::stat(out, "ranges", map.ranges.len());
    let short = map.ranges.iter().filter(|range| is_short(range, map.copies_wanted)).count();
    reply::stat(out, "ranges_short_of_copies", short);
    reply::stat(out, "losses", map.ranges.iter().map(|range| range.losses).sum::<u32>());
    for (id, cell) in &map.cells {
        let mut stat = |name: &str, value: &dyn Display| {
            reply::stat(out, &format!("cell:{id}:{name}"), value);
        };
        let addresses = cell.started.addresses;
        stat("clients", &addresses.clients);
        stat("control", &addresses.control);
        stat("links", &addresses.links);
        stat("start", &cell.started.incarnation.0);
    }
    for range in &map.ranges {
        let mut stat = |name: &str, value: &dyn Display| {
            reply::stat(out, &format!("range:{}:{name}", range.id), value);
        };
        stat("slices", &format_args!("{}-{}", range.start, range.end - 1));
        stat("primary", &range.primary);
        stat("copies", &list(&range.copies));
        stat("learner", &range.learner.map_or_else(|| "none".to_owned(), |it| it.to_string()));
        stat("epoch", &range.epoch);
        stat("config", &range.config);
        stat("losses", &range.losses);
        if range.primary == identity.cell {
            let serves = if ring.may_answer(range, now) { "yes" } else { "no" };
            stat("serves", &serves);
        }
    }
    for copy in ring.copies().iter() {
        for (lane, log) in ring.log.lanes.logs() {
            let unconfirmed = log.end().saturating_sub(copy.acked(lane.index()));
            let name = format!("copy:{}:{}:unconfirmed", copy.cell, lane.index());
            reply::stat(out, &name, unconfirmed);
        }
    }
    out.extend_from_slice(reply::END);
}

/// Whether a range has fewer copies than it should.
fn is_short(range: &Range, wanted: u8) -> bool {
    range.in_sync().count() < usize::from(wanted)
}

fn list(cells: &[CellId]) -> String {
    if cells.is_empty() {
        return "none".to_owned();
    }
    cells.iter().map(CellId::to_string).collect::<Vec<_>>().join(",")
}
