//! What a ring promises whose ranges move while clients go on.

pub mod pause;
