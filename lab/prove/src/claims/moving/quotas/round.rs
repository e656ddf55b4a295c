//! One round: a new ring, whose first cell is divided, without load or under a part of the peak.
//!
//! Each cell has its share of the processors once all keys are stored.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::load::{Loaded, Loads};
use crate::claims::moving::cells::order_for;
use crate::instruments::{GET, Given, Limit, Load, Outcome, Quota, Ring};
use crate::lab::Lab;
use measure::account::Account;
use measure::clock::mono_ns;
use measure::process::accepts;

/// Processors of all cells together.
const CORES: f64 = 1.4;
/// Cells that lead something, and that join later.
const CELLS: usize = 3;
const SPARES: usize = 1;
/// Memory of each: one copy of everything fits into one cell.
const MEMORY_MIB: u64 = 1024;
/// Keys: 640 million bytes with their values, of which about a third is copied.
const KEYS: u64 = 2_000_000;
const KEY_BYTES: usize = 20;
/// Requests at once on a connection when keys are stored.
const STORE_DEPTH: usize = 16;
/// How long the load runs before it is watched, whole seconds and a little: the order comes just
/// after a second of the generators has begun. How long it is watched before the order, and after
/// the end.
const WARM_UP: Duration = Duration::from_millis(2_050);
const BEFORE: Duration = Duration::from_secs(8);
const AFTER: Duration = Duration::from_secs(2);
/// How long the peak is watched.
const AT_PEAK: Duration = Duration::from_millis(1_950);
/// How long a ring without load is watched before the division.
const REST: Duration = Duration::from_secs(2);
/// Longest a division, and the storing of all keys, may take.
const DIVISION_MAX: Duration = Duration::from_secs(60);
const STORE_MAX: Duration = Duration::from_secs(120);

/// As many connections to each cell as the peak needs, with one request at a time.
const PEAK: Load =
    Load { connections: 16, keys: KEYS, warm_up: "1s", limit: Limit::Duration("4s"), ..GET };
/// It is ended when the division has; this is the latest.
const OFFERED: Load = Load { limit: Limit::Duration("120s"), ..PEAK };

/// A group of the kernel for each cell.
pub struct Shares(Vec<Quota>);

/// What one division did.
#[derive(Clone, Debug, Default)]
pub struct Division {
    /// From its order to its end.
    pub took_s: f64,
    /// Processor time that copying a million bytes took, of all cells together.
    pub cpu_ms_per_mb: f64,
    /// What was not answered as it should be, also the order itself.
    pub wrong: Vec<String>,
}

/// What was seen of one under load.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Requests that are answered in a second of the closed load.
    pub peak_per_s: f64,
    /// The part of the time in which the busiest cell had used up its share then.
    pub used_up: f64,
    /// Requests that are due in a second.
    pub offered_per_s: f64,
    /// How many were answered in each second before, during and after the division.
    pub answered: [Vec<u64>; 3],
    /// The p99 of each of these seconds.
    pub p99_by_second_ms: [Vec<f64>; 3],
    /// Before, and during the division.
    pub p99_ms: [f64; 2],
    /// What copying would have taken if a request took as little as at the peak.
    pub cpu_most_ms_per_mb: f64,
    /// The division.
    pub division: Division,
}

/// What all cells have taken of the processors until a moment.
#[derive(Clone, Copy)]
struct Used {
    at_ns: u64,
    cpu_ns: u64,
}

impl Shares {
    /// One for each cell, also for the spare.
    ///
    /// # Errors
    /// Where this process may make no group.
    pub fn new() -> Result<Self> {
        let cells = CELLS + SPARES;
        let share = |cell| Quota::new(&format!("cell-{cell}"), CORES / cells as f64);
        Ok(Self((1..=cells).map(share).collect::<Result<_>>()?))
    }

    /// A division without load.
    pub fn idle(&self, lab: &Lab) -> Result<Division> {
        let ring = self.start(lab)?;
        let copied_mb = copied_mb(&ring)?;
        lab.detail("divide without load");
        let first = used(&ring)?;
        thread::sleep(REST);
        let before = used(&ring)?;
        let mut division = divide(lab, &ring);
        let after = used(&ring)?;
        let at_rest = (before.cpu_ns - first.cpu_ns) as f64 / (before.at_ns - first.at_ns) as f64;
        let rest_ns = at_rest * (after.at_ns - before.at_ns) as f64;
        let copying_ns = (after.cpu_ns - before.cpu_ns) as f64 - rest_ns;
        division.cpu_ms_per_mb = copying_ns / 1e6 / copied_mb;
        division.wrong.extend(unfinished(&ring)?);
        ring.stop()?;
        Ok(division)
    }

    /// A division while this part of the peak is offered.
    pub fn under_load(&self, lab: &Lab, ratio: &'static str, part: f64) -> Result<Round> {
        let ring = self.start(lab)?;
        let (cells, copied_mb) = (&ring.cells()[..CELLS], copied_mb(&ring)?);
        lab.detail("find the peak");
        let peak = Loads::start(lab, cells, Load { ratio, ..PEAK })?;
        thread::sleep(WARM_UP);
        let (periods, at_peak) = (self.periods()?, used(&ring)?);
        thread::sleep(AT_PEAK);
        let (used_up, at_peak) = (used_up(&periods, &self.periods()?), [at_peak, used(&ring)?]);
        let peak = peak.finished()?;
        let rate = (peak.answered_per_s * part / CELLS as f64) as u64;
        lab.detail("divide under load");
        let loads = Loads::start(lab, cells, Load { ratio, rate: Some(rate), ..OFFERED })?;
        thread::sleep(WARM_UP);
        let first = used(&ring)?;
        thread::sleep(BEFORE);
        let before = used(&ring)?;
        let mut division = divide(lab, &ring);
        let after = used(&ring)?;
        thread::sleep(AFTER);
        let loaded = loads.end()?;
        division.wrong.extend(peak.wrong.iter().chain(&loaded.wrong).cloned());
        division.wrong.extend(unfinished(&ring)?);
        let copying = |request_ns| copying_ns(&loaded, [before, after], request_ns) / 1e6;
        let most_ms = copying(request_ns(&peak, at_peak));
        division.cpu_ms_per_mb = copying(request_ns(&loaded, [first, before])) / copied_mb;
        ring.stop()?;
        let seconds = loaded.around([first, before, after].map(|it| it.at_ns));
        Ok(Round {
            peak_per_s: peak.answered_per_s,
            used_up,
            offered_per_s: (rate * CELLS as u64) as f64,
            p99_ms: [0, 1].map(|nth: usize| loaded.p99_ms(seconds[nth].clone())),
            cpu_most_ms_per_mb: most_ms / copied_mb,
            p99_by_second_ms: seconds
                .clone()
                .map(|all| all.map(|second| loaded.p99_ms(second..second + 1).round()).collect()),
            answered: seconds.map(|seconds| loaded.counts(seconds)),
            division,
        })
    }

    /// A ring that has all keys, and whose cells have their shares from now on.
    fn start(&self, lab: &Lab) -> Result<Ring> {
        lab.detail("store the keys");
        let given = Given { spares: SPARES as u16, ..Given::default() };
        let ring = Ring::start_with(lab, MEMORY_MIB, None, &given, accepts)?;
        let (first, limit) = (ring.cells()[0], Limit::Requests(1));
        let load = Load { depth: STORE_DEPTH, limit, warm_up: "0s", ..PEAK };
        let words = load.words_for(first.address, first.pid);
        let exec = lab.generator()?.args(words).arg("--populate");
        exec.json::<Outcome>(STORE_MAX)?.clean().context("store the keys")?;
        for (quota, cell) in self.0.iter().zip(ring.cells()) {
            quota.add(cell.pid)?;
        }
        Ok(ring)
    }

    fn periods(&self) -> Result<Vec<[u64; 2]>> {
        self.0.iter().map(Quota::periods).collect()
    }
}

impl Round {
    /// The part of what was offered that was answered in the worst second of the division.
    pub fn share(&self) -> f64 {
        let lowest = self.answered[1].iter().min().copied().unwrap_or(0);
        lowest as f64 / self.offered_per_s.max(1.0)
    }

    /// How many times that of before the p99 was.
    pub fn p99_times(&self) -> f64 {
        let [before, during] = self.p99_ms;
        if before > 0.0 { during / before } else { f64::INFINITY }
    }

    /// All of it in words.
    pub fn lines(&self) -> Vec<String> {
        let Self { peak_per_s, offered_per_s, answered, p99_ms, division, .. } = self;
        let (percent, most) = (self.used_up * 100.0, self.cpu_most_ms_per_mb);
        let mut lines = vec![
            format!(
                "peak {peak_per_s:.0} requests a second, the busiest cell out of its share in \
                 {percent:.0} % of the periods; {offered_per_s:.0} offered; p99 {:.1} ms before, \
                 {:.1} ms during; {:.1} s",
                p99_ms[0], p99_ms[1], division.took_s
            ),
            format!(
                "copying {:.1} ms of CPU per MB, {most:.1} at most, by requests at the peak",
                division.cpu_ms_per_mb
            ),
            format!(
                "answered in each second before {:?}, during {:?}, after {:?}",
                answered[0], answered[1], answered[2]
            ),
            format!("p99 of these seconds, in ms: {:?}", self.p99_by_second_ms),
        ];
        lines.extend(division.wrong.iter().map(|what| format!("wrong: {what}")));
        lines
    }
}

/// The part of the periods in which the busiest cell had used up its share.
fn used_up(before: &[[u64; 2]], after: &[[u64; 2]]) -> f64 {
    let parts = before.iter().zip(after).map(|(before, after)| {
        let [all, used_up] = [after[0] - before[0], after[1] - before[1]];
        used_up as f64 / all.max(1) as f64
    });
    parts.fold(0.0, f64::max)
}

fn used(ring: &Ring) -> Result<Used> {
    let cpu_ns = ring.cells().iter().map(|cell| Ok(Account::of(cell.pid)?.cpu_ns));
    Ok(Used { cpu_ns: cpu_ns.sum::<Result<u64>>()?, at_ns: mono_ns() })
}

/// What a request took of the processors between two moments.
fn request_ns(loaded: &Loaded, [from, till]: [Used; 2]) -> f64 {
    (till.cpu_ns - from.cpu_ns) as f64 / loaded.count([from.at_ns, till.at_ns]).max(1.0)
}

/// What the division took of them without the requests that were answered meanwhile.
fn copying_ns(loaded: &Loaded, [from, till]: [Used; 2], request_ns: f64) -> f64 {
    let answered = loaded.count([from.at_ns, till.at_ns]);
    (till.cpu_ns - from.cpu_ns) as f64 - request_ns * answered
}

/// Has the first cell divided. An order that fails is what is found.
fn divide(lab: &Lab, ring: &Ring) -> Division {
    let began = Instant::now();
    let said = ring
        .map(0)
        .and_then(|map| order_for(lab, ring, &["divide", &map.cell.to_string()], DIVISION_MAX));
    let wrong = said.as_ref().err().map(|error| format!("{error:#}")).into_iter().collect();
    let took_s = said.unwrap_or_else(|_| began.elapsed().as_secs_f64());
    Division { took_s, wrong, ..Division::default() }
}

/// What is not as it is after a division, in words.
fn unfinished(ring: &Ring) -> Result<Option<String>> {
    let map = ring.map(0)?;
    let is_done = map.ranges.len() == CELLS + SPARES && map.losses == 0;
    Ok((!is_done).then(|| format!("{} ranges lost, {:?}", map.losses, map.ranges)))
}

/// Millions of bytes, of keys and values, of the range that is divided: the spare learns them all.
fn copied_mb(ring: &Ring) -> Result<f64> {
    let map = ring.map(0)?;
    let width = KEY_BYTES - PEAK.prefix.len();
    let key = |number: u64| format!("{}{number:0width$}", PEAK.prefix);
    let keys = (0..KEYS).filter(|number| map.leads(map.cell, &key(*number))).count();
    Ok((keys * (KEY_BYTES + PEAK.value_bytes)) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_cell_says_how_much_of_its_share_was_used_up() {
        assert_eq!(used_up(&[[10, 0], [10, 2]], &[[20, 1], [30, 12]]), 0.5);
        assert_eq!(used_up(&[[10, 0]], &[[10, 0]]), 0.0);
    }
}
