//! Cells join a ring and take half of what others lead, are absorbed again, and restart, while
//! clients go on.
//!
//! ```text
//! 3 cells --divide--> 8 cells --absorb--> 3 cells --restart each--> 3 cells, every key is read
//! ```
//!
//! A verified load runs all the time, on cells that are not ended meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::claim::{Claim, Measured};
use crate::instruments::{Answered, Ended, Given, LoadClient, Ring};
use crate::lab::Lab;
use measure::process::accepts;
use measure::process::exec::Exec;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::new(
    "cells",
    "3 cells become 8 and 3 again, and each restarts, under load: what clients see",
)
.bar("no error, no miss, no wrong value; nothing is lost; every key is read in the end")
.by(cells)];

/// Cells that stay, and that come and go.
const CELLS: usize = 3;
const SPARES: usize = 5;
/// Rounds of all of it, in the quick and the full form.
const ROUNDS: [usize; 2] = [1, 10];
/// Clients, of which each sends up to 500 requests a second.
const CLIENTS: u64 = 6;
const MEMORY_MIB: u64 = 64;
/// How long one order may take.
const ORDER_MAX: Duration = Duration::from_secs(60);

/// What was measured.
#[derive(Default)]
struct Run {
    /// How long each order took: divisions, absorptions, restarts.
    took_s: [Vec<f64>; 3],
    /// The longest that a request took while these were carried out.
    longest_ms: [f64; 3],
    requests: usize,
    /// Requests that were not answered as they should be, also of the reads of all keys.
    wrong: Vec<Ended>,
    losses: u64,
}

fn cells(lab: &Lab) -> Result<Measured> {
    let flags = "--allow-shutdown".to_owned();
    let given = Given { flags, spares: SPARES as u16, ..Given::default() };
    let ring = Ring::start_with(lab, MEMORY_MIB, None, &given, accepts)?;
    let mut clients: Vec<LoadClient> = (0..CLIENTS).map(LoadClient::new).collect();
    let mut run = Run::default();
    for round in 0..lab.form(ROUNDS) {
        lab.detail(&format!("round {}", round + 1));
        round_of(lab, &ring, &mut clients, &mut run)?;
        for (nth, client) in clients.iter().enumerate() {
            let found = client.check(ring.cells()[(nth + 1) % CELLS].address)?;
            run.wrong.extend(found.into_iter().filter(|ended| *ended != Ended::Well));
        }
    }
    run.losses = ring.whole()?[0].losses;
    ring.stop()?;
    Ok(judge(&run))
}

fn round_of(lab: &Lab, ring: &Ring, clients: &mut [LoadClient], run: &mut Run) -> Result<()> {
    let staying: Vec<usize> = (0..CELLS).collect();
    under_load((ring, &staying), clients, (run, 0), |took_s| {
        for nth in 0..SPARES {
            lab.detail(&format!("division {}", nth + 1));
            let largest =
                ring.map(0)?.ranges.into_iter().max_by_key(|it| it.slices.clone().count());
            let cell = largest.and_then(|it| it.primary).context("there is no range")?;
            took_s.push(order(lab, ring, &["divide", &cell.to_string()])?);
        }
        Ok(())
    })?;
    under_load((ring, &staying), clients, (run, 1), |took_s| {
        for cell in (CELLS + 1..=CELLS + SPARES).rev() {
            lab.detail(&format!("cell {cell} is absorbed"));
            took_s.push(order(lab, ring, &["absorb", &cell.to_string()])?);
        }
        Ok(())
    })?;
    let ranges = ring.map(0)?.ranges.len();
    if ranges != CELLS {
        bail!("there are {ranges} ranges, not {CELLS}");
    }
    for cell in 0..CELLS {
        let others: Vec<usize> = staying.iter().copied().filter(|it| *it != cell).collect();
        under_load((ring, &others), clients, (run, 2), |took_s| {
            lab.detail(&format!("cell {} restarts", cell + 1));
            took_s.push(order(lab, ring, &["restart", &(cell + 1).to_string()])?);
            Ok(())
        })?;
    }
    for cell in CELLS..CELLS + SPARES {
        order(lab, ring, &["absorb", &(cell + 1).to_string(), "--undo"])?;
    }
    Ok(())
}

/// Carries out `steps` while clients of `cells` send requests, and notes what they see.
fn under_load(
    (ring, cells): (&Ring, &[usize]),
    clients: &mut [LoadClient],
    (run, kind): (&mut Run, usize),
    steps: impl FnOnce(&mut Vec<f64>) -> Result<()>,
) -> Result<()> {
    let stops = AtomicBool::new(false);
    let (took, seen) = thread::scope(|scope| {
        let loads = clients.iter_mut().enumerate().map(|(nth, client)| {
            let (target, stops) = (ring.cells()[cells[nth % cells.len()]].address, &stops);
            scope.spawn(move || client.run(target, stops))
        });
        let loads: Vec<_> = loads.collect();
        let took = steps(&mut run.took_s[kind]);
        stops.store(true, Ordering::Relaxed);
        let seen = loads.into_iter().flat_map(|load| load.join().unwrap_or_default());
        (took, seen.collect::<Vec<Answered>>())
    });
    let ms = seen.iter().map(|one| (one.done_ns - one.sent_ns) as f64 / 1e6);
    run.longest_ms[kind] = ms.fold(run.longest_ms[kind], f64::max);
    run.requests += seen.len();
    run.wrong.extend(seen.iter().map(|one| one.ended).filter(|ended| *ended != Ended::Well));
    took
}

/// Has `volvox ctl` carry out an order, asked of a cell that stays. Returns how long that took.
pub fn order(lab: &Lab, ring: &Ring, words: &[&str]) -> Result<f64> {
    order_for(lab, ring, words, ORDER_MAX)
}

/// The same within this time.
pub fn order_for(lab: &Lab, ring: &Ring, words: &[&str], most: Duration) -> Result<f64> {
    let servers: Vec<_> = ring.cells()[..CELLS].iter().map(|it| it.address.to_string()).collect();
    let servers = servers.join(",");
    let all = ["ctl", "--json", "--server", &servers].into_iter().chain(words.iter().copied());
    let start = Instant::now();
    let said = Exec::new(lab.volvox()?).args(all).said(most)?;
    let took_s = start.elapsed().as_secs_f64();
    if !said.status.success() {
        bail!("volvox ctl {}: {}", words.join(" "), said.complaints);
    }
    let mut lines = said.output.lines();
    let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
    if said.output.is_empty() || !lines.all(is_json) {
        bail!("no JSON: {}", said.output);
    }
    Ok(took_s)
}

fn judge(run: &Run) -> Measured {
    let longest = |kind: usize| run.took_s[kind].iter().copied().fold(0.0, f64::max);
    let kinds = ["divisions", "absorptions", "restarts"];
    let of = |kind: usize| {
        let (name, count) = (kinds[kind], run.took_s[kind].len());
        let (s, ms) = (longest(kind), run.longest_ms[kind]);
        format!("{count} {name} of {s:.1} s at most, longest request {ms:.0} ms")
    };
    let text = format!(
        "{}; {}; {}; {} of {} requests not answered as they should be; {} ranges lost",
        of(0),
        of(1),
        of(2),
        run.wrong.len(),
        run.requests,
        run.losses,
    );
    let has_all = run.took_s.iter().all(|took| !took.is_empty()) && run.requests > 0;
    let holds = has_all && run.wrong.is_empty() && run.losses == 0;
    let details = (!run.wrong.is_empty()).then(|| format!("{:?}", run.wrong));
    let longest = run.longest_ms.into_iter().fold(0.0, f64::max);
    Measured::new(text, longest, holds).with_details(details.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn an_error_a_loss_and_what_was_not_done_fail() {
        let took_s = [vec![0.1], vec![0.2], vec![2.0]];
        let run = || Run { took_s: took_s.clone(), requests: 9, ..Run::default() };
        assert_eq!(judge(&run()).verdict, Verdict::Pass);
        assert_eq!(judge(&Run { wrong: vec![Ended::Refused], ..run() }).verdict, Verdict::Fail);
        assert_eq!(judge(&Run { losses: 1, ..run() }).verdict, Verdict::Fail);
        assert_eq!(judge(&Run { requests: 0, ..run() }).verdict, Verdict::Fail);
        let took_s = [vec![0.1], vec![], vec![2.0]];
        assert_eq!(judge(&Run { took_s, ..run() }).verdict, Verdict::Fail);
    }
}
