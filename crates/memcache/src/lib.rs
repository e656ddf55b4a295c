//! The memcached protocol, classic text and meta: bytes to requests, results to bytes.
//!
//! [`parse()`] takes one request off the front of the input; everything in it is borrowed from
//! there. The functions of [`reply`] append lines to a buffer. Nothing here does I/O, keeps state
//! between calls, or allocates while parsing.
//!
//! The rules are those of memcached 1.6.45, its error lines to the letter. Where the two differ,
//! on purpose:
//!
//! - a line that is too long closes the connection, however its bytes arrive;
//! - the first byte of a binary request closes it too, with a word of why;
//! - `gat` and `gats` take lines as long as `get` does;
//! - numbers are plain decimals that fit: flags past 32 bits are refused, not cut;
//! - base64 keys hold no characters outside the alphabet, and come back as they were sent;
//! - sub-commands are not guessed from their first letters, nor is a lone `-` a zero;
//! - `me` decodes a base64 key whenever `b` follows it;
//! - a key too long in a retrieval does not take back the replies to earlier requests;
//! - an opaque that is too long is refused before anything is changed.
//!
//! Units: sizes in bytes, times in seconds.
#![forbid(unsafe_code)]

mod base64;
mod expiry;
mod key;
mod limits;
mod meta;
mod number;
mod parse;
mod refusal;
pub mod reply;
mod request;
mod scan;
mod words;

pub use expiry::{Expiry, RELATIVE_MAX_S, expiry};
pub use key::{Key, KeyScratch, KeyToken, Keys};
pub use limits::{
    KEY_BYTES_MAX, LINE_BYTES_MAX, Limits, MULTIGET_LINE_BYTES_MAX, VALUE_BYTES_CEILING,
    VALUE_BYTES_MAX,
};
pub use meta::{MetaFlags, MetaReturn, Returns};
pub use parse::{Parsed, parse, plain_get, plain_store};
pub use refusal::Refusal;
pub use request::{
    CrawlerCommand, Direction, LruCommand, MetaMode, Request, SlabsCommand, Store, StoreVerb,
};
pub use words::Words;
