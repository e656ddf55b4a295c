//! The tail of a log: what a copy has of the log of a primary that is over, and what it says of
//! that to the other copies.
//!
//! ```text
//! its reach:   head  how many entries follow (4)  for each lane: from (8)  last (8)
//! an entry:    head  lane (1)  position (8)  the entry
//! head:        to (4)  range (4)  epoch (4)  of (4)  life (8)
//! ```
//!
//! Numbers are little-endian. `of` and `life` name the log; `epoch` is the new one of the range.

use crate::ring::retries::tag_state::{NOTHING_KIND, decode_nothing};
use base::{SliceId, SliceRange};
use effects::{Entry, Record};
use ring::{CellId, RangeId};

/// The number of the entries that say how far a tail reaches.
pub(crate) const REACH_KIND: u8 = 5;
/// The number of those that have an entry of a tail.
pub(crate) const ENTRY_KIND: u8 = 6;

const HEAD_BYTES: usize = 24;
const LANE_BYTES: usize = 16;

/// Who says what to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// For whom it is.
    pub(crate) to: CellId,
    pub(crate) range: RangeId,
    /// The epoch in which the tails are exchanged.
    pub(crate) epoch: u32,
    /// Whose log it is a part of.
    pub(crate) of: CellId,
    /// In which life of that cell.
    pub(crate) life: u64,
}

/// What is kept of one lane of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Every entry after this position is in the tail.
    pub(crate) from: u64,
    /// The last position that was applied.
    pub(crate) last: u64,
}

/// What a cell has of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) of: CellId,
    pub(crate) life: u64,
    /// By lane.
    pub(crate) reaches: Vec<Reach>,
    /// The entries: lane, position and bytes.
    pub(crate) entries: Vec<(u8, u64, Vec<u8>)>,
}

impl Tail {
    /// That of a cell of which nothing was ever received.
    pub(crate) fn nothing(of: CellId) -> Self {
        Self { of, life: 0, reaches: Vec::new(), entries: Vec::new() }
    }

    /// Adds those of the `records` of a lane that concern `slices`, which come in their order. Of
    /// frames that overlap, some come twice, and are added once.
    pub(crate) fn add<'a>(
        &mut self,
        lane: u8,
        records: impl IntoIterator<Item = Record<'a>>,
        slices: SliceRange,
    ) {
        let mut latest = None;
        for Record { position, entry } in records {
            if concerns(&entry, slices) && latest.is_none_or(|latest| latest < position) {
                let mut bytes = Vec::new();
                entry.encode(&mut bytes);
                self.entries.push((lane, position, bytes));
                latest = Some(position);
            }
        }
    }

    /// Whether what the `other` has beyond this tail is in the tail of the other, and the reverse.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        let joins =
            |(own, other): (&Reach, &Reach)| own.from <= other.last && other.from <= own.last;
        self.of == other.of
            && self.life == other.life
            && self.reaches.len() == other.reaches.len()
            && self.reaches.iter().zip(&other.reaches).all(joins)
    }

    /// What is said of it to `to`, entry by entry: the kind of each, and its bytes.
    pub(crate) fn encode(&self, to: CellId, range: RangeId, epoch: u32) -> Vec<(u8, Vec<u8>)> {
        let head = Head { to, range, epoch, of: self.of, life: self.life }.encode();
        let entry = |(lane, position, bytes): &(u8, u64, Vec<u8>)| {
            (ENTRY_KIND, [&head[..], &[*lane], &position.to_le_bytes(), bytes].concat())
        };
        let mut reach = [&head[..], &(self.entries.len() as u32).to_le_bytes()].concat();
        for Reach { from, last } in &self.reaches {
            reach.extend_from_slice(&from.to_le_bytes());
            reach.extend_from_slice(&last.to_le_bytes());
        }
        std::iter::once((REACH_KIND, reach)).chain(self.entries.iter().map(entry)).collect()
    }
}

/// Whether an entry is a change of `slices`, or says of a request there that it has made nothing.
fn concerns(entry: &Entry<'_>, slices: SliceRange) -> bool {
    let has = |slice: SliceId| slices.contains(slice);
    match entry {
        Entry::Change { slice, .. } => has(*slice),
        // Its slices are one range.
        Entry::Barrier(of, _) => of.iter().next().is_some_and(has),
        Entry::Other { kind: NOTHING_KIND, bytes, .. } => {
            decode_nothing(bytes).is_some_and(|(_, slice)| has(slice))
        }
        Entry::Item { .. } | Entry::Other { .. } | Entry::Skipped => false,
    }
}

impl Head {
    fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let words = [self.to.0, self.range.0, self.epoch, self.of.0].map(u32::to_le_bytes);
        bytes[..16].copy_from_slice(words.as_flattened());
        bytes[16..].copy_from_slice(&self.life.to_le_bytes());
        bytes
    }

    /// The head that `bytes` begin with, and what follows it.
    pub(crate) fn take(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let (words, life) = head.split_first_chunk::<16>()?;
        let [to, range, epoch, of] = words.as_chunks::<4>().0 else { return None };
        let [to, range, epoch, of] = [to, range, epoch, of].map(|word| u32::from_le_bytes(*word));
        let life = u64::from_le_bytes(life.try_into().ok()?);
        let (to, range, of) = (CellId(to), RangeId(range), CellId(of));
        Some((Self { to, range, epoch, of, life }, rest))
    }
}

/// The lane, the position and the entry that follow a head.
pub(crate) fn entry_of(rest: &[u8]) -> Option<(u8, u64, Entry<'_>)> {
    let (lane, rest) = rest.split_first()?;
    let (position, rest) = rest.split_first_chunk::<8>()?;
    let (entry, length) = Entry::decode(rest).ok()?;
    (length == rest.len()).then(|| (*lane, u64::from_le_bytes(*position), entry))
}

/// The reach of a tail, of which `head` was read, and how many entries follow.
pub(crate) fn reach_of(head: &Head, rest: &[u8]) -> Option<(Tail, u32)> {
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let (lanes, rest) = rest.as_chunks::<LANE_BYTES>();
    let word = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
    let reach = |bytes: &[u8; LANE_BYTES]| {
        Some(Reach { from: word(&bytes[..8])?, last: word(&bytes[8..])? })
    };
    let reaches = lanes.iter().map(reach).collect::<Option<_>>()?;
    let tail = Tail { of: head.of, life: head.life, reaches, entries: Vec::new() };
    rest.is_empty().then_some((tail, u32::from_le_bytes(*count)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Change, Effect, Removal, Version};

    fn removal(slice: usize) -> Entry<'static> {
        let slice = SliceId::new(slice).expect("a slice");
        let effect = Effect { key: b"key", change: Change::Remove(Removal::Deleted) };
        Entry::Change { slice, version: Version::new(1, 9), effect, tag: None }
    }

    fn tail(reaches: &[(u64, u64)]) -> Tail {
        let reaches = reaches.iter().map(|(from, last)| Reach { from: *from, last: *last });
        Tail { life: 5, reaches: reaches.collect(), ..Tail::nothing(CellId(3)) }
    }

    #[test]
    fn what_is_said_is_understood_and_broken_bytes_are_refused() {
        let mut tail = tail(&[(4, 7), (0, u64::MAX)]);
        let slices = SliceRange::new(10..20);
        let barrier = |at: usize| Entry::Barrier(SliceRange::new(at..at + 3), 6);
        let all = [removal(10), removal(20), barrier(10), barrier(20), Entry::Skipped];
        let records = all.into_iter().zip(5..).map(|(entry, position)| Record { position, entry });
        let again = Record { position: 7, entry: removal(10) };
        tail.add(1, records.chain([again]), slices);
        let said = tail.encode(CellId(1), RangeId(2), 8);
        let kinds: Vec<_> = said.iter().map(|it| it.0).collect();
        assert_eq!(kinds, [REACH_KIND, ENTRY_KIND, ENTRY_KIND]);
        let read = |at: usize| Head::take(&said[at].1).expect("a head");
        let (head, rest) = read(1);
        let (to, range, of) = (CellId(1), RangeId(2), CellId(3));
        assert_eq!(head, Head { to, range, epoch: 8, of, life: 5 });
        let (lane, position, entry) = entry_of(rest).expect("an entry");
        assert_eq!((lane, position), (1, 5));
        assert!(matches!(entry, Entry::Change { version, .. } if version == Version::new(1, 9)));
        assert_eq!(entry_of(read(2).1).map(|it| it.1), Some(7), "the barrier");
        assert!(entry_of(&rest[..15]).is_none());
        let (head, rest) = read(0);
        let (reach, count) = reach_of(&head, rest).expect("a reach");
        assert_eq!((reach.life, reach.reaches, count), (5, tail.reaches, 2));
        assert!(reach_of(&head, &rest[1..]).is_none() && Head::take(&said[0].1[..20]).is_none());
    }

    /// The way that looked for the latest entry of the lane among all that were added before.
    fn add_slowly(tail: &mut Tail, lane: u8, records: &[Record<'_>], slices: SliceRange) {
        for record in records {
            let latest = tail.entries.iter().rev().find(|(of, ..)| *of == lane);
            let is_new = latest.is_none_or(|(_, position, _)| *position < record.position);
            if is_new && concerns(&record.entry, slices) {
                let mut bytes = Vec::new();
                record.entry.encode(&mut bytes);
                tail.entries.push((lane, record.position, bytes));
            }
        }
    }

    #[test]
    fn lanes_of_any_shape_are_added_as_if_all_entries_before_were_looked_at() {
        let slices = SliceRange::new(10..20);
        // Of each lane: where each frame begins, and how many entries it has.
        let frames = [(1, 9), (4, 3), (6, 8), (20, 5), (25, 1), (25, 4)];
        for shape in 0_u64..1 << frames.len() {
            let (mut fast, mut slow) = (tail(&[]), tail(&[]));
            for lane in 0..4 {
                let has = |at: &usize| (shape + u64::from(lane)) >> at & 1 == 1;
                let has = (0..frames.len()).filter(has).map(|at| frames[at]);
                let record = |position: u64| {
                    let entry = match (position + shape) % 5 {
                        0 => Entry::Skipped,
                        1 => removal(20),
                        2 => Entry::Barrier(slices, 6),
                        _ => removal(10),
                    };
                    Record { position, entry }
                };
                let positions = has.flat_map(|(first, count)| first..first + count);
                let records: Vec<_> = positions.map(record).collect();
                add_slowly(&mut slow, lane, &records, slices);
                fast.add(lane, records, slices);
            }
            assert_eq!(fast, slow, "{shape}");
        }
    }

    #[test]
    fn tails_fit_where_each_has_what_the_other_lacks() {
        let own = tail(&[(4, 7), (9, 9)]);
        let cases = [
            (tail(&[(4, 7), (9, 9)]), true),
            (tail(&[(7, 9), (2, 12)]), true),
            (tail(&[(8, 9), (2, 12)]), false),
            (tail(&[(1, 3), (9, 9)]), false),
            (tail(&[(4, 7)]), false),
            (Tail { life: 6, ..own.clone() }, false),
        ];
        for (other, fits) in cases {
            assert_eq!((own.fits(&other), other.fits(&own)), (fits, fits), "{other:?}");
        }
        assert!(Tail::nothing(CellId(3)).fits(&Tail::nothing(CellId(3))));
    }
}
