//! The longest messages, in bytes.

/// The longest message of a handshake, its length included.
pub const HANDSHAKE_BYTES_MAX: usize = 256;

/// The longest text of a refusal.
pub const TEXT_BYTES_MAX: usize = 200;
