//! The slice of a key by carry-less multiplication, where the processor has it.
//!
//! A CRC is the remainder of a polynomial. What the word of a key adds to it is the word times
//! `x^n mod P`, where `n` tells how many bits follow; the sum of these products is divided once, by
//! multiplying with the inverse of `P` (Barrett 1986; Gopal et al., "Fast CRC Computation for
//! Generic Polynomials Using PCLMULQDQ Instruction", 2009). Keys of one to two blocks of sixteen
//! bytes take one multiplication per word and two for the division; others, and other processors,
//! take the table of [`SliceId::of`], with which this must always agree.
//!
//! Bits are reflected: bit `i` of a word is the coefficient of `x^(63 - i)`, and bit `j` of a sum
//! of products that of `x^(94 - j)`.

use super::processor::is_wide;
use base::{SLICE_BITS, SLICES, SliceId};
use std::arch::asm;

/// Bytes of a block, which is two words.
const BLOCK_BYTES: usize = 16;

/// `P` without its highest term.
const POLYNOMIAL: u32 = 0xEDB8_8320;

/// What the first block of a key and the length of the key add.
#[repr(C, align(64))]
struct First {
    /// The bytes that are not in the last block too.
    mask: u128,
    /// Both words' `x^n mod P`.
    factors: [u64; 2],
    /// What the length adds to the number of the slice.
    length: u16,
}

/// What is the same for all keys.
#[repr(C, align(16))]
struct Fixed {
    /// `x^n mod P` for the words of the last block.
    last: [u64; 2],
    /// The inverse of `P`: the whole part of `x^95 / P`.
    inverse: [u64; 2],
    /// The bits of a quotient that belong to whole powers.
    whole: [u64; 2],
    /// `P` itself.
    divisor: [u64; 2],
}

/// By how much longer than a block a key is.
static FIRST: [First; BLOCK_BYTES + 1] = first();

static FIXED: Fixed = Fixed {
    last: [power(64 + 32), power(32)],
    inverse: [inverse(), 0],
    whole: [u64::MAX >> 1, 0],
    divisor: [(POLYNOMIAL as u64) << 1 | 1, 0],
};

const fn first() -> [First; BLOCK_BYTES + 1] {
    let mut table = [const { First { mask: 0, factors: [0; 2], length: 0 } }; _];
    let mut more = 0;
    while more <= BLOCK_BYTES {
        let kept = 8 * more as u32;
        let mask = if kept == 0 { 0 } else { u128::MAX >> (u128::BITS - kept) };
        let factors = [power(kept + 64 + 32), power(kept + 32)];
        table[more] = First { mask, factors, length: length(8 * BLOCK_BYTES as u32 + kept) };
        more += 1;
    }
    table
}

/// What `bits` of zeroes add: a register of ones is shifted through, and inverted in the end.
const fn length(bits: u32) -> u16 {
    let mut crc = u32::MAX;
    let mut bit = 0;
    while bit < bits {
        crc = times_x(crc);
        bit += 1;
    }
    (!crc >> (u32::BITS - SLICE_BITS)) as u16
}

/// `x^n mod P`.
const fn power(n: u32) -> u64 {
    let mut rest = 1 << 31;
    let mut done = 0;
    while done < n {
        rest = times_x(rest);
        done += 1;
    }
    rest as u64
}

const fn times_x(rest: u32) -> u32 {
    rest >> 1 ^ POLYNOMIAL & (rest & 1).wrapping_neg()
}

/// The whole part of `x^95 / P`, which has the powers from 63 down to 0.
const fn inverse() -> u64 {
    let mut quotient = 0;
    // What is left of `x^31`, which is multiplied by `x` until it is `x^95`: what that carries out
    // is the quotient, from its highest power on.
    let mut rest = 1;
    let mut bit = 0;
    while bit < u64::BITS {
        quotient |= ((rest & 1) as u64) << bit;
        rest = times_x(rest);
        bit += 1;
    }
    quotient
}

/// [`SliceId::of`].
#[inline(always)]
pub(crate) fn slice_of(key: &[u8]) -> SliceId {
    let Some(more) = key.len().checked_sub(BLOCK_BYTES) else { return SliceId::of(key) };
    let Some(first) = FIRST.get(more).filter(|_| is_wide()) else { return SliceId::of(key) };
    let remainder: u64;
    // SAFETY: a block at the beginning of the key and one at its end lie within it, as it is at
    // least as long as one. The tables are aligned as these instructions demand. SSE2 is part of
    // x86-64, and the processor was asked for PCLMULQDQ.
    unsafe {
        asm!(
            // The sum of the products of all words.
            "movdqu {sum}, xmmword ptr [{key}]",
            "pand {sum}, xmmword ptr [{first}]",
            "movdqa {high}, {sum}",
            "pclmulqdq {sum}, xmmword ptr [{first} + 16], 0x00",
            "pclmulqdq {high}, xmmword ptr [{first} + 16], 0x11",
            "pxor {sum}, {high}",
            "movdqu {low}, xmmword ptr [{key} + {more}]",
            "movdqa {high}, {low}",
            "pclmulqdq {low}, xmmword ptr [rip + {fixed}], 0x00",
            "pclmulqdq {high}, xmmword ptr [rip + {fixed}], 0x11",
            "pxor {sum}, {low}",
            "pxor {sum}, {high}",
            // Its quotient, and what the quotient times P leaves of it.
            "movdqa {low}, {sum}",
            "pclmulqdq {low}, xmmword ptr [rip + {fixed} + 16], 0x00",
            "pand {low}, xmmword ptr [rip + {fixed} + 32]",
            "pclmulqdq {low}, xmmword ptr [rip + {fixed} + 48], 0x00",
            "pxor {sum}, {low}",
            "punpckhqdq {sum}, {sum}",
            "movq {remainder}, {sum}",
            key = in(reg) key.as_ptr(),
            more = in(reg) more,
            first = in(reg) first,
            fixed = sym FIXED,
            remainder = lateout(reg) remainder,
            sum = out(xmm_reg) _,
            low = out(xmm_reg) _,
            high = out(xmm_reg) _,
            options(pure, readonly, preserves_flags, nostack),
        );
    }
    // The powers from 13 down to 0 stand in bits 81 to 94 of the sum.
    let index = (remainder >> 17) as usize & (SLICES - 1) ^ usize::from(first.length);
    SliceId::new(index).expect("lengths add no more bits than there are slices")
}

#[cfg(test)]
mod tests {
    use super::super::processor::look;
    use super::*;

    #[test]
    fn every_length_and_bit_agrees_with_the_table() {
        look();
        let mut bytes: Vec<u8> = (0..64_u32).map(|at| (at * 31 + 7) as u8).collect();
        for len in 0..=40 {
            for from in 0..8 {
                assert_eq!(
                    slice_of(&bytes[from..from + len]),
                    SliceId::of(&bytes[from..from + len])
                );
            }
            for bit in 0..8 * len {
                bytes[bit / 8] ^= 1 << (bit % 8);
                let key = &bytes[..len];
                assert_eq!(slice_of(key), SliceId::of(key), "{len} bytes, bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
