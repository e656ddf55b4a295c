//! What a server is willing to read, as numbers.
//!
//! The first three are the protocol's own and never change. [`Limits`] are the operator's. All
//! are bytes, counted without the line end.

/// The longest key, after decoding when it was sent in base64.
pub const KEY_BYTES_MAX: usize = 250;

/// The longest request line that is not a multiget.
///
/// A client that sends more without a line end does not speak this protocol, and is closed.
pub const LINE_BYTES_MAX: usize = 2048;

/// The longest value a request can announce: a signed 32-bit number with room for its line end.
pub const VALUE_BYTES_CEILING: u64 = i32::MAX as u64 - 2;

/// The longest line of `get`, `gets`, `gat` and `gats`: about five thousand keys of 200 bytes.
pub const MULTIGET_LINE_BYTES_MAX: usize = 1 << 20;

/// The longest value that is stored, unless the operator says otherwise (`-I`).
pub const VALUE_BYTES_MAX: u64 = 1 << 20;

/// What the operator allows. Anything above is refused in the words of memcached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest value that is stored; longer ones are read and thrown away.
    pub value_bytes_max: u64,
    /// The longest line of the four retrieval commands that take many keys.
    pub multiget_line_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { value_bytes_max: VALUE_BYTES_MAX, multiget_line_bytes_max: MULTIGET_LINE_BYTES_MAX }
    }
}
