//! The longest keys, lines and values that a server accepts.
//!
//! The first three limits belong to the protocol and never change. [`Limits`] are set by the
//! operator. All are bytes, without the end of the line or value.

/// The longest key. A key in base64 is measured after decoding.
pub const KEY_BYTES_MAX: usize = 250;

/// The longest request line that is not a multiget.
///
/// A client that sends more without a line end does not speak this protocol. Its connection closes.
pub const LINE_BYTES_MAX: usize = 2048;

/// The longest value that a request can announce: with its end, its length fits a signed 32-bit
/// number.
pub const VALUE_BYTES_CEILING: u64 = i32::MAX as u64 - 2;

/// The longest line of `get`, `gets`, `gat` and `gats`: about five thousand keys of 200 bytes.
pub const MULTIGET_LINE_BYTES_MAX: usize = 1 << 20;

/// The longest value that is stored, unless the operator says otherwise (`-I`).
pub const VALUE_BYTES_MAX: u64 = 1 << 20;

/// The operator's limits. A request beyond one is refused in memcached's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest value that is stored. A longer one is received and dropped.
    pub value_bytes_max: u64,
    /// The longest line of `get`, `gets`, `gat` and `gats`, which take many keys.
    pub multiget_line_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { value_bytes_max: VALUE_BYTES_MAX, multiget_line_bytes_max: MULTIGET_LINE_BYTES_MAX }
    }
}
