//! Keys: the bytes of a key with what is computed from them once per request.

mod hash;
mod key;

pub(crate) use hash::{HashKey, mix};
pub use key::{KEY_BYTES_MAX, Key};
