//! Which commands all cells of a ring understand.
//!
//! A command that a cell does not understand would stop it: it could not read what follows it in
//! the log. So commands have editions. Each start says which edition its build understands, and the
//! map says which one is used: one that all cells understand. It only rises, and then no cell of an
//! earlier edition is taken.

/// The edition that this build understands. All commands so far are of edition 0; a new one is
/// proposed and applied only where the map uses its edition.
pub const EDITION: u16 = if cfg!(feature = "next-version") { 1 } else { 0 };
