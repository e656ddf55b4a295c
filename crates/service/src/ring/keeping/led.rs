//! The ranges that this cell leads, and has begun to.

use super::part::Part;
use crate::ring::terms::{Term, Terms};
use effects::Level;
use ring::{Map, Range, RangeId};
use std::collections::BTreeMap;

/// A range that this cell leads, and the level of its replies.
#[derive(Clone, Copy)]
pub(crate) struct Led<'m> {
    pub(crate) range: &'m Range,
    pub(crate) level: Level,
}

impl Led<'_> {
    /// The leadership.
    pub(crate) fn term(&self) -> Term {
        Term { range: self.range.id, epoch: self.range.epoch }
    }
}

/// The ranges of `map` that this cell leads by its `parts`, and has begun to.
pub(crate) fn led<'m>(
    map: &'m Map,
    parts: &BTreeMap<RangeId, Part>,
    terms: &Terms,
) -> Vec<Led<'m>> {
    let led = |range: &'m Range| {
        let Some(Part::Primary { term, is_begun: true }) = parts.get(&range.id) else {
            return None;
        };
        Some(Led { range, level: terms.level(*term)? })
    };
    map.ranges.iter().filter_map(led).collect()
}
