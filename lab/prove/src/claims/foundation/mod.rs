//! What the foundation promises: limits that change, walks that are bounded, effects in order.

pub mod effects;
pub mod engine;
pub mod log;
pub mod resize;
pub mod vivify;
pub mod walks;

/// The commands of our server's statistics.
fn reports() -> &'static [&'static str] {
    &["stats", "stats volvox"]
}
