//! One statement about the generator, and whether a measurement agrees with it.

use serde::Serialize;

/// What was expected beside what was reported, for people. The raw figures stand beside the
/// statements in the JSON, so that another program can judge for itself.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Statement {
    #[serde(rename = "claim")]
    pub what: String,
    pub expected: String,
    #[serde(rename = "reported")]
    pub seen: String,
    pub holds: bool,
}
