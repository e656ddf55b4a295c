//! One fault under load: what the requests say of it, and what is read afterwards.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::super::counting::{counts, first_ns, ms, outside};
use super::super::faults::Fault;
use super::harm::{Harm, harm};
use super::plan::{Hit, Kind, draw};
use crate::instruments::{Client, Ended, Joined, KeySeen, Keys, OpenLoop, RingMap};
use measure::rng::Rng;

/// Time between two requests of the load.
const PACE: Duration = Duration::from_millis(1);
/// Keys that are read after a fault, besides those that were changed.
const SAMPLE: usize = 20_000;
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
    /// Changes that were acknowledged, and those of them whose range had one copy alone then.
    pub changes: [u64; 2],
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

/// Carries out one fault.
pub fn one(ring: &mut Joined, keys: &mut Keys, kind: Kind, rng: &mut Rng) -> Result<One> {
    let maps = ring.whole_after(0)?;
    let hit = draw(kind, &maps, ring.small_disk(), rng).context("no cell fits this fault")?;
    let numbers: Vec<u16> = hit.places.iter().map(|place| maps[*place].cell).collect();
    let lost = if kind == Kind::Pair { held_by(&maps[0], &numbers) } else { Vec::new() };
    let alone: Arc<Vec<AtomicBool>> =
        Arc::new(maps[0].ranges.iter().map(|_| AtomicBool::new(false)).collect());
    keys.begin(&maps[0], lost.clone(), alone.clone());
    let before = evictions(ring)?;
    let (unsent, done) = under_load(ring, keys, kind, &hit, (&maps, &alone))?;
    let after = evictions(ring)?;
    let evicted = |(cell, now): &(u32, u64)| {
        // One that was started again counts from 0.
        let earlier = before.iter().find(|(before, _)| before == cell).map_or(0, |it| it.1);
        now.saturating_sub(earlier)
    };
    let checked = keys.check(&addresses(ring), SAMPLE)?;
    let reported = ring.whole_after(0)?.iter().map(|map| map.losses).min().unwrap_or(0);
    let fault = Fault {
        evictions: after.iter().map(evicted).sum(),
        checks: checked.counts,
        ..summed(kind, &done, &maps, &keys.seen)
    };
    let acknowledged =
        keys.seen.iter().filter(|seen| seen.changes && seen.answered.ended == Ended::Well);
    let alone = acknowledged.clone().filter(|seen| seen.is_alone).count() as u64;
    Ok(One {
        name: kind.name(),
        kills: kind.kills(),
        cells: done.places.iter().map(|place| place + 1).collect(),
        fault,
        unsent,
        changes: [acknowledged.count() as u64, alone],
        lost: [lost.len() as u64, reported.saturating_sub(maps[0].losses), checked.lost],
        is_said: done.disk.is_said,
        replaced_ms: done.disk.replaced_ms,
        is_refused: done.disk.is_refused,
    })
}

/// Does what the fault is while requests are sent; how many could not be.
fn under_load(
    ring: &mut Joined,
    keys: &mut Keys,
    kind: Kind,
    hit: &Hit,
    (maps, alone): (&[RingMap], &[AtomicBool]),
) -> Result<(u64, Harm)> {
    let cells = addresses(ring);
    let targets: Vec<SocketAddr> = hit.through.iter().map(|place| cells[*place]).collect();
    let watched = targets[0];
    let stops = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = &stops;
        let kinds = std::slice::from_mut(keys);
        let load = scope.spawn(move || OpenLoop::new(targets, PACE)?.run(kinds, stops));
        let watch = scope.spawn(move || watch(watched, alone, stops));
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
fn summed(kind: Kind, done: &Harm, maps: &[RingMap], seen: &[KeySeen]) -> Fault {
    let numbers: Vec<u16> = done.places.iter().map(|place| maps[*place].cell).collect();
    let of = |is_led: bool, changes: bool| -> Option<f64> {
        let ranges = maps[0].ranges.iter().enumerate().filter(|(_, range)| {
            let leads = range.primary.is_some_and(|cell| numbers.contains(&cell));
            leads == is_led && numbers.iter().any(|cell| range.has(*cell))
        });
        // The range that was served last.
        let firsts = ranges.map(|(place, _)| {
            let own = seen.iter().filter(|it| it.place == place && it.changes == changes);
            let first = first_ns(own.map(|it| &it.answered), done.halted_ns);
            ms(done.fault_ns, first.unwrap_or(done.stopped_ns))
        });
        firsts.reduce(f64::max)
    };
    let [led, copied] = [true, false].map(|is_led| [of(is_led, false), of(is_led, true)]);
    let failover_ms = led.into_iter().chain(copied).flatten().fold(0.0, f64::max);
    let end_ns = done.fault_ns + (failover_ms * 1e6) as u64;
    let answered = || seen.iter().map(|seen| &seen.answered);
    let took_ms = answered().map(|one| ms(one.sent_ns, one.done_ns));
    Fault {
        paused_ms: matches!(kind, Kind::Pause(_)).then(|| kind.lasts_s() * 1e3),
        led,
        copied,
        whole_ms: ms(done.fault_ns, done.whole_ns),
        longest_ms: took_ms.fold(0.0, f64::max),
        outside: outside(answered(), done.fault_ns, end_ns),
        load: counts(answered().map(|one| one.ended)),
        probes: BTreeMap::new(),
        ..Fault::default()
    }
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
    use crate::instruments::{Answered, RangeOf};

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
        let fault = summed(Kind::Deaf, &done, &maps(), &seen);
        assert_eq!(
            (fault.led, fault.copied),
            ([Some(50.0), Some(300.0)], [Some(6.0), Some(100.0)])
        );
        assert_eq!((fault.outside, fault.whole_ms), ([2, 1], 800.0));
        let none = Harm { places: Vec::new(), ..done };
        assert_eq!(summed(Kind::DiskFull, &none, &maps(), &seen).outside, [7, 2]);
    }
}
