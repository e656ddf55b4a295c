//! Bytes to requests.
//!
//! [`parse`] takes one request off the front of the input, or wants more bytes, or refuses. It
//! keeps no state: the same bytes give the same result, however they arrived. Until a request is
//! complete, every prefix of it is [`Parsed::Incomplete`]. [`announced`] is for values too long to
//! be kept until then.
//!
//! Nearly all traffic has one of two fixed forms, which [`plain_get`] and [`plain_store`] match in
//! one pass. Everything else takes the general path in `dispatch`, which knows every rule: it finds
//! the line, then parses by the first word (`classic`, `store`, `meta`, `admin`).

mod admin;
mod classic;
mod dispatch;
mod line;
mod meta;
mod parsed;
mod plain;
mod store;
mod value;

pub use dispatch::{announced, parse};
pub use parsed::Parsed;
pub use plain::{plain_get, plain_store, second_word};
