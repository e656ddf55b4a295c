//! How lanes leave a segment that holds up others, which could be free.

use super::Journal;
use super::format::Spot;
use super::lane::{Stuck, Writer};
use super::logged::Lane;
use std::io;
use std::sync::atomic::Ordering;

/// Lets lanes begin another segment whose open one is the oldest and is written back, where few
/// segments are left.
pub(crate) fn roll_idle(journal: &Journal) -> io::Result<()> {
    let segments = &journal.shared.segments;
    let are_enough = segments.left() * 2 > segments.config().count_max;
    if are_enough || journal.failure.get().is_some() {
        return Ok(());
    }
    for lane in &journal.of_lanes {
        journal.with_writer(lane, |writer| roll_if_idle(journal, lane, writer))?;
    }
    Ok(())
}

fn roll_if_idle(journal: &Journal, lane: &Lane, writer: &mut Writer) -> io::Result<()> {
    if journal.is_broken.load(Ordering::Acquire) {
        // What begins before the END must end before it, too.
        return Ok(());
    }
    let flushed = journal.flushed(lane);
    let is_idle = writer.open().is_none_or(|open| {
        let end = open.written.load(Ordering::Acquire);
        flushed >= Spot { segment: open.number(), offset: end }
    });
    if !is_idle {
        return Ok(());
    }
    match writer.roll(journal.with(lane), true) {
        Ok(_) | Err(Stuck::NoSegment) => Ok(()),
        Err(Stuck::Disk(error)) => {
            // Its segment has no checkpoint.
            journal.breaks(&error);
            Err(error)
        }
    }
}
