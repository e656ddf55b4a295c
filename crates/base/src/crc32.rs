//! The top bits of the CRC32 (IEEE 802.3, reflected) of a key.
//!
//! A CRC is linear: it is the exclusive or of one term for each byte and one term for the length.
//! The term of a byte depends on its value and on the number of bytes after it. A key is short, so
//! there is a table row for every place in it, counted from the end, and a byte costs one look-up
//! that does not depend on any other. Rows keep only the bits that name a slice. That halves them,
//! and few of their cache lines are used, because most keys consist of few different characters.
//!
//! The engine has a faster way for keys of 16 to 32 bytes on processors that multiply without
//! carry. The two must agree for ever.
//!
//! Nothing here allocates or fails; a key of any length has a CRC.

/// Bits of the CRC that are kept: its highest.
pub(crate) const BITS: u32 = 14;

/// Bytes whose terms are looked up together.
const BLOCK_BYTES: usize = 16;

/// Blocks that have rows. The longest key, 250 bytes, has 15 whole blocks and a part of one.
const BLOCKS: usize = 16;

const POLYNOMIAL: u32 = 0xEDB8_8320;

/// The term of each value of a byte, in one place.
type Row = [u16; 256];

/// The rows, by the number of bytes after the place.
static ROWS: [[Row; BLOCK_BYTES]; BLOCKS] = rows();

/// The term of each length.
static LENGTHS: [u16; BLOCKS * BLOCK_BYTES] = lengths();

const fn rows() -> [[Row; BLOCK_BYTES]; BLOCKS] {
    let mut rows = [[[0; 256]; BLOCK_BYTES]; BLOCKS];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut after = 0;
        while after < BLOCKS * BLOCK_BYTES {
            crc = shift(crc);
            rows[after / BLOCK_BYTES][after % BLOCK_BYTES][byte] = top(crc);
            after += 1;
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

/// The remainder of `crc` after its low byte has been divided by the polynomial.
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

/// The sum of the terms of fewer bytes than a block.
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

/// [`top_bits`] of a key of two blocks or more.
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

/// The sum of the terms of a block.
#[inline(always)]
fn of<const N: usize>(block: &[u8; N], rows: &[Row; N]) -> u16 {
    let mut sum = 0;
    for (byte, row) in block.iter().rev().zip(rows) {
        sum ^= row[usize::from(*byte)];
    }
    sum
}

/// [`top_bits`] of a key that is longer than any protocol allows: byte by byte.
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
