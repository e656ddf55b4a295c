//! A page: the records of keys that follow each other, and where it ends and another begins.
//!
//! ```text
//! "VXPAGE02" run epoch number count { key length, kind, record length, key, record } ... CRC
//! ```
//!
//! Keys are in the order of their slices, and within a slice in that of their bytes.

use crate::bytes::{Reader, begin, close, open};
use crate::name::Id;
use base::SliceId;

const MAGIC: &[u8; 8] = b"VXPAGE02";
/// Bytes of a record beside its key and itself.
const HEAD_BYTES: usize = 6;
/// Bytes of a page beside its records.
const PAGE_HEAD_BYTES: usize = 8 + 2 + 8 + 8 + 4 + 4;
/// The kinds of records.
const HERE: u8 = 0;
const APART: u8 = 1;

/// Where a key stands among all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    slice: u16,
    key: Vec<u8>,
}

impl Spot {
    /// Of a key.
    pub(crate) fn of(key: &[u8]) -> Self {
        Self { slice: SliceId::of(key).index() as u16, key: key.to_vec() }
    }

    /// The key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The first of a slice.
    pub(crate) fn first_of(slice: u16) -> Self {
        Self { slice, key: Vec::new() }
    }

    /// A short spot that comes after `before`, and not after `this`.
    fn between(before: &Self, this: &Self) -> Self {
        if before.slice != this.slice {
            return Self::first_of(this.slice);
        }
        let same = before.key.iter().zip(&this.key).take_while(|(a, b)| a == b).count();
        Self { slice: this.slice, key: this.key[..=same].to_vec() }
    }

    /// Appends it.
    pub(crate) fn append_to(&self, object: &mut Vec<u8>) {
        object.extend_from_slice(&self.slice.to_le_bytes());
        object.push(self.key.len() as u8);
        object.extend_from_slice(&self.key);
    }

    /// Reads what was appended.
    pub(crate) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let slice = from.u16()?;
        let length = from.byte()?;
        Some(Self { slice, key: from.bytes(length.into())?.to_vec() })
    }
}

/// What a page has of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Its record.
    Here(Vec<u8>),
    /// The id of the object that is its record.
    Apart(Id),
}

/// A key and what a page has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) spot: Spot,
    pub(crate) content: Content,
}

impl Row {
    /// Its key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.spot.key
    }

    /// Its bytes in a page.
    pub(crate) fn bytes(&self) -> usize {
        let content = match &self.content {
            Content::Here(record) => record.len(),
            Content::Apart(_) => 16,
        };
        HEAD_BYTES + self.spot.key.len() + content
    }
}

/// The page of these rows of a run, which are in order.
pub(crate) fn encode((run, id): (usize, Id), rows: &[Row]) -> Vec<u8> {
    let bytes: usize = rows.iter().map(Row::bytes).sum();
    let mut object = begin(MAGIC, PAGE_HEAD_BYTES + bytes);
    object.extend_from_slice(&(run as u16).to_le_bytes());
    object.extend_from_slice(&id.epoch.to_le_bytes());
    object.extend_from_slice(&id.number.to_le_bytes());
    object.extend_from_slice(&(rows.len() as u32).to_le_bytes());
    for Row { spot, content } in rows {
        let (kind, length) = match content {
            Content::Here(record) => (HERE, record.len() as u32),
            Content::Apart(_) => (APART, 16),
        };
        object.extend_from_slice(&[spot.key.len() as u8, kind]);
        object.extend_from_slice(&length.to_le_bytes());
        object.extend_from_slice(&spot.key);
        match content {
            Content::Here(record) => object.extend_from_slice(record),
            Content::Apart(id) => {
                object.extend_from_slice(&id.epoch.to_le_bytes());
                object.extend_from_slice(&id.number.to_le_bytes());
            }
        }
    }
    close(object)
}

/// The rows of a page; `None` if it is not what was written for this run under this id.
pub(crate) fn decode(of: (usize, Id), object: &[u8]) -> Option<Vec<Row>> {
    let mut from = begun(of, object)?;
    let count = from.u32()?;
    // A row has some bytes: a page cannot ask for more memory than it is long.
    let mut rows: Vec<Row> = Vec::with_capacity((count as usize).min(object.len() / HEAD_BYTES));
    for _ in 0..count {
        let (key_bytes, kind) = (from.byte()?, from.byte()?);
        let length = from.u32()? as usize;
        let spot = Spot::of(from.bytes(key_bytes.into())?);
        let mut record = Reader(from.bytes(length)?);
        let content = match kind {
            HERE => Content::Here(record.0.to_vec()),
            APART => Content::Apart(Id { epoch: record.u64()?, number: record.u64()? }),
            _ => return None,
        };
        if rows.last().is_some_and(|last| last.spot >= spot) {
            return None;
        }
        rows.push(Row { spot, content });
    }
    from.0.is_empty().then_some(rows)
}

/// What a page has of `key`. `object` is a page that [`decode`] or [`is_page`] has accepted.
pub(crate) fn find(object: &[u8], key: &[u8]) -> Option<Content> {
    let mut rows = Reader(object.get(PAGE_HEAD_BYTES - 4..)?);
    loop {
        let (key_bytes, kind) = (rows.byte()?, rows.byte()?);
        let length = rows.u32()? as usize;
        let is_it = rows.bytes(key_bytes.into())? == key;
        let mut record = Reader(rows.bytes(length)?);
        if is_it {
            return match kind {
                HERE => Some(Content::Here(record.0.to_vec())),
                _ => Some(Content::Apart(Id { epoch: record.u64()?, number: record.u64()? })),
            };
        }
    }
}

/// Whether an object is the page that was written for this run under this id.
pub(crate) fn is_page(of: (usize, Id), object: &[u8]) -> bool {
    begun(of, object).is_some()
}

/// What follows the id of a page.
fn begun((run, id): (usize, Id), object: &[u8]) -> Option<Reader<'_>> {
    let mut from = open(MAGIC, object)?;
    let is_it =
        usize::from(from.u16()?) == run && Id { epoch: from.u64()?, number: from.u64()? } == id;
    is_it.then_some(from)
}

/// Where rows are cut into pages of about equal length, none of which is much longer than
/// `page_bytes`: by the number of the first row of each page but the first, and its first spot.
pub(crate) fn cuts(rows: &[Row], page_bytes: usize) -> Vec<(usize, Spot)> {
    let whole: usize = rows.iter().map(Row::bytes).sum();
    if whole <= page_bytes {
        return Vec::new();
    }
    // Pages that were just cut have room to grow.
    let part = whole.div_ceil((whole * 3).div_ceil(page_bytes * 2));
    let (mut cuts, mut bytes) = (Vec::new(), 0);
    for (number, row) in rows.iter().enumerate() {
        if bytes > 0 && bytes + row.bytes() > part {
            cuts.push((number, Spot::between(&rows[number - 1].spot, &row.spot)));
            bytes = 0;
        }
        bytes += row.bytes();
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<Row> {
        let row = |number: usize| {
            let content = match number % 5 {
                0 => Content::Apart(Id { epoch: 3, number: number as u64 }),
                more => Content::Here(vec![number as u8; more * 20]),
            };
            Row { spot: Spot::of(format!("key/{number}").as_bytes()), content }
        };
        let mut rows: Vec<Row> = (0..count).map(row).collect();
        rows.sort_by(|a, b| a.spot.cmp(&b.spot));
        rows
    }

    #[test]
    fn a_page_is_read_as_it_was_written_under_its_own_id_alone() {
        let (id, rows) = ((7, Id { epoch: 1, number: 2 }), rows(50));
        let object = encode(id, &rows);
        assert_eq!(decode(id, &object).as_deref(), Some(&rows[..]));
        assert_eq!(decode((7, Id { epoch: 1, number: 3 }), &object), None);
        assert_eq!(decode((8, id.1), &object), None);
        for at in 0..object.len() {
            let mut other = object.clone();
            other[at] ^= 4;
            assert_eq!(decode(id, &other), None, "byte {at}");
            assert_eq!(decode(id, &object[..at]), None, "cut at {at}");
        }
        assert_eq!(decode(id, &encode(id, &[])), Some(Vec::new()));
        for row in &rows {
            assert_eq!(find(&object, row.key()).as_ref(), Some(&row.content));
        }
        assert!(is_page(id, &object) && find(&object, b"key/50").is_none());
        assert!(!is_page((7, Id { epoch: 2, number: 2 }), &object));
    }

    #[test]
    fn cuts_keep_pages_short_and_stand_between_their_rows() {
        let rows = rows(1_000);
        let bytes = |rows: &[Row]| rows.iter().map(Row::bytes).sum::<usize>();
        assert!(cuts(&rows, bytes(&rows)).is_empty(), "it fits");
        for page_bytes in [200, 1_000, 10_000] {
            let cuts = cuts(&rows, page_bytes);
            let mut begin = 0;
            for (at, first) in &cuts {
                assert!(rows[at - 1].spot < *first && *first <= rows[*at].spot);
                assert!(bytes(&rows[begin..*at]) <= page_bytes);
                begin = *at;
            }
            assert!(bytes(&rows[begin..]) <= page_bytes && cuts.len() >= bytes(&rows) / page_bytes);
        }
    }

    #[test]
    fn one_row_that_is_too_long_has_a_page() {
        let content = Content::Here(vec![1; 5_000]);
        let long = Row { spot: Spot::of(b"long"), content };
        assert!(cuts(std::slice::from_ref(&long), 100).is_empty());
    }
}
