//! The only unsafe room of the engine: memory from the kernel, and copies that may race.
//!
//! Everything above sees this memory as atomics: always mapped, always initialised (the
//! kernel hands out zeroes), never a reference to plain bytes. A reader that loses a race reads
//! stale words, never undefined ones, and finds out by the version of the bucket.
//!
//! Under loom, shuttle and the sanitizers the same interface is kept by plain vectors and by
//! copies made of atomic words, which those tools can see.

mod copy;
mod mapping;

pub(crate) use copy::{append, copy_in};
pub(crate) use mapping::{Mapping, WordAndHalves};

#[cfg(target_endian = "big")]
compile_error!("items are laid out in little-endian words; a big-endian host needs conversions");
