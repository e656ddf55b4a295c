//! Entries: what stands in a log, as values and as bytes.

mod draft;
mod head;
mod record;

pub use head::Broken;
pub use record::{Entry, Record};

pub(crate) use draft::{Draft, copy_of};
pub(crate) use head::{
    HEAD_BYTES_MAX, SKIPPED, is_for_reader, key_of, lying_bytes, slice_of, spends, whole_bytes,
};
