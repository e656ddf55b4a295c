//! Racing bytes on x86-64, by inline assembly. The caller has checked every range.
//!
//! What is short is moved by vectors right here: the call of a function would cost a short value as
//! much as its bytes. What is long is left to the C library, which knows the machine.

use super::processor::is_wide;
use super::words;
use crate::sync::AtomicU64;
use std::arch::asm;
use std::mem::MaybeUninit;

/// Bytes of a vector.
const VECTOR_BYTES: usize = 32;

/// The longest copy made here, in bytes: beyond, what a call costs no longer counts.
const SHORT_BYTES_MAX: usize = 1024;

/// Bytes that are compared at once.
const BLOCK_BYTES: usize = 16;

#[inline]
pub(super) fn copy_out(source: &[AtomicU64], offset: usize, target: &mut [MaybeUninit<u8>]) {
    // SAFETY: the caller proved that `offset + len` lies within `source`; `target` is exclusive.
    unsafe {
        let from = source.as_ptr().cast::<u8>().add(offset);
        copy(target.as_mut_ptr().cast::<u8>(), from, target.len());
    }
}

#[inline(always)]
pub(super) fn copy_in(target: &[AtomicU64], offset: usize, source: &[u8]) {
    // SAFETY: the caller proved that `offset + len` lies within `target`, whose words are atomics
    // and so may be written through a shared reference; `source` is plain and unshared.
    unsafe {
        let to = target.as_ptr().cast::<u8>().cast_mut().add(offset);
        copy(to, source.as_ptr(), source.len());
    }
}

#[inline(always)]
pub(super) fn begin_with(words: &[AtomicU64], bytes: &[u8]) -> bool {
    if !(BLOCK_BYTES..=2 * BLOCK_BYTES).contains(&bytes.len()) {
        return words::begin_with(words, bytes);
    }
    // SAFETY: the caller proved that `words` are as many bytes as `bytes` at least.
    unsafe { blocks_equal(words.as_ptr().cast(), bytes.as_ptr(), bytes.len()) }
}

/// Lets the processor fetch the line of `place`, without waiting for it.
#[inline(always)]
pub(super) fn prefetch<T>(place: &T) {
    // SAFETY: a hint, which reads and writes nothing that a program can see.
    unsafe {
        asm!("prefetcht0 [{}]", in(reg) place, options(readonly, preserves_flags, nostack));
    }
}

/// Copies `len` bytes.
///
/// # Safety
/// Both ranges are valid for `len` bytes and do not overlap.
#[inline(always)]
unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    if (VECTOR_BYTES..=SHORT_BYTES_MAX).contains(&len) && is_wide() {
        // SAFETY: the caller vouches for both ranges; the length and the feature were looked at.
        unsafe { copy_vectors(to, from, len) }
    } else {
        // SAFETY: the caller vouches for both ranges.
        unsafe { call_memcpy(to, from, len) }
    }
}

/// Copies `len` bytes, at least [`VECTOR_BYTES`], four vectors at a time, then one at a time; the
/// last one, which overlaps those before it, is read first.
///
/// # Safety
/// Both ranges are valid for `len` bytes and do not overlap; the processor has AVX.
#[inline(always)]
unsafe fn copy_vectors(to: *mut u8, from: *const u8, len: usize) {
    let last = len - VECTOR_BYTES;
    // SAFETY: `at` goes from `-last` up to 0, and each step moves bytes that lie behind it and end
    // within the last vector, so within both ranges. The flags and the vectors are declared.
    unsafe {
        asm!(
            "vmovdqu ymm4, ymmword ptr [{from}]",
            "cmp {at}, -128",
            "jg 3f",
            "2:",
            "vmovdqu ymm0, ymmword ptr [{from} + {at}]",
            "vmovdqu ymm1, ymmword ptr [{from} + {at} + 32]",
            "vmovdqu ymm2, ymmword ptr [{from} + {at} + 64]",
            "vmovdqu ymm3, ymmword ptr [{from} + {at} + 96]",
            "vmovdqu ymmword ptr [{to} + {at}], ymm0",
            "vmovdqu ymmword ptr [{to} + {at} + 32], ymm1",
            "vmovdqu ymmword ptr [{to} + {at} + 64], ymm2",
            "vmovdqu ymmword ptr [{to} + {at} + 96], ymm3",
            "sub {at}, -128",
            "cmp {at}, -128",
            "jle 2b",
            "3:",
            "test {at}, {at}",
            "jns 5f",
            "4:",
            "vmovdqu ymm0, ymmword ptr [{from} + {at}]",
            "vmovdqu ymmword ptr [{to} + {at}], ymm0",
            "add {at}, 32",
            "js 4b",
            "5:",
            "vmovdqu ymmword ptr [{to}], ymm4",
            "vzeroupper",
            from = in(reg) from.add(last),
            to = in(reg) to.add(last),
            at = inout(reg) -(last as isize) => _,
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _,
            // The upper halves of all vectors are zero afterwards; nothing is kept in them.
            out("ymm5") _, out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _,
            out("ymm10") _, out("ymm11") _, out("ymm12") _, out("ymm13") _, out("ymm14") _,
            out("ymm15") _,
            options(nostack),
        );
    }
}

/// Whether two ranges of `len` bytes, one to two blocks, are alike.
///
/// # Safety
/// Both ranges are valid for `len` bytes.
#[inline(always)]
unsafe fn blocks_equal(one: *const u8, other: *const u8, len: usize) -> bool {
    let alike: u32;
    // SAFETY: a block at the beginning and one at the end lie within `len` bytes, as there are at
    // least as many as one block has. SSE2 is part of x86-64.
    unsafe {
        asm!(
            "movdqu {first}, xmmword ptr [{one}]",
            "movdqu {block}, xmmword ptr [{other}]",
            "pcmpeqb {first}, {block}",
            "movdqu {last}, xmmword ptr [{one} + {len} - 16]",
            "movdqu {block}, xmmword ptr [{other} + {len} - 16]",
            "pcmpeqb {last}, {block}",
            "pand {first}, {last}",
            "pmovmskb {alike:e}, {first}",
            one = in(reg) one,
            other = in(reg) other,
            len = in(reg) len,
            alike = lateout(reg) alike,
            first = out(xmm_reg) _,
            last = out(xmm_reg) _,
            block = out(xmm_reg) _,
            options(readonly, preserves_flags, nostack),
        );
    }
    alike == (1 << BLOCK_BYTES) - 1
}

unsafe extern "C" {
    fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
}

/// Copies `len` bytes by the C library's `memcpy`, called where the compiler does not see it: a
/// plain call would let it assume that nobody else writes there.
///
/// # Safety
/// Both ranges are valid for `len` bytes and do not overlap.
#[cold]
#[inline(never)]
unsafe fn call_memcpy(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller vouches for both ranges. The call follows the C ABI: the arguments are in
    // its registers, all it may clobber is declared, and a block without `nostack` is entered with
    // the stack aligned for a call.
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
