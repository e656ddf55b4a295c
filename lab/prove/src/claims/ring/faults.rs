//! Faults of a ring under a verified load, one after the other, each until all copies are there.
//!
//! ```text
//! load and probes: ----------------------------------------------------------------->
//!                        fault    first successes        all copies again
//!                          |<------ failover ------>|            |
//!                     outside                            outside
//! ```
//!
//! The load goes through the cells that the fault does not hit. *Failover* lasts from the fault to
//! the first success of each kind of probe: reads and writes of the keys that the cell led, and of
//! those that it copied. A request that lies wholly before or after it is *outside*.
//!
//! After each fault every key of the load, and every write of the probes, is read through one cell,
//! the next one each time. Times are in milliseconds after the fault.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::counting::{counts, first_ns, ms, outside};
use super::stale::{Stale, StaleReads};
use super::victims::{Next, Plan, Role, next};
use crate::instruments::{
    Answered, Cell, Client, Ended, GET, Limit, Load, LoadClient, OpenLoop, Outcome, PROBE_PACE,
    Ring, RingMap, Stream,
};
use crate::lab::Lab;
use measure::clock::mono_ns;
use measure::process::accepts;
use measure::rng::Rng;

/// Memory of each cell, in MiB: everything fits twice.
const MEMORY_MIB: u64 = 128;
/// Keys that are stored once, and read at the end.
const STORED: Load = Load { keys: 100_000, popularity: "sequential", warm_up: "0s", ..GET };
/// Clients of the load.
const CLIENTS: u64 = 8;
/// Keys that probes read.
const READ_KEYS: usize = 3000;
/// Keys that are written and read together.
const BATCH: usize = 64;
/// How long the load runs before a fault, and after all copies are there.
const AROUND: Duration = Duration::from_secs(1);
/// How long a killed cell stays away, where it is not started again at once.
const AWAY: Duration = Duration::from_secs(1);
/// How long a cell that continues has to learn that it was missed.
const SETTLES: Duration = Duration::from_millis(300);
/// The shortest pause after which a stale read is looked for.
const STALE_FROM: Duration = Duration::from_secs(2);
/// Times that the directory is fsynced.
const FSYNCS: usize = 20;

/// What one fault has led to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Fault {
    /// Whether the cell led the agreement, where the votes on disk say so.
    pub leads_agreement: Option<bool>,
    /// How long it was stopped; nothing for a kill.
    pub paused_ms: Option<f64>,
    /// Whether a killed cell stayed away for a second, so that only its silence is noticed.
    pub is_away: bool,
    /// First successes: reads and writes of what it led; the same of what it copied.
    pub led: [Option<f64>; 2],
    /// See above.
    pub copied: [Option<f64>; 2],
    /// When everything had its copies again.
    pub whole_ms: f64,
    /// The longest that a request of the load took.
    pub longest_ms: f64,
    /// How requests ended: of the load, of the probes, and of the reads of all keys afterwards.
    pub load: BTreeMap<Ended, u64>,
    /// See above.
    pub probes: BTreeMap<Ended, u64>,
    /// See above.
    pub checks: BTreeMap<Ended, u64>,
    /// The first error of a cell that was stopped, to a read that was sent meanwhile.
    pub stale_error: Option<String>,
    /// Requests of the load and of the probes outside failover, and those that failed.
    pub outside: [u64; 2],
    /// Items evicted.
    pub evictions: u64,
}

/// All faults of a plan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Faults {
    /// One after the other.
    pub faults: Vec<Fault>,
    /// Of the keys that were stored once: how many were absent or wrong at the end, through any
    /// cell.
    pub stored_wrong: f64,
    /// How often a range has lost its last copy.
    pub losses: u64,
    /// What an fsync of a file of 4 KiB takes in the directory of the ring.
    pub fsync_ms: Vec<f64>,
}

/// Carries out a plan on a ring of its own.
pub fn carry_out(lab: &Lab, plan: Plan) -> Result<Faults> {
    let mut ring = Ring::start(lab, MEMORY_MIB, None, accepts)?;
    let mut faults = Faults { fsync_ms: fsyncs_ms(ring.directory())?, ..Faults::default() };
    stored(lab, &ring, 0, "--populate")?;
    store_read_keys(ring.cells()[0].address)?;
    let mut clients: Vec<LoadClient> = (0..CLIENTS).map(LoadClient::new).collect();
    let (mut rng, began) = (Rng::new(began_seed(), 0), Instant::now());
    loop {
        let done = |role: Role, is_pause: bool| {
            let is_same =
                |one: &&Fault| one.paused_ms.is_some() == is_pause && role_of(one) == role;
            faults.faults.iter().filter(is_same).count()
        };
        let Some(next) = next(&ring, done, plan, &mut rng)? else { break };
        let nth = faults.faults.len();
        if nth == plan.faults_max || began.elapsed() > plan.time_max {
            break;
        }
        lab.detail(&format!("fault {}", nth + 1));
        let fault = fault(&mut ring, &mut clients, next, nth);
        faults.faults.push(fault.with_context(|| format!("fault {}", nth + 1))?);
    }
    for cell in 0..ring.cells().len() {
        faults.stored_wrong += stored(lab, &ring, cell, "--verify")?;
    }
    faults.losses = ring.whole()?[0].losses;
    ring.stop()?;
    Ok(faults)
}

/// The victims differ from run to run.
fn began_seed() -> u64 {
    mono_ns()
}

/// What the cell was that a fault has hit.
pub fn role_of(fault: &Fault) -> Role {
    let has_any = |firsts: [Option<f64>; 2]| firsts.iter().any(Option::is_some);
    let leads_agreement = fault.leads_agreement == Some(true);
    Role::new(has_any(fault.led), has_any(fault.copied), leads_agreement)
}

/// One fault under load, until all copies are there, and what is read afterwards.
fn fault(ring: &mut Ring, clients: &mut [LoadClient], next: Next, nth: usize) -> Result<Fault> {
    let Next { victim, pause, .. } = next;
    let maps = ring.whole()?;
    let (map, own) = (maps[0].clone(), maps[victim].cell);
    let others = (0..ring.cells().len()).filter(|cell| *cell != victim);
    let others: Vec<SocketAddr> = others.map(|cell| ring.cells()[cell].address).collect();
    let evicted_before = evictions(ring)?;
    let mut streams = streams(&map, own, nth);
    let stops = AtomicBool::new(false);
    let (load, body) = thread::scope(|scope| {
        let (targets, stops) = (others.iter().cycle(), &stops);
        let load = clients.iter_mut().zip(targets);
        let load = load.map(|(client, target)| scope.spawn(|| client.run(*target, stops)));
        let load: Vec<_> = load.collect();
        let probe =
            scope.spawn(|| OpenLoop::new(others.clone(), PROBE_PACE)?.run(&mut streams, stops));
        let body = body(ring, victim, pause, &map, others[0], nth);
        stops.store(true, Ordering::Relaxed);
        let panic = "invariant: a client does not panic";
        let load: Vec<Answered> =
            load.into_iter().flat_map(|one| one.join().expect(panic)).collect();
        let probe = probe.join().expect(panic);
        (load, body.and_then(|body| probe.map(|_| body)))
    });
    let body = body?;
    let mut checks = body.stale.ended.clone();
    let through = ring.cells()[nth % ring.cells().len()].address;
    for client in clients.iter() {
        checks.extend(client.check(through)?);
    }
    for stream in streams.iter().filter(|stream| stream.writes) {
        checks.extend(check_written(through, &stream.written)?);
    }
    let evictions = evictions(ring)?.into_iter().zip(evicted_before).enumerate();
    let evictions = evictions.map(|(cell, (after, before))| match pause {
        // A cell that was killed counts from 0 again.
        None if cell == victim => after,
        _ => after.saturating_sub(before),
    });
    let (evictions, is_away) = (evictions.sum(), pause.is_none() && is_away(nth));
    let checks = counts(checks.into_iter());
    Ok(Fault { checks, evictions, is_away, ..summed(next, body, &load, &streams) })
}

/// What all requests of a fault say of it.
fn summed(next: Next, body: Body, load: &[Answered], streams: &[Stream]) -> Fault {
    let Body { fault_ns, halted_ns, whole_ns, stopped_ns, stale } = body;
    let first = |stream: &Stream| {
        let is_asked = !stream.seen.is_empty();
        let done_ns = first_ns(&stream.seen, halted_ns).unwrap_or(stopped_ns);
        is_asked.then(|| ms(fault_ns, done_ns))
    };
    let firsts: Vec<Option<f64>> = streams.iter().map(first).collect();
    let failover_ms = firsts.iter().flatten().copied().fold(0.0, f64::max);
    let end_ns = fault_ns + (failover_ms * 1e6) as u64;
    let probes = || streams.iter().flat_map(|stream| &stream.seen);
    let took_ms = load.iter().map(|one| ms(one.sent_ns, one.done_ns));
    Fault {
        leads_agreement: next.leads_agreement,
        paused_ms: next.pause.map(|pause| pause.as_secs_f64() * 1e3),
        led: [firsts[0], firsts[1]],
        copied: [firsts[2], firsts[3]],
        whole_ms: ms(fault_ns, whole_ns),
        longest_ms: took_ms.fold(0.0, f64::max),
        outside: outside(load.iter().chain(probes()), fault_ns, end_ns),
        load: counts(load.iter().map(|one| one.ended)),
        probes: counts(probes().map(|one| one.ended)),
        stale_error: stale.error,
        ..Fault::default()
    }
}

/// Every other killed cell is started again at once: its start proves the end of the earlier one.
fn is_away(nth: usize) -> bool {
    nth.is_multiple_of(2)
}

/// When what happened, and what a cell that was stopped has answered.
struct Body {
    fault_ns: u64,
    /// When no thread of the cell ran any more: what is sent later is not answered by it.
    halted_ns: u64,
    whole_ns: u64,
    stopped_ns: u64,
    stale: StaleReads,
}

/// The fault itself.
fn body(
    ring: &mut Ring,
    victim: usize,
    pause: Option<Duration>,
    map: &RingMap,
    other: SocketAddr,
    nth: usize,
) -> Result<Body> {
    let mut stale = StaleReads::default();
    let mut reader = match pause {
        Some(pause) if pause >= STALE_FROM => {
            Some(Stale::prepare(ring.cells()[victim].address, other, map, nth)?)
        }
        _ => None,
    };
    thread::sleep(AROUND);
    // On a machine that is busy a copy may have been dropped meanwhile.
    ring.whole()?;
    let (fault_ns, began) = (mono_ns(), Instant::now());
    let halted_ns;
    let is_away = is_away(nth);
    match pause {
        None => {
            if is_away {
                ring.signal_up(Signal::STOP)?;
            }
            ring.signal(victim, Signal::KILL)?;
            ring.halted(victim)?;
            halted_ns = mono_ns();
            if is_away {
                thread::sleep(AWAY);
                ring.signal_up(Signal::CONT)?;
            }
            ring.restarted(victim)?;
            ring.whole_after(map.version)?;
        }
        Some(pause) => {
            ring.signal(victim, Signal::STOP)?;
            ring.halted(victim)?;
            halted_ns = mono_ns();
            // Before the end of the pause, so that its requests wait in the socket.
            thread::sleep((pause / 2).saturating_sub(began.elapsed()));
            let sent = reader.as_mut().map_or(Ok(()), Stale::send);
            thread::sleep(pause.saturating_sub(began.elapsed()));
            ring.signal(victim, Signal::CONT)?;
            sent?;
            stale = reader.map_or(StaleReads::default(), Stale::read);
            thread::sleep(SETTLES);
            ring.whole()?;
        }
    }
    let whole_ns = mono_ns();
    thread::sleep(AROUND);
    Ok(Body { fault_ns, halted_ns, whole_ns, stopped_ns: mono_ns(), stale })
}

/// Probes of a fault of `own`: reads and writes of what it leads, the same of what it copies. A
/// stream without keys is never asked.
fn streams(map: &RingMap, own: u16, fault: usize) -> Vec<Stream> {
    type Concerns = fn(&RingMap, u16, &str) -> bool;
    let concerns: [Concerns; 2] = [RingMap::leads, RingMap::copies];
    let mut streams = Vec::new();
    for (place, concerns) in concerns.into_iter().enumerate() {
        let read: Vec<String> =
            (0..READ_KEYS).map(read_key).filter(|key| concerns(map, own, key)).collect();
        if read.is_empty() {
            streams.extend([Stream::empty(), Stream::empty()]);
            continue;
        }
        let (mut next, map) = (read.into_iter().cycle(), map.clone());
        streams.push(Stream::new(false, move || next.next().unwrap_or_default()));
        let names = (0u64..).map(move |nth| format!("probe-{fault}-{place}-{nth}"));
        let mut names = names.filter(move |key| concerns(&map, own, key));
        streams.push(Stream::new(true, move || names.next().unwrap_or_default()));
    }
    streams
}

fn read_key(nth: usize) -> String {
    format!("read-{nth}")
}

/// Stores the keys that probes read: each holds its own name.
fn store_read_keys(target: SocketAddr) -> Result<()> {
    let mut client = Client::connect(target)?;
    for key in (0..READ_KEYS).map(read_key) {
        client.send(format!("set {key} 0 0 {}\r\n{key}\r\n", key.len()).as_bytes())?;
        let line = client.line()?;
        anyhow::ensure!(line == "STORED", "set {key}: {line}");
    }
    Ok(())
}

/// Reads what was acknowledged, and deletes it.
fn check_written(target: SocketAddr, keys: &[String]) -> Result<Vec<Ended>> {
    let (mut client, mut found) = (Client::connect(target)?, Vec::new());
    for batch in keys.chunks(BATCH) {
        let each = |key: &String| format!("get {key}\r\ndelete {key}\r\n");
        client.send(batch.iter().map(each).collect::<String>().as_bytes())?;
        for _ in batch {
            found.push(match client.got()? {
                Ok(Some(_)) => Ended::Well,
                Ok(None) => Ended::Lost,
                Err(line) => Ended::of_error(&line),
            });
            client.line()?;
        }
    }
    Ok(found)
}

/// Stores or reads the keys that are stored once, through a cell; how many were absent or wrong.
fn stored(lab: &Lab, ring: &Ring, cell: usize, how: &str) -> Result<f64> {
    const RUN_MAX: Duration = Duration::from_secs(120);
    let cell = ring.cells()[cell];
    let load = Load { depth: BATCH, connections: 4, limit: Limit::Requests(STORED.keys), ..STORED };
    let words = load.words_for(cell.address, cell.pid);
    let outcome: Outcome = lab.generator()?.args(words).arg(how).json(RUN_MAX)?;
    Ok(outcome.number("/misses")? + outcome.number("/wrong_values")?)
}

fn evictions(ring: &Ring) -> Result<Vec<u64>> {
    let of = |cell: &Cell| Client::connect(cell.address)?.stat("evictions");
    ring.cells().iter().map(of).collect()
}

/// What fsyncs of a file take where the agreement has its log.
pub fn fsyncs_ms(directory: &Path) -> Result<Vec<f64>> {
    let path = directory.join("fsync");
    let mut file = File::create(&path).with_context(|| format!("make {}", path.display()))?;
    let mut times = Vec::with_capacity(FSYNCS);
    for _ in 0..FSYNCS {
        file.write_all(&[b'x'; 4096])?;
        let began = Instant::now();
        file.sync_all()?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_of_a_cell_follows_from_what_it_led_and_copied() {
        let fault = |led: bool, copied: bool, leads_agreement: Option<bool>| {
            let firsts = |has: bool| [has.then_some(1.0); 2];
            let (led, copied) = (firsts(led), firsts(copied));
            role_of(&Fault { led, copied, leads_agreement, ..Fault::default() })
        };
        assert_eq!(fault(true, true, Some(false)), Role::Primary);
        assert_eq!(fault(true, false, None), Role::Primary);
        assert_eq!(fault(true, true, Some(true)), Role::Leader);
        assert_eq!(fault(false, true, Some(false)), Role::Copy);
        assert_eq!(fault(false, true, Some(true)), Role::Other);
        assert_eq!(fault(false, false, None), Role::Other);
    }
}
