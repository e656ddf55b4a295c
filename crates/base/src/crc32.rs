//! CRC32 (IEEE 802.3, reflected) of short keys.
//!
//! Slicing by sixteen (Kounavis and Berry 2008): one table per byte of a block, so a block costs
//! sixteen independent look-ups. For the twenty to forty bytes of a key this takes half the
//! instructions of a carry-less multiplication with its set-up and feature test; checksums of long
//! data use `crc32fast`, which the tests hold this against.

/// Bytes that are looked up at a time.
const BLOCK_BYTES: usize = 16;

const POLYNOMIAL: u32 = 0xEDB8_8320;

/// `TABLES[n][b]` is the remainder of byte `b` followed by `n` zero bytes.
static TABLES: [[u32; 256]; BLOCK_BYTES] = tables();

const fn tables() -> [[u32; 256]; BLOCK_BYTES] {
    let mut tables = [[0; 256]; BLOCK_BYTES];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = (rest >> 1) ^ (POLYNOMIAL & (rest & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][byte] = rest;
        byte += 1;
    }
    let mut table = 1;
    while table < BLOCK_BYTES {
        byte = 0;
        while byte < 256 {
            let before: u32 = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The CRC32 of `bytes`.
#[inline(always)]
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0;
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    for block in blocks {
        crc = advance(crc, block);
    }
    let (fours, rest) = rest.as_chunks::<4>();
    for four in fours {
        crc = advance(crc, four);
    }
    for byte in rest {
        crc = (crc >> 8) ^ TABLES[0][(crc as u8 ^ byte) as usize];
    }
    !crc
}

/// The CRC of what had `crc`, and of the `N` bytes behind it; at least four.
#[inline(always)]
fn advance<const N: usize>(crc: u32, block: &[u8; N]) -> u32 {
    const { assert!(4 <= N && N <= BLOCK_BYTES, "a block covers the CRC and has its tables") };
    let first = u32::from_le_bytes([block[0], block[1], block[2], block[3]]) ^ crc;
    let mut next = 0;
    for at in 0..4 {
        next ^= TABLES[N - 1 - at][(first >> (8 * at)) as usize & 0xFF];
    }
    for at in 4..N {
        next ^= TABLES[N - 1 - at][usize::from(block[at])];
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_agrees_with_another_implementation() {
        let bytes: Vec<u8> = (0..300_u32).map(|at| (at * 31 + 7) as u8).collect();
        for len in 0..bytes.len() {
            assert_eq!(crc32(&bytes[..len]), crc32fast::hash(&bytes[..len]), "{len} bytes");
        }
    }
}
