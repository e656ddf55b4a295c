//! How the journal says that changes are given up.

use super::Journal;
use super::format::Spot;
use super::lane::Stuck;
use base::{SliceId, Version};
use std::io;
use std::sync::atomic::Ordering;

/// Writes that the changes of keys up to versions are given up. Returns where that ends in each
/// lane: it counts once that is durable.
///
/// # Errors
/// When the disk refuses, or has no room even in the reserve. Some may be written then.
pub(crate) fn give_up(journal: &Journal, keys: &[(&[u8], Version)]) -> io::Result<Vec<Spot>> {
    let mut ends = Vec::new();
    for lane in &journal.of_lanes {
        let is_of =
            |(key, _): &&(&[u8], Version)| journal.lanes.lane_of(SliceId::of(key)) == lane.id;
        let of_lane: Vec<_> = keys.iter().filter(is_of).copied().collect();
        if of_lane.is_empty() {
            continue;
        }
        let wrote = journal.with_writer(lane, |writer| {
            // With the writer: a repair waits for that, and no segment of its start is taken here.
            if journal.is_broken.load(Ordering::Acquire) || journal.failure().is_some() {
                return Err(Stuck::Disk(io::Error::other("the disk has refused it")));
            }
            writer.give_up(journal.with(lane), &of_lane)
        });
        if let Err(Stuck::Disk(error)) = &wrote {
            journal.breaks(error);
        }
        ends.push(wrote.map_err(Stuck::into_error)?);
    }
    Ok(ends)
}
