//! What every piece of work on the items needs: a writer's, and a walker's.

use super::ghosts::GhostClock;
use crate::items::Items;
use crate::local::Pin;
use base::Now;

/// The parts that a change works with, in whose batch, when, and where its effects go.
pub(crate) struct Work<'w, S> {
    pub(crate) items: &'w Items,
    pub(crate) ghosts: &'w GhostClock,
    pub(crate) pin: &'w mut Pin,
    pub(crate) now: Now,
    pub(crate) sink: &'w mut S,
}
