//! How long a rolling restart takes, beside copying what it copies.
//!
//! ```text
//! a range moves to a cell that has nothing of it      -> bytes that are copied in a second
//! cell for cell: `volvox ctl restart CELL`            -> seconds
//!   copied: all that it has, to others; and what it has led, back
//! ```

use std::ops::AddAssign;

use anyhow::{Context, Result};

use super::cells::order_for;
use super::restarting::{CELLS, RESTART_MAX, clients, five, missed, while_clients_go_on};
use crate::claim::{Claim, Measured};
use crate::claims::ring::memory::store;
use crate::instruments::{Client, Ended, RangeOf, Ring, RingMap};
use crate::lab::Lab;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::new(
    "restart.time",
    "a rolling restart of five cells of 400 MB each: how long it takes",
)
.bar("<= 1.5x the time that copying its bytes takes; no error, no miss")
.by(restart)];

/// How much longer it may take than copying.
const TIMES_MAX: f64 = 1.5;
/// Room for twice that: after moves one cell may have copies of more than others.
const MEMORY_MIB: u64 = 2048;
/// Items that are stored: with their copies some 400 MB for each cell.
const ITEMS: u64 = 3_000_000;
/// Moves by which copying is timed, in the quick and the full form.
const MOVES: [usize; 2] = [3, 9];
/// Rounds, in the quick and the full form.
const ROUNDS: [usize; 2] = [1, 3];
/// The range that moves: it begins at the first slice.
const RANGE: &str = "1";

/// Bytes that were copied, and how long that took with what belongs to it.
#[derive(Clone, Copy, Default)]
struct Copied {
    bytes: f64,
    seconds: f64,
}

impl AddAssign for Copied {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.seconds += other.seconds;
    }
}

impl Copied {
    fn mb_s(self) -> f64 {
        self.bytes / self.seconds / 1e6
    }
}

fn restart(lab: &Lab) -> Result<Measured> {
    let (ring, mut clients) = (five(lab, MEMORY_MIB, None)?, clients());
    store(lab, ring.cells()[0].address, ring.cells()[0].pid, ITEMS)?;
    let (mut moves, mut restarts, mut wrong) = (Copied::default(), Copied::default(), Vec::new());
    let mut under_load = |steps: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let (seen, done) = while_clients_go_on(&ring, &mut clients, steps);
        let is_wrong = |ended: &Ended| !matches!(ended, Ended::Well | Ended::Closed);
        wrong.extend(seen.iter().flatten().map(|one| one.ended).filter(is_wrong));
        done
    };
    under_load(&mut || {
        (0..lab.form(MOVES)).try_for_each(|nth| {
            lab.detail(&format!("move {}", nth + 1));
            moves += moved(lab, &ring)?;
            Ok(())
        })
    })?;
    for round in 0..lab.form(ROUNDS) {
        under_load(&mut || {
            (1..=CELLS as u16).try_for_each(|cell| {
                lab.detail(&format!("round {}, cell {cell}", round + 1));
                restarts += restarted(lab, &ring, cell)?;
                Ok(())
            })
        })?;
    }
    wrong.extend(missed(&ring, &clients)?);
    ring.stop()?;
    Ok(judge(moves, restarts, &wrong))
}

/// The map once each range has its copies, and the bytes of items of one slice.
fn measured(ring: &Ring) -> Result<(RingMap, f64)> {
    let map = ring.whole()?.into_iter().next().context("no cell has a map")?;
    let all = ring.cells().iter().map(|cell| Client::connect(cell.address)?.stat("bytes"));
    let bytes = all.sum::<Result<u64>>()? as f64;
    let copies: usize = map.ranges.iter().map(|it| slices(it) * (1 + it.copies.len())).sum();
    Ok((map, bytes / copies as f64))
}

fn slices(range: &RangeOf) -> usize {
    range.slices.clone().count()
}

/// Has a range move to a cell that has nothing of it.
fn moved(lab: &Lab, ring: &Ring) -> Result<Copied> {
    let (map, slice_bytes) = measured(ring)?;
    let range = map.ranges.iter().find(|it| *it.slices.start() == 0).context("no first range")?;
    let has = |cell: &u16| range.primary == Some(*cell) || range.copies.contains(cell);
    let to = (1..=CELLS as u16).find(|cell| !has(cell)).context("all cells have it")?;
    let seconds = order_for(lab, ring, &["move", RANGE, &to.to_string()], RESTART_MAX)?;
    Ok(Copied { bytes: slices(range) as f64 * slice_bytes, seconds })
}

/// Has a cell start again: all that it has is copied to others before, and what it has led is
/// copied back.
fn restarted(lab: &Lab, ring: &Ring, cell: u16) -> Result<Copied> {
    let (map, slice_bytes) = measured(ring)?;
    let seconds = order_for(lab, ring, &["restart", &cell.to_string()], RESTART_MAX)?;
    let times = |range: &RangeOf| match range.primary == Some(cell) {
        true => 2,
        false => usize::from(range.copies.contains(&cell)),
    };
    let copied: usize = map.ranges.iter().map(|range| slices(range) * times(range)).sum();
    Ok(Copied { bytes: copied as f64 * slice_bytes, seconds })
}

fn judge(moves: Copied, restarts: Copied, wrong: &[Ended]) -> Measured {
    let times = moves.mb_s() / restarts.mb_s();
    let text = format!(
        "{times:.2}x: {:.1} s for {:.0} MB, where a move copies {:.0} MB in a second; {} requests \
         not answered as they should be",
        restarts.seconds,
        restarts.bytes / 1e6,
        moves.mb_s(),
        wrong.len(),
    );
    Measured::new(text, times, times <= TIMES_MAX && wrong.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn what_takes_longer_than_copying_by_more_than_a_half_fails() {
        let copied = |bytes, seconds| Copied { bytes, seconds };
        let moves = copied(1e8, 1.0);
        assert_eq!(judge(moves, copied(4e8, 5.9), &[]).verdict, Verdict::Pass);
        assert_eq!(judge(moves, copied(4e8, 6.1), &[]).verdict, Verdict::Fail);
        assert_eq!(judge(moves, copied(4e8, 5.9), &[Ended::Refused]).verdict, Verdict::Fail);
        assert_eq!(judge(moves, Copied::default(), &[]).verdict, Verdict::Fail, "none was made");
    }
}
