//! Replies: every line that a server sends, appended to the output of a connection.
//!
//! Nothing here decides what to reply, with one exception: the meta functions leave out a nominal
//! reply that `q` silences, because the protocol ties `q` to single lines. For a classic `noreply`
//! the caller calls nothing.
//!
//! Lines end with `\r\n`, except those of `metadump`. Sizes are bytes, times seconds.
//!
//! ```
//! use memcache::{Key, reply};
//!
//! let mut out = Vec::new();
//! let key = Key::new(b"greeting").expect("1 to 250 bytes");
//! reply::value(&mut out, key, 0, 5, None);
//! out.extend_from_slice(b"hello");
//! out.extend_from_slice(reply::LINE_END);
//! out.extend_from_slice(reply::END);
//! assert_eq!(out, b"VALUE greeting 0 5\r\nhello\r\nEND\r\n");
//! ```

mod classic;
mod dump;
mod lines;
mod meta;

pub use classic::{number, refusal, short_value, stat, value, version};
pub use dump::{metadump, mgdump};
pub use lines::{
    AUTH_FAILED, BAD_CLASS, DELETED, END, EXISTS, FLUSH_DISABLED, LINE_END, META_END, META_NOOP,
    METADUMP_DISABLED, MGDUMP_DISABLED, NON_NUMERIC, NOT_FOUND, NOT_STORED, OK, OUT_OF_MEMORY,
    OUT_OF_MEMORY_STORING, OUT_OF_MEMORY_WRITING, RESET, SHUTDOWN_DISABLED, STORED, TOO_LARGE,
    TOUCHED, WATCH_DISABLED,
};
pub use meta::{
    ItemDebug, ItemFacts, Marks, MetaStatus, meta_debug, meta_hit, meta_miss, meta_number,
    meta_status, meta_stored,
};
