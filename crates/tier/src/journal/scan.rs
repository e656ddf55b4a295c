//! The file of a segment, as a start reads it.

use super::format::{BATCH_HEAD_BYTES, BatchHead, JournalId, SEGMENT_HEAD_BYTES, SegmentHead};
use super::identity::{RecoverError, disk};
use crate::disk::File;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are read at once of a segment: few of those that were hardly written to are read.
const PIECE_BYTES: usize = 1 << 20;
/// The same of what follows its batches, which is looked through once: it stays in the caches.
const REST_BYTES: usize = 256 << 10;
/// Bytes of what may be batches that are summed up in one segment, where none is to be: four times
/// as many as the longest segment has.
const SUMMED_BYTES_MAX: usize = 256 << 20;
/// The same of what the disk does not read as a whole.
const SECTOR_BYTES: usize = 4096;

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
        let (first, oldest, is_unused) = (0, 0, false);
        SegmentHead { journal, start, first, number, bytes, follows_end, oldest, is_unused }
    });
    heads.find(|head| {
        let length = BatchHead::length(head.seed(), &first).unwrap_or(0);
        let end = SEGMENT_HEAD_BYTES + length;
        let mut batch = vec![0; if end <= bytes as usize { length } else { 0 }];
        let read = file.read_at(SEGMENT_HEAD_BYTES as u64, &mut batch);
        read.is_ok() && BatchHead::open(head.seed(), &batch).is_some()
    })
}

/// Reads the batches of a segment into the front of `room`: all up to the first place where no head
/// stands, or to one for which `is_last` says so, and a little more. Returns how much was read.
pub(super) fn read_front(
    segment: &Headed,
    room: &mut Vec<u8>,
    is_last: impl Fn(&[u8; BATCH_HEAD_BYTES]) -> bool,
) -> Result<usize, RecoverError> {
    let there = bytes_there(segment)?;
    let (mut at, mut read, mut is_over) = (SEGMENT_HEAD_BYTES, 0, false);
    loop {
        let head = room[..read].get(at..).and_then(<[u8]>::first_chunk).filter(|_| !is_over);
        match head.map(|head| (head, BatchHead::length(segment.head.seed(), head))) {
            Some((head, Some(length))) => {
                is_over = is_last(head);
                at = at.saturating_add(length);
            }
            Some((_, None)) => return Ok(read),
            None if read == there || is_over && read >= at => return Ok(read),
            None => {
                let end = at.saturating_add(BATCH_HEAD_BYTES).max(read + PIECE_BYTES).min(there);
                room.resize(room.len().max(end), 0);
                read_at(segment, read, &mut room[read..end])?;
                read = end;
            }
        }
    }
}

/// Reads all that a segment holds into the front of `room`. What the disk does not read is zeros,
/// and goes to the list of what is `lost`. Returns how much was read.
pub(super) fn read_all(
    segment: &Headed,
    room: &mut Vec<u8>,
    lost: &mut Vec<String>,
) -> Result<usize, RecoverError> {
    let there = bytes_there(segment)?;
    room.resize(room.len().max(there), 0);
    let bytes = &mut room[..there];
    if segment.file.read_at(0, bytes).is_ok() {
        return Ok(there);
    }
    for (part, sector) in bytes.chunks_mut(SECTOR_BYTES).enumerate() {
        let at = part * SECTOR_BYTES;
        if let Err(error) = segment.file.read_at(at as u64, sector) {
            sector.fill(0);
            lost.push(format!("{} cannot be read at byte {at}: {error}", segment.name));
        }
    }
    Ok(there)
}

/// The heads of the whole batches that begin after `end`, where none does, and before `until`: of
/// all, unless what looks like heads is so much that it was written to look so.
/// `bytes` is what was read of the segment, from its front on.
pub(super) fn heads_after(
    segment: &Headed,
    bytes: &[u8],
    (end, until): (usize, usize),
) -> Result<Vec<BatchHead>, RecoverError> {
    let seed = segment.head.seed();
    let (mut found, mut piece) = (Vec::new(), Vec::new());
    let (mut begin, mut summed) = (end + 1, 0);
    while begin + BATCH_HEAD_BYTES <= until && summed < SUMMED_BYTES_MAX {
        let read = bytes.get(begin..until.min(bytes.len())).unwrap_or_default();
        let window = match read.len() >= BATCH_HEAD_BYTES {
            true => read,
            false => {
                piece.resize(REST_BYTES.min(until - begin), 0);
                read_at(segment, begin, &mut piece)?;
                &piece
            }
        };
        let mut at = 0;
        while let Some(next) = BatchHead::next_in(&window[at..]) {
            at += next;
            // Its head may go on in the next piece, which begins so that it has it all.
            let Some(head) = window[at..].first_chunk() else { break };
            let length = BatchHead::length(seed, head).unwrap_or(usize::MAX);
            if let Some(batch) = (begin + at).checked_add(length).filter(|end| *end <= until) {
                found.extend(head_at(segment, bytes, begin + at..batch)?);
                summed += length;
            }
            if summed >= SUMMED_BYTES_MAX {
                break;
            }
            at += 1;
        }
        begin += window.len() - BATCH_HEAD_BYTES + 1;
    }
    Ok(found)
}

/// The head of the batch in this range, if it is whole there. `bytes` is what was read until now.
fn head_at(
    segment: &Headed,
    bytes: &[u8],
    range: Range<usize>,
) -> Result<Option<BatchHead>, RecoverError> {
    let mut read = Vec::new();
    let batch = match bytes.get(range.clone()) {
        Some(batch) => batch,
        None => {
            read.resize(range.len(), 0);
            read_at(segment, range.start, &mut read)?;
            &read
        }
    };
    Ok(BatchHead::open(segment.head.seed(), batch).map(|it| it.0))
}

/// Bytes of a segment that its file has.
pub(super) fn bytes_there(segment: &Headed) -> Result<usize, RecoverError> {
    let there = segment.file.bytes().map_err(disk(segment.name.clone()))?;
    Ok(there.min(segment.head.bytes.into()) as usize)
}

fn read_at(segment: &Headed, at: usize, into: &mut [u8]) -> Result<(), RecoverError> {
    segment.file.read_at(at as u64, into).map_err(disk(segment.name.clone()))
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
    while let Some(begin) = bytes.get(at..).and_then(BatchHead::next_in) {
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

#[cfg(test)]
mod tests {
    use super::super::format::{Kind, Spot};
    use super::*;
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A file that is only read, and how often it was.
    struct Written(Vec<u8>, AtomicUsize);

    impl File for Written {
        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            let found = self.0.get(at as usize..at as usize + into.len());
            into.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }

        fn bytes(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }

        fn set_bytes(&self, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A segment of a few pieces that has batches with as many bytes of payload at these places.
    fn segment(bytes: usize, batches: &[(usize, usize)]) -> Headed {
        let head = SegmentHead {
            journal: [7; 16],
            start: 1,
            first: 1,
            number: 3,
            bytes: bytes as u32,
            follows_end: true,
            oldest: 1,
            is_unused: false,
        };
        let mut file = vec![0; bytes];
        for &(at, payload) in batches {
            let head_of = BatchHead {
                kind: Kind::Records,
                lane: 1,
                payload: payload as u32,
                first: at as u64,
                span: 1,
                durable: 0,
                flushed: Spot::default(),
                oldest: 1,
                clock_s: 0,
                origin: None,
            };
            head_of.seal(head.seed(), &mut file[at..at + BATCH_HEAD_BYTES + payload]);
        }
        Headed {
            name: "segment".to_owned(),
            file: Arc::new(Written(file, AtomicUsize::new(0))),
            head,
        }
    }

    /// What a start finds of a segment: batches, and after them heads.
    fn found(segment: &Headed) -> (Vec<usize>, Vec<u64>) {
        let mut room = vec![9; 10 * PIECE_BYTES];
        let read = read_front(segment, &mut room, |_| false).expect("it is read");
        let bytes = &room[..read];
        let front: Vec<_> = batches(segment, bytes)
            .map(|(at, _, payload)| (at, at + BATCH_HEAD_BYTES + payload.len()))
            .collect();
        let end = front.last().map_or(SEGMENT_HEAD_BYTES, |(_, end)| *end);
        let until = bytes_there(segment).expect("it has a length");
        let later = heads_after(segment, bytes, (end, until)).expect("it is read");
        let later = later.into_iter().map(|head| head.first).collect();
        (front.into_iter().map(|(at, _)| at).collect(), later)
    }

    #[test]
    fn batches_are_read_over_the_ends_of_pieces() {
        let first = (SEGMENT_HEAD_BYTES, PIECE_BYTES - SEGMENT_HEAD_BYTES - BATCH_HEAD_BYTES - 9);
        let second = (PIECE_BYTES - 9, 3 * PIECE_BYTES);
        let third = (second.0 + BATCH_HEAD_BYTES + second.1, 100);
        let all = [first, second, third];
        let whole = segment(third.0 + BATCH_HEAD_BYTES + third.1, &all);
        let places: Vec<_> = all.iter().map(|(at, _)| *at).collect();
        assert_eq!(found(&whole), (places.clone(), Vec::new()));
        let longer = segment(8 * PIECE_BYTES, &all);
        assert_eq!(found(&longer), (places, Vec::new()));
        assert_eq!(found(&segment(PIECE_BYTES, &[])), (Vec::new(), Vec::new()));
    }

    #[test]
    fn little_is_read_of_a_segment_with_few_batches_and_of_one_whose_last_wanted_is_found() {
        let read = |segment: &Headed, last: usize| {
            let is_last = |head: &[u8; BATCH_HEAD_BYTES]| {
                u64::from_le_bytes(head[16..24].try_into().expect("8 bytes")) == last as u64
            };
            read_front(segment, &mut Vec::new(), is_last).expect("it is read")
        };
        let few = segment(8 * PIECE_BYTES, &[(SEGMENT_HEAD_BYTES, 1_000)]);
        assert_eq!(read(&few, 0), PIECE_BYTES);
        let payload = PIECE_BYTES - BATCH_HEAD_BYTES;
        let place = |nth: usize| SEGMENT_HEAD_BYTES + nth * PIECE_BYTES;
        let places: Vec<_> = (0..7).map(|nth| (place(nth), payload)).collect();
        let many = segment(8 * PIECE_BYTES, &places);
        assert_eq!(read(&many, 0), 8 * PIECE_BYTES);
        assert!((place(3)..place(3) + PIECE_BYTES).contains(&read(&many, place(2))));
    }

    #[test]
    fn a_batch_after_a_gap_is_found_wherever_it_begins() {
        let near = |edge: usize| edge - BATCH_HEAD_BYTES - 2..edge + 3;
        let end = SEGMENT_HEAD_BYTES + BATCH_HEAD_BYTES + 1_000;
        // Of the front one piece is read, and the pieces of the rest follow it.
        let edges = [PIECE_BYTES, PIECE_BYTES + REST_BYTES].map(near).into_iter().flatten();
        for at in edges.chain([end + 1, 2 * PIECE_BYTES - BATCH_HEAD_BYTES - 70]) {
            let all = [(SEGMENT_HEAD_BYTES, 1_000), (at, 70)];
            let segment = segment(2 * PIECE_BYTES, &all);
            assert_eq!(found(&segment), (vec![SEGMENT_HEAD_BYTES], vec![at as u64]), "{at}");
        }
    }

    #[test]
    fn what_only_looks_like_heads_is_read_once() {
        let mut bytes = vec![0; 4 * PIECE_BYTES];
        bytes[PIECE_BYTES..].chunks_mut(4).for_each(|four| four.copy_from_slice(b"VXB1"));
        let of = segment(bytes.len(), &[]);
        let file = Arc::new(Written(bytes, AtomicUsize::new(0)));
        let segment = Headed { file: file.clone(), ..of };
        assert_eq!(found(&segment), (Vec::new(), Vec::new()));
        assert!(file.1.load(Ordering::Relaxed) < 20, "{file:?}", file = file.1);
    }
}
