//! The map of a ring, as a cell shows it by `stats ring`.
//!
//! Numbers of cells are those that the ring gave them. Invariant: a map that was read covers every
//! slice, or has no range yet.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use anyhow::{Context, Result, bail};
use base::{SLICES, SliceId};

/// What one cell goes by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingMap {
    /// The cell that was asked.
    pub cell: u16,
    /// Its version.
    pub version: u64,
    /// Ranges with fewer copies than they should have.
    pub short: u64,
    /// How often a range has lost its last copy.
    pub losses: u64,
    /// Who leads the agreement, if the cell knows it.
    pub leader: Option<u16>,
    /// Who votes.
    pub voters: Vec<u16>,
    /// The ranges, by their first slices.
    pub ranges: Vec<RangeOf>,
}

/// One range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeOf {
    /// Its slices.
    pub slices: RangeInclusive<usize>,
    /// Who leads it.
    pub primary: Option<u16>,
    /// The copies in sync, without the primary.
    pub copies: Vec<u16>,
    /// Who is on the way to be one.
    pub learner: Option<u16>,
}

impl RingMap {
    /// Reads the statistics of `stats ring`.
    pub fn read(stats: &BTreeMap<String, String>) -> Result<Self> {
        let text =
            |name: &str| stats.get(name).with_context(|| format!("`stats ring` has no {name}"));
        let number = |name: &str| -> Result<u64> {
            let text = text(name)?;
            text.parse().with_context(|| format!("`stats ring` says {name} is {text:?}"))
        };
        let count = number("ranges")?;
        let id = |name: &str| name.strip_prefix("range:")?.strip_suffix(":slices")?.parse().ok();
        let ids: Vec<u64> = stats.keys().filter_map(|name| id(name)).collect();
        if ids.len() as u64 != count {
            bail!("`stats ring` says that there are {count} ranges, and has {}", ids.len());
        }
        let mut ranges = Vec::new();
        for id in ids {
            let of = |what: &str| text(&format!("range:{id}:{what}"));
            let slices = of("slices")?;
            let ends = slices.split_once('-').map(|(first, last)| (first.parse(), last.parse()));
            let Some((Ok(first), Ok(last))) = ends else {
                bail!("`stats ring` says that range {id} has the slices {slices:?}");
            };
            let copies = cells(of("copies")?)?;
            let one = |what| anyhow::Ok(cells(of(what)?)?.first().copied());
            let (primary, learner) = (one("primary")?, one("learner")?);
            ranges.push(RangeOf { slices: first..=last, primary, copies, learner });
        }
        ranges.sort_by_key(|range: &RangeOf| *range.slices.start());
        let covered: usize = ranges.iter().map(|range| range.slices.clone().count()).sum();
        if !ranges.is_empty() && covered != SLICES {
            bail!("the ranges of `stats ring` have {covered} slices, not {SLICES}");
        }
        // A cell that has just started knows neither.
        let known = |name: &str| stats.get(name).map_or(Ok(Vec::new()), |text| cells(text));
        Ok(Self {
            leader: known("leader")?.first().copied(),
            voters: known("voters")?,
            cell: u16::try_from(number("cell")?)?,
            version: number("map_version")?,
            short: number("ranges_short_of_copies")?,
            losses: number("losses")?,
            ranges,
        })
    }

    /// The range of a key.
    pub fn range_of(&self, key: &str) -> Option<&RangeOf> {
        self.ranges.get(self.place_of(key)?)
    }

    /// The place of that range among the ranges.
    pub fn place_of(&self, key: &str) -> Option<usize> {
        let slice = SliceId::of(key.as_bytes()).index();
        self.ranges.iter().position(|range| range.slices.contains(&slice))
    }

    /// Whether `cell` leads the key.
    pub fn leads(&self, cell: u16, key: &str) -> bool {
        self.range_of(key).is_some_and(|range| range.primary == Some(cell))
    }

    /// Whether `cell` copies the key for another.
    pub fn copies(&self, cell: u16, key: &str) -> bool {
        self.range_of(key).is_some_and(|range| range.copies.contains(&cell))
    }

    /// Whether everything has its copies.
    pub fn is_whole(&self) -> bool {
        self.short == 0 && !self.ranges.is_empty()
    }
}

impl RangeOf {
    /// Whether a cell leads or copies it.
    pub fn has(&self, cell: u16) -> bool {
        self.primary == Some(cell) || self.copies.contains(&cell)
    }
}

/// Numbers of cells with commas or spaces between them, or the word for none.
fn cells(text: &str) -> Result<Vec<u16>> {
    let words = text.split([',', ' ']).filter(|word| !word.is_empty() && *word != "none");
    let cell = |word: &str| word.parse().with_context(|| format!("{text:?} are no cells"));
    words.map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats() -> BTreeMap<String, String> {
        let lines = "\
            cell 2|map_version 6|ranges_short_of_copies 0|losses 0|ranges 3|\
            leader none|voters 1,2,3|\
            range:1:slices 0-5460|range:1:primary 1|range:1:copies 2|range:1:learner none|\
            range:2:slices 5461-10921|range:2:primary 2|range:2:copies 3,1|range:2:learner none|\
            range:3:slices 10922-16383|range:3:primary none|range:3:copies none|\
            range:3:learner 3";
        let pairs = lines.split('|').map(|line| line.split_once(' ').unwrap());
        pairs.map(|(name, value)| (name.trim().to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn the_map_of_a_cell_is_read() {
        let map = RingMap::read(&stats()).unwrap();
        assert_eq!((map.cell, map.version, map.short, map.losses), (2, 6, 0, 0));
        let slices = 5461..=10921;
        let second = RangeOf { slices, primary: Some(2), copies: vec![3, 1], learner: None };
        assert_eq!(map.ranges[1], second);
        assert_eq!((map.leader, map.voters.as_slice()), (None, &[1, 2, 3][..]));
        assert_eq!((map.ranges[2].primary, map.ranges[2].learner), (None, Some(3)));
        assert!(map.ranges[2].copies.is_empty() && second.has(3) && !second.has(4));
        assert!(map.is_whole());
        // CRC32("123456789") is 0xCBF43926: slice 13,053.
        assert_eq!(map.range_of("123456789"), Some(&map.ranges[2]));
        assert!(!map.leads(2, "123456789") && !map.copies(2, "123456789"));
    }

    #[test]
    fn what_is_no_map_is_refused() {
        type Spoil = fn(&mut BTreeMap<String, String>);
        let spoils: [Spoil; 4] = [
            |stats| drop(stats.remove("cell")),
            |stats| drop(stats.insert("range:1:slices".into(), "0-5".into())),
            |stats| drop(stats.insert("range:1:slices".into(), "all".into())),
            |stats| drop(stats.insert("range:1:copies".into(), "x".into())),
        ];
        for (nth, spoil) in spoils.iter().enumerate() {
            let mut stats = stats();
            spoil(&mut stats);
            assert!(RingMap::read(&stats).is_err(), "{nth}");
        }
    }

    #[test]
    fn a_map_without_ranges_is_not_whole() {
        let mut stats = stats();
        stats.insert("ranges".into(), "0".into());
        assert!(RingMap::read(&stats).is_err(), "it has some");
        stats.retain(|name, _| !name.starts_with("range:"));
        assert!(!RingMap::read(&stats).unwrap().is_whole());
    }
}
