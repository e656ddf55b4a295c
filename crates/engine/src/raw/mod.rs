//! The only unsafe room of the engine: memory from the kernel, what the allocator keeps of it, and
//! copies that may race.
//!
//! Everything above sees this memory as atomics: always mapped, always initialised (the
//! kernel hands out zeroes), never a reference to plain bytes. A reader that loses a race reads
//! stale words, never undefined ones, and finds out by the version of the bucket.
//!
//! Under loom, shuttle and the sanitizers the same interface is kept by plain vectors and by
//! copies made of atomic words, which those tools can see.
#![allow(unsafe_code, reason = "memory from the kernel, and copies that may race")]

mod allocator;
mod copy;
mod mapping;
#[cfg(target_arch = "x86_64")]
mod processor;
#[cfg(target_arch = "x86_64")]
mod slice;
mod words;
#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, word_copy))))]
mod x86_64;

pub use allocator::bound_freed_memory;
pub use copy::prefetch_bytes;
pub(crate) use copy::{append, begin_with, copy_in, prefetch};
pub(crate) use mapping::{Mapping, WordAndHalves};
#[cfg(target_arch = "x86_64")]
pub(crate) use processor::look as look_at_processor;
#[cfg(target_arch = "x86_64")]
pub(crate) use slice::slice_of;
#[cfg(any(not(target_arch = "x86_64"), loom, shuttle, word_copy))]
use words as imp;
pub(crate) use words::short_word;
#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, word_copy))))]
use x86_64 as imp;

#[cfg(target_endian = "big")]
compile_error!("items are laid out in little-endian words; a big-endian host needs conversions");

/// Does nothing: other processors have no such instructions.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn look_at_processor() {}

/// [`SliceId::of`](base::SliceId::of).
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn slice_of(key: &[u8]) -> base::SliceId {
    base::SliceId::of(key)
}
