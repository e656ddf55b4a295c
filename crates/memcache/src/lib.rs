//! The memcached protocol, classic text and meta: bytes to requests, results to bytes.
//!
//! [`parse()`] takes one request off the front of the input. The request borrows from the input.
//! The functions of [`reply`] append lines to a buffer, and [`write()`] appends a request as text
//! again. Nothing here does I/O, keeps state between calls, or allocates while it parses.
//!
//! The rules are those of memcached 1.6.45, and its error lines are the same to the letter. These
//! differences are on purpose:
//!
//! - a line that is too long closes the connection, however its bytes arrive;
//! - a binary request closes the connection, after an error of the binary protocol;
//! - the lines of `gat` and `gats` may be as long as those of `get`;
//! - numbers are plain decimals that fit their type: flags of more than 32 bits are refused, not
//!   cut;
//! - base64 keys hold no characters outside the alphabet, and a reply returns them as they were
//!   sent;
//! - sub-commands must be spelled in full, and a lone `-` is not a zero;
//! - `me` decodes a base64 key whenever `b` follows it;
//! - a key that is too long in a retrieval does not take back the replies to earlier requests;
//! - an opaque that is too long is refused before anything is changed.
//!
//! Sizes are bytes, times seconds.
//!
//! ```
//! use memcache::{Limits, Parsed, Request, parse};
//!
//! let input = b"set greeting 0 60 5\r\nhello\r\nget greeting\r\n";
//! let Parsed::Request { request, consumed } = parse(input, &Limits::default()) else {
//!     panic!("the first request is complete");
//! };
//! let Request::Store(store) = request else { panic!("it is a storage command") };
//! assert_eq!((store.key.as_bytes(), store.value), (&b"greeting"[..], &b"hello"[..]));
//! assert_eq!(&input[consumed..], b"get greeting\r\n");
//! ```
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `base64` | nothing | keys in base64 |
//! | `expiry` | nothing | what an expiry time means |
//! | `limits` | nothing | the longest keys, lines and values |
//! | `text` | nothing | the parts of a line: words and numbers |
//! | `key` | `base64`, `limits` | one key, plain or in base64 |
//! | `refusal` | `key` | why a request is not executed |
//! | `keys` | `key`, `refusal`, `text` | the keys of a retrieval |
//! | `meta` | `key`, `refusal`, `text` | the flags of the meta commands |
//! | `request` | `key`, `keys`, `meta`, `text` | one request |
//! | `parse` | `key`, `keys`, `limits`, `meta`, `refusal`, `request`, `text` | bytes to requests |
//! | `write` | `limits`, `meta`, `request`, `text` | requests to bytes, for another cell |
//! | `reply` | `base64`, `key`, `meta`, `refusal`, `text` | results to bytes |
#![forbid(unsafe_code)]

mod base64;
mod expiry;
mod key;
mod keys;
mod limits;
mod meta;
mod parse;
mod refusal;
pub mod reply;
mod request;
mod text;
mod write;

pub use base64::encode as encode_base64;
pub use expiry::{Expiry, RELATIVE_MAX_S, expiry};
pub use key::{Key, KeyScratch, KeyToken};
pub use keys::Keys;
pub use limits::{
    KEY_BYTES_MAX, LINE_BYTES_MAX, Limits, MULTIGET_LINE_BYTES_MAX, VALUE_BYTES_CEILING,
    VALUE_BYTES_MAX,
};
pub use meta::{MetaArgs, MetaFlags, MetaReturn, Returns};
pub use parse::{Parsed, announced, parse, plain_get, plain_store, second_word};
pub use refusal::{BinaryRequest, Refusal};
pub use request::{
    CrawlerCommand, Direction, LruCommand, MetaMode, Request, SlabsCommand, Store, StoreVerb,
};
pub use text::Words;
pub use write::write;
