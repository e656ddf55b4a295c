//! User instructions and system calls per request: counts that hardly depend on what else the
//! machine does, so they are the gate of every change.
//!
//! Instructions are counted over 50 connections, system calls over one, where a batch is one
//! readable event. memcached and a null server are counted beside ours; a failure to count them
//! fails no claim.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::claim::{Claim, Measured, Verdict};
use crate::instruments::{Contestant, Shape, Taken, Verb, Work, system_calls, taken};
use crate::lab::Lab;

/// Connections that instructions are counted on.
const CONNECTIONS: usize = 50;
/// Times that instructions are counted at most. A machine that is busy with something else wakes
/// the server for fewer connections at once, which only adds to what a request costs. So a count
/// that is too high is repeated, and the least one stands.
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

impl Count {
    fn shape(&self) -> Shape {
        Shape { verb: self.verb, depth: self.depth }
    }
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
    Claim::new("instr.calls", "one recv and at most one send per readable event")
        .bar("<= 1 each")
        .by(calls),
];

const fn claim(
    id: &'static str,
    claim: &'static str,
    bar: &'static str,
    measure: fn(&Lab) -> Result<Measured>,
) -> Claim {
    Claim::new(id, claim)
        .bar(bar)
        .promised(
            "instructions per request: GET alone and 16 in flight; SET alone and 16 in flight",
        )
        .by(measure)
}

/// Our server's counts alone, for the gate; `is_high` says which one is repeated.
pub fn counts(lab: &Lab, is_high: impl Fn(&str, f64) -> bool) -> Result<Vec<(&'static str, f64)>> {
    let one = |count: &Count| -> Result<(&'static str, f64)> {
        eprintln!("counting {}", count.id);
        let contestant = Contestant::volvox(lab)?;
        let least = least(lab, &contestant, count.shape(), |sum| is_high(count.id, sum))?;
        Ok((count.id, least.instructions))
    };
    [GET_1, GET_16, SET_1, SET_16].iter().map(one).collect()
}

/// Counts until a count is not too high, at most [`COUNTINGS_MAX`] times; the least one.
fn least(
    lab: &Lab,
    contestant: &Contestant,
    shape: Shape,
    is_high: impl Fn(f64) -> bool,
) -> Result<Taken> {
    let mut least = taken(lab, contestant, work(shape))?;
    for _ in 1..COUNTINGS_MAX {
        if !is_high(least.instructions) {
            break;
        }
        let again = taken(lab, contestant, work(shape))?;
        if again.instructions < least.instructions {
            least = again;
        }
    }
    Ok(least)
}

/// What a request takes of our server `with` something, as a multiple of what it takes without.
pub(super) fn beside(
    lab: &Lab,
    shape: Shape,
    with: impl Fn(Contestant) -> Contestant,
    times_max: f64,
) -> Result<Measured> {
    let plain = Contestant::volvox(lab)?;
    lab.detail("without");
    let without = least(lab, &plain, shape, |_| false)?;
    lab.detail("with");
    let bar = without.instructions * times_max;
    let with = least(lab, &with(plain), shape, |sum| sum > bar)?;
    let factor = with.instructions / without.instructions;
    let [before, after] = [without, with].map(|taken| taken.instructions);
    let text = format!("{factor:.3}x: {after:.0} instructions, {before:.0} without");
    let more = with.allocations - without.allocations;
    let details = vec![format!("{:.3} allocations, {more:+.3} of them more", with.allocations)];
    Ok(Measured::new(text, factor, factor <= times_max && more <= 0.0).with_details(details))
}

/// Whether our server's system calls hold their bar; prints them.
pub fn calls_hold(lab: &Lab) -> Result<bool> {
    let measured = calls(lab)?;
    println!("system calls per readable event: {}", measured.text);
    measured.details.iter().for_each(|line| println!("  {line}"));
    Ok(measured.verdict == Verdict::Pass)
}

/// The work of the two runs: as many requests at every depth.
fn work(shape: Shape) -> Work {
    let rounds = |total: u64| total / shape.depth as u64;
    Work { shape, connections: CONNECTIONS, rounds: (rounds(64), rounds(256)) }
}

fn count(lab: &Lab, what: &Count) -> Result<Measured> {
    let &Count { verb, bar, .. } = what;
    lab.detail("volvox");
    let least = least(lab, &Contestant::volvox(lab)?, what.shape(), |sum| sum > bar)?;
    let ours = least.instructions;
    let batch = Shape { verb, depth: 1 }.batch(0);
    let reply = batch.reply.len();
    let others = [Contestant::memcached(lab), Contestant::null(lab, batch.request.len(), reply)];
    let line = |(name, contestant): (&str, Result<Contestant>)| {
        lab.detail(name);
        let count = contestant.and_then(|one| taken(lab, &one, work(what.shape())));
        match count {
            Ok(count) => format!("{name}: {:.0}", count.instructions),
            Err(error) => format!("{name}: not measured: {error}"),
        }
    };
    let details = ["memcached", "null server"].into_iter().zip(others).map(line).collect();
    Ok(Measured::new(format!("{ours:.0}"), ours, ours <= bar).with_details(details))
}

fn calls(lab: &Lab) -> Result<Measured> {
    let contestant = Contestant::volvox(lab)?;
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
        let calls = system_calls(lab, &contestant, work)?;
        let (received, sent) = (sum(&calls, &RECEIVES), sum(&calls, &SENDS));
        worst = worst.max(received).max(sent);
        let counts: Vec<String> = calls
            .iter()
            .filter(|(_, count)| **count >= 0.01)
            .map(|(name, count)| format!("{name} {count:.2}"))
            .collect();
        details.push(format!("{verb:?} depth {depth}: {}", counts.join(", ")));
    }
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
            let work = work(Shape { verb: Verb::Set, depth });
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
