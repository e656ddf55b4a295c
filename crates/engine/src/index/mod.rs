//! The index: from a key's slice and hash to the item, by slice.
//!
//! Each group of buckets grows and shrinks by itself, a bucket at a time. So a slice can be walked
//! or dropped alone, and keys that crowd one slice make only that slice large. Readers take no
//! lock: they remember the version of a bucket, look, and check that it did not change. Writers
//! lock the chain that they change, for as long as the change takes.
//!
//! The index compares tags, never keys: its callers compare the key of the item that a slot points
//! to. It never looks at an item itself.

mod blocks;
mod bucket;
mod buckets;
mod chain;
mod compact;
mod group;
mod lock;
mod probe;
mod resize;
mod slot;
mod span;
mod table;

pub(crate) use bucket::Bucket;
pub(crate) use chain::{Chain, First, Place, candidate};
pub(crate) use compact::Compaction;
pub(crate) use lock::overflow;
pub(crate) use probe::Probe;
pub(crate) use slot::{FREQ_MAX, Ghost, Slot, TAG_BITS};
pub(crate) use span::Span;
pub(crate) use table::Index;
