//! Keeps the cell as the map wants it: what it leads, copies, learns and drops.
//!
//! To read it, begin with `keeper` and `part`. What takes several steps is `emptying`,
//! `exchanging`, `hold`, and `learning` with its `walk`.

mod emptying;
mod exchanging;
mod hold;
mod keeper;
#[cfg(test)]
mod keeper_test;
mod learning;
mod part;
mod walk;

pub use keeper::Keeper;
