//! Whether a ring keeps its primaries on a machine that has no time for it: four threads for each
//! core do nothing but compute.
//!
//! A client stores a key through each cell in turn meanwhile. The first map and the last one are
//! compared: leadership never moves back by itself, so the same primaries are no failover.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::claim::{Claim, Measured};
use crate::instruments::{Client, Ring, RingMap};
use crate::lab::Lab;
use measure::process::accepts;
use measure::stats::{median, range};

/// Busy threads for each core.
const THREADS: usize = 4;
/// How long they compute, in seconds, in the quick and the full form.
const SECONDS: [u64; 2] = [60, 600];
/// Memory of a cell, in MiB.
const MEMORY_MIB: u64 = 64;
/// Keys that are stored again and again.
const KEYS: u64 = 1_000;

/// The claims of this theme.
pub const CLAIMS: &[Claim] =
    &[Claim::new("busy", "four busy threads for each core, for a minute (ten)")
        .bar("no failover, no request fails")
        .by(run)];

fn run(lab: &Lab) -> Result<Measured> {
    let ring = Ring::start(lab, MEMORY_MIB, None, accepts)?;
    let connect = |cell: usize| Client::connect(ring.cells()[cell].address);
    let mut clients = (0..ring.cells().len()).map(connect).collect::<Result<Vec<_>>>()?;
    let before = ring.whole()?.swap_remove(0);
    let (over, span) = (AtomicBool::new(false), Duration::from_secs(lab.form(SECONDS)));
    let cores = thread::available_parallelism()?.get();
    let stored = thread::scope(|scope| {
        for _ in 0..THREADS * cores {
            scope.spawn(|| {
                let mut number = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    number = black_box(number.wrapping_mul(31) + 7);
                }
            });
        }
        let stored = store(&mut clients, span);
        over.store(true, Ordering::Relaxed);
        stored
    })?;
    let after = ring.map(0)?;
    ring.stop()?;
    Ok(judge(&before, &after, &stored))
}

/// Stores keys through each of `clients` in turn for as long as `span`. What each took, in
/// milliseconds.
fn store(clients: &mut [Client], span: Duration) -> Result<Vec<f64>> {
    let began = Instant::now();
    let mut taken = Vec::new();
    for number in 0.. {
        if began.elapsed() >= span {
            break;
        }
        let client = &mut clients[number as usize % clients.len()];
        let sent = Instant::now();
        client.send(format!("set busy{} 0 0 5\r\nvalue\r\n", number % KEYS).as_bytes())?;
        let line = client.line()?;
        anyhow::ensure!(line == "STORED", "a set was answered {line:?}");
        taken.push(sent.elapsed().as_secs_f64() * 1e3);
    }
    Ok(taken)
}

fn judge(before: &RingMap, after: &RingMap, stored: &[f64]) -> Measured {
    let primaries = |map: &RingMap| map.ranges.iter().map(|it| it.primary).collect::<Vec<_>>();
    let holds = primaries(before) == primaries(after) && !stored.is_empty();
    let changes = after.version - before.version;
    let (_, longest) = range(stored).unwrap_or_default();
    let middle = median(stored).unwrap_or_default();
    let text = format!(
        "{} failover, {changes} changes of the map; {} sets, {middle:.1} ms in the middle, \
         {longest:.0} ms at most",
        if holds { "no" } else { "a" },
        stored.len(),
    );
    Measured::new(text, changes as f64, holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;
    use crate::instruments::RangeOf;

    #[test]
    fn another_primary_is_a_failover_and_a_copy_that_was_dropped_is_not() {
        let map = |version, primary| {
            let copies = Vec::new();
            let range = RangeOf { slices: 0..=1, primary, copies, learner: None };
            RingMap { version, ranges: vec![range], ..RingMap::default() }
        };
        let verdict = |after| judge(&map(3, Some(1)), &after, &[1.0]).verdict;
        assert_eq!(verdict(map(5, Some(1))), Verdict::Pass);
        assert_eq!(verdict(map(5, Some(2))), Verdict::Fail);
        assert_eq!(judge(&map(3, Some(1)), &map(3, Some(1)), &[]).verdict, Verdict::Fail);
    }
}
