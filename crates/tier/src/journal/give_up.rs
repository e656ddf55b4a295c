//! How the journal says that changes are given up.

use super::Journal;
use super::format::Spot;
use super::lane::Stuck;
use super::record::GivingUp;
use base::SliceId;
use std::io;
use std::sync::atomic::Ordering;

/// Writes that the changes of keys are given up, and notes up to which versions. Returns where that
/// ends in each lane: it counts once that is durable.
///
/// # Errors
/// When the disk refuses, or has no room even in the reserve. Some may be written then.
pub(crate) fn give_up(journal: &Journal, keys: &mut [GivingUp<'_>]) -> io::Result<Vec<Spot>> {
    let mut ends = Vec::new();
    for lane in &journal.of_lanes {
        let is_of = |it: &&mut GivingUp<'_>| journal.lanes.lane_of(SliceId::of(it.key)) == lane.id;
        let mut of_lane: Vec<_> = keys.iter_mut().filter(is_of).collect();
        if of_lane.is_empty() {
            continue;
        }
        let wrote = journal.with_writer(lane, |writer| {
            // With the writer: a repair waits for that, and no segment of its start is taken here.
            if journal.is_broken.load(Ordering::Acquire) || journal.failure().is_some() {
                return Err(Stuck::Disk(io::Error::other("the disk has refused it")));
            }
            writer.give_up(journal.with(lane), &mut of_lane)
        });
        if let Err(Stuck::Disk(error)) = &wrote {
            journal.breaks(error);
        }
        ends.push(wrote.map_err(Stuck::into_error)?);
    }
    Ok(ends)
}
