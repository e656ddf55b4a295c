//! What is done to the cells of a fault, and what is waited for until all copies are in sync.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::Signal;

use super::plan::{Hit, Kind};
use crate::instruments::{Joined, RingMap, map_of, until};
use measure::clock::mono_ns;

/// How long a killed cell stays away, where it is not started again at once.
const AWAY: Duration = Duration::from_secs(1);
/// How long the load runs before a fault, and after all copies are there.
const AROUND: Duration = Duration::from_secs(1);
/// How long a cell that continues, or is heard again, has to learn that it was missed.
const SETTLES: Duration = Duration::from_millis(700);
/// How often it is tried to kill a cell that learns.
const TRIES: usize = 5;
/// How often it is looked for a cell that learns.
const POLL: Duration = Duration::from_millis(3);
/// How long a voter with a full disk may stay one of the voters.
const REPLACED_MAX: Duration = Duration::from_secs(15);
/// Changes of the map that are made so that the voter has something to write.
const CHANGES_MAX: usize = 20;
/// How long each of them has.
const CHANGED: Duration = Duration::from_millis(500);
/// What a cell logs that can write no more.
pub const VOTES_NO_MORE: &str = "votes no more";
/// What the system says of a full disk.
const FULL: &str = "No space left";

/// When what happened, by the clock that processes share.
#[derive(Clone, Debug, Default)]
pub struct Harm {
    /// The places of the cells that it has hit.
    pub places: Vec<usize>,
    /// When it began.
    pub fault_ns: u64,
    /// When the last of the cells that it hits had halted or was cut off.
    pub halted_ns: u64,
    /// When all copies were in sync again.
    pub whole_ns: u64,
    /// When the load was stopped.
    pub stopped_ns: u64,
    /// What was seen of a full disk.
    pub disk: Disk,
}

/// What was seen of a full disk.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// Whether the cell said that it votes no more.
    pub is_said: bool,
    /// How long after that a free cell voted in its place; nothing where none did.
    pub replaced_ms: Option<f64>,
    /// Whether a start on the full disk was refused, with the reason.
    pub is_refused: bool,
}

/// Does it, and waits until all copies are in sync. `maps` are those of before; nothing is done
/// where they have changed when it is to begin: copies may be missing, and cells have other parts.
pub fn harm(ring: &mut Joined, kind: Kind, hit: &Hit, maps: &[RingMap]) -> Result<Option<Harm>> {
    thread::sleep(AROUND);
    if ring.whole_after(0)?[0].version != maps[0].version {
        return Ok(None);
    }
    let fault_ns = mono_ns();
    let mut harm = Harm { places: hit.places.clone(), fault_ns, ..Harm::default() };
    let lasts = Duration::from_secs_f64(kind.lasts_s());
    let version = match kind {
        Kind::Kill { is_away, .. } => {
            kill(ring, &mut harm)?;
            thread::sleep(if is_away { AWAY } else { Duration::ZERO });
            again(ring, &hit.places)?;
            maps[0].version
        }
        Kind::Pair => {
            kill(ring, &mut harm)?;
            again(ring, &hit.places)?;
            maps[0].version
        }
        Kind::CatchUp => {
            catch_up(ring, hit, &mut harm)?;
            maps[0].version
        }
        Kind::Pause(_) | Kind::BothStopped => {
            hit.places.iter().try_for_each(|place| ring.signal(*place, Signal::STOP))?;
            hit.places.iter().try_for_each(|place| ring.halted(*place))?;
            harm.halted_ns = mono_ns();
            thread::sleep(lasts);
            hit.places.iter().try_for_each(|place| ring.signal(*place, Signal::CONT))?;
            0
        }
        Kind::Deaf | Kind::Mute | Kind::Apart | Kind::BothApart => {
            cut(ring, kind, &hit.places)?;
            harm.halted_ns = mono_ns();
            thread::sleep(lasts);
            ring.network().join()?;
            0
        }
        Kind::DiskFull => {
            harm.disk = fill(ring, maps)?;
            maps[0].version
        }
        Kind::DiskFreed => {
            kill(ring, &mut harm)?;
            harm.disk.is_refused = is_refused(ring, hit.places[0])?;
            ring.free_disk()?;
            again(ring, &hit.places)?;
            maps[0].version
        }
    };
    if version == 0 {
        thread::sleep(SETTLES);
    }
    ring.whole_after(version)?;
    harm.whole_ns = mono_ns();
    thread::sleep(AROUND);
    harm.stopped_ns = mono_ns();
    Ok(Some(harm))
}

fn kill(ring: &mut Joined, harm: &mut Harm) -> Result<()> {
    let places = harm.places.clone();
    places.iter().try_for_each(|place| ring.signal(*place, Signal::KILL))?;
    places.iter().try_for_each(|place| ring.ended(*place))?;
    harm.halted_ns = mono_ns();
    Ok(())
}

fn again(ring: &mut Joined, places: &[usize]) -> Result<()> {
    places.iter().try_for_each(|place| ring.start_again(*place))?;
    places.iter().try_for_each(|place| ring.serves(*place))
}

fn cut(ring: &mut Joined, kind: Kind, places: &[usize]) -> Result<()> {
    let all = ring.cells().len();
    for place in places {
        for other in (0..all).filter(|other| other != place) {
            if kind != Kind::Deaf {
                ring.network().cut(*place, other)?;
            }
            // Two that are cut off from all others are so from each other by one rule each.
            if kind != Kind::Mute && !(kind == Kind::BothApart && places.contains(&other)) {
                ring.network().cut(other, *place)?;
            }
        }
    }
    Ok(())
}

/// Kills a cell, and then one that learns a range which that had. It waits for a learner whose end
/// leaves a copy of everything; where there is none, it begins again.
fn catch_up(ring: &mut Joined, hit: &Hit, harm: &mut Harm) -> Result<()> {
    let (first, through) = (hit.places[0], hit.through[0]);
    for _ in 0..TRIES {
        let maps = ring.whole_after(0)?;
        let number = |place: usize| maps[place].cell;
        harm.fault_ns = mono_ns();
        kill(ring, harm)?;
        let watched = ring.cells()[through];
        let second = until("no range lacks a copy", || {
            let began = Instant::now();
            while began.elapsed() < SETTLES {
                let map = map_of(watched)?;
                let learners = map.ranges.iter().filter_map(|range| range.learner);
                let is_safe = |cell: &u16| {
                    let is_kept = |other: &u16| *other != *cell && *other != number(first);
                    let mut had = map.ranges.iter().filter(|range| range.has(*cell));
                    *cell != number(through)
                        && had.all(|range| range.primary.iter().chain(&range.copies).any(is_kept))
                };
                let learners: Vec<u16> = learners.filter(is_safe).collect();
                if let Some(learner) = learners.first() {
                    return Ok(Some(Some(*learner)));
                }
                if map.version > maps[0].version && map.is_whole() {
                    return Ok(Some(None));
                }
                thread::sleep(POLL);
            }
            Ok(None)
        })?;
        let second = (0..maps.len()).find(|place| Some(number(*place)) == second);
        if let Some(second) = second {
            let mut both = Harm { places: vec![second], ..Harm::default() };
            kill(ring, &mut both)?;
            harm.halted_ns = both.halted_ns;
            harm.places = vec![first, second];
            return again(ring, &[first, second]);
        }
        again(ring, &[first])?;
        ring.whole_after(maps[0].version)?;
    }
    bail!("no cell that learned could be killed in {TRIES} tries without the loss of a range")
}

/// Fills the disk of a voter, lets a free cell join, and waits until that votes in its place.
fn fill(ring: &mut Joined, maps: &[RingMap]) -> Result<Disk> {
    let (victim, mut disk) = (ring.small_disk(), Disk::default());
    let number = maps[victim].cell;
    ring.fill_disk()?;
    let free = ring.add()?;
    ring.serves(free)?;
    // What still fits into its last page is written.
    for _ in 0..CHANGES_MAX {
        let began = Instant::now();
        while !disk.is_said && began.elapsed() < CHANGED {
            thread::sleep(POLL);
            disk.is_said = ring.log(victim)?.contains(VOTES_NO_MORE);
        }
        if disk.is_said {
            break;
        }
        // A cell without a part that starts again changes the map, and nothing else.
        let mut own = Harm { places: vec![free], ..Harm::default() };
        kill(ring, &mut own)?;
        again(ring, &[free])?;
    }
    let began = Instant::now();
    while disk.is_said && disk.replaced_ms.is_none() && began.elapsed() < REPLACED_MAX {
        let map = ring.map(0)?;
        let is_replaced = map.voters.len() == maps.len() && !map.voters.contains(&number);
        disk.replaced_ms = is_replaced.then(|| began.elapsed().as_secs_f64() * 1e3);
        thread::sleep(POLL);
    }
    Ok(disk)
}

/// Whether a cell that is started on a full disk ends at once, and says why.
fn is_refused(ring: &mut Joined, place: usize) -> Result<bool> {
    let before = ring.log(place)?.len();
    ring.start_again(place)?;
    ring.ended(place)?;
    Ok(ring.log(place)?[before..].contains(FULL))
}
