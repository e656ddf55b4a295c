//! Keeps the cell as the map wants it: what it leads, copies, learns and drops.
//!
//! To read it, begin with `keeper` and `part`; then `readers`, who reads the logs and what replies
//! wait for, and `learners`. What takes several steps is `emptying`, `exchanging`, `hold`,
//! `sealing`, `turning`, and `learning` with its `walk`.

mod awake;
mod cut;
mod emptying;
mod epochs;
mod exchanging;
mod flushes;
mod hold;
mod keeper;
#[cfg(test)]
mod keeper_test;
mod learners;
mod learning;
mod led;
mod part;
mod readers;
mod sealing;
mod settling;
mod turning;
mod walk;

pub use keeper::{Keeper, Rest};
