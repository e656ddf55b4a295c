//! How a journal goes on after the disk has refused a write or a sync.
//!
//! What a failed sync leaves behind is not known, and a second one proves nothing: the system may
//! have dropped what it could not write. So the segments that were not durable are never written
//! again, and what they held is written once more, from the logs, as a new start would do it:
//!
//! ```text
//! start n      durable | void          never used again while the process runs
//! start n + 1  states, what was void, END: "start n counts up to here"
//! ```
//!
//! Until the END is durable nothing of the new start counts, and no reply leaves that waits for
//! this. If the disk refuses again meanwhile, the journal has failed.

use super::format::Cut;
use super::lane::Stuck;
use super::{Journal, Lane, Synced};
use crate::sync::lock;
use base::Now;
use std::io;
use std::sync::atomic::Ordering;

/// Touches that one batch has, at most: their records are shorter than a batch may be.
const TOUCHES_AT_ONCE: usize = 512;

/// Makes what the logs have durable, and segments ready. Where the disk has refused, the journal
/// goes on in other segments. Called by one thread alone; it waits for the disk.
pub(crate) fn sync(journal: &Journal, now: Now) {
    repair_if_broken(journal, now);
    if journal.failure().is_some() {
        // The number of a segment that could not be made ready must not be used again, and what was
        // written without an END does not count.
        return;
    }
    write_beyond(journal);
    journal.sync(now);
    repair_if_broken(journal, now);
}

/// Goes on in new segments, if the disk has refused.
fn repair_if_broken(journal: &Journal, now: Now) {
    if !journal.is_broken.load(Ordering::Acquire) || journal.failure().is_some() {
        return;
    }
    match repair(journal, now) {
        Ok(()) => {
            journal.repairs.fetch_add(1, Ordering::Release);
            journal.is_broken.store(false, Ordering::Release);
            journal.grants().grant_all();
            journal.write();
        }
        Err(error) => journal.fail(&error),
    }
}

fn repair(journal: &Journal, now: Now) -> io::Result<()> {
    // Nobody is at a lane who has not seen that the journal is broken: such a thread might still
    // take a segment, which would be one of the new start.
    journal.of_lanes.iter().for_each(|lane| drop(lock(&lane.writer)));
    let start = journal.shared.segments.begin_again()?;
    let count = journal.of_lanes.len();
    journal.shared.segments.prepare_beyond(count + 1)?;
    let mut cuts = Vec::new();
    let mut synced = Vec::new();
    for (at, lane) in journal.of_lanes.iter().enumerate() {
        cuts.extend(void(journal, lane, start - 1));
        write_void(journal, lane)?;
        if at + 1 == count {
            // The last lane's segment has the highest number: it is freed after the others,
            // which need the END.
            synced.push(journal.sync_files(lane)?);
            write_end(journal, lane, &cuts)?;
        }
        synced.push(journal.sync_files(lane)?);
    }
    journal.shared.segments.has_ended()?;
    for Synced { lane, .. } in &synced {
        let lane = &journal.of_lanes[*lane];
        let mut writer = lock(&lane.writer);
        writer.takes_reserve = false;
        let written = writer.written;
        drop(writer);
        lane.written.fetch_max(written, Ordering::AcqRel);
        journal.pass_below(lane);
    }
    synced.into_iter().for_each(|synced| journal.note_durable(synced, now));
    Ok(())
}

/// Writes what the logs have where the journal is full, beyond its length. A flush of all is
/// granted no room, and takes more than most changes: what waits after it would never be durable,
/// and so nothing would be free again. Where the disk has no space, the reserve has it: a segment
/// for each lane, and one that stays, so that a lane can leave the oldest one.
fn write_beyond(journal: &Journal) {
    journal.write();
    let segments = &journal.shared.segments;
    let ready = segments.config().reserve + 1;
    for lane in &journal.of_lanes {
        let is_stuck = || {
            let is_full = segments.left() == 0;
            is_full && lane.log.end() > lane.written.load(Ordering::Relaxed)
        };
        while is_stuck() && !journal.is_broken.load(Ordering::Acquire) {
            if segments.prepare_beyond(ready).is_err() && segments.ready() < 2 {
                return;
            }
            let has_written = journal.with_writer(lane, |writer| {
                writer.takes_reserve = true;
                let has_written = journal.write_locked(lane, writer);
                writer.takes_reserve = false;
                has_written
            });
            if !has_written && is_stuck() {
                return;
            }
        }
    }
}

/// Closes the segments of a lane. Returns up to where they count; `None` if there are none.
fn void(journal: &Journal, lane: &Lane, start: u32) -> Option<Cut> {
    let mut writer = lock(&lane.writer);
    writer.begin_again(lane.durable.load(Ordering::Acquire) + 1);
    let at = journal.shared.segments.void(lane.number)?;
    // What was copied of a slice stands before what is led of it since, some of which is durable.
    writer.origin = lane.is_copied.then_some(at);
    Some(Cut { start, lane: lane.number.into(), at })
}

/// Writes what the log has that is not durable, and has the index name that.
fn write_void(journal: &Journal, lane: &Lane) -> io::Result<()> {
    let mut writer = lock(&lane.writer);
    let (end, segments) = (lane.log.end(), &journal.shared.segments);
    let mut wrote = writer.roll(journal.with(lane), true).map(|_| ());
    // Each round reads more of the log, or has a segment more.
    while wrote.is_err() || writer.next <= end {
        match wrote {
            Ok(()) => {}
            Err(Stuck::Disk(error)) => return Err(error),
            Err(Stuck::NoSegment) => segments.prepare_beyond(segments.config().ready)?,
        }
        wrote = journal.try_write_lane(lane, &mut writer);
    }
    let touches = writer.end_again(&journal.shared);
    for touches in touches.chunks(TOUCHES_AT_ONCE) {
        writer.append_touches(&journal.shared, touches);
        // Each round has a segment more.
        while let Err(stuck) = writer.commit(journal.with(lane)) {
            match stuck {
                Stuck::Disk(error) => return Err(error),
                Stuck::NoSegment => segments.prepare_beyond(segments.config().ready)?,
            }
        }
    }
    writer.origin = None;
    Ok(())
}

fn write_end(journal: &Journal, lane: &Lane, cuts: &[Cut]) -> io::Result<()> {
    journal.shared.segments.prepare_beyond(1)?;
    let wrote = lock(&lane.writer).write_end(journal.with(lane), cuts);
    wrote.map_err(Stuck::into_error)
}
