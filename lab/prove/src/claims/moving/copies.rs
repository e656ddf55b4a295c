//! How many of the reads of a range its copies answer, where its primary has more to do than it
//! can.
//!
//! ```text
//! clients at all three cells --get, keys of one range--> 1. keys that only its primary answers
//!                                                         2. keys that copies may answer
//! ```
//!
//! Each cell has a share of the processors of its own. The load is closed: each connection sends
//! some requests together, and the next when all are answered. So the first run finds what the
//! primary can do, and the second one asks for more.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::claim::{Claim, Measured};
use crate::instruments::{Client, Given, Quota, Ring};
use crate::lab::Lab;
use measure::process::accepts;
use measure::stats::median;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::new(
    "copies",
    "reads from copies, of a range that is loaded beyond what its primary can do",
)
.bar("copies answer >= 40 % of its gets, and more are answered than by the primary alone")
.by(copies)];

/// What copies answer at least, in parts.
const PART_MIN: f64 = 0.4;
/// Processors of all cells together.
const CORES: f64 = 1.4;
const CELLS: usize = 3;
const MEMORY_MIB: u64 = 64;
/// Keys that are read, all of one range, and bytes of a value.
const KEYS: usize = 64;
const VALUE: &str = "0123456789abcdef0123456789abcdef";
/// Of the keys that only the primary answers, and of those that copies answer.
const PREFIXES: [&str; 2] = ["primary:", "copies:"];
/// Connections to each cell, and requests that one sends together.
const CONNECTIONS: usize = 4;
const TOGETHER: usize = 16;
/// Rounds of both runs, and how long each run takes, in the quick and the full form.
const ROUNDS: [usize; 2] = [3, 9];
const RUN: Duration = Duration::from_secs(3);

/// What one run has seen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    /// Requests that were answered in a second.
    rate: f64,
    /// The part of them that copies have answered.
    by_copies: f64,
    /// The part of the time in which the primary had used up its share of the processors.
    used_up: f64,
}

fn copies(lab: &Lab) -> Result<Measured> {
    let quota = |cell: usize| Quota::new(&format!("cell-{cell}"), CORES / CELLS as f64);
    let quotas = match (1..=CELLS).map(quota).collect::<Result<Vec<_>>>() {
        Ok(quotas) => quotas,
        Err(error) => return Ok(Measured::not(format!("{error:#}"))),
    };
    let flags = format!("--ring-copy-reads-ms 250 --ring-copy-reads-prefixes {}", PREFIXES[1]);
    let given = Given { flags, ..Given::default() };
    let ring = Ring::start_with(lab, MEMORY_MIB, None, &given, accepts)?;
    for (quota, cell) in quotas.iter().zip(ring.cells()) {
        quota.add(cell.pid)?;
    }
    let keys = PREFIXES.iter().map(|prefix| store(&ring, prefix)).collect::<Result<Vec<_>>>()?;
    let mut runs = [Vec::new(), Vec::new()];
    for round in 0..lab.form(ROUNDS) {
        lab.detail(&format!("round {}", round + 1));
        for (of, keys) in runs.iter_mut().zip(&keys) {
            of.push(load(&ring, &quotas[0], keys)?);
        }
    }
    ring.stop()?;
    Ok(judge(&runs))
}

/// Stores keys with this prefix, all of one range. Returns them.
fn store(ring: &Ring, prefix: &str) -> Result<Vec<String>> {
    let map = ring.map(0)?;
    let is_of_first = |key: &String| map.place_of(key) == Some(0);
    let keys: Vec<_> =
        (0..).map(|nth| format!("{prefix}{nth}")).filter(is_of_first).take(KEYS).collect();
    let mut client = Client::connect(ring.cells()[0].address)?;
    for key in &keys {
        client.send(format!("set {key} 0 0 {}\r\n{VALUE}\r\n", VALUE.len()).as_bytes())?;
        client.expect(b"STORED\r\n")?;
    }
    Ok(keys)
}

/// Reads the keys through all cells for a while.
fn load(ring: &Ring, primary: &Quota, keys: &[String]) -> Result<Run> {
    let (before, periods) = (answered_by_copies(ring)?, primary.periods()?);
    let stops = AtomicBool::new(false);
    let answered = thread::scope(|scope| {
        let cells = ring.cells().iter().flat_map(|cell| [cell.address; CONNECTIONS]);
        let loads = cells.enumerate().map(|(nth, address)| {
            let (keys, stops) = (keys.iter().cycle().skip(nth * TOGETHER), &stops);
            let keys: Vec<&String> = keys.take(TOGETHER).collect();
            scope.spawn(move || read(address, &keys, stops))
        });
        let loads: Vec<_> = loads.collect();
        thread::sleep(RUN);
        stops.store(true, Ordering::Relaxed);
        let counts =
            loads.into_iter().map(|load| load.join().ok().context("a client has ended")?);
        counts.sum::<Result<u64>>()
    })?;
    let by_copies = answered_by_copies(ring)? - before;
    let [count, used_up] = primary.periods()?;
    let [count, used_up] = [count - periods[0], used_up - periods[1]];
    Ok(Run {
        rate: answered as f64 / RUN.as_secs_f64(),
        by_copies: by_copies as f64 / answered.max(1) as f64,
        used_up: used_up as f64 / count.max(1) as f64,
    })
}

/// Reads these keys again and again until it `stops`. Returns how many were answered.
fn read(address: SocketAddr, keys: &[&String], stops: &AtomicBool) -> Result<u64> {
    let mut client = Client::connect(address)?;
    let requests: String = keys.iter().map(|key| format!("get {key}\r\n")).collect();
    let answer = |key: &&String| format!("VALUE {key} 0 {}\r\n{VALUE}\r\nEND\r\n", VALUE.len());
    let expected: String = keys.iter().map(answer).collect();
    let mut count = 0;
    while !stops.load(Ordering::Relaxed) {
        client.send(requests.as_bytes())?;
        client.expect(expected.as_bytes())?;
        count += keys.len() as u64;
    }
    Ok(count)
}

/// Reads that all cells have answered as copies.
fn answered_by_copies(ring: &Ring) -> Result<u64> {
    let mut sum = 0;
    for cell in ring.cells() {
        let stats = Client::connect(cell.address)?.stats_of("stats ring")?;
        let Some(count) = stats.get("copy_reads").and_then(|count| count.parse::<u64>().ok())
        else {
            bail!("`stats ring` has no copy_reads");
        };
        sum += count;
    }
    Ok(sum)
}

fn judge(runs: &[Vec<Run>; 2]) -> Measured {
    let of =
        |runs: &[Run], part: fn(&Run) -> f64| median(&runs.iter().map(part).collect::<Vec<_>>());
    let [alone, with] = runs;
    let (Some(alone_rate), Some(rate), Some(by_copies)) =
        (of(alone, |it| it.rate), of(with, |it| it.rate), of(with, |it| it.by_copies))
    else {
        return Measured::not("nothing was read");
    };
    let holds = by_copies >= PART_MIN && rate > alone_rate;
    let text = format!(
        "copies answer {:.0} %; {:.0} requests a second, {alone_rate:.0} by the primary alone \
         ({:.2}x)",
        by_copies * 100.0,
        rate,
        rate / alone_rate,
    );
    let line = |name: &str, runs: &[Run]| {
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        let each = runs.iter().map(|it| {
            let (by_copies, used_up) = (percent(it.by_copies), percent(it.used_up));
            format!("{:.0}, {by_copies} by copies, primary out of its share {used_up}", it.rate)
        });
        format!("{name}: {}", each.collect::<Vec<_>>().join("; "))
    };
    let details = vec![line("the primary alone", alone), line("copies may answer", with)];
    Measured::new(text, by_copies, holds).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn copies_that_answer_little_or_add_nothing_fail() {
        let runs = |rate, by_copies| {
            [
                vec![Run { rate: 100.0, by_copies: 0.0, used_up: 1.0 }],
                vec![Run { rate, by_copies, used_up: 1.0 }],
            ]
        };
        assert_eq!(judge(&runs(150.0, 0.4)).verdict, Verdict::Pass);
        assert_eq!(judge(&runs(150.0, 0.39)).verdict, Verdict::Fail);
        assert_eq!(judge(&runs(99.0, 0.6)).verdict, Verdict::Fail);
        assert!(matches!(judge(&[Vec::new(), Vec::new()]).verdict, Verdict::NotMeasured(_)));
    }
}
