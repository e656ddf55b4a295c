//! One fault under load: what the requests say of it, and what is read afterwards.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::super::counting::{counts, first_ns, ms, outside};
use super::super::faults::Fault;
use super::harm::{Harm, harm};
use super::plan::{Hit, Kind, draw};
use crate::instruments::{Answered, Client, Ended, Joined, KeySeen, Keys, OpenLoop, RingMap};
use measure::rng::Rng;

/// Time between two requests of the load.
const PACE: Duration = Duration::from_millis(1);
/// Keys that are read after a fault, besides those that were changed.
const SAMPLE: usize = 20_000;
/// How often a fault is tried.
const TRIES: usize = 10;
/// How often it is looked which ranges have one copy alone.
const LOOK: Duration = Duration::from_millis(20);

/// What one fault has led to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct One {
    /// What was done, in words.
    pub name: String,
    /// Whether processes were killed.
    pub kills: bool,
    /// The places of the cells, from 1 on.
    pub cells: Vec<usize>,
    /// What is counted of every fault.
    pub fault: Fault,
    /// Requests that were due and could not be sent.
    pub unsent: u64,
    /// How often it was tried: the map has changed by itself before the others.
    pub tries: usize,
    /// The places of cells that have evicted, from 1 on, and how many items.
    pub evicted: Vec<(usize, u64)>,
    /// Changes that were acknowledged, and those of them whose range had one copy alone then.
    pub changes: [usize; 2],
    /// Ranges that must have lost their items; those that all cells report; keys that are absent.
    pub lost: [u64; 3],
    /// Of a full disk: whether the cell said so, how long until a free one voted in its place,
    /// whether it refused to start on it.
    pub is_said: bool,
    /// See above.
    pub replaced_ms: Option<f64>,
    /// See above.
    pub is_refused: bool,
}

/// Carries out one fault, if there are cells that it fits. Where the map changes by itself before
/// it begins, it is tried again, with other cells.
pub fn one(ring: &mut Joined, keys: &mut Keys, kind: Kind, rng: &mut Rng) -> Result<Option<One>> {
    let mut before: Vec<Answered> = Vec::new();
    for tries in 0..TRIES {
        let maps = ring.whole_after(0)?;
        let Some(hit) = draw(kind, &maps, ring.small_disk(), rng) else { return Ok(None) };
        let evicted_before = evictions(ring)?;
        let (unsent, done) = under_load(ring, keys, kind, &hit, &maps)?;
        let Some(done) = done else {
            before.extend(keys.seen.iter().map(|seen| seen.answered));
            continue;
        };
        let after = evictions(ring)?;
        let evicted = |(cell, now): &(u32, u64)| {
            // One that was started again counts from 0.
            let earlier = evicted_before.iter().find(|(before, _)| before == cell);
            now.saturating_sub(earlier.map_or(0, |it| it.1))
        };
        let mut one = summed(kind, &done, &maps, &keys.seen);
        (one.unsent, one.tries) = (unsent, tries + 1);
        let evicted: Vec<u64> = after.iter().map(evicted).collect();
        one.fault.evictions = evicted.iter().sum();
        one.evicted = (1..).zip(evicted).filter(|(_, items)| *items > 0).collect();
        before.iter().for_each(|it| *one.fault.load.entry(it.ended).or_default() += 1);
        let earlier = outside(before.iter(), u64::MAX, u64::MAX);
        (0..2).for_each(|nth| one.fault.outside[nth] += earlier[nth]);
        lost(ring, keys, &maps[0], &mut one)?;
        return Ok(Some(one));
    }
    bail!("the map has changed before the fault, {TRIES} times")
}

/// Reads what must be there, and what was lost.
fn lost(ring: &Joined, keys: &mut Keys, map: &RingMap, one: &mut One) -> Result<()> {
    let checked = keys.check(&addresses(ring), SAMPLE)?;
    let reported = ring.whole_after(0)?.iter().map(|map| map.losses).min().unwrap_or(0);
    one.fault.checks = checked.counts;
    one.lost[1] = reported.saturating_sub(map.losses);
    one.lost[2] = checked.lost;
    if one.lost[1] > one.lost[0] {
        // It fails, and what is absent from now on says nothing of later faults.
        keys.begin(map, (0..map.ranges.len()).collect(), Arc::default());
        one.lost[2] += keys.check(&addresses(ring), 0)?.lost;
    }
    Ok(())
}

/// Does what the fault is while requests are sent; how many could not be.
fn under_load(
    ring: &mut Joined,
    keys: &mut Keys,
    kind: Kind,
    hit: &Hit,
    maps: &[RingMap],
) -> Result<(u64, Option<Harm>)> {
    let alone: Vec<AtomicBool> = maps[0].ranges.iter().map(|_| AtomicBool::new(false)).collect();
    let alone = Arc::new(alone);
    keys.begin(&maps[0], lost_by(kind, hit, maps), alone.clone());
    let cells = addresses(ring);
    let targets: Vec<SocketAddr> = hit.through.iter().map(|place| cells[*place]).collect();
    let watched = targets[0];
    let stops = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = &stops;
        let kinds = std::slice::from_mut(keys);
        let load = scope.spawn(move || OpenLoop::new(targets, PACE)?.run(kinds, stops));
        let watch = scope.spawn(move || watch(watched, &alone, stops));
        let done = harm(ring, kind, hit, maps);
        stops.store(true, Ordering::Relaxed);
        let panic = "invariant: a client does not panic";
        let (load, watch) = (load.join().expect(panic), watch.join().expect(panic));
        watch?;
        Ok((load?, done?))
    })
}

/// Writes which ranges have one copy alone, as a cell says it, until `stops`.
fn watch(cell: SocketAddr, alone: &[AtomicBool], stops: &AtomicBool) -> Result<()> {
    let mut client = Client::connect(cell)?;
    while !stops.load(Ordering::Relaxed) {
        let map = RingMap::read(&client.stats_of("stats ring")?)?;
        for (range, alone) in map.ranges.iter().zip(alone) {
            alone.store(range.copies.is_empty(), Ordering::Relaxed);
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// What all requests of a fault say of it. Where no cell is hit, all of them are outside.
fn summed(kind: Kind, done: &Harm, maps: &[RingMap], seen: &[KeySeen]) -> One {
    let [led, copied] = firsts(done, maps, seen);
    let failover_ms = led.into_iter().chain(copied).flatten().fold(0.0, f64::max);
    let end_ns = done.fault_ns + (failover_ms * 1e6) as u64;
    let answered = || seen.iter().map(|seen| &seen.answered);
    let took_ms = answered().map(|one| ms(one.sent_ns, one.done_ns));
    let fault = Fault {
        paused_ms: matches!(kind, Kind::Pause(_)).then(|| kind.lasts_s() * 1e3),
        led,
        copied,
        whole_ms: ms(done.fault_ns, done.whole_ns),
        longest_ms: took_ms.fold(0.0, f64::max),
        outside: outside(answered(), done.fault_ns, end_ns),
        load: counts(answered().map(|one| one.ended)),
        ..Fault::default()
    };
    let changes = || seen.iter().filter(|it| it.changes && it.answered.ended == Ended::Well);
    let hit = Hit { places: done.places.clone(), ..Hit::default() };
    One {
        name: kind.name(),
        kills: kind.kills(),
        cells: done.places.iter().map(|place| place + 1).collect(),
        fault,
        changes: [changes().count(), changes().filter(|it| it.is_alone).count()],
        lost: [lost_by(kind, &hit, maps).len() as u64, 0, 0],
        is_said: done.disk.is_said,
        replaced_ms: done.disk.replaced_ms,
        is_refused: done.disk.is_refused,
        ..One::default()
    }
}

/// First successes: reads and changes of the ranges that were led by the cells that were hit, then
/// of those that these copied; of the range that was served last.
fn firsts(done: &Harm, maps: &[RingMap], seen: &[KeySeen]) -> [[Option<f64>; 2]; 2] {
    let numbers: Vec<u16> = done.places.iter().map(|place| maps[*place].cell).collect();
    let of = |is_led: bool, changes: bool| -> Option<f64> {
        let ranges = maps[0].ranges.iter().enumerate().filter(|(_, range)| {
            let leads = range.primary.is_some_and(|cell| numbers.contains(&cell));
            leads == is_led && numbers.iter().any(|cell| range.has(*cell))
        });
        let firsts = ranges.map(|(place, _)| {
            let own = seen.iter().filter(|it| it.place == place && it.changes == changes);
            let first = first_ns(own.map(|it| &it.answered), done.halted_ns);
            ms(done.fault_ns, first.unwrap_or(done.stopped_ns))
        });
        firsts.reduce(f64::max)
    };
    [true, false].map(|is_led| [of(is_led, false), of(is_led, true)])
}

/// The places of the ranges that a fault must lose.
fn lost_by(kind: Kind, hit: &Hit, maps: &[RingMap]) -> Vec<usize> {
    let numbers: Vec<u16> = hit.places.iter().map(|place| maps[*place].cell).collect();
    if kind == Kind::Pair { held_by(&maps[0], &numbers) } else { Vec::new() }
}

/// The places of the ranges that only these cells have.
fn held_by(map: &RingMap, cells: &[u16]) -> Vec<usize> {
    let ranges = map.ranges.iter().enumerate().filter(|(_, range)| {
        range.primary.iter().chain(&range.copies).all(|cell| cells.contains(cell))
    });
    ranges.map(|(place, _)| place).collect()
}

/// The process of each cell, and the items that it has evicted.
fn evictions(ring: &Joined) -> Result<Vec<(u32, u64)>> {
    let cells = ring.cells().into_iter();
    cells.map(|cell| Ok((cell.pid, Client::connect(cell.address)?.stat("evictions")?))).collect()
}

/// Where clients connect to all cells.
pub fn addresses(ring: &Joined) -> Vec<SocketAddr> {
    ring.cells().iter().map(|cell| cell.address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::RangeOf;

    fn maps() -> Vec<RingMap> {
        let range = |primary, copy| RangeOf {
            slices: 0..=0,
            primary: Some(primary),
            copies: vec![copy],
            learner: None,
        };
        let ranges = vec![range(1, 2), range(2, 3), range(3, 1)];
        (1..=3).map(|cell| RingMap { cell, ranges: ranges.clone(), ..RingMap::default() }).collect()
    }

    #[test]
    fn a_range_is_lost_with_all_cells_that_have_it() {
        let map = &maps()[0];
        assert_eq!(held_by(map, &[1, 2]), [0]);
        assert_eq!(held_by(map, &[1, 2, 3]), [0, 1, 2]);
        assert!(held_by(map, &[2]).is_empty());
    }

    #[test]
    fn a_failover_lasts_until_each_range_was_read_and_changed() {
        let seen = |place, changes, sent_ms: u64, done_ms: u64, ended| KeySeen {
            answered: Answered {
                sent_ns: sent_ms * 1_000_000,
                done_ns: done_ms * 1_000_000,
                ended,
            },
            place,
            changes,
            is_alone: false,
        };
        let seen = [
            seen(0, false, 1, 2, Ended::Well),
            seen(0, false, 110, 150, Ended::Well),
            seen(0, true, 120, 400, Ended::Well),
            seen(2, false, 105, 106, Ended::Well),
            seen(2, true, 105, 200, Ended::Well),
            seen(0, true, 300, 500, Ended::InDoubt),
            seen(1, true, 450, 500, Ended::Refused),
        ];
        let done = Harm {
            places: vec![0],
            fault_ns: 100_000_000,
            halted_ns: 101_000_000,
            whole_ns: 900_000_000,
            ..Harm::default()
        };
        let fault = summed(Kind::Deaf, &done, &maps(), &seen).fault;
        assert_eq!(
            (fault.led, fault.copied),
            ([Some(50.0), Some(300.0)], [Some(6.0), Some(100.0)])
        );
        assert_eq!((fault.outside, fault.whole_ms), ([2, 1], 800.0));
        let none = Harm { places: Vec::new(), ..done };
        assert_eq!(summed(Kind::DiskFull, &none, &maps(), &seen).fault.outside, [7, 2]);
    }
}
