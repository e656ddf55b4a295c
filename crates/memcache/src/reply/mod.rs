//! Replies: every line a server sends, appended to the output of a connection.
//!
//! Nothing here decides what to say; `noreply` and `q` are the exception, because the protocol
//! ties them to single lines: the meta functions leave out a nominal reply that the client does
//! not want, the caller leaves out all replies to a classic `noreply`. Lines end with `\r\n`.

mod classic;
mod dump;
mod meta;

pub use classic::{number, refusal, short_value, stat, value, version};
pub use dump::{metadump, mgdump};
pub use meta::{
    ItemDebug, ItemFacts, Marks, MetaStatus, meta_debug, meta_hit, meta_miss, meta_number,
    meta_status, meta_stored,
};

/// Ends every value.
pub const LINE_END: &[u8] = b"\r\n";
/// Ends the values of a retrieval, and a list of statistics.
pub const END: &[u8] = b"END\r\n";
/// A value was stored.
pub const STORED: &[u8] = b"STORED\r\n";
/// A condition of the storage command did not hold.
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
/// `cas`: the item changed since.
pub const EXISTS: &[u8] = b"EXISTS\r\n";
/// No such item.
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// The item is gone.
pub const DELETED: &[u8] = b"DELETED\r\n";
/// The item has its new expiry.
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
/// Done.
pub const OK: &[u8] = b"OK\r\n";
/// Statistics start from zero.
pub const RESET: &[u8] = b"RESET\r\n";
/// The answer to `mn`.
pub const META_NOOP: &[u8] = b"MN\r\n";
/// `me` and dumps: nothing (more) to show.
pub const META_END: &[u8] = b"EN\r\n";
/// `incr`, `decr` and `ma` on a value that is no number.
pub const NON_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
/// No memory for a value.
pub const OUT_OF_MEMORY_STORING: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// No memory for a number.
pub const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory\r\n";
/// No memory for a reply.
pub const OUT_OF_MEMORY_WRITING: &[u8] = b"SERVER_ERROR out of memory writing get response\r\n";
/// A value that grows past the limit, by `append` or `prepend`.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
/// The operator did not allow `shutdown`.
pub const SHUTDOWN_DISABLED: &[u8] = b"SERVER_ERROR: shutdown not enabled\r\n";
/// The operator did not allow `flush_all`.
pub const FLUSH_DISABLED: &[u8] = b"CLIENT_ERROR flush_all not allowed\r\n";
/// The operator did not allow `watch`.
pub const WATCH_DISABLED: &[u8] = b"CLIENT_ERROR watch commands not allowed\r\n";
/// The operator did not allow dumps.
pub const METADUMP_DISABLED: &[u8] = b"ERROR metadump not allowed\r\n";
/// The operator did not allow dumps.
pub const MGDUMP_DISABLED: &[u8] = b"ERROR key dump not allowed\r\n";
/// A dump of classes that do not exist.
pub const BAD_CLASS: &[u8] = b"BADCLASS invalid class id\r\n";
/// The name or the password is wrong.
pub const AUTH_FAILED: &[u8] = b"CLIENT_ERROR authentication failure\r\n";
/// More connections than the operator allows; the connection closes.
pub const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";
