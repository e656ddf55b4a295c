//! The heads of the segments that there are.

use super::format::{JournalId, SEGMENT_HEAD_BYTES, SegmentHead};
use super::identity::{RecoverError, disk};
use super::scan::{Headed, guess_head};
use crate::disk::{Disk, File};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// What the files of segments are.
pub(super) struct Heads {
    /// Those with a head.
    pub(super) headed: Vec<Headed>,
    /// Those that have none.
    pub(super) free: Vec<(String, Arc<dyn File>)>,
    /// What was lost, where that is passed over.
    pub(super) lost: Vec<String>,
}

/// Reads the heads of these files. One that cannot be read is guessed from what lies after it,
/// where what is corrupt is passed over.
pub(super) fn heads(
    disk_of: &Arc<dyn Disk>,
    journal: JournalId,
    segments: Vec<String>,
    salvages: bool,
) -> Result<Heads, RecoverError> {
    let mut free = Vec::new();
    let mut headed = Vec::new();
    for name in segments {
        let file = disk_of.open(&name).map_err(disk(name.clone()))?;
        let mut head = [0; SEGMENT_HEAD_BYTES];
        let read = match file.read_at(0, &mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            // That it is missing is found later.
            Err(_) if salvages => Ok(None),
            read => read.map(|()| SegmentHead::decode(&head)),
        };
        if SegmentHead::is_of_other_version(&head) {
            let what = format!("{name} was written by another version of the journal");
            return Err(RecoverError::Foreign(what));
        }
        match read.map_err(disk(name.clone()))? {
            None => free.push((name, file)),
            Some(head) if head.journal != journal => {
                return Err(RecoverError::Foreign(format!("{name} belongs to another journal")));
            }
            Some(head) => headed.push(Headed { name, file, head }),
        }
    }
    let mut lost = Vec::new();
    if salvages {
        let starts: BTreeSet<_> = headed.iter().map(|it| it.head.start).collect();
        for (name, file) in std::mem::take(&mut free) {
            match guess_head(&*file, journal, &starts) {
                Some(head) => {
                    lost.push(format!("the head of {name}, and nothing of its batches"));
                    headed.push(Headed { name, file, head });
                }
                None => free.push((name, file)),
            }
        }
    }
    Ok(Heads { headed, free, lost })
}
