//! What has come of requests that other cells may ask again.

use super::tag::Asker;
use base::SliceId;
use effects::Made;

/// What has come of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has made this.
    Made(Made),
    /// It has made nothing, when it was asked again for this time.
    Nothing(u16),
}

/// What is sent to a learner of one asker: its floor, and what it has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagState {
    pub(crate) asker: Asker,
    pub(crate) floor: u64,
    pub(crate) outcomes: Vec<(u64, SliceId, Outcome)>,
}
