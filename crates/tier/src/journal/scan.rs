//! The file of a segment, as a start reads it.

use super::format::{BATCH_HEAD_BYTES, BatchHead, JournalId, SEGMENT_HEAD_BYTES, SegmentHead};
use super::identity::{RecoverError, disk};
use crate::disk::File;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes that are read at once of what the disk does not read as a whole.
const PIECE_BYTES: usize = 4096;

/// A file with a head.
pub(super) struct Headed {
    pub(super) name: String,
    pub(super) file: Arc<dyn File>,
    pub(super) head: SegmentHead,
}

/// The head that a file has lost, if it is that of a segment of one of these `starts`: its first
/// batch has the number, and is whole under the right start alone.
pub(super) fn guess_head(
    file: &dyn File,
    journal: JournalId,
    starts: &BTreeSet<u32>,
) -> Option<SegmentHead> {
    let mut first = [0; BATCH_HEAD_BYTES];
    file.read_at(SEGMENT_HEAD_BYTES as u64, &mut first).ok()?;
    let bytes = u32::try_from(file.bytes().ok()?).ok()?;
    let number = BatchHead::number(&first)?;
    let mut heads = starts.iter().map(|start| {
        let (start, follows_end) = (*start, false);
        SegmentHead { journal, start, first: 0, number, bytes, follows_end, oldest: 0 }
    });
    heads.find(|head| {
        let length = BatchHead::length(head.seed(), &first).unwrap_or(0);
        let end = SEGMENT_HEAD_BYTES + length;
        let mut batch = vec![0; if end <= bytes as usize { length } else { 0 }];
        let read = file.read_at(SEGMENT_HEAD_BYTES as u64, &mut batch);
        read.is_ok() && BatchHead::open(head.seed(), &batch).is_some()
    })
}

/// What a segment holds, in the room of `bytes`, whatever these are. What the disk does not read is
/// zeros, where it goes to the list of what is `lost`.
pub(super) fn read_all(
    segment: &Headed,
    lost: Option<&mut Vec<String>>,
    mut bytes: Vec<u8>,
) -> Result<Vec<u8>, RecoverError> {
    let refused = || disk(segment.name.clone());
    let there = segment.file.bytes().map_err(refused())?;
    bytes.resize(there.min(segment.head.bytes.into()) as usize, 0);
    let read = segment.file.read_at(0, &mut bytes);
    let Some(lost) = lost.filter(|_| read.is_err()) else {
        return read.map_err(refused()).map(|()| bytes);
    };
    for (part, piece) in bytes.chunks_mut(PIECE_BYTES).enumerate() {
        let at = (part * PIECE_BYTES) as u64;
        if let Err(error) = segment.file.read_at(at, piece) {
            piece.fill(0);
            lost.push(format!("{} cannot be read at byte {at}: {error}", segment.name));
        }
    }
    Ok(bytes)
}

/// The whole batches of a segment, each with its offset, up to the first that is not whole.
pub(super) fn batches<'b>(
    segment: &Headed,
    bytes: &'b [u8],
) -> impl Iterator<Item = (usize, BatchHead, &'b [u8])> {
    let seed = segment.head.seed();
    let mut at = SEGMENT_HEAD_BYTES;
    std::iter::from_fn(move || {
        let (head, payload) = BatchHead::open(seed, bytes.get(at..)?)?;
        let offset = at;
        at += BATCH_HEAD_BYTES + payload.len();
        Some((offset, head, payload))
    })
}

/// All whole batches of a segment, each with its offset, also after what is not whole.
pub(super) fn all_batches<'b>(
    segment: &Headed,
    bytes: &'b [u8],
) -> Vec<(usize, BatchHead, &'b [u8])> {
    let (mut found, mut at) = (Vec::new(), SEGMENT_HEAD_BYTES);
    while let Some(begin) = bytes.get(at..).and_then(|rest| find(rest, b"VXB1")) {
        at += begin;
        match BatchHead::open(segment.head.seed(), &bytes[at..]) {
            Some((head, payload)) => {
                found.push((at, head, payload));
                at += BATCH_HEAD_BYTES + payload.len();
            }
            None => at += 1,
        }
    }
    found
}

/// Where `what` begins in `bytes`.
pub(super) fn find(bytes: &[u8], what: &[u8; 4]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = bytes.get(from..)?.iter().position(|byte| *byte == what[0]) {
        if bytes[from + at..].starts_with(what) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}
