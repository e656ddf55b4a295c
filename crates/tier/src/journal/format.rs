//! What lies in a segment: one sector that names it, then batches of records.
//!
//! ```text
//! segment   head (512 bytes) | batch | batch | ...   | zeros, or what an earlier use has left
//! batch     head (64 bytes)  | payload
//! payload   of entries:      record | record | ...
//! record    CRC (4 bytes)    | entry, as a log of effects has it
//! ```
//!
//! All numbers are little-endian. Each CRC begins with a number made of the journal, the start of
//! the cell and the segment: so what an earlier use of the file has left is not taken for a batch.
//! Nothing is aligned.

use base::{SliceId, Version};
use crc32fast::Hasher;
use memchr::memmem;

/// Bytes of the head of a segment.
pub(crate) const SEGMENT_HEAD_BYTES: usize = 512;
/// Bytes of the head of a batch.
pub(crate) const BATCH_HEAD_BYTES: usize = 64;
/// Bytes of a record besides its entry.
pub(crate) const RECORD_BYTES: usize = 4;
/// Bytes of one slice in a checkpoint.
pub(crate) const SLICE_BYTES: usize = 34;
/// Bytes of one cut in an end.
pub(crate) const CUT_BYTES: usize = 16;

const SEGMENT_MAGIC: [u8; 8] = *b"VXSEGM03";
/// What the heads of all versions begin with.
const SEGMENT_NAME: &[u8] = b"VXSEGM";
const BATCH_MAGIC: [u8; 4] = *b"VXB1";

/// The byte of the head of a segment that says whether no batch of it is durable. The CRC leaves it
/// out: it changes alone when the first batch is written, and a head is whole of which that write
/// has changed a part. Its two values differ in four bits.
const UNUSED_AT: usize = 37;
const USED: u8 = 0;
const UNUSED: u8 = 0xa5;

/// The identity of a journal.
pub type JournalId = [u8; 16];

/// The head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    pub(crate) journal: JournalId,
    /// The number of the start of the cell that wrote it.
    pub(crate) start: u32,
    /// The first number of that start, all of which follow each other.
    pub(crate) first: u32,
    /// Its number, which no other segment of the journal ever has.
    pub(crate) number: u32,
    /// Bytes of the file.
    pub(crate) bytes: u32,
    /// Whether what that start found was complete on the disk before: its END.
    pub(crate) follows_end: bool,
    /// Segments with lower numbers were free when this one was made ready. It is durable before
    /// the file of such a segment is written to.
    pub(crate) oldest: u32,
    /// No batch of it is durable. The first one is written together with a head that does not say
    /// so.
    pub(crate) is_unused: bool,
}

impl SegmentHead {
    /// As bytes.
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEAD_BYTES] {
        let mut head = [0; SEGMENT_HEAD_BYTES];
        head[..8].copy_from_slice(&SEGMENT_MAGIC);
        head[8..24].copy_from_slice(&self.journal);
        head[24..28].copy_from_slice(&self.start.to_le_bytes());
        head[28..32].copy_from_slice(&self.number.to_le_bytes());
        head[32..36].copy_from_slice(&self.bytes.to_le_bytes());
        head[36] = self.follows_end.into();
        head[UNUSED_AT] = if self.is_unused { UNUSED } else { USED };
        head[40..44].copy_from_slice(&self.oldest.to_le_bytes());
        head[44..48].copy_from_slice(&self.first.to_le_bytes());
        let crc = crc_of_head(&head);
        head[SEGMENT_HEAD_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        head
    }

    /// From bytes; `None` if they are no head of a segment.
    pub(crate) fn decode(head: &[u8; SEGMENT_HEAD_BYTES]) -> Option<Self> {
        let is_whole = head[..8] == SEGMENT_MAGIC
            && head[SEGMENT_HEAD_BYTES - 4..] == crc_of_head(head).to_le_bytes()
            && head[36] <= 1
            && [USED, UNUSED].contains(&head[UNUSED_AT]);
        is_whole.then(|| Self {
            journal: take(head, 8),
            start: u32::from_le_bytes(take(head, 24)),
            number: u32::from_le_bytes(take(head, 28)),
            bytes: u32::from_le_bytes(take(head, 32)),
            follows_end: head[36] == 1,
            is_unused: head[UNUSED_AT] == UNUSED,
            oldest: u32::from_le_bytes(take(head, 40)),
            first: u32::from_le_bytes(take(head, 44)),
        })
    }

    /// Whether these bytes are a head as another version of the journal writes it.
    pub(crate) fn is_of_other_version(head: &[u8; SEGMENT_HEAD_BYTES]) -> bool {
        head.starts_with(SEGMENT_NAME)
            && !head.starts_with(&SEGMENT_MAGIC)
            && head[SEGMENT_HEAD_BYTES - 4..] == crc_of_head(head).to_le_bytes()
    }

    /// The same, with its first batch.
    pub(crate) fn used(&self) -> Self {
        Self { is_unused: false, ..*self }
    }

    /// What the CRCs in this segment begin with.
    pub(crate) fn seed(&self) -> Seed {
        let mut hasher = Hasher::new();
        hasher.update(&self.journal);
        hasher.update(&self.start.to_le_bytes());
        hasher.update(&self.number.to_le_bytes());
        Seed { crc: hasher.finalize(), number: self.number }
    }
}

/// The CRC of the head of a segment.
fn crc_of_head(head: &[u8; SEGMENT_HEAD_BYTES]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&head[..UNUSED_AT]);
    hasher.update(&[USED]);
    hasher.update(&head[UNUSED_AT + 1..SEGMENT_HEAD_BYTES - 4]);
    hasher.finalize()
}

/// What the CRCs in one segment begin with, and the number of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed {
    crc: u32,
    number: u32,
}

impl Seed {
    /// The CRC of `bytes` in this segment.
    pub(crate) fn crc(self, bytes: &[u8]) -> u32 {
        let mut hasher = Hasher::new_with_initial(self.crc);
        hasher.update(bytes);
        hasher.finalize()
    }
}

/// What a batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Records.
    Records = 1,
    /// The state of slices: of all of the lane at the beginning of a segment, and of those that a
    /// barrier has changed later.
    Checkpoint = 2,
    /// New ceilings of slices: as a checkpoint.
    Ceilings = 3,
    /// Up to where each segment of earlier starts counts.
    End = 4,
}

impl Kind {
    fn of(number: u8) -> Option<Self> {
        [Self::Records, Self::Checkpoint, Self::Ceilings, Self::End]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }
}

/// A place in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
}

/// The head of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHead {
    pub(crate) kind: Kind,
    pub(crate) lane: u8,
    /// Bytes of the payload.
    pub(crate) payload: u32,
    /// The first position of the lane's log that the batch covers.
    pub(crate) first: u64,
    /// How many positions it covers; the entries of some are not journaled.
    pub(crate) span: u32,
    /// The last position that was durable when it was written.
    pub(crate) durable: u64,
    /// Everything of this lane before this was written back then.
    pub(crate) flushed: Spot,
    /// Segments with lower numbers were free then.
    pub(crate) oldest: u32,
    /// The second of the expiry clock.
    pub(crate) clock_s: u32,
    /// Where its records lay before, if they are written once more: a start takes them in there.
    pub(crate) origin: Option<Spot>,
}

impl BatchHead {
    /// Puts the head of the batch whose bytes these are into its place at their front.
    pub(crate) fn seal(&self, seed: Seed, batch: &mut [u8]) {
        batch[..4].copy_from_slice(&BATCH_MAGIC);
        batch[8] = self.kind as u8;
        batch[9] = self.lane;
        batch[10..12].fill(0);
        batch[12..16].copy_from_slice(&self.payload.to_le_bytes());
        batch[16..24].copy_from_slice(&self.first.to_le_bytes());
        batch[24..28].copy_from_slice(&self.span.to_le_bytes());
        batch[28..36].copy_from_slice(&self.durable.to_le_bytes());
        batch[36..40].copy_from_slice(&self.flushed.segment.to_le_bytes());
        batch[40..44].copy_from_slice(&self.flushed.offset.to_le_bytes());
        batch[44..48].copy_from_slice(&self.clock_s.to_le_bytes());
        batch[48..52].copy_from_slice(&self.oldest.to_le_bytes());
        batch[52..56].copy_from_slice(&seed.number.to_le_bytes());
        let origin = self.origin.unwrap_or_default();
        batch[56..60].copy_from_slice(&origin.segment.to_le_bytes());
        batch[60..64].copy_from_slice(&origin.offset.to_le_bytes());
        let crc = seed.crc(&batch[8..]);
        batch[4..8].copy_from_slice(&crc.to_le_bytes());
    }

    /// The head of the batch that `bytes` begin with, and its payload. `None` if they do not begin
    /// with a whole batch of this segment.
    pub(crate) fn open(seed: Seed, bytes: &[u8]) -> Option<(Self, &[u8])> {
        let fixed: &[u8; BATCH_HEAD_BYTES] = bytes.first_chunk()?;
        let payload = u32::from_le_bytes(take(fixed, 12));
        let end = BATCH_HEAD_BYTES.checked_add(payload as usize)?;
        let whole = bytes.get(..end)?;
        // What looks like a batch of another segment costs no sum of what it says is its payload.
        let is_whole = Self::length(seed, fixed).is_some()
            && seed.crc(&whole[8..]) == u32::from_le_bytes(take(fixed, 4));
        let head = Self {
            kind: Kind::of(fixed[8])?,
            lane: fixed[9],
            payload,
            first: u64::from_le_bytes(take(fixed, 16)),
            span: u32::from_le_bytes(take(fixed, 24)),
            durable: u64::from_le_bytes(take(fixed, 28)),
            flushed: Spot {
                segment: u32::from_le_bytes(take(fixed, 36)),
                offset: u32::from_le_bytes(take(fixed, 40)),
            },
            clock_s: u32::from_le_bytes(take(fixed, 44)),
            oldest: u32::from_le_bytes(take(fixed, 48)),
            origin: Some(Spot {
                segment: u32::from_le_bytes(take(fixed, 56)),
                offset: u32::from_le_bytes(take(fixed, 60)),
            })
            .filter(|origin| *origin != Spot::default()),
        };
        is_whole.then_some((head, &whole[BATCH_HEAD_BYTES..]))
    }

    /// Whether the head at the front of `bytes` is that of an END: nothing that a start writes once
    /// more comes after it.
    pub(crate) fn is_end(bytes: &[u8; BATCH_HEAD_BYTES]) -> bool {
        bytes[8] == Kind::End as u8
    }

    /// Where `bytes` look like a head for the first time.
    pub(crate) fn next_in(bytes: &[u8]) -> Option<usize> {
        memmem::find(bytes, &BATCH_MAGIC)
    }

    /// The number of the segment that `bytes` were written into, if they look like a head.
    pub(crate) fn number(bytes: &[u8; BATCH_HEAD_BYTES]) -> Option<u32> {
        (bytes[..4] == BATCH_MAGIC).then(|| u32::from_le_bytes(take(bytes, 52)))
    }

    /// The lane that the head at the front of `bytes` names, if it looks like one that was written
    /// into this segment.
    pub(crate) fn lane(seed: Seed, bytes: &[u8; BATCH_HEAD_BYTES]) -> Option<u32> {
        Self::length(seed, bytes).map(|_| bytes[9].into())
    }

    /// The length that the head at the front of `bytes` gives its batch, if it looks like one that
    /// was written into this segment.
    pub(crate) fn length(seed: Seed, bytes: &[u8; BATCH_HEAD_BYTES]) -> Option<usize> {
        let payload = u32::from_le_bytes(take(bytes, 12)) as usize;
        let is_of_segment = u32::from_le_bytes(take(bytes, 52)) == seed.number;
        (bytes[..4] == BATCH_MAGIC && is_of_segment).then_some(BATCH_HEAD_BYTES + payload)
    }
}

/// What a journal knows of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceState {
    /// The last version that an entry has shown, or that was given to begin with.
    pub last: Version,
    /// No version above this was given out.
    pub ceiling: Version,
    /// Items with this version or an older one are dead.
    pub barrier: Version,
    /// In this second of the expiry clock all items die; 0: in none.
    pub due_s: u32,
    /// In a ring: the number of the delayed flush that was carried out last; 0: none.
    pub flushed: u32,
}

/// Appends the state of a slice.
pub(crate) fn encode_slice(slice: SliceId, state: &SliceState, to: &mut Vec<u8>) {
    to.extend_from_slice(&(slice.index() as u16).to_le_bytes());
    for version in [state.last, state.ceiling, state.barrier] {
        to.extend_from_slice(&version.raw().to_le_bytes());
    }
    to.extend_from_slice(&state.due_s.to_le_bytes());
    to.extend_from_slice(&state.flushed.to_le_bytes());
}

/// The states of slices in the payload of a checkpoint. `None` for what is not one.
pub(crate) fn decode_slices(payload: &[u8]) -> Option<Vec<(SliceId, SliceState)>> {
    let parts = payload.chunks(SLICE_BYTES).map(|part| {
        let part: &[u8; SLICE_BYTES] = part.try_into().ok()?;
        let version = |at| Version::from_raw(u64::from_le_bytes(take(part, at)));
        let slice = SliceId::new(u16::from_le_bytes(take(part, 0)).into())?;
        let (last, ceiling, barrier) = (version(2), version(10), version(18));
        let [due_s, flushed] = [26, 30].map(|at| u32::from_le_bytes(take(part, at)));
        Some((slice, SliceState { last, ceiling, barrier, due_s, flushed }))
    });
    parts.collect()
}

/// Up to where the segments of one lane of an earlier start count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) start: u32,
    pub(crate) lane: u32,
    /// The end of the last batch that counts; offset 0: none of that segment.
    pub(crate) at: Spot,
}

/// Appends a cut.
pub(crate) fn encode_cut(cut: &Cut, to: &mut Vec<u8>) {
    for number in [cut.start, cut.lane, cut.at.segment, cut.at.offset] {
        to.extend_from_slice(&number.to_le_bytes());
    }
}

/// The cuts in the payload of an end. `None` for what is not one.
pub(crate) fn decode_cuts(payload: &[u8]) -> Option<Vec<Cut>> {
    let parts = payload.chunks(CUT_BYTES).map(|part| {
        let part: &[u8; CUT_BYTES] = part.try_into().ok()?;
        let number = |at| u32::from_le_bytes(take(part, at));
        let at = Spot { segment: number(8), offset: number(12) };
        Some(Cut { start: number(0), lane: number(4), at })
    });
    parts.collect()
}

fn take<const N: usize, const M: usize>(bytes: &[u8; M], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: SegmentHead = SegmentHead {
        journal: [7; 16],
        start: 2,
        first: 8,
        number: 9,
        bytes: 4096,
        follows_end: true,
        oldest: 4,
        is_unused: true,
    };

    #[test]
    fn a_segment_head_is_read_as_it_was_written_and_not_when_a_bit_differs() {
        let bytes = HEAD.encode();
        assert_eq!(SegmentHead::decode(&bytes), Some(HEAD));
        for bit in 0..SEGMENT_HEAD_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHead::decode(&flipped), None, "bit {bit}");
        }
        assert_eq!(SegmentHead::decode(&[0; SEGMENT_HEAD_BYTES]), None);
        let used = HEAD.used().encode();
        for end in 0..SEGMENT_HEAD_BYTES {
            let mut torn = bytes;
            torn[..end].copy_from_slice(&used[..end]);
            let of = SegmentHead::decode(&torn).map(|head| head.used());
            assert_eq!(of, Some(HEAD.used()), "used up to byte {end}");
        }
        assert!(!SegmentHead::is_of_other_version(&bytes));
        let mut other = bytes;
        other[7] = b'1';
        let crc = crc_of_head(&other);
        other[SEGMENT_HEAD_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        assert!(SegmentHead::is_of_other_version(&other));
        assert_eq!(SegmentHead::decode(&other), None);
    }

    #[test]
    fn a_batch_is_read_in_its_segment_alone_and_not_when_a_bit_differs() {
        let head = BatchHead {
            kind: Kind::Records,
            lane: 3,
            payload: 5,
            first: 11,
            span: 2,
            durable: 10,
            flushed: Spot { segment: 4, offset: 700 },
            clock_s: 1_800_000_000,
            oldest: 3,
            origin: Some(Spot { segment: 2, offset: 512 }),
        };
        let mut batch = vec![0; BATCH_HEAD_BYTES];
        batch.extend_from_slice(b"bytes");
        head.seal(HEAD.seed(), &mut batch);
        batch.extend_from_slice(b"and what follows");
        assert_eq!(BatchHead::open(HEAD.seed(), &batch), Some((head, &b"bytes"[..])));
        let others = [
            SegmentHead { number: 10, ..HEAD },
            SegmentHead { start: 3, ..HEAD },
            SegmentHead { journal: [8; 16], ..HEAD },
        ];
        for other in others {
            assert_eq!(BatchHead::open(other.seed(), &batch), None, "{other:?}");
        }
        let length = BATCH_HEAD_BYTES + 5;
        for bit in 0..length * 8 {
            let mut flipped = batch.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BatchHead::open(HEAD.seed(), &flipped), None, "bit {bit}");
        }
        for short in 0..length {
            assert_eq!(BatchHead::open(HEAD.seed(), &batch[..short]), None, "{short} bytes");
        }
    }

    #[test]
    fn states_and_cuts_are_read_as_they_were_written() {
        let version = Version::from_raw;
        let (last, ceiling, barrier) = (version(5), version(70_000), version(1 << 50));
        let state = SliceState { last, ceiling, barrier, due_s: 1_900_000_000, flushed: 7 };
        let slices = [(SliceId::of(b"a"), state), (SliceId::of(b"b"), SliceState::default())];
        let mut bytes = Vec::new();
        slices.iter().for_each(|(slice, state)| encode_slice(*slice, state, &mut bytes));
        assert_eq!(decode_slices(&bytes).as_deref(), Some(&slices[..]));
        assert_eq!(decode_slices(&bytes[1..]), None);
        let cuts = [Cut { start: 1, lane: 2, at: Spot { segment: 3, offset: 4 } }];
        let mut bytes = Vec::new();
        cuts.iter().for_each(|cut| encode_cut(cut, &mut bytes));
        assert_eq!(decode_cuts(&bytes).as_deref(), Some(&cuts[..]));
        assert_eq!(decode_cuts(&bytes[..15]), None);
    }
}
