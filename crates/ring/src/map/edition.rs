//! Which commands all cells of a ring understand.
//!
//! A command that a cell does not understand would stop it: it could not read what follows it in
//! the log. So commands have editions. Each start says which edition its build understands, and the
//! map says which one is used: one that all cells understand. It only rises, and then no cell of an
//! earlier build is taken.

/// The edition that this build understands. Edition 1 has [`Command::Use`](crate::Command::Use) and
/// [`Command::Remove`](crate::Command::Remove); all other commands are of edition 0.
pub const EDITION: u16 = if cfg!(feature = "next-version") { 2 } else { 1 };

/// The edition that has [`Command::Remove`](crate::Command::Remove).
pub(super) const REMOVES: u16 = 1;
