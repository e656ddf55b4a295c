//! One statement about the generator, and whether a measurement agrees with it.

use serde::Serialize;

/// What was expected beside what was reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Statement {
    #[serde(rename = "claim")]
    pub what: String,
    pub expected: String,
    #[serde(rename = "reported")]
    pub seen: String,
    /// Whether it is true; none where the machine kept the run from showing it.
    pub holds: Option<bool>,
}
