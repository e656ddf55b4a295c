//! A rolling restart: all cells of a ring begin again, one after the other, by one command, while
//! clients go on.
//!
//! ```text
//! 3 cells --divide twice--> 5 cells --`volvox ctl restart`--> 5 cells, every key is read
//!                             |                               ^
//!                             +-- another build in the place --+   upgrade
//!                                 of their program
//! ```
//!
//! Each cell has clients of its own. Only those of the cell that restarts may lose a connection:
//! they connect again, and the requests that they had sent are in doubt.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail};

use super::cells::{order, order_for};
use crate::claim::{Claim, Measured};
use crate::instruments::{Answered, Client, Ended, Given, LoadClient, Ring, RingMap};
use crate::lab::Lab;
use measure::exec::Exec;
use measure::process::accepts;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("restart", "a rolling restart of five cells under load, by one command")
        .bar(BAR)
        .by(restart),
    Claim::new("upgrade", "the same into a build with another version of frames and of commands")
        .bar(BAR)
        .by(upgrade),
];

const BAR: &str =
    "no error, no miss, no wrong value; a client loses a connection when its cell restarts";

/// Cells that lead something, and those of them that join later.
pub const CELLS: usize = 5;
const SPARES: u16 = 2;
/// Rounds, in the quick and the full form.
const ROUNDS: [usize; 2] = [1, 10];
/// Clients of each cell, of which each sends up to 500 requests a second.
const CLIENTS: usize = 2;
const MEMORY_MIB: u64 = 64;
/// Rings that are upgraded, in the quick and the full form.
const UPGRADES: [usize; 2] = [1, 3];
/// What has another version of frames and of commands.
const NEXT: &str = "next-version";
/// How long that may take to build.
const BUILD_MAX: Duration = Duration::from_secs(1_500);
/// How long the cells may take to agree on its commands.
const AGREEING: Duration = Duration::from_secs(10);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long one order may take.
pub const RESTART_MAX: Duration = Duration::from_secs(300);

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
    let (ring, rounds) = (five(lab, MEMORY_MIB, None)?, lab.form(ROUNDS));
    let (mut clients, mut run) = (clients(), Run::default());
    for round in 0..rounds {
        lab.detail(&format!("round {}", round + 1));
        round_of(lab, &ring, &mut clients, &mut run)?;
    }
    check(&ring, &clients, &mut run)?;
    ring.stop()?;
    Ok(judge(&run, rounds))
}

/// Each ring is upgraded once: there is no way back.
fn upgrade(lab: &Lab) -> Result<Measured> {
    let (next, rounds) = (next_build(lab)?, lab.form(UPGRADES));
    let program = lab.folder().join("upgraded");
    let mut run = Run::default();
    for round in 0..rounds {
        lab.detail(&format!("ring {}", round + 1));
        put(&lab.volvox()?, &program)?;
        let (ring, mut clients) = (five(lab, MEMORY_MIB, Some(program.clone()))?, clients());
        let before = edition(&ring)?;
        put(&next, &program)?;
        round_of(lab, &ring, &mut clients, &mut run)?;
        until(&ring, before + 1)?;
        check(&ring, &clients, &mut run)?;
        ring.stop()?;
    }
    Ok(judge(&run, rounds))
}

/// Our binary with one version more.
fn next_build(lab: &Lab) -> Result<PathBuf> {
    lab.detail("build the next version");
    let folder = lab.repo().path("target/next");
    let build = ["build", "--release", "--package", "volvox", "--locked", "--features", NEXT];
    let build = Exec::new("cargo").args(build).arg("--target-dir").arg(&folder);
    build.cwd(lab.repo().root()).capture(BUILD_MAX)?;
    Ok(folder.join("release/volvox"))
}

/// Puts a program in the place of one that may run.
fn put(program: &Path, place: &Path) -> Result<()> {
    let new = place.with_extension("new");
    fs::copy(program, &new).with_context(|| format!("copy {}", program.display()))?;
    fs::rename(&new, place).with_context(|| format!("put {}", place.display()))
}

/// The lowest edition of commands that a cell of the ring uses, or understands.
fn edition(ring: &Ring) -> Result<u16> {
    let mut lowest = u16::MAX;
    for cell in ring.cells() {
        let stats = Client::connect(cell.address)?.stats_of("stats ring")?;
        let is_one = |name: &str| name == "edition" || name.ends_with(":edition");
        for (_, value) in stats.iter().filter(|(name, _)| is_one(name)) {
            lowest = lowest.min(value.parse().with_context(|| format!("edition {value:?}"))?);
        }
    }
    Ok(lowest)
}

/// Waits until all cells use the commands of this edition.
fn until(ring: &Ring, wanted: u16) -> Result<()> {
    let begun = Instant::now();
    loop {
        let used = edition(ring)?;
        if used >= wanted {
            return Ok(());
        }
        if begun.elapsed() >= AGREEING {
            bail!("commands of edition {used} are used, not {wanted}");
        }
        thread::sleep(LOOK);
    }
}

/// A ring of five cells that lead something, with this much memory each.
pub fn five(lab: &Lab, memory_mib: u64, program: Option<PathBuf>) -> Result<Ring> {
    let flags = "--allow-shutdown".to_owned();
    let given = Given { flags, spares: SPARES, program, ..Given::default() };
    let ring = Ring::start_with(lab, memory_mib, None, &given, accepts)?;
    for cell in 1..=SPARES {
        order(lab, &ring, &["divide", &cell.to_string()])?;
    }
    Ok(ring)
}

/// Clients of these cells.
pub fn clients() -> Vec<LoadClient> {
    (0..CELLS * CLIENTS).map(|nth| LoadClient::new(nth as u64)).collect()
}

/// Reads every key, of each client through another cell. Returns what is not as it should be.
pub fn missed(ring: &Ring, clients: &[LoadClient]) -> Result<Vec<Ended>> {
    let mut wrong = Vec::new();
    for (nth, client) in clients.iter().enumerate() {
        let found = client.check(ring.cells()[(nth + 1) % CELLS].address)?;
        wrong.extend(found.into_iter().filter(|ended| *ended != Ended::Well));
    }
    Ok(wrong)
}

/// Reads every key, and looks at who leads what.
fn check(ring: &Ring, clients: &[LoadClient], run: &mut Run) -> Result<()> {
    run.wrong.extend(missed(ring, clients)?);
    let leads = |map: &RingMap| {
        (1..=CELLS as u16).all(|cell| map.ranges.iter().any(|it| it.primary == Some(cell)))
    };
    let map = ring.whole()?.into_iter().next().context("no cell has a map")?;
    if !leads(&map) {
        bail!("not each cell leads something again: {:?}", map.ranges);
    }
    run.losses += map.losses;
    Ok(())
}

/// Takes `steps` while clients send requests. Returns what each of these has seen.
pub fn while_clients_go_on<T>(
    ring: &Ring,
    clients: &mut [LoadClient],
    steps: impl FnOnce() -> T,
) -> (Vec<Vec<Answered>>, T) {
    let stops = AtomicBool::new(false);
    thread::scope(|scope| {
        let loads = clients.iter_mut().enumerate().map(|(nth, client)| {
            let (target, stops) = (ring.cells()[nth % CELLS].address, &stops);
            scope.spawn(move || client.run(target, stops))
        });
        let loads: Vec<_> = loads.collect();
        let done = steps();
        stops.store(true, Ordering::Relaxed);
        (loads.into_iter().map(|it| it.join().unwrap_or_default()).collect(), done)
    })
}

fn round_of(lab: &Lab, ring: &Ring, clients: &mut [LoadClient], run: &mut Run) -> Result<()> {
    let restart = || order_for(lab, ring, &["restart"], RESTART_MAX);
    let (seen, took) = while_clients_go_on(ring, clients, restart);
    run.closed.resize(clients.len(), 0);
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
