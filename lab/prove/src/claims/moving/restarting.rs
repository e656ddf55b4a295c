//! A rolling restart: all cells of a ring begin again, one after the other, by one command, while
//! clients go on.
//!
//! ```text
//! 3 cells --divide twice--> 5 cells --`volvox ctl restart`--> 5 cells, every key is read
//! ```
//!
//! Each cell has clients of its own. Only those of the cell that restarts may lose a connection:
//! they connect again, and the requests that they had sent are in doubt.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::cells::{order, order_for};
use crate::claim::{Claim, Measured};
use crate::instruments::{Answered, Ended, Given, LoadClient, Ring, RingMap};
use crate::lab::Lab;
use measure::process::accepts;

/// The claims of this theme.
pub const CLAIMS: &[Claim] =
    &[Claim::new("restart", "a rolling restart of five cells under load, by one command")
        .bar(
            "no error, no miss, no wrong value; a client loses a connection when its cell restarts",
        )
        .by(restart)];

/// Cells that lead something, and those of them that join later.
const CELLS: usize = 5;
const SPARES: u16 = 2;
/// Rounds, in the quick and the full form.
const ROUNDS: [usize; 2] = [1, 10];
/// Clients of each cell, of which each sends up to 500 requests a second.
const CLIENTS: usize = 2;
const MEMORY_MIB: u64 = 64;
/// How long one order may take.
const RESTART_MAX: Duration = Duration::from_secs(300);

/// What was measured.
#[derive(Default)]
struct Run {
    took_s: Vec<f64>,
    requests: usize,
    longest_ms: f64,
    /// By client, how often its connection was closed.
    closed: Vec<usize>,
    /// Requests that were not answered as they should be, also of the reads of all keys.
    wrong: Vec<Ended>,
    losses: u64,
}

fn restart(lab: &Lab) -> Result<Measured> {
    let given = Given { flags: "--allow-shutdown".to_owned(), spares: SPARES, ..Given::default() };
    let ring = Ring::start_with(lab, MEMORY_MIB, None, &given, accepts)?;
    for cell in 1..=SPARES {
        order(lab, &ring, &["divide", &cell.to_string()])?;
    }
    let mut clients: Vec<_> = (0..CELLS * CLIENTS).map(|nth| LoadClient::new(nth as u64)).collect();
    let rounds = lab.form(ROUNDS);
    let mut run = Run { closed: vec![0; clients.len()], ..Run::default() };
    for round in 0..rounds {
        lab.detail(&format!("round {}", round + 1));
        round_of(lab, &ring, &mut clients, &mut run)?;
    }
    for (nth, client) in clients.iter().enumerate() {
        let found = client.check(ring.cells()[(nth + 1) % CELLS].address)?;
        run.wrong.extend(found.into_iter().filter(|ended| *ended != Ended::Well));
    }
    let leads = |map: &RingMap| {
        (1..=CELLS as u16).all(|cell| map.ranges.iter().any(|it| it.primary == Some(cell)))
    };
    let map = ring.whole()?.into_iter().next().context("no cell has a map")?;
    if !leads(&map) {
        bail!("not each cell leads something again: {:?}", map.ranges);
    }
    run.losses = map.losses;
    ring.stop()?;
    Ok(judge(&run, rounds))
}

fn round_of(lab: &Lab, ring: &Ring, clients: &mut [LoadClient], run: &mut Run) -> Result<()> {
    let stops = AtomicBool::new(false);
    let (took, seen) = thread::scope(|scope| {
        let loads = clients.iter_mut().enumerate().map(|(nth, client)| {
            let (target, stops) = (ring.cells()[nth % CELLS].address, &stops);
            scope.spawn(move || client.run(target, stops))
        });
        let loads: Vec<_> = loads.collect();
        let took = order_for(lab, ring, &["restart"], RESTART_MAX);
        stops.store(true, Ordering::Relaxed);
        let seen: Vec<_> = loads.into_iter().map(|it| it.join().unwrap_or_default()).collect();
        (took, seen)
    });
    for (seen, closed) in seen.iter().zip(&mut run.closed) {
        *closed += seen.iter().filter(|one| one.ended == Ended::Closed).count();
    }
    let all = || seen.iter().flatten();
    let ms = all().filter(|one| one.ended == Ended::Well).map(took_ms);
    run.longest_ms = ms.fold(run.longest_ms, f64::max);
    run.requests += all().count();
    let is_wrong = |ended: &Ended| !matches!(ended, Ended::Well | Ended::Closed);
    run.wrong.extend(all().map(|one| one.ended).filter(is_wrong));
    run.took_s.push(took?);
    Ok(())
}

fn took_ms(one: &Answered) -> f64 {
    (one.done_ns - one.sent_ns) as f64 / 1e6
}

fn judge(run: &Run, rounds: usize) -> Measured {
    let took_s = run.took_s.iter().copied().fold(0.0, f64::max);
    let closed_most = run.closed.iter().copied().max().unwrap_or(0);
    let text = format!(
        "{took_s:.1} s at most; longest request {:.0} ms; {} of {} requests not answered as they \
         should be; a client has lost its connection {closed_most} times of {rounds} at most",
        run.longest_ms,
        run.wrong.len(),
        run.requests,
    );
    let is_right = run.wrong.is_empty() && run.losses == 0 && closed_most <= rounds;
    let has_all = run.took_s.len() == rounds && run.requests > 0;
    let details = (!run.wrong.is_empty()).then(|| format!("{:?}", run.wrong));
    Measured::new(text, took_s, is_right && has_all).with_details(details.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn an_error_a_loss_and_a_connection_that_is_lost_twice_fail() {
        let run = || Run { took_s: vec![9.0], requests: 9, closed: vec![1, 0], ..Run::default() };
        assert_eq!(judge(&run(), 1).verdict, Verdict::Pass);
        assert_eq!(judge(&Run { wrong: vec![Ended::Refused], ..run() }, 1).verdict, Verdict::Fail);
        assert_eq!(judge(&Run { losses: 1, ..run() }, 1).verdict, Verdict::Fail);
        assert_eq!(judge(&Run { closed: vec![2, 0], ..run() }, 1).verdict, Verdict::Fail);
        assert_eq!(judge(&run(), 2).verdict, Verdict::Fail, "one round was not made");
    }
}
