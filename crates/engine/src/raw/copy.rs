//! Copies and comparisons between plain bytes and words that other threads may be writing.
//!
//! A plain `memcpy` that races is undefined behaviour even if the result is thrown away. So on
//! x86-64 bytes are moved by inline assembly, which the compiler cannot reason about and the
//! machine defines (`x86_64.rs`); elsewhere, and wherever a tool must see the accesses, by atomic
//! words (`words.rs`).
//!
//! Ranges are checked against the slice first, so a torn length panics instead of straying.

use super::imp;
use crate::sync::AtomicU64;
use std::mem::MaybeUninit;
use std::slice;

/// Copies `target.len()` bytes from byte `offset` of `source`.
#[inline]
fn copy_out(source: &[AtomicU64], offset: usize, target: &mut [MaybeUninit<u8>]) {
    check(source, offset, target.len());
    imp::copy_out(source, offset, target);
}

/// Lets the processor fetch the line of `word`, without waiting for it.
#[inline(always)]
pub(crate) fn prefetch(word: &AtomicU64) {
    imp::prefetch(word);
}

/// Bytes of a line of the processor's caches.
const LINE_BYTES: usize = 64;

/// Lets the processor fetch `bytes`, which are read or overwritten soon, without waiting for them.
#[inline]
pub fn prefetch_bytes(bytes: &[u8]) {
    bytes.iter().step_by(LINE_BYTES).for_each(imp::prefetch);
}

/// Copies `source` to byte `offset` of `target`. The caller holds the lock that guards the item.
#[inline(always)]
pub(crate) fn copy_in(target: &[AtomicU64], offset: usize, source: &[u8]) {
    if source.is_empty() {
        return;
    }
    check(target, offset, source.len());
    imp::copy_in(target, offset, source);
}

/// Appends `len` bytes from byte `offset` of `source` to `target`, and `after` after them.
#[inline(always)]
pub(crate) fn append(
    source: &[AtomicU64],
    offset: usize,
    len: usize,
    after: &[u8],
    target: &mut Vec<u8>,
) {
    let start = target.len();
    target.reserve(len + after.len());
    // SAFETY: `reserve` has made room for all of it after the end, to which there is no other
    // reference.
    let (room, room_after) = unsafe {
        let room = target.as_mut_ptr().add(start).cast();
        slice::from_raw_parts_mut(room, len + after.len()).split_at_mut(len)
    };
    copy_out(source, offset, room);
    room_after.write_copy_of_slice(after);
    // SAFETY: all of the room was initialised.
    unsafe { target.set_len(start + len + after.len()) };
}

/// Whether `words` begin with `bytes`; not if they are fewer.
#[inline(always)]
pub(crate) fn begin_with(words: &[AtomicU64], bytes: &[u8]) -> bool {
    bytes.len() <= size_of_val(words) && imp::begin_with(words, bytes)
}

#[inline(always)]
fn check(words: &[AtomicU64], offset: usize, len: usize) {
    let end = offset.saturating_add(len);
    if end > words.len() * 8 {
        outside(offset, end);
    }
}

/// Apart, so that the values of the message stay in registers.
#[cold]
fn outside(offset: usize, end: usize) -> ! {
    panic!("bytes {offset}..{end} lie outside the pool");
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::raw::look_at_processor;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn every_length_and_offset_survives_a_round_trip() {
        look_at_processor();
        let words: Vec<AtomicU64> = (0..200).map(|_| AtomicU64::new(u64::MAX)).collect();
        let bytes: Vec<u8> = (0..1500_u32).map(|at| (at % 251) as u8).collect();
        for len in 0..=bytes.len() {
            for offset in [0, 1, 7, 8, 16] {
                copy_in(&words, offset, &bytes[..len]);
                let mut back = vec![MaybeUninit::new(0); len];
                copy_out(&words, offset, &mut back);
                // SAFETY: `copy_out` wrote every byte.
                let back: Vec<u8> = back.iter().map(|byte| unsafe { byte.assume_init() }).collect();
                assert_eq!(back, &bytes[..len], "len {len} offset {offset}");
            }
        }
    }

    /// What stands around a range stays as it is.
    #[test]
    fn copies_stay_within_their_range() {
        look_at_processor();
        for len in 1..=1100 {
            let words: Vec<AtomicU64> = (0..200).map(|_| AtomicU64::new(0)).collect();
            copy_in(&words, 9, &vec![0xff; len]);
            let inked: u32 = words.iter().map(|word| word.load(Relaxed).count_ones()).sum();
            assert_eq!(inked as usize, 8 * len, "{len} bytes were written");
            let mut target = vec![MaybeUninit::new(0); len + 2];
            copy_out(&words, 9, &mut target[1..=len]);
            // SAFETY: all was written here.
            let target: Vec<u8> = target.iter().map(|byte| unsafe { byte.assume_init() }).collect();
            assert_eq!((target[0], target[len + 1]), (0, 0), "{len} bytes were read");
        }
    }

    /// Every length, with each of its bytes changed in turn, whatever follows.
    #[test]
    fn words_begin_with_their_bytes_and_no_others() {
        let words: Vec<AtomicU64> = (0..40).map(|_| AtomicU64::new(u64::MAX)).collect();
        let mut bytes: Vec<u8> = (0..255_u32).map(|at| (at % 251) as u8).collect();
        copy_in(&words, 0, &bytes);
        for len in 0..=bytes.len() {
            assert!(begin_with(&words, &bytes[..len]), "{len} bytes");
            for at in 0..len {
                bytes[at] ^= 1 << (at % 8);
                assert!(!begin_with(&words, &bytes[..len]), "{len} bytes, byte {at}");
                bytes[at] ^= 1 << (at % 8);
            }
        }
        assert!(begin_with(&words[..3], &bytes[..24]) && !begin_with(&words[..3], &bytes[..25]));
    }

    #[test]
    #[should_panic(expected = "outside the pool")]
    fn a_range_outside_the_pool_is_refused() {
        let words = [AtomicU64::new(0)];
        copy_in(&words, 4, &[0; 5]);
    }
}
