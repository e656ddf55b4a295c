//! Which faults five cells get, and which cells each of them hits.
//!
//! Places of cells are those of their files; numbers are those of the ring.

use crate::instruments::RingMap;
use measure::rng::Rng;

/// How long each cut lasts, in seconds.
pub const CUT_S: f64 = 3.0;
/// How long two cells that are hit together are stopped, in seconds.
const BOTH_S: f64 = 2.0;
/// Kills of one cell, in the quick and the full form.
const KILLS: [usize; 2] = [15, 300];
/// How often the full form has every other kind, and how often it loses a range.
const OTHERS_LONG: usize = 20;
const PAIRS_LONG: usize = 5;
/// The stops of the full form, and the shortest and the longest of them.
const PAUSES_LONG: usize = 40;
const PAUSED_S: [f64; 2] = [0.1, 60.0];
/// The longest stop of the quick form.
const PAUSED_QUICK_S: f64 = 5.0;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// SIGKILL, and started again after a second, or at once.
    Kill {
        /// Whether it is away for a second.
        is_away: bool,
        /// Whether it leads the agreement.
        leads: bool,
    },
    /// SIGSTOP for some seconds.
    Pause(f64),
    /// A cell hears nobody.
    Deaf,
    /// Nobody hears a cell.
    Mute,
    /// A cell and all others hear nothing of each other.
    Apart,
    /// A cell is killed, and then one that learns what it had.
    CatchUp,
    /// The cell that leads the agreement and the primary of a range that it has no part of are
    /// stopped together.
    BothStopped,
    /// The same two are each cut off from all others.
    BothApart,
    /// The disk of a voter is filled.
    DiskFull,
    /// That cell is killed, is started on the full disk, and again with free space.
    DiskFreed,
    /// The primary of a range and its copy are killed together.
    Pair,
}

impl Kind {
    /// In words.
    pub fn name(self) -> String {
        let name = match self {
            Self::Kill { is_away: true, .. } => "killed, away for 1 s",
            Self::Kill { .. } => "killed, started again at once",
            Self::Pause(seconds) => return format!("stopped for {seconds:.1} s"),
            Self::Deaf => "hears nobody",
            Self::Mute => "heard by nobody",
            Self::Apart => "cut off from all others",
            Self::CatchUp => "killed, then a cell that learns what it had",
            Self::BothStopped => "leader and a primary stopped together",
            Self::BothApart => "leader and a primary cut off together",
            Self::DiskFull => "disk of a voter full",
            Self::DiskFreed => "killed, started on a full disk, then on a free one",
            Self::Pair => "primary and copy killed together",
        };
        name.to_owned()
    }

    /// Whether processes are killed by it.
    pub fn kills(self) -> bool {
        matches!(self, Self::Kill { .. } | Self::CatchUp | Self::DiskFreed | Self::Pair)
    }

    /// How long the cells that it hits are stopped or cut off, in seconds.
    pub fn lasts_s(self) -> f64 {
        match self {
            Self::Pause(seconds) => seconds,
            Self::BothStopped | Self::BothApart => BOTH_S,
            _ => CUT_S,
        }
    }
}

/// All faults, in their order.
pub fn kinds(is_long: bool) -> Vec<Kind> {
    let kill = |nth: usize| Kind::Kill { is_away: nth.is_multiple_of(2), leads: nth % 4 >= 2 };
    let kills = (0..KILLS[usize::from(is_long)]).map(kill);
    let others =
        [Kind::Deaf, Kind::Mute, Kind::Apart, Kind::CatchUp, Kind::BothStopped, Kind::BothApart];
    let (pauses, times, pairs) = match is_long {
        false => (vec![Kind::Pause(PAUSED_S[0]), Kind::Pause(PAUSED_QUICK_S)], 1, 1),
        true => (pauses_long(), OTHERS_LONG, PAIRS_LONG),
    };
    let others = pauses.into_iter().chain((0..times).flat_map(|_| others));
    let last = [Kind::DiskFull, Kind::DiskFreed].into_iter();
    let pairs = (0..pairs).map(|_| Kind::Pair);
    kills.chain(others).chain(last).chain(pairs).collect()
}

fn pauses_long() -> Vec<Kind> {
    let factor = (PAUSED_S[1] / PAUSED_S[0]).powf(1.0 / (PAUSES_LONG - 1) as f64);
    (0..PAUSES_LONG).map(|nth| Kind::Pause(PAUSED_S[0] * factor.powi(nth as i32))).collect()
}

/// What a fault hits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// The places of the cells.
    pub places: Vec<usize>,
    /// The places through which clients ask: none of them is hit.
    pub through: Vec<usize>,
}

/// Draws the cells of a fault; none where no cell fits. `maps` are those of all cells, by places.
pub fn draw(kind: Kind, maps: &[RingMap], small_disk: usize, rng: &mut Rng) -> Option<Hit> {
    let (map, all) = (&maps[0], 0..maps.len());
    let leads = |place: usize| map.leader == Some(maps[place].cell);
    let is_primary =
        |place: usize| map.ranges.iter().any(|range| range.primary == Some(maps[place].cell));
    let share = |one: usize, other: usize| {
        map.ranges.iter().any(|range| range.has(maps[one].cell) && range.has(maps[other].cell))
    };
    let leader = all.clone().find(|place| leads(*place));
    let mut any = |fits: &dyn Fn(usize) -> bool| {
        let fitting: Vec<usize> = all.clone().filter(|place| fits(*place)).collect();
        let nth = rng.below(fitting.len().max(1) as u64) as usize;
        fitting.get(nth).copied()
    };
    let places = match kind {
        // A leader without a range is one all the same.
        Kind::Kill { leads: true, .. } => vec![leader?],
        Kind::Kill { .. } | Kind::Pause(_) | Kind::Deaf | Kind::Mute | Kind::Apart => {
            let other = any(&|place| is_primary(place) && !leads(place));
            // One cell may lead everything, the agreement too.
            vec![other.or_else(|| any(&is_primary))?]
        }
        Kind::CatchUp => {
            let place = any(&is_primary)?;
            // A cell that shares a range with the killed one is the last copy of it.
            let through = any(&|other| other != place && share(place, other))?;
            return Some(Hit { places: vec![place], through: vec![through] });
        }
        Kind::BothStopped | Kind::BothApart => {
            let leader = leader?;
            let fits = |place: usize| place != leader && !share(place, leader);
            vec![leader, any(&|place| fits(place) && is_primary(place)).or(any(&fits))?]
        }
        Kind::DiskFull => return Some(Hit { places: Vec::new(), through: all.collect() }),
        Kind::DiskFreed => vec![small_disk],
        Kind::Pair => {
            let range = &map.ranges[rng.below(map.ranges.len() as u64) as usize];
            all.clone().filter(|place| range.has(maps[*place].cell)).collect()
        }
    };
    let through = all.filter(|place| !places.contains(place)).collect();
    Some(Hit { places, through })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::RangeOf;

    /// Cell N leads range N, with its copy at the next one; cell 2 leads the agreement.
    fn maps() -> Vec<RingMap> {
        let range = |cell: u16| RangeOf {
            slices: 0..=0,
            primary: Some(cell),
            copies: vec![cell % 5 + 1],
            learner: None,
        };
        let ranges: Vec<RangeOf> = (1..=5).map(range).collect();
        let map =
            |cell| RingMap { cell, leader: Some(2), ranges: ranges.clone(), ..RingMap::default() };
        (1..=5).map(map).collect()
    }

    #[test]
    fn faults_hit_the_cells_that_they_are_about() {
        let (maps, mut rng) = (maps(), Rng::new(1, 0));
        for _ in 0..50 {
            let mut hit = |kind| draw(kind, &maps, 4, &mut rng).unwrap();
            assert_eq!(hit(Kind::Kill { is_away: true, leads: true }).places, [1]);
            let other = hit(Kind::Deaf);
            assert!(other.places != [1] && other.through.len() == 4);
            assert!(!other.through.contains(&other.places[0]));
            let both = hit(Kind::BothStopped).places;
            assert_eq!(both[0], 1);
            assert!([3, 4].contains(&both[1]), "cells 1 and 3 share a range with it: {both:?}");
            let pair = hit(Kind::Pair).places;
            assert!(pair.len() == 2 && [1, 4].contains(&(pair[1] - pair[0])), "{pair:?}");
            let full = hit(Kind::DiskFull);
            assert!(full.places.is_empty() && full.through.len() == 5);
            assert_eq!(hit(Kind::DiskFreed).places, [4]);
            let catch_up = hit(Kind::CatchUp);
            assert_ne!(catch_up.places, catch_up.through);
        }
    }

    #[test]
    fn every_kind_of_fault_is_tried_in_both_forms() {
        for is_long in [false, true] {
            let all = kinds(is_long);
            let names: Vec<String> = all.iter().map(|kind| kind.name()).collect();
            for kind in [Kind::Deaf, Kind::Mute, Kind::Apart, Kind::CatchUp, Kind::BothStopped] {
                assert!(names.contains(&kind.name()), "{is_long} {kind:?}");
            }
            let kills = all.iter().filter(|kind| kind.kills()).count();
            assert!(kills >= if is_long { 300 } else { 17 });
            assert_eq!(all.last(), Some(&Kind::Pair), "a loss comes last");
        }
        let longest = kinds(true).iter().map(|kind| kind.lasts_s()).fold(0.0, f64::max);
        assert!((longest - 60.0).abs() < 1e-6 && kinds(true).contains(&Kind::Pause(0.1)));
    }
}
