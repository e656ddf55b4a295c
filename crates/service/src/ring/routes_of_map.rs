//! The routes of all slices by one map, for measurements of what finding one takes.

use super::granted::Grants;
use super::routes::{Parts, Routes, Target};
use super::terms::Terms;
use base::SliceId;
use ring::{CellId, Map, Range};

/// The routes of a cell that leads nothing yet, as requests use them.
pub struct RoutesOfMap(Routes);

impl RoutesOfMap {
    /// Those by `map`, at the cell `me`.
    #[must_use]
    pub fn new(map: &Map, me: CellId) -> Self {
        let (terms, grants) = (&Terms::new(), &Grants::default());
        let (nothing, nobody, never) = (&|_: &Range| false, &|_: &Range| None, &|_: &Range| 0);
        let parts = Parts { terms, grants, serves: nothing, copies: nobody, lost_at: never };
        Self(Routes::of(map, me, &parts))
    }

    /// The other cell that requests for `slice` go to.
    #[inline(always)]
    #[must_use]
    pub fn leader(&self, slice: SliceId) -> Option<CellId> {
        match self.0.target(slice).0 {
            Target::Cell(cell) => Some(cell),
            Target::Here(..) | Target::Nowhere => None,
        }
    }
}
