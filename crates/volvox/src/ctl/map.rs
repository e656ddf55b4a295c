//! The map of a ring, as a cell shows it in `stats ring`.

use std::collections::BTreeMap;
use std::time::Duration;

use base::SLICES;

use super::report::{Unreadable, find, parse, parse_list};

/// The map that a cell goes by, and what it says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Map {
    pub(super) ring: String,
    /// The cell that shows it.
    pub(super) cell: u32,
    pub(super) version: u64,
    /// How often an operator has recovered the ring.
    pub(super) recoveries: u64,
    pub(super) cells_wanted: u32,
    pub(super) copies_wanted: usize,
    /// What an answer to a change waits for, and what a read rests on; empty where the cell does
    /// not say so.
    pub(super) durability: String,
    pub(super) reads: String,
    pub(super) losses: u64,
    /// Ranges begin at multiples of this number of slices; 0: anywhere.
    pub(super) division_step: usize,
    /// Who leads the agreement, as far as the cell knows.
    pub(super) leader: Option<u32>,
    pub(super) voters: Vec<u32>,
    /// How many seconds the clock of the cell's machine is ahead of the time of the ring.
    pub(super) clock_ahead_s: i64,
    pub(super) cells: BTreeMap<u32, Member>,
    /// By their slices.
    pub(super) ranges: Vec<Range>,
    /// By copy, the changes of all lanes that it has not acknowledged to the cell.
    pub(super) unconfirmed: BTreeMap<u32, u64>,
}

/// A cell of the map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) clients: String,
    pub(super) start: u64,
    /// Whether the cell that shows the map hears it; absent where it does not say so.
    pub(super) is_heard: Option<bool>,
    /// Whether it is a witness, which cannot be asked.
    pub(super) is_witness: bool,
    /// Where other cells reach it.
    pub(super) control: String,
    /// How it leaves, `drained` or `absorbed`, if it does.
    pub(super) leaves: Option<String>,
    /// Whether it does so by force.
    pub(super) is_forced: bool,
    /// How many seconds its time is ahead of that of the cell that shows the map, if it is too far
    /// away for either to follow the other.
    pub(super) time_ahead_s: Option<i64>,
}

/// A range of the map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) id: u32,
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) primary: u32,
    pub(super) copies: Vec<u32>,
    pub(super) learner: Option<u32>,
    pub(super) epoch: u32,
    pub(super) config: u64,
    pub(super) losses: u32,
    /// Who has ended, and has all of it in its journal.
    pub(super) journals: Vec<u32>,
    /// The cell that is to lead it, or to replace a copy.
    pub(super) moves_to: Option<u32>,
    /// The copy that it is to replace.
    pub(super) leaves: Option<u32>,
    /// The first slice of the range that it is to be divided into, and who is to lead that.
    pub(super) divides: Option<(usize, u32)>,
    /// The neighbour with which it is to become one.
    pub(super) unites_with: Option<u32>,
    /// The cell that leads it again once that runs again.
    pub(super) home: Option<u32>,
    /// Whether it is to become one with a neighbour: its cell was absorbed.
    pub(super) is_absorbed: bool,
    /// Whether nobody leads it until it is forgiven.
    pub(super) waits_for_operator: bool,
    /// Whether its primary may answer; only the primary says so.
    pub(super) serves: Option<bool>,
    /// The second since which the cell has seen it without a copy that it should have.
    pub(super) short_since_s: Option<u64>,
    /// How much of it a cell that learns it was sent; only the primary says so.
    pub(super) learned: Option<Learned>,
}

/// How much of a range a cell that learns it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Learned {
    /// Bytes of keys and values.
    pub(super) bytes: u64,
    /// As many as the range has, about; 0 while that cannot be said.
    pub(super) about_bytes: u64,
    /// For how many milliseconds it has learned.
    pub(super) took_ms: u64,
}

impl Learned {
    /// In how many milliseconds it has all, if it goes on as until now; `None`: that cannot be said
    /// yet.
    pub(super) fn left_ms(&self) -> Option<u64> {
        let left = u128::from(self.about_bytes.saturating_sub(self.bytes));
        let left_ms = (left * u128::from(self.took_ms)).checked_div(u128::from(self.bytes))?;
        (self.about_bytes > 0).then_some(left_ms as u64)
    }
}

impl Range {
    /// The cells that have all of it, the primary first.
    pub(super) fn in_sync(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.primary).chain(self.copies.iter().copied())
    }

    /// Whether a cell has a part in it, or its journal counts.
    pub(super) fn has(&self, cell: u32) -> bool {
        let others = self.journals.iter().copied().chain(self.learner);
        self.in_sync().chain(others).any(|it| it == cell)
    }

    /// How many slices it has.
    pub(super) fn slices(&self) -> usize {
        self.last + 1 - self.first
    }
}

impl Map {
    /// Reads a report. Lines that it does not know are skipped: a newer cell has more.
    pub(super) fn parse(report: &[(String, String)]) -> Result<Self, Unreadable> {
        let mut map = Self {
            ring: find(report, "ring")?,
            cell: find(report, "cell")?,
            version: find(report, "map_version")?,
            cells_wanted: find(report, "cells_wanted")?,
            copies_wanted: find(report, "copies_wanted")?,
            losses: find(report, "losses")?,
            ..Self::default()
        };
        for (name, value) in report {
            match name.split(':').collect::<Vec<_>>()[..] {
                ["durability"] => map.durability.clone_from(value),
                ["reads"] => map.reads.clone_from(value),
                ["division_step"] => map.division_step = parse(name, value)?,
                ["recoveries"] => map.recoveries = parse(name, value)?,
                ["leader"] => map.leader = parse_list(name, value)?.first().copied(),
                ["clock_ahead"] => map.clock_ahead_s = parse(name, value)?,
                ["voters"] => map.voters = parse_list(name, value)?,
                ["cell", id, of] => {
                    map.cells.entry(parse(name, id)?).or_default().take(of, (name, value))?;
                }
                ["range", id, of] => {
                    let id = parse(name, id)?;
                    if map.ranges.last().is_none_or(|last| last.id != id) {
                        map.ranges.push(Range { id, ..Range::default() });
                    }
                    if let Some(range) = map.ranges.last_mut() {
                        range.take(of, (name, value))?;
                    }
                }
                ["copy", cell, _, "unconfirmed"] => {
                    let of_lane: u64 = parse(name, value)?;
                    *map.unconfirmed.entry(parse(name, cell)?).or_default() += of_lane;
                }
                _ => {}
            }
        }
        Ok(map)
    }

    /// The witnesses.
    pub(super) fn witnesses(&self) -> impl Iterator<Item = (u32, &Member)> {
        self.cells.iter().filter(|(_, cell)| cell.is_witness).map(|(id, cell)| (*id, cell))
    }

    /// The range of a slice. There is none before the ring has formed.
    pub(super) fn range_of(&self, slice: usize) -> Option<&Range> {
        self.ranges.iter().find(|range| (range.first..=range.last).contains(&slice))
    }

    /// A range that has fewer copies than it could have with the cells that there are.
    pub(super) fn healing(&self) -> Option<&Range> {
        let copies = self.copies_wanted.min(self.cells.len() - self.witnesses().count());
        self.ranges.iter().find(|range| range.in_sync().count() < copies)
    }

    /// How long after its end a cell counts as lost to all others.
    pub(super) fn lost_after(&self) -> Duration {
        Duration::from_nanos(ring::lost_after_ns(self.cells.len()))
    }

    /// The ranges that have fewer copies than they should.
    pub(super) fn short(&self) -> impl Iterator<Item = &Range> {
        self.ranges.iter().filter(|range| range.in_sync().count() < self.copies_wanted)
    }
}

impl Member {
    fn take(&mut self, of: &str, (name, value): (&str, &str)) -> Result<(), Unreadable> {
        match of {
            "clients" => self.clients = value.to_owned(),
            "control" => self.control = value.to_owned(),
            "witness" => self.is_witness = value == "yes",
            "start" => self.start = parse(name, value)?,
            "leaves" => self.leaves = Some(value.to_owned()),
            "leaves_forced" => self.is_forced = value == "yes",
            "time_ahead" => self.time_ahead_s = Some(parse(name, value)?),
            "heard" => self.is_heard = Some(value == "yes"),
            _ => {}
        }
        Ok(())
    }
}

impl Range {
    fn take(&mut self, of: &str, (name, value): (&str, &str)) -> Result<(), Unreadable> {
        match of {
            "slices" => {
                let (first, last) = value.split_once('-').unwrap_or((value, value));
                (self.first, self.last) = (parse(name, first)?, parse(name, last)?);
                if self.first > self.last || self.last >= SLICES {
                    return Err(Unreadable { name: name.to_owned(), value: value.to_owned() });
                }
            }
            "primary" => self.primary = parse(name, value)?,
            "copies" => self.copies = parse_list(name, value)?,
            "learner" => self.learner = parse_list(name, value)?.first().copied(),
            "epoch" => self.epoch = parse(name, value)?,
            "config" => self.config = parse(name, value)?,
            "losses" => self.losses = parse(name, value)?,
            "journals" => self.journals = parse_list(name, value)?,
            "moves_to" => self.moves_to = Some(parse(name, value)?),
            "leaves" => self.leaves = Some(parse(name, value)?),
            "divides" => {
                let (slice, cell) = value.split_once(' ').unwrap_or((value, ""));
                self.divides = Some((parse(name, slice)?, parse(name, cell)?));
            }
            "unites_with" => self.unites_with = Some(parse(name, value)?),
            "home" => self.home = Some(parse(name, value)?),
            "absorbed" => self.is_absorbed = value == "yes",
            "waits_for_operator" => self.waits_for_operator = value == "yes",
            "serves" => self.serves = Some(value == "yes"),
            "learned" => {
                let mut words = value.split(' ');
                let mut next = || parse(name, words.next().unwrap_or(""));
                let (bytes, about_bytes, took_ms) = (next()?, next()?, next()?);
                self.learned = Some(Learned { bytes, about_bytes, took_ms });
            }
            "short_since" => self.short_since_s = Some(parse(name, value)?),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The pairs of a report that is written as lines `NAME VALUE`.
    pub(in crate::ctl) fn report(lines: &str) -> Vec<(String, String)> {
        let pair = |line: &str| {
            let (name, value) = line.trim().split_once(' ').expect("a name and a value");
            (name.to_owned(), value.to_owned())
        };
        lines.lines().map(pair).collect()
    }

    /// Cell 2 shows a ring of three; cell 1 has ended, and cell 3 learns range 1.
    pub(in crate::ctl) fn two_of_three() -> Vec<(String, String)> {
        report(
            "ring 94684a67169ad909\ncell 2\nstart 1\nmap_version 9\ncells_wanted 3
             copies_wanted 2\nranges 3\nranges_short_of_copies 1\nlosses 0\nleader 2\nvoters 1,2,3
             clock_ahead -3600
             cell:1:clients 127.0.0.1:11211\ncell:1:start 1\ncell:1:heard no
             cell:2:clients 127.0.0.1:11212\ncell:2:start 1\ncell:2:heard yes
             cell:3:clients 127.0.0.1:11213\ncell:3:start 4\ncell:3:heard yes
             cell:3:time_ahead 7
             range:1:slices 0-5460\nrange:1:primary 2\nrange:1:copies none\nrange:1:learner 3
             range:1:epoch 2\nrange:1:config 3\nrange:1:losses 0\nrange:1:short_since 1800000000
             range:1:serves yes
             range:2:slices 5461-10921\nrange:2:primary 2\nrange:2:copies 3\nrange:2:learner none
             range:2:epoch 1\nrange:2:config 1\nrange:2:losses 0\nrange:2:serves no
             range:3:slices 10922-16383\nrange:3:primary 3\nrange:3:copies 2\nrange:3:learner none
             range:3:epoch 1\nrange:3:config 2\nrange:3:losses 0
             copy:3:0:unconfirmed 7\ncopy:3:1:unconfirmed 5\nunknown:1 of a newer cell",
        )
    }

    #[test]
    fn a_report_is_read() {
        let map = Map::parse(&two_of_three()).expect("it can be read");
        assert_eq!((map.ring.as_str(), map.cell, map.version), ("94684a67169ad909", 2, 9));
        assert_eq!((map.cells_wanted, map.copies_wanted, map.losses), (3, 2, 0));
        assert_eq!((map.leader, map.voters.as_slice()), (Some(2), &[1, 2, 3][..]));
        assert_eq!(map.cells[&3].start, 4);
        assert_eq!((map.cells[&1].is_heard, map.cells[&2].is_heard), (Some(false), Some(true)));
        assert_eq!(map.cells[&1].clients, "127.0.0.1:11211");
        assert_eq!((map.clock_ahead_s, map.cells[&3].time_ahead_s), (-3600, Some(7)));
        let of = |slice| map.range_of(slice).map(|range| range.id);
        assert_eq!(
            [of(0), of(5460), of(5461), of(16383), of(16384)].map(|id| id.unwrap_or(0)),
            [1, 1, 2, 3, 0]
        );
        let range = &map.ranges[0];
        assert_eq!((range.primary, range.copies.len(), range.learner), (2, 0, Some(3)));
        assert_eq!((range.serves, range.short_since_s), (Some(true), Some(1_800_000_000)));
        assert_eq!((map.ranges[1].serves, map.ranges[2].serves), (Some(false), None));
        assert!(map.short().map(|range| range.id).eq([1]));
        assert_eq!(map.unconfirmed[&3], 12);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let mut lines = two_of_three();
        lines.push(("range:3:slices".into(), "a-b".into()));
        let error = Map::parse(&lines).expect_err("no number").to_string();
        assert!(error.starts_with("STAT range:3:slices a: it cannot be read; use "), "{error}");
        for slices in ["9-3", "0-16384"] {
            lines.pop();
            lines.push(("range:3:slices".into(), slices.into()));
            let error = Map::parse(&lines).expect_err("no such slices").to_string();
            assert!(error.contains(slices), "{error}");
        }
        let error = Map::parse(&report("ring 7")).expect_err("nothing else").to_string();
        assert!(error.starts_with("STAT cell : it is missing"), "{error}");
    }
}
