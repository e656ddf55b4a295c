//! What `volvox up` is asked for.

use std::path::PathBuf;

/// What `volvox up` is asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// How many cells the ring forms with.
    pub cells: u16,
    /// How many join after that, and lead nothing at first.
    pub spares: u16,
    /// Copies of everything, the primary included.
    pub copies: u8,
    /// The port for clients of the first cell; the others have those that follow.
    pub port: u16,
    /// Where the cells keep what they must not forget, and their logs.
    pub directory: Option<PathBuf>,
    /// Whether a cell that ends stays ended.
    pub stays_ended: bool,
    /// Whether to print JSON.
    pub json: bool,
    /// Flags of `volvox serve` for every cell.
    pub flags: Vec<String>,
}
