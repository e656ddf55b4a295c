//! Lanes begin another segment before theirs is full: where it holds up later ones, which are
//! written back, as none of these is freed else; and all of them where what comes is to lie in
//! later segments than what they have.

use super::Journal;
use super::format::Spot;
use super::lane::{Stuck, Writer};
use super::logged::Lane;
use std::collections::HashSet;
use std::io;
use std::sync::atomic::Ordering;

/// Writes what the logs have, and begins another segment in each lane: all records of before lie in
/// segments up to the number that this returns, and all later records in later ones. `None`: it is
/// to be tried again, when more segments are ready, or more is written.
pub(crate) fn cut(journal: &Journal) -> Option<u32> {
    if journal.is_stopped() || journal.shared.segments.ready() < journal.of_lanes.len() {
        journal.wants_segments.store(true, Ordering::Release);
        return None;
    }
    let ends = journal.ends();
    journal.write();
    if !journal.has_written(&ends) {
        return None;
    }
    let mut first: Option<u32> = None;
    for lane in &journal.of_lanes {
        let rolled = journal.with_writer(lane, |writer| {
            journal.write_locked(lane, writer);
            // A repair that has begun meanwhile begins segments of its own.
            match journal.is_stopped() {
                true => Err(Stuck::NoSegment),
                false => writer.roll(journal.with(lane), true),
            }
        });
        match rolled {
            Ok(segment) => first = Some(first.unwrap_or(u32::MAX).min(segment.number())),
            Err(Stuck::NoSegment) => return None,
            Err(Stuck::Disk(error)) => {
                journal.breaks(&error);
                return None;
            }
        }
    }
    first.map(|first| first - 1)
}

/// Lets lanes begin another segment whose open one is written back, where few segments are left,
/// unless one before it is kept for another reason; and a lane whose open one is kept because
/// little by little more is written into it, while a later one is written back. A lane that has
/// none begins its first one: until then the first segment of this start has its checkpoint.
pub(crate) fn roll_idle(journal: &Journal) -> io::Result<()> {
    let segments = &journal.shared.segments;
    let are_enough = segments.left() * 2 > segments.config().count_max;
    if are_enough || journal.failure.get().is_some() {
        return Ok(());
    }
    let idle = |lane| journal.with_writer(lane, |writer| idle(journal, lane, writer));
    let idle: HashSet<u32> = journal.of_lanes.iter().filter_map(idle).collect();
    let kept = segments.first_undone(u32::MAX, |segment, lane| {
        journal.is_done(segment, lane) || idle.contains(&segment.number())
    });
    let holds_up = segments.is_any_done_after(kept, |segment, lane| journal.is_done(segment, lane));
    for lane in &journal.of_lanes {
        let kept = if holds_up { kept.saturating_add(1) } else { kept };
        journal.with_writer(lane, |writer| roll_before(journal, (lane, writer), kept))?;
    }
    Ok(())
}

/// The number of the open segment of a lane, if all of it is written back.
fn idle(journal: &Journal, lane: &Lane, writer: &Writer) -> Option<u32> {
    let open = writer.open()?;
    let end = Spot { segment: open.number(), offset: open.written.load(Ordering::Acquire) };
    (journal.flushed(lane) >= end).then(|| open.number())
}

/// Begins another segment of a lane that has none, or an open one before the first that is `kept`.
fn roll_before(journal: &Journal, of: (&Lane, &mut Writer), kept: u32) -> io::Result<()> {
    let (lane, writer) = of;
    if journal.is_broken.load(Ordering::Acquire) {
        // What begins before the END must end before it, too.
        return Ok(());
    }
    if writer.open().is_some_and(|open| open.number() >= kept) {
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
