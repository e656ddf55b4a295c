//! What would follow if one cell ended, by what all others hold: which ranges would lose their
//! last copy, which cells would have less memory than they need, and whether the voters that are
//! left could change the map.
//!
//! ```text
//! every range that lacks a copy then --> the cell with the fewest parts that has none of it
//! what a cell holds then = its items + the mean bytes of a slice x slices that it gets
//! it needs               = items / share that items can fill + index + the rest
//! its index then         = its index + what it gets x index of all cells / items of all cells
//! ```
//!
//! A range whose primary ends is led by its first copy, which holds the same items as before. So
//! memory is needed for new copies alone. All ranges choose at the same time, by the same map, as
//! their primaries do: with equal parts the next cell after the primary. Invariant: it changes
//! nothing, and asks no cell.

use std::collections::BTreeMap;

use super::map::Map;
use super::survey::{Memory, Survey};
use super::table::bytes;

/// The part of the memory for items that they can fill, if each is short beside a segment. Cells
/// of 64 MiB evict at 98.2 to 98.4 percent with values of 30 and 300 bytes.
const FILL: f64 = 0.98;
/// The least part that is counted with. Values that are long beside a segment lie in pieces.
const FILL_MIN: f64 = 0.5;

/// What would follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    /// The ranges that would begin again empty.
    pub(super) lost: Vec<u32>,
    /// The ranges for which there would be no cell for a further copy.
    pub(super) uncopied: Vec<u32>,
    /// By cell, the bytes that its limit would be too low by.
    pub(super) lacks: BTreeMap<u32, u64>,
    /// How many voters would run, and of how many, if the map could not change: then no other cell
    /// would lead the ranges of this one.
    pub(super) few_voters: Option<(usize, usize)>,
}

/// By cell that answers, what would follow if it ended.
pub(super) fn losses(survey: &Survey) -> BTreeMap<u32, Loss> {
    let memories = survey.memories();
    let (all, living) = (survey.map.voters.len(), survey.living_voters());
    let of = |cell: u32| {
        let left = living.iter().filter(|voter| **voter != cell).count();
        let few_voters = (all > 0 && left * 2 <= all).then_some((left, all));
        Loss { few_voters, ..loss(&survey.map, &memories, cell) }
    };
    memories.keys().map(|cell| (*cell, of(*cell))).collect()
}

/// What would follow if `ends` ended. `memories` are those of the cells that answer: all others
/// have ended already.
fn loss(map: &Map, memories: &BTreeMap<u32, Memory>, ends: u32) -> Loss {
    let stays = |cell: &u32| *cell != ends && memories.contains_key(cell);
    let (slice_bytes, mean) = (slice_bytes(map, memories), Mean::of(memories));
    let mut loss = Loss::default();
    let mut holders: Vec<(&_, Vec<u32>)> = Vec::new();
    for range in &map.ranges {
        let left: Vec<_> = range.in_sync().filter(stays).collect();
        if !left.is_empty() {
            holders.push((range, left));
        } else if range.in_sync().any(|cell| cell == ends) {
            loss.lost.push(range.id);
        }
    }
    let mut added: BTreeMap<u32, f64> = BTreeMap::new();
    for _ in 1..map.copies_wanted {
        let before = holders.clone();
        let parts = |cell: u32| before.iter().filter(|(_, held)| held.contains(&cell)).count();
        for (range, held) in holders.iter_mut().filter(|(_, held)| held.len() < map.copies_wanted) {
            let free = memories.keys().copied().filter(|cell| stays(cell) && !held.contains(cell));
            // One that learns already continues.
            let primary = held[0];
            let next = free.min_by_key(|cell| {
                (range.learner != Some(*cell), parts(*cell), *cell < primary, *cell)
            });
            if let Some(next) = next {
                *added.entry(next).or_default() += slice_bytes * range.slices() as f64;
                held.push(next);
            }
        }
    }
    let uncopied = holders.iter().filter(|(_, held)| held.len() < map.copies_wanted);
    loss.uncopied = uncopied.map(|(range, _)| range.id).collect();
    for (cell, bytes) in added {
        let memory = &memories[&cell];
        let lacks = needs(memory, bytes, mean) - memory.limit as f64;
        if lacks > 0.0 {
            loss.lacks.insert(cell, lacks as u64);
        }
    }
    loss
}

/// The bytes that the limit of `cell` is too low by for `slices` more slices, if it is.
fn lacks_for(
    map: &Map,
    memories: &BTreeMap<u32, Memory>,
    (cell, slices): (u32, usize),
) -> Option<u64> {
    let memory = memories.get(&cell)?;
    let added = slice_bytes(map, memories) * slices as f64;
    let lacks = needs(memory, added, Mean::of(memories)) - memory.limit as f64;
    (slices > 0 && lacks > 0.0).then_some(lacks as u64)
}

/// That `cell` has room for `slices` more slices.
///
/// # Errors
/// By how much its memory would be short.
pub(super) fn check_room(survey: &Survey, cell: u32, slices: usize) -> Result<(), String> {
    lacks_for(&survey.map, &survey.memories(), (cell, slices)).map_or(Ok(()), |lacks| {
        let lacks = bytes(lacks);
        Err(format!(
            "cell {cell}: memory would be short by {lacks}, and items would be evicted; --force \
             does it all the same"
        ))
    })
}

/// The mean bytes of a slice at one of its copies.
fn slice_bytes(map: &Map, memories: &BTreeMap<u32, Memory>) -> f64 {
    let held = map.ranges.iter().map(|range| {
        let holders = range.in_sync().filter(|cell| memories.contains_key(cell)).count();
        holders * range.slices()
    });
    let bytes: u64 = memories.values().map(|memory| memory.item_bytes).sum();
    bytes as f64 / held.sum::<usize>().max(1) as f64
}

/// What an item takes by what all cells have: a cell that is almost empty says nothing about what
/// more items need.
#[derive(Clone, Copy)]
struct Mean {
    /// The bytes of an item.
    item_bytes: f64,
    /// The bytes of index for a byte of items.
    index_share: f64,
}

impl Mean {
    fn of(memories: &BTreeMap<u32, Memory>) -> Self {
        let sum = |part: fn(&Memory) -> u64| memories.values().map(part).sum::<u64>() as f64;
        let bytes = sum(|memory| memory.item_bytes);
        Self {
            item_bytes: (bytes / sum(|memory| memory.items).max(1.0)).max(1.0),
            index_share: sum(|memory| memory.index_bytes) / bytes.max(1.0),
        }
    }
}

/// The bytes that a cell needs to hold `added` more bytes of items.
fn needs(memory: &Memory, added: f64, mean: Mean) -> f64 {
    let items = memory.item_bytes as f64 + added;
    let item = items / (memory.items as f64 + added / mean.item_bytes).max(1.0);
    // At the end of each segment is no space for one more item.
    let fill = (FILL - item / memory.segment_bytes.max(1) as f64).max(FILL_MIN);
    let index = memory.index_bytes as f64 + added * mean.index_share;
    items / fill + index + memory.other_bytes as f64
}

#[cfg(test)]
mod tests {
    use super::super::map::Range;
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Range N of `copies` is at these cells, the primary first.
    fn map(copies_wanted: usize, copies: &[&[u32]]) -> Map {
        let slices = 16_384 / copies.len();
        let range = |(at, cells): (usize, &&[u32])| Range {
            id: at as u32 + 1,
            first: at * slices,
            last: (at + 1) * slices - 1,
            primary: cells[0],
            copies: cells[1..].to_vec(),
            ..Range::default()
        };
        let ranges = copies.iter().enumerate().map(range).collect();
        Map { copies_wanted, ranges, ..Map::default() }
    }

    /// Cells of 64 MiB with items of 1 KiB, of this number of MiB.
    fn memories(mebibytes: &[u64]) -> BTreeMap<u32, Memory> {
        let memory = |mebibytes: &u64| Memory {
            limit: 64 * MIB,
            items: mebibytes * 1024,
            item_bytes: mebibytes * MIB,
            index_bytes: MIB,
            other_bytes: 4 * MIB,
            segment_bytes: 128 << 10,
        };
        (1..).zip(mebibytes.iter().map(memory)).collect()
    }

    #[test]
    fn survivors_hold_what_the_ended_cell_held() {
        let ring = map(2, &[&[1, 2], &[2, 3], &[3, 1]]);
        // Each survivor gets a third of 120 MiB / 2 = 20 MiB: 60 of the 57 that fit.
        let full = loss(&ring, &memories(&[40, 40, 40]), 3);
        assert!((full.lost.is_empty(), full.uncopied.is_empty()) == (true, true));
        assert_eq!(full.lacks.keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert!((3 * MIB..4 * MIB).contains(&full.lacks[&1]), "{full:?}");
        for ends in 1..=3 {
            assert_eq!(loss(&ring, &memories(&[36, 36, 36]), ends), Loss::default());
        }
        // When cell 4 ends, range 3 chooses cell 5, and range 4, led by that, cell 1.
        let five = map(2, &[&[1, 2], &[2, 3], &[3, 4], &[4, 5], &[5, 1]]);
        assert_eq!(loss(&five, &memories(&[30; 5]), 4), Loss::default());
        let lacks = loss(&five, &memories(&[45; 5]), 4).lacks;
        assert!(lacks.keys().eq([&1, &5]), "{lacks:?}");
        // A spare has space.
        assert_eq!(loss(&ring, &memories(&[40, 40, 40, 0]), 3), Loss::default());
    }

    #[test]
    fn a_cell_has_room_for_what_it_is_to_get_or_lacks_some_bytes() {
        let ring = map(2, &[&[1, 2], &[2, 3], &[3, 1]]);
        // A range has 20 MiB: 60 of the 57 that fit.
        let memories = memories(&[40, 40, 40, 0]);
        let lacks = lacks_for(&ring, &memories, (1, 16_384 / 3)).expect("it is full");
        assert!((3 * MIB..4 * MIB).contains(&lacks), "{lacks}");
        for fits in [(1, 0), (1, 16_384 / 4), (4, 16_384 / 3), (9, 16_384)] {
            assert_eq!(lacks_for(&ring, &memories, fits), None, "{fits:?}");
        }
    }

    #[test]
    fn an_almost_empty_cell_needs_as_much_index_for_more_items_as_others_have() {
        let ring = map(2, &[&[1, 2], &[2, 3], &[3, 1]]);
        let mut memories = memories(&[8, 8, 8, 0]);
        for memory in memories.values_mut() {
            (memory.limit, memory.other_bytes) = (16 * MIB, 2 * MIB);
        }
        // It gets 8 MiB of items, 200 times as much as it has.
        let spare = memories.get_mut(&4).expect("it is there");
        (spare.items, spare.item_bytes) = (42, 42 << 10);
        assert_eq!(loss(&ring, &memories, 3), Loss::default());
        // With short items there is half as much index as items: then both do not fit.
        memories.values_mut().for_each(|memory| memory.index_bytes = 4 * MIB);
        let lacks = loss(&ring, &memories, 3).lacks;
        assert!((3 * MIB..4 * MIB).contains(&lacks[&4]), "{lacks:?}");
    }

    #[test]
    fn the_last_copy_is_lost_and_missing_cells_are_counted_out() {
        let alone = loss(&map(2, &[&[1, 2], &[2]]), &memories(&[1, 1]), 2);
        assert_eq!((alone.lost, alone.uncopied), (vec![2], vec![1]));
        // Cell 2 has ended already: its range 2 has no cell left but 3.
        let ring = map(2, &[&[1, 2], &[2, 3], &[3, 1]]);
        let mut two = memories(&[1, 1, 1]);
        two.remove(&2);
        let loss = loss(&ring, &two, 3);
        assert_eq!((loss.lost, loss.uncopied), (vec![2], vec![1, 3]));
    }
}
