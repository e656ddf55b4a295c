//! How long the agreement of three cells has no leader after the one that led it was killed.
//!
//! ```text
//! all copies there   SIGKILL            both others name a new leader      the map changes
//!        |              |<--------------------- leader -->|                      |
//!        |              |<--------------------- change ------------------------->|
//! ```
//!
//! `volvox up` is stopped meanwhile, so that the killed cell stays away: one that returns at once
//! could be elected again. The map changes as soon as a leader can be asked: the killed cell leads
//! and copies ranges. Times are in milliseconds after the signal, and are seen by `stats ring`,
//! which
//! is asked every few milliseconds.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use super::counting::times;
use crate::claim::{Claim, Measured};
use crate::instruments::{Client, Ring};
use crate::lab::Lab;
use measure::process::accepts;
use measure::stats::range;

/// Kills, in the quick and the full form.
const KILLS: [usize; 2] = [20, 300];
/// The bar, in milliseconds.
const MS_MAX: f64 = 2000.0;
/// Longest a new leader is waited for.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How often it is looked.
const POLL: Duration = Duration::from_millis(3);
/// Memory of a cell, in MiB.
const MEMORY_MIB: u64 = 64;

/// The claims of this theme.
pub const CLAIMS: &[Claim] =
    &[Claim::new("leader", "the leader of the agreement killed, to a new one and the next change")
        .bar("each <= 2 s, 20 kills (300)")
        .by(run)];

/// What one kill has led to.
#[derive(Clone, Copy, Debug)]
struct Kill {
    leader_ms: f64,
    change_ms: f64,
}

fn run(lab: &Lab) -> Result<Measured> {
    let mut ring = Ring::start(lab, MEMORY_MIB, None, accepts)?;
    let mut kills = Vec::new();
    for kill in 0..lab.form(KILLS) {
        lab.detail(&format!("kill {}", kill + 1));
        kills.push(one(&mut ring).with_context(|| format!("kill {}", kill + 1))?);
    }
    ring.stop()?;
    Ok(judge(&kills))
}

fn judge(kills: &[Kill]) -> Measured {
    let leaders: Vec<f64> = kills.iter().map(|kill| kill.leader_ms).collect();
    let changes: Vec<f64> = kills.iter().map(|kill| kill.change_ms).collect();
    let longest = range(&leaders).map_or(f64::INFINITY, |(_, longest)| longest);
    let text = format!("a new leader: {}; the next change: {}", times(&leaders), times(&changes));
    Measured::new(text, longest, longest <= MS_MAX)
}

/// Kills the cell that leads, and waits until all is as before.
fn one(ring: &mut Ring) -> Result<Kill> {
    let maps = ring.whole()?;
    let version = maps[0].version;
    let (number, place) = led(ring)?;
    let others: Vec<usize> = (0..ring.cells().len()).filter(|cell| *cell != place).collect();
    let connect = |cell: &usize| Client::connect(ring.cells()[*cell].address);
    let mut clients: Vec<Client> = others.iter().map(connect).collect::<Result<_>>()?;
    ring.signal_up(Signal::STOP)?;
    let killed = Instant::now();
    ring.signal(place, Signal::KILL)?;
    let (mut leader_ms, mut change_ms) = (None, None);
    while leader_ms.is_none() || change_ms.is_none() {
        if killed.elapsed() > WAIT_MAX {
            bail!("no new leader and no change of the map after {} s", WAIT_MAX.as_secs());
        }
        let mut is_led = true;
        for client in &mut clients {
            let stats = client.stats_of("stats ring")?;
            let leader = stats.get("leader").and_then(|leader| leader.parse().ok());
            is_led &= leader.is_some_and(|leader: u16| leader != number);
            let now = stats.get("map_version").and_then(|version| version.parse().ok());
            if now.is_some_and(|now: u64| now > version) {
                change_ms.get_or_insert(killed.elapsed().as_secs_f64() * 1e3);
            }
        }
        if is_led {
            leader_ms.get_or_insert(killed.elapsed().as_secs_f64() * 1e3);
        }
        thread::sleep(POLL);
    }
    ring.signal_up(Signal::CONT)?;
    ring.restarted(place)?;
    ring.whole_after(version)?;
    Ok(Kill {
        leader_ms: leader_ms.context("no leader")?,
        change_ms: change_ms.context("no change")?,
    })
}

/// The number and the place of the cell that leads, as all say.
fn led(ring: &Ring) -> Result<(u16, usize)> {
    let began = Instant::now();
    loop {
        let mut seen = Vec::new();
        for cell in ring.cells() {
            let stats = Client::connect(cell.address)?.stats_of("stats ring")?;
            let number = |name: &str| stats.get(name).and_then(|it| it.parse::<u16>().ok());
            // A ring that has just formed has one voter, and its end would end all agreement.
            let voters = stats.get("voters").map_or(0, |all| {
                all.split(|byte: char| !byte.is_ascii_digit()).filter(|it| !it.is_empty()).count()
            });
            let leader = number("leader").filter(|_| voters == ring.cells().len());
            seen.push((number("cell"), leader));
        }
        let leader = seen[0].1.filter(|leader| seen.iter().all(|it| it.1 == Some(*leader)));
        let place = seen.iter().position(|it| leader.is_some() && it.0 == leader);
        if let Some(found) = leader.zip(place) {
            return Ok(found);
        }
        if began.elapsed() > WAIT_MAX {
            bail!("the cells do not name one leader: {seen:?}");
        }
        thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn the_longest_time_without_a_leader_is_judged() {
        let kills = |ms: &[f64]| -> Vec<Kill> {
            ms.iter().map(|ms| Kill { leader_ms: *ms, change_ms: 3.0 * ms }).collect()
        };
        assert_eq!(judge(&kills(&[500.0, 1990.0])).verdict, Verdict::Pass);
        assert_eq!(judge(&kills(&[500.0, 2010.0])).verdict, Verdict::Fail);
        assert_eq!(judge(&[]).verdict, Verdict::Fail);
    }
}
