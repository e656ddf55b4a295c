//! One step of a reply, whatever the dialect.
//!
//! A token borrows from the bytes received. It never says whether the reply fits its request.

/// The longest line a reply may hold: a key, the words around it, or an error message.
pub const LINE_BYTES_MAX: usize = 2_048;

/// One step of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A value follows. The key is empty when the reply does not name it.
    Value {
        /// The key as the server named it.
        key: &'a [u8],
        /// The length of the value.
        value_bytes: u32,
    },
    /// Bytes of the value announced before.
    Data {
        /// The next bytes of the value.
        bytes: &'a [u8],
        /// Whether the value ends with them.
        last: bool,
    },
    /// The end of a get: `END` or `EN`.
    End,
    /// The end of a batch of quiet commands: `MN`.
    BatchEnd,
    /// `STORED`.
    Stored,
    /// `DELETED`.
    Deleted,
    /// `HD`: done, whatever it was.
    Done,
    /// `NOT_STORED` or `NS`.
    NotStored,
    /// `NOT_FOUND` or `NF`.
    NotFound,
    /// An error line of the protocol, without its line end.
    Failed(&'a [u8]),
    /// A line that the protocol does not know; what follows cannot be trusted.
    Malformed(&'a [u8]),
    /// More bytes are needed.
    Incomplete,
}
