//! What has come of requests that other cells may ask again.

use effects::Made;

/// What has come of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has made this.
    Made(Made),
    /// It has made nothing, when it was asked again for this time.
    Nothing(u16),
}
