//! Reading: from a key to its value, without a lock.
//!
//! A read finds the bucket, compares the key, copies the value and then checks that the version of
//! the bucket is the one it saw first. If it is not, the copy is thrown away and the read starts
//! over; a few torn tries later it takes the lock. A read never makes space and never emits an
//! effect. A read that changes the item (touch, vivify) is a write: see `writing`.

mod get;
mod held;
mod read;

pub use get::Prefetched;
pub(crate) use get::{
    Later, fetched_now, get_ahead, get_plain, is_held, look_ahead, peek, prefetch_all,
};
pub use held::HeldValue;
pub(crate) use held::NotHeld;
pub use read::{FetchOptions, Found, ItemView, LongValues, Read, ReadSink, ValueSink};
