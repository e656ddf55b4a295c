//! What the foundation promises: limits that change, walks that are bounded, effects in order.

pub mod resize;
