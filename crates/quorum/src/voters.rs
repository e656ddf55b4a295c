//! Which cells vote: always one, three or five.
//!
//! An even number is worse than the odd one below it: with two voters the loss of either ends
//! agreement, with one only the loss of that one.

use ring::CellId;
use std::collections::BTreeSet;

/// Most voters of a ring.
pub const VOTERS_MAX: usize = 5;

/// The cells that should vote where `present` run, and `now` vote.
///
/// As many as `present` allows: one, from three cells on three, from five on five. Voters that are
/// present stay. One that is absent is replaced if another cell is present that can take its place.
/// Where too few are present to replace it, it stays a member: a set of three with one absent
/// still decides, and a smaller set would have to be even or lose what three give.
#[must_use]
pub fn voters(present: &[CellId], now: &BTreeSet<CellId>) -> BTreeSet<CellId> {
    let present: BTreeSet<CellId> = present.iter().copied().collect();
    let allowed = match present.len() {
        0 => return now.clone(),
        1 | 2 => 1,
        3 | 4 => 3,
        _ => VOTERS_MAX,
    };
    let stay = now.intersection(&present);
    let join = present.difference(now);
    stay.chain(join).copied().take(allowed).collect()
}
