//! The lines that are the same each time, in memcached's words.
//!
//! Every line has its end, `\r\n`. Errors of requests that are not executed are in
//! [`crate::Refusal`].

/// The end of every value.
pub const LINE_END: &[u8] = b"\r\n";
/// The end of the values of a retrieval, and of a report of statistics.
pub const END: &[u8] = b"END\r\n";
/// A value was stored.
pub const STORED: &[u8] = b"STORED\r\n";
/// The condition of a storage command did not hold.
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
/// `cas`: the item has another version.
pub const EXISTS: &[u8] = b"EXISTS\r\n";
/// There is no such item.
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// The item is deleted.
pub const DELETED: &[u8] = b"DELETED\r\n";
/// The item has its new expiry.
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
/// Done.
pub const OK: &[u8] = b"OK\r\n";
/// Statistics count from zero again.
pub const RESET: &[u8] = b"RESET\r\n";
/// The reply to `mn`.
pub const META_NOOP: &[u8] = b"MN\r\n";
/// `me`: there is no such item. Dumps: there are no more keys.
pub const META_END: &[u8] = b"EN\r\n";
/// `incr`, `decr` and `ma`: the value is not a number.
pub const NON_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
/// There is no memory for a value.
pub const OUT_OF_MEMORY_STORING: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// There is no memory for a number.
pub const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory\r\n";
/// There is no memory for a reply.
pub const OUT_OF_MEMORY_WRITING: &[u8] = b"SERVER_ERROR out of memory writing get response\r\n";
/// A value would exceed the limit after `append` or `prepend`.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
/// The operator did not allow `shutdown`.
pub const SHUTDOWN_DISABLED: &[u8] = b"SERVER_ERROR: shutdown not enabled\r\n";
/// The operator did not allow `flush_all`.
pub const FLUSH_DISABLED: &[u8] = b"CLIENT_ERROR flush_all not allowed\r\n";
/// The operator did not allow `watch`.
pub const WATCH_DISABLED: &[u8] = b"CLIENT_ERROR watch commands not allowed\r\n";
/// The operator did not allow `metadump`.
pub const METADUMP_DISABLED: &[u8] = b"ERROR metadump not allowed\r\n";
/// The operator did not allow `mgdump`.
pub const MGDUMP_DISABLED: &[u8] = b"ERROR key dump not allowed\r\n";
/// A dump of classes that do not exist.
pub const BAD_CLASS: &[u8] = b"BADCLASS invalid class id\r\n";
/// The name or the password is wrong.
pub const AUTH_FAILED: &[u8] = b"CLIENT_ERROR authentication failure\r\n";
