//! What the tests of the session share.

#![allow(dead_code, reason = "each suite uses a part of it")]

pub mod answers;
pub mod fake;
pub mod random;
pub mod rig;
