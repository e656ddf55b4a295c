//! What a copy needs to know of the requests of other cells: what has come of each, by asker.
//!
//! ```text
//! a learner gets, of one asker:
//! cell (4)  life (8)  worker (2)  floor (8)
//! then for each: id (8)  slice (2)  kind (1)  token (8)  length of the value (4)  number (8)
//!
//! and each copy, of a request that was asked again and has made nothing:
//! tag (26)  slice (2)  how often it was asked before (2)
//! ```
//!
//! Numbers are little-endian. What has made nothing has its repetitions as its number.

use super::outcome::Outcome;
use super::tag::{Asker, RequestTag};
use base::SliceId;
use effects::{Made, MadeKind, TAG_BYTES};
use ring::CellId;

/// The number of the entries for a learner.
pub(crate) const KIND: u8 = 3;
/// The number of the entries about one request that has made nothing.
pub(crate) const NOTHING_KIND: u8 = 4;
/// Requests in one entry.
pub(crate) const REQUESTS_MAX: usize = 128;

const HEAD_BYTES: usize = 22;
const BYTES: usize = 31;
const NOTHING_BYTES: usize = TAG_BYTES + 4;

/// The kinds of change, by their numbers. The next number says that nothing was made.
const KINDS: [MadeKind; 3] = [MadeKind::Put, MadeKind::Touch, MadeKind::Remove];

/// What is sent to a learner of one asker: its floor, and what it has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagState {
    pub(crate) asker: Asker,
    pub(crate) floor: u64,
    pub(crate) outcomes: Vec<(u64, SliceId, Outcome)>,
}

/// The entry that says of the request with `tag` that it has made nothing.
pub(crate) fn nothing(tag: &RequestTag, slice: SliceId) -> [u8; NOTHING_BYTES] {
    let mut bytes = [0; NOTHING_BYTES];
    let (front, rest) = bytes.split_at_mut(TAG_BYTES);
    front.copy_from_slice(&tag.encode());
    rest[..2].copy_from_slice(&(slice.index() as u16).to_le_bytes());
    rest[2..].copy_from_slice(&tag.again.to_le_bytes());
    bytes
}

/// What such an entry says. `None` if it is none.
pub(crate) fn decode_nothing(bytes: &[u8]) -> Option<(RequestTag, SliceId)> {
    let bytes: &[u8; NOTHING_BYTES] = bytes.try_into().ok()?;
    let slice = SliceId::new(u16::from_le_bytes(part(bytes, TAG_BYTES)).into())?;
    let again = u16::from_le_bytes(part(bytes, TAG_BYTES + 2));
    Some((RequestTag { again, ..RequestTag::decode(&part(bytes, 0))? }, slice))
}

/// The entries that say `state`: one at least, for its floor.
pub(crate) fn encode(state: &TagState) -> Vec<Vec<u8>> {
    let TagState { asker: Asker { cell, life, worker }, floor, outcomes } = state;
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.extend_from_slice(&cell.0.to_le_bytes());
    head.extend_from_slice(&life.to_le_bytes());
    head.extend_from_slice(&worker.to_le_bytes());
    head.extend_from_slice(&floor.to_le_bytes());
    let parts = outcomes.chunks(REQUESTS_MAX).chain(outcomes.is_empty().then_some(&[][..]));
    let entry = |part: &[(u64, SliceId, Outcome)]| {
        let mut bytes = head.clone();
        for (id, slice, outcome) in part {
            let (kind, made) = numbers(outcome);
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&(slice.index() as u16).to_le_bytes());
            bytes.push(kind);
            bytes.extend_from_slice(&made.token.to_le_bytes());
            bytes.extend_from_slice(&made.value_bytes.to_le_bytes());
            bytes.extend_from_slice(&made.number.to_le_bytes());
        }
        bytes
    };
    parts.map(entry).collect()
}

/// The number of the kind, and what there is to say besides.
fn numbers(outcome: &Outcome) -> (u8, Made) {
    match outcome {
        Outcome::Made(made) => {
            let kind = KINDS.iter().position(|kind| *kind == made.kind);
            (kind.expect("all kinds have a number") as u8, *made)
        }
        Outcome::Nothing(again) => {
            let number = u64::from(*again);
            (KINDS.len() as u8, Made { kind: MadeKind::Put, token: 0, value_bytes: 0, number })
        }
    }
}

/// The state that `bytes` say. `None` if they are not whole.
pub(crate) fn decode(bytes: &[u8]) -> Option<TagState> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let cell = CellId(u32::from_le_bytes(part(head, 0)));
    let life = u64::from_le_bytes(part(head, 4));
    let worker = u16::from_le_bytes(part(head, 12));
    let floor = u64::from_le_bytes(part(head, 14));
    let (requests, rest) = rest.as_chunks::<BYTES>();
    let request = |bytes: &[u8; BYTES]| {
        let slice = SliceId::new(u16::from_le_bytes(part(bytes, 8)).into())?;
        let token = u64::from_le_bytes(part(bytes, 11));
        let value_bytes = u32::from_le_bytes(part(bytes, 19));
        let number = u64::from_le_bytes(part(bytes, 23));
        let made = |kind| Outcome::Made(Made { kind, token, value_bytes, number });
        let outcome = match KINDS.get(usize::from(bytes[10])).copied().map(made) {
            None if usize::from(bytes[10]) == KINDS.len() => Outcome::Nothing(number as u16),
            outcome => outcome?,
        };
        let id = Some(u64::from_le_bytes(part(bytes, 0))).filter(|id| *id < u64::MAX)?;
        Some((id, slice, outcome))
    };
    let outcomes = requests.iter().map(request).collect::<Option<_>>()?;
    rest.is_empty().then_some(TagState { asker: Asker { cell, life, worker }, floor, outcomes })
}

fn part<const N: usize, const M: usize>(bytes: &[u8; M], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back_in_parts_and_broken_ones_are_refused() {
        let asker = Asker { cell: CellId(3), life: 1 << 40, worker: 9 };
        let request = |id: u64| {
            let slice = SliceId::new(16_383 - id as usize).expect("a slice");
            let outcome = match KINDS.get(id as usize % 4) {
                Some(kind) => {
                    let (token, number) = (u64::MAX, id << 40);
                    Outcome::Made(Made { kind: *kind, token, value_bytes: 7, number })
                }
                None => Outcome::Nothing(id as u16),
            };
            (id, slice, outcome)
        };
        for count in [0, 1, REQUESTS_MAX as u64, REQUESTS_MAX as u64 + 1] {
            let state = TagState { asker, floor: 5, outcomes: (0..count).map(request).collect() };
            let entries = encode(&state);
            assert_eq!(entries.len(), if count > REQUESTS_MAX as u64 { 2 } else { 1 });
            let parts = entries.iter().map(|bytes| decode(bytes).expect("whole"));
            let outcomes: Vec<_> = parts.flat_map(|part| part.outcomes).collect();
            assert_eq!(outcomes, state.outcomes);
            let first = decode(&entries[0]).expect("whole");
            assert_eq!((first.asker, first.floor), (asker, 5));
        }
        let bytes = &encode(&TagState { asker, floor: 5, outcomes: vec![request(1)] })[0];
        assert!(decode(&bytes[..bytes.len() - 1]).is_none(), "cut");
        for (at, wrong) in [(HEAD_BYTES + 9, 0xFF), (HEAD_BYTES + 10, 4)] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            assert!(decode(&bytes).is_none(), "no such slice, no such kind");
        }
        let last = (u64::MAX, request(1).1, request(1).2);
        let bytes = &encode(&TagState { asker, floor: 5, outcomes: vec![last] })[0];
        assert!(decode(bytes).is_none(), "no id follows it");
        let tag = RequestTag { asker, id: 9, first: 4, again: 300 };
        let slice = SliceId::new(77).expect("a slice");
        let bytes = nothing(&tag, slice);
        assert_eq!(decode_nothing(&bytes), Some((tag, slice)));
        assert_eq!(decode_nothing(&bytes[1..]), None);
    }
}
