//! CRC32 (IEEE 802.3, reflected) of short keys.
//!
//! Slicing by eight (Kounavis and Berry 2008): one table per byte of a word, so a word costs eight
//! independent look-ups. For the twenty to forty bytes of a key this takes half the instructions
//! of a carry-less multiplication with its set-up and feature test; checksums of long data use
//! `crc32fast`, which the tests hold this against.

const POLYNOMIAL: u32 = 0xEDB8_8320;

/// `TABLES[n][b]` is the remainder of byte `b` followed by `n` zero bytes.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
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
    while table < 8 {
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
#[inline]
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word) ^ u64::from(crc);
        let at = |byte: u32| (word >> (8 * byte)) as usize & 0xFF;
        crc = TABLES[7][at(0)]
            ^ TABLES[6][at(1)]
            ^ TABLES[5][at(2)]
            ^ TABLES[4][at(3)]
            ^ TABLES[3][at(4)]
            ^ TABLES[2][at(5)]
            ^ TABLES[1][at(6)]
            ^ TABLES[0][at(7)];
    }
    let mut rest = rest;
    if let Some((four, more)) = rest.split_first_chunk::<4>() {
        let word = u32::from_le_bytes(*four) ^ crc;
        let at = |byte: u32| (word >> (8 * byte)) as usize & 0xFF;
        crc = TABLES[3][at(0)] ^ TABLES[2][at(1)] ^ TABLES[1][at(2)] ^ TABLES[0][at(3)];
        rest = more;
    }
    for byte in rest {
        crc = (crc >> 8) ^ TABLES[0][(crc as u8 ^ byte) as usize];
    }
    !crc
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
