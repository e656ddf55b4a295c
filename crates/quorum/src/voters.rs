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
/// present stay before others, lower ids before higher ones. So one that is absent is replaced if
/// enough others are present, and three voters become one where only two cells are. Where nobody is
/// present, nothing changes. The caller decides how long a cell may be silent and still be present.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_voters_are_one_three_or_five_and_those_that_are_present_stay() {
        let cases: [(&[u32], &[u32], &[u32]); 20] = [
            (&[], &[1, 2, 3], &[1, 2, 3]),
            (&[1], &[], &[1]),
            (&[1], &[1], &[1]),
            (&[1, 2], &[1], &[1]),
            (&[1, 2], &[2], &[2]),
            (&[1, 2, 3], &[2], &[1, 2, 3]),
            (&[1, 2, 3, 4], &[1], &[1, 2, 3]),
            (&[1, 2, 3, 4], &[1, 3, 4], &[1, 3, 4]),
            (&[1, 2, 3, 4, 5], &[1, 3, 4], &[1, 2, 3, 4, 5]),
            (&[1, 2, 3, 4, 5, 6, 7], &[3, 6, 7], &[1, 2, 3, 6, 7]),
            // One is absent, and another takes its place.
            (&[1, 2, 4], &[1, 2, 3], &[1, 2, 4]),
            (&[1, 4, 5], &[1, 2, 3], &[1, 4, 5]),
            (&[1, 2, 3, 4, 6], &[1, 2, 3, 4, 5], &[1, 2, 3, 4, 6]),
            (&[1, 2, 4, 5, 6, 9], &[1, 2, 3, 4, 5], &[1, 2, 4, 5, 6]),
            // Nobody can take its place, so there are fewer.
            (&[1, 3], &[1, 2, 3], &[1]),
            (&[2, 3], &[1, 2, 3], &[2]),
            (&[1, 2, 3, 4], &[1, 2, 3, 4, 5], &[1, 2, 3]),
            (&[5], &[1, 2, 3], &[5]),
            // Twice is once, and the order does not count.
            (&[3, 3, 1], &[1], &[1]),
            (&[3, 2, 1], &[3], &[1, 2, 3]),
        ];
        let set = |ids: &[u32]| ids.iter().map(|id| CellId(*id)).collect::<BTreeSet<_>>();
        for (present, now, expected) in cases {
            let present: Vec<_> = present.iter().map(|id| CellId(*id)).collect();
            assert_eq!(voters(&present, &set(now)), set(expected), "{present:?} {now:?}");
        }
    }
}
