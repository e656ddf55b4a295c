//! What a ring of cells promises: no acknowledged write is lost, and what that costs.

pub mod cost;
