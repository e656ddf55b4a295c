//! The limits of a workload: what the protocol allows, and what the tables hold.

/// The most keys of a workload: tables of popularity hold key numbers in 32 bits.
pub const KEYS_MAX: u64 = 1 << 30;

/// The longest key of the protocol, in bytes.
pub const KEY_BYTES_MAX: usize = 250;

/// The longest value the generator makes, in bytes.
pub const VALUE_BYTES_MAX: u32 = 1 << 30;
