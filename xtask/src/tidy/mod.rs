//! `cargo xtask tidy`: taste as a test.
//!
//! Every rule is a function from texts to findings. Rules never guess: a finding names the file,
//! the line, the limit and the remedy.
//!
//! - `arrows`: the crates use only those that `ARCHITECTURE.md` lets them use, and every library
//!   has its reason in `docs/decisions/dependencies.md`.
//! - `rooms`: the modules of a crate use only those that the table in its `lib.rs` lets them use;
//!   no files use each other in a cycle; an `impl` stands with its type.
//! - `sources`: size, width, ASCII, glob imports, names, module docs.
//! - `lines`: lines of production code, by crate, under two ceilings.
//! - `twice`: no six lines of code occur in two places.
//! - `words`: no word that has a plainer replacement.
//! - `links`: what the documents point at exists.
//!
//! `source` reads a file for all of them; `table` compares a table of arrows with the arrows that
//! exist. No rule has exceptions. Rules for which rustc or clippy has a lint stand in `Cargo.toml`
//! and not here.

mod arrows;
mod finding;
mod inspect;
mod lines;
mod links;
mod rooms;
mod source;
mod sources;
mod table;
mod twice;
mod words;

pub use inspect::{Args, run};
