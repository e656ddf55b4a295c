//! Statistics of a few measurements: summaries, intervals, and how contestants take turns.

mod estimate;
mod summary;
mod turns;

pub use estimate::{Estimate, mean, ratio};
pub use summary::{geometric_mean, median, quantile, range, spread};
pub use turns::{Series, alternate, order};
