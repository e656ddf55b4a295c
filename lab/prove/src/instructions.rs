//! User instructions and system calls per request: counts that do not depend on the machine's
//! mood, so they are the gate of every change.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result};

use crate::{
    bench::{self, Lab},
    claim::{Claim, Measured, Peer, Verdict},
    fleet::{Shape, Verb},
    server::{Launch, Program},
    slope::{self, Work},
};
use measure::repo::Repo;

/// Connections that instructions are counted on.
const CONNECTIONS: usize = 50;
/// Times that instructions are counted at most. A machine that is busy with something else wakes
/// the server for fewer connections at once, which only adds to what a request costs; so a count
/// that is too high is taken again, and the least one is the count.
const COUNTINGS_MAX: u32 = 3;
/// Batches on which system calls are counted; on one connection each is one readable event.
const BATCHES: (u64, u64) = (200, 1200);
/// Calls a batch may make of one kind: one, and room for what housekeeping adds.
const CALLS_MAX: f64 = 1.02;
const RECEIVES: [&str; 4] = ["read", "readv", "recvfrom", "recvmsg"];
const SENDS: [&str; 4] = ["write", "writev", "sendto", "sendmsg"];

/// What is counted, and the bar it is held against.
struct Count {
    id: &'static str,
    verb: Verb,
    depth: usize,
    bar: f64,
}

const GET_1: Count = Count { id: "instr.get.1", verb: Verb::Get(1), depth: 1, bar: 600.0 };
const GET_16: Count = Count { id: "instr.get.16", depth: 16, bar: 400.0, ..GET_1 };
const SET_1: Count = Count { id: "instr.set.1", verb: Verb::Set, depth: 1, bar: 900.0 };
const SET_16: Count = Count { id: "instr.set.16", depth: 16, bar: 700.0, ..SET_1 };

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    claim(GET_1.id, "user instructions per GET, depth 1", "<= 600", |lab| count(lab, &GET_1)),
    claim(GET_16.id, "user instructions per GET, depth 16", "<= 400", |lab| count(lab, &GET_16)),
    claim(SET_1.id, "user instructions per SET, depth 1", "<= 900", |lab| count(lab, &SET_1)),
    claim(SET_16.id, "user instructions per SET, depth 16", "<= 700", |lab| count(lab, &SET_16)),
    claim("instr.calls", "one recv and at most one send per readable event", "<= 1 each", |lab| {
        calls(&lab.launch_volvox()?, &lab.folder())
    }),
];

const fn claim(
    id: &'static str,
    claim: &'static str,
    bar: &'static str,
    measure: fn(&Lab) -> Result<Measured>,
) -> Claim {
    Claim { id, claim, bar, peer: Peer::Nobody, measure }
}

/// Our server's counts alone, for the gate; `is_high` tells which one is to be taken again.
pub fn counts(
    repo: &Repo,
    is_high: impl Fn(&str, f64) -> bool,
) -> Result<Vec<(&'static str, f64)>> {
    let launch = Launch::new(Program::Volvox(repo.volvox()));
    let one = |count: &Count| -> Result<(&'static str, f64)> {
        eprintln!("counting {}", count.id);
        let folder = repo.path(bench::FOLDER);
        Ok((count.id, least(&launch, count, &folder, |sum| is_high(count.id, sum))?))
    };
    [GET_1, GET_16, SET_1, SET_16].iter().map(one).collect()
}

/// The least of the counts that are taken, the last of which is not too high.
fn least(
    launch: &Launch,
    &Count { verb, depth, .. }: &Count,
    folder: &Path,
    is_high: impl Fn(f64) -> bool,
) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..COUNTINGS_MAX {
        least = least.min(slope::instructions(launch, work(verb, depth), folder)?);
        if !is_high(least) {
            break;
        }
    }
    Ok(least)
}

/// Whether our server's system calls hold their bar; prints them.
pub fn calls_hold(repo: &Repo) -> Result<bool> {
    let launch = Launch::new(Program::Volvox(repo.volvox()));
    let measured = calls(&launch, &repo.path(bench::FOLDER))?;
    println!("system calls per readable event: {}", measured.text);
    measured.details.iter().for_each(|line| println!("  {line}"));
    Ok(measured.verdict == Verdict::Pass)
}

/// The work whose slope is taken: as many requests at every depth.
fn work(verb: Verb, depth: usize) -> Work {
    let rounds = |total: u64| total / depth as u64;
    Work {
        shape: Shape { verb, depth },
        connections: CONNECTIONS,
        rounds: (rounds(64), rounds(256)),
    }
}

fn count(lab: &Lab, what: &Count) -> Result<Measured> {
    let &Count { verb, depth, bar, .. } = what;
    let folder = lab.folder();
    let count = |launch: &Launch| slope::instructions(launch, work(verb, depth), &folder);
    lab.detail("volvox");
    let ours = least(&lab.launch_volvox()?, what, &folder, |sum| sum > bar)?;
    lab.detail("memcached");
    let theirs = count(&lab.launch_memcached());
    lab.detail("null");
    let batch = Shape { verb, depth: 1 }.batch(0);
    let floor =
        lab.launch_null(batch.request.len(), batch.reply.len()).and_then(|launch| count(&launch));
    let text = |count: &Result<f64>| {
        count
            .as_ref()
            .map_or_else(|error| format!("not measured: {error}"), |count| format!("{count:.0}"))
    };
    let details = vec![
        format!("memcached {}: {}", lab.memcached_version(), text(&theirs)),
        format!("null server: {}", text(&floor)),
    ];
    let short = format!("{ours:.0}");
    Ok(Measured::new(short, ours, ours <= bar).with_details(details))
}

fn calls(launch: &Launch, folder: &Path) -> Result<Measured> {
    let mut worst: f64 = 0.0;
    let mut details = Vec::new();
    let batches = [
        (Verb::Get(1), 1),
        (Verb::Get(1), 16),
        (Verb::Get(1), 100),
        (Verb::Set, 16),
        (Verb::Get(50), 1),
    ];
    for (verb, depth) in batches {
        let work = Work { shape: Shape { verb, depth }, connections: 1, rounds: BATCHES };
        let calls = slope::system_calls(launch, work, folder)?;
        let (received, sent) = (sum(&calls, &RECEIVES), sum(&calls, &SENDS));
        worst = worst.max(received).max(sent);
        let counts: Vec<String> = calls
            .iter()
            .filter(|(_, count)| **count >= 0.01)
            .map(|(name, count)| format!("{name} {count:.2}"))
            .collect();
        details.push(format!("{verb:?} depth {depth}: {}", counts.join(", ")));
    }
    details.first().context("no batch was counted")?;
    let text = format!("at most {worst:.2} of one kind");
    Ok(Measured::new(text, worst, worst <= CALLS_MAX).with_details(details))
}

fn sum(calls: &BTreeMap<String, f64>, names: &[&str]) -> f64 {
    names.iter().filter_map(|name| calls.get(*name)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_the_same_number_of_requests_at_every_depth() {
        for depth in [1, 16] {
            let work = work(Verb::Set, depth);
            assert_eq!(work.rounds.0 * depth as u64, 64);
            assert_eq!(work.rounds.1 * depth as u64, 256);
        }
    }

    #[test]
    fn calls_of_a_kind_are_added_up() {
        let calls = [("recvfrom".to_owned(), 1.0), ("read".to_owned(), 0.5)].into();
        assert_eq!(sum(&calls, &RECEIVES), 1.5);
        assert_eq!(sum(&calls, &SENDS), 0.0);
    }
}
