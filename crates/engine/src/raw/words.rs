//! Racing bytes by atomic words: for processors other than x86-64, and for tools that must see each
//! access.
//!
//! The caller has checked every range. Words are little-endian, and each is loaded or stored whole:
//! a byte is never torn, a run of bytes may be.

use crate::sync::{AtomicU64, Ordering};

/// Bytes of a word.
const WORD_BYTES: usize = 8;

#[cfg(any(not(target_arch = "x86_64"), loom, shuttle, word_copy))]
pub(super) fn copy_out(
    source: &[AtomicU64],
    offset: usize,
    target: &mut [std::mem::MaybeUninit<u8>],
) {
    let mut done = 0;
    while done < target.len() {
        let (word, skip) = ((offset + done) / WORD_BYTES, (offset + done) % WORD_BYTES);
        let bytes = source[word].load(Ordering::Relaxed).to_le_bytes();
        let count = (WORD_BYTES - skip).min(target.len() - done);
        for (to, from) in target[done..done + count].iter_mut().zip(&bytes[skip..]) {
            to.write(*from);
        }
        done += count;
    }
}

/// Does nothing: here it would be a load, for which the processor waits.
#[cfg(any(not(target_arch = "x86_64"), loom, shuttle, word_copy))]
pub(super) fn prefetch<T>(_: &T) {}

#[cfg(any(not(target_arch = "x86_64"), loom, shuttle, word_copy))]
pub(super) fn copy_in(target: &[AtomicU64], offset: usize, source: &[u8]) {
    let mut done = 0;
    while done < source.len() {
        let (word, skip) = ((offset + done) / WORD_BYTES, (offset + done) % WORD_BYTES);
        let count = (WORD_BYTES - skip).min(source.len() - done);
        let mut bytes = target[word].load(Ordering::Relaxed).to_le_bytes();
        bytes[skip..skip + count].copy_from_slice(&source[done..done + count]);
        target[word].store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        done += count;
    }
}

pub(super) fn begin_with(words: &[AtomicU64], bytes: &[u8]) -> bool {
    // The last word holds one to eight bytes.
    let Some((_, but_one)) = bytes.split_last() else { return true };
    let (whole, rest) = but_one.as_chunks::<WORD_BYTES>();
    let same = words
        .iter()
        .zip(whole)
        .all(|(word, bytes)| word.load(Ordering::Relaxed) == u64::from_le_bytes(*bytes));
    // Both with the rest of the bytes at the top: what lies below was compared.
    let passed = 8 * (WORD_BYTES - 1 - rest.len());
    let end = match bytes.last_chunk() {
        Some(end) => u64::from_le_bytes(*end),
        None => short_word(bytes) << passed,
    };
    let last = words[whole.len()].load(Ordering::Relaxed);
    same && (last << passed ^ end) >> passed == 0
}

/// Up to seven bytes as the low bytes of a word.
#[inline]
pub(crate) fn short_word(bytes: &[u8]) -> u64 {
    let mut word = 0;
    let mut rest = bytes;
    let mut shift = 0;
    if let Some((four, more)) = rest.split_first_chunk::<4>() {
        word = u64::from(u32::from_le_bytes(*four));
        (rest, shift) = (more, 32);
    }
    if let Some((two, more)) = rest.split_first_chunk::<2>() {
        word |= u64::from(u16::from_le_bytes(*two)) << shift;
        (rest, shift) = (more, shift + 16);
    }
    if let Some(byte) = rest.first() {
        word |= u64::from(*byte) << shift;
    }
    word
}
