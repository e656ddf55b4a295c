//! Copies between plain bytes and words that other threads may be writing.
//!
//! A plain `memcpy` that races is undefined behaviour even if the result is thrown away. On
//! x86-64 it is called from inline assembly, which the compiler cannot reason about and the
//! machine defines; elsewhere, and wherever a tool must see the accesses, copies are atomic words.
//!
//! Both check their range against the slice first, so a torn length panics instead of straying.

use crate::sync::AtomicU64;
use std::mem::MaybeUninit;
use std::slice;

/// Copies `target.len()` bytes from byte `offset` of `source`.
#[inline]
fn copy_out(source: &[AtomicU64], offset: usize, target: &mut [MaybeUninit<u8>]) {
    check(source, offset, target.len());
    imp::copy_out(source, offset, target);
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

/// Appends `len` bytes from byte `offset` of `source` to `target`.
#[inline]
pub(crate) fn append(source: &[AtomicU64], offset: usize, len: usize, target: &mut Vec<u8>) {
    target.reserve(len);
    let start = target.len();
    // SAFETY: `reserve` has made room for `len` bytes behind the end, which nobody else holds.
    let room = unsafe { slice::from_raw_parts_mut(target.as_mut_ptr().add(start).cast(), len) };
    copy_out(source, offset, room);
    // SAFETY: `copy_out` initialised the `len` bytes behind the current end.
    unsafe { target.set_len(start + len) };
}

#[inline(always)]
fn check(words: &[AtomicU64], offset: usize, len: usize) {
    let end = offset.saturating_add(len);
    if end > words.len() * 8 {
        outside(offset, end);
    }
}

/// Apart, so that what the message needs stays in registers.
#[cold]
fn outside(offset: usize, end: usize) -> ! {
    panic!("bytes {offset}..{end} lie outside the pool");
}

#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, word_copy))))]
mod imp {
    use super::{AtomicU64, MaybeUninit};
    use std::arch::asm;

    #[inline]
    pub(super) fn copy_out(source: &[AtomicU64], offset: usize, target: &mut [MaybeUninit<u8>]) {
        // SAFETY: `check` proved that `offset + len` lies within `source`; `target` is exclusive.
        unsafe {
            let from = source.as_ptr().cast::<u8>().add(offset);
            copy(target.as_mut_ptr().cast::<u8>(), from, target.len());
        }
    }

    #[inline]
    pub(super) fn copy_in(target: &[AtomicU64], offset: usize, source: &[u8]) {
        // SAFETY: `check` proved that `offset + len` lies within `target`, whose words are atomics
        // and so may be written through a shared reference; `source` is plain and unshared.
        unsafe {
            let to = target.as_ptr().cast::<u8>().cast_mut().add(offset);
            copy(to, source.as_ptr(), source.len());
        }
    }

    unsafe extern "C" {
        fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
    }

    /// Copies `len` bytes by the C library's `memcpy`, called where the compiler does not see it:
    /// a plain call would let it assume that nobody else writes there.
    ///
    /// # Safety
    /// Both ranges are valid for `len` bytes and do not overlap.
    #[inline]
    unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
        // SAFETY: the caller vouches for both ranges. The call follows the C ABI: the arguments
        // are in its registers, all it may clobber is declared, and a block without `nostack` is
        // entered with the stack aligned for a call.
        unsafe {
            asm!(
                "call qword ptr [rip + {memcpy}@GOTPCREL]",
                memcpy = sym memcpy,
                inlateout("rdi") to => _,
                inlateout("rsi") from => _,
                inlateout("rdx") len => _,
                out("rax") _,
                clobber_abi("C"),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, word_copy)))))]
mod imp {
    use super::{AtomicU64, MaybeUninit};
    use crate::sync::Ordering;

    pub(super) fn copy_out(source: &[AtomicU64], offset: usize, target: &mut [MaybeUninit<u8>]) {
        let mut done = 0;
        while done < target.len() {
            let (word, skip) = ((offset + done) / 8, (offset + done) % 8);
            let bytes = source[word].load(Ordering::Relaxed).to_le_bytes();
            let count = (8 - skip).min(target.len() - done);
            for (to, from) in target[done..done + count].iter_mut().zip(&bytes[skip..]) {
                to.write(*from);
            }
            done += count;
        }
    }

    pub(super) fn copy_in(target: &[AtomicU64], offset: usize, source: &[u8]) {
        let mut done = 0;
        while done < source.len() {
            let (word, skip) = ((offset + done) / 8, (offset + done) % 8);
            let count = (8 - skip).min(source.len() - done);
            let mut bytes = target[word].load(Ordering::Relaxed).to_le_bytes();
            bytes[skip..skip + count].copy_from_slice(&source[done..done + count]);
            target[word].store(u64::from_le_bytes(bytes), Ordering::Relaxed);
            done += count;
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_offset_survives_a_round_trip() {
        let words: Vec<AtomicU64> = (0..40).map(|_| AtomicU64::new(u64::MAX)).collect();
        let bytes: Vec<u8> = (0..200_u8).collect();
        for len in 0..=200 {
            for offset in 0..17 {
                copy_in(&words, offset, &bytes[..len]);
                let mut back = vec![MaybeUninit::new(0); len];
                copy_out(&words, offset, &mut back);
                // SAFETY: `copy_out` wrote every byte.
                let back: Vec<u8> = back.iter().map(|byte| unsafe { byte.assume_init() }).collect();
                assert_eq!(back, &bytes[..len], "len {len} offset {offset}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "outside the pool")]
    fn a_range_outside_the_pool_is_refused() {
        let words = [AtomicU64::new(0)];
        copy_in(&words, 4, &[0; 5]);
    }
}
