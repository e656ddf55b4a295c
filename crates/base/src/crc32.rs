//! The top bits of the CRC32 (IEEE 802.3, reflected) of a key.
//!
//! A CRC is linear: it is the exclusive or of what every byte adds by itself, which depends on the
//! byte and on how many follow it, and of what the length adds. A key is short, so every place
//! in it has a row of its own, and a byte costs one look-up that waits for no other. A row keeps
//! the bits that name a slice and no more: it is half as large, and few lines of it are touched,
//! since keys are written in few letters.

/// Bits that are kept.
pub(crate) const BITS: u32 = 14;

/// Bytes that are looked up together.
const BLOCK_BYTES: usize = 16;

/// Blocks that have rows: one more than the longest key has whole ones.
const BLOCKS: usize = 16;

const POLYNOMIAL: u32 = 0xEDB8_8320;

/// What each byte adds in one place.
type Row = [u16; 256];

/// The rows by how many bytes follow.
static ROWS: [[Row; BLOCK_BYTES]; BLOCKS] = rows();

/// What each length adds.
static LENGTHS: [u16; BLOCKS * BLOCK_BYTES] = lengths();

const fn rows() -> [[Row; BLOCK_BYTES]; BLOCKS] {
    let mut rows = [[[0; 256]; BLOCK_BYTES]; BLOCKS];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut behind = 0;
        while behind < BLOCKS * BLOCK_BYTES {
            crc = shift(crc);
            rows[behind / BLOCK_BYTES][behind % BLOCK_BYTES][byte] = top(crc);
            behind += 1;
        }
        byte += 1;
    }
    rows
}

const fn lengths() -> [u16; BLOCKS * BLOCK_BYTES] {
    let mut sums = [0; _];
    let mut crc = !0;
    let mut len = 0;
    while len < BLOCKS * BLOCK_BYTES {
        sums[len] = top(!crc);
        crc = shift(crc);
        len += 1;
    }
    sums
}

/// What is left of `crc` when its low byte has been divided out.
const fn shift(mut crc: u32) -> u32 {
    let mut bit = 0;
    while bit < 8 {
        crc = (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg());
        bit += 1;
    }
    crc
}

const fn top(crc: u32) -> u16 {
    (crc >> (u32::BITS - BITS)) as u16
}

/// The top [`BITS`] bits of the CRC32 of `key`.
#[inline(always)]
pub(crate) fn top_bits(key: &[u8]) -> u16 {
    let [last_rows, rows, ..] = &ROWS;
    if key.len() >= 2 * BLOCK_BYTES {
        return any(key);
    }
    let added = match key.split_last_chunk() {
        Some((rest, last)) => of(last, last_rows) ^ short(rest, rows),
        None => short(key, last_rows),
    };
    LENGTHS[key.len()] ^ added
}

/// What bytes add that are fewer than a block.
#[inline(always)]
fn short(key: &[u8], rows: &[Row; BLOCK_BYTES]) -> u16 {
    let mut sum = 0;
    let mut rest = key;
    let (fours, _) = rows.as_chunks::<4>();
    for rows in fours {
        let Some((before, four)) = rest.split_last_chunk() else {
            let bytes = rest.iter().rev().zip(rows);
            return bytes.fold(sum, |sum, (byte, row)| sum ^ row[usize::from(*byte)]);
        };
        sum ^= of(four, rows);
        rest = before;
    }
    sum
}

/// [`top_bits`] of a key of any length.
#[inline(never)]
fn any(key: &[u8]) -> u16 {
    let Some(length) = LENGTHS.get(key.len()) else { return long(key) };
    let mut sum = *length;
    let mut rest = key;
    for rows in &ROWS {
        let Some((before, block)) = rest.split_last_chunk() else { return sum ^ short(rest, rows) };
        sum ^= of(block, rows);
        rest = before;
    }
    sum
}

#[inline(always)]
fn of<const N: usize>(block: &[u8; N], rows: &[Row; N]) -> u16 {
    let mut sum = 0;
    for (byte, row) in block.iter().rev().zip(rows) {
        sum ^= row[usize::from(*byte)];
    }
    sum
}

/// A key that is longer than any protocol allows.
#[cold]
fn long(key: &[u8]) -> u16 {
    top(!key.iter().fold(!0, |crc, byte| shift(crc ^ u32::from(*byte))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_agrees_with_another_implementation() {
        let bytes: Vec<u8> = (0..300_u32).map(|at| (at * 31 + 7) as u8).collect();
        for len in 0..bytes.len() {
            let whole = crc32fast::hash(&bytes[..len]);
            assert_eq!(u32::from(top_bits(&bytes[..len])), whole >> (32 - BITS), "{len} bytes");
        }
    }
}
