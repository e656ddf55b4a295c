//! Five cells with a file and a network namespace each, under every kind of fault.
//!
//! A million keys are stored. Then the faults of [`plan`] follow one another, each under an open
//! loop of requests whose every reply is checked, and each until all copies are in sync. After each
//! one the keys that were changed are read, and some others; at the end, all.
//!
//! One run serves all claims. What is counted of a fault is what [`faults`](super::faults) counts.

mod copying;
mod harm;
mod one;
mod plan;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::counting::times;
use super::faults::Faults;
use super::kept::{self, DOUBT_PERCENT_MAX, sum};
use crate::claim::{Claim, Measured};
use crate::instruments::{Ended, Joined, Keys, until};
use crate::lab::Lab;
use copying::{Copying, copying};
use measure::clock::mono_ns;
use measure::rng::Rng;
use measure::stats::{median, range};
use one::{One, addresses, one};
use plan::kinds;

/// Cells that found the ring.
const CELLS: usize = 5;
/// Cells that may join later.
const FREE: usize = 1;
/// Memory of each cell, in MiB: one copy of everything fits into one cell.
const MEMORY_MIB: u64 = 768;
/// Keys.
const KEYS: usize = 1_000_000;
/// Kills on the idle ring.
const COPYINGS: [usize; 2] = [3, 20];
/// The least that is copied in a second, in millions of bytes.
const MB_PER_S_MIN: f64 = 150.0;
/// The least number of faults that kill, in the quick and the full form.
const KILLS_MIN: [usize; 2] = [20, 300];
/// Longest a voter with a full disk may stay one of the voters, in milliseconds.
const REPLACED_MS_MAX: f64 = 10_000.0;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("five.values", "five cells, every kind of fault: writes lost, wrong values")
        .bar("none, no delete undone, >= 20 kills (300)")
        .by(|lab| five(lab).map(|all| values(&all, lab.form(KILLS_MIN)))),
    Claim::new("five.evictions", "items evicted in the same run")
        .bar("none")
        .by(|lab| five(lab).map(|all| kept::evictions(&all.faults()))),
    Claim::new("five.doubt", "requests of the load in doubt")
        .bar("<= 0.1 %")
        .by(|lab| five(lab).map(|all| doubt(&all))),
    Claim::new("five.success", "requests answered well outside failover")
        .bar(">= 99.9 %, each sent when due")
        .by(|lab| five(lab).map(|all| success(&all))),
    Claim::new("five.disk", "the disk of a voter full: it says so, serves, and is replaced")
        .bar("replaced within 10 s, no request fails")
        .by(|lab| five(lab).map(|all| disk(&all))),
    Claim::new("five.catchup", "a killed cell's ranges copied again, on an idle ring")
        .bar(">= 150 MB/s in the middle")
        .by(|lab| five(lab).map(|all| catch_up(&all))),
    Claim::new("five.pair", "a primary and its copy killed together: its loss reported")
        .bar("that range, and no other key")
        .by(|lab| five(lab).map(|all| pair(&all))),
];

/// What a run has found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Five {
    copyings: Vec<Copying>,
    faults: Vec<One>,
    /// Faults that fitted no cell: as where each cell shares a range with the leader.
    left_out: Vec<String>,
    /// How the reads of all keys at the end have ended.
    last: BTreeMap<Ended, u64>,
    /// Why it has ended before its end, if it has.
    broken: Option<String>,
}

impl Five {
    fn faults(&self) -> Faults {
        let faults = self.faults.iter().map(|one| one.fault.clone()).collect();
        Faults { faults, ..Faults::default() }
    }

    fn of(&self, name: &str) -> Option<&One> {
        self.faults.iter().find(|one| one.name == name)
    }
}

/// The run, carried out once.
fn five(lab: &Lab) -> Result<Five> {
    let made = lab.shared("five", || Ok(serde_json::to_value(carry_out(lab)?)?))?;
    serde_json::from_value(made.as_ref().clone()).context("invariant: it was just written")
}

fn carry_out(lab: &Lab) -> Result<Five> {
    lab.detail("start");
    let mut ring = Joined::start(lab, CELLS, FREE, MEMORY_MIB)?;
    until("not every cell votes", || Ok((ring.map(0)?.voters.len() == CELLS).then_some(())))?;
    lab.detail("store");
    let map = ring.map(0)?;
    let mut keys = Keys::store(KEYS, &addresses(&ring), &map)?;
    let (mut five, mut rng) = (Five::default(), Rng::new(mono_ns(), 0));
    // What breaks is a finding of the ring, beside all that was found until then.
    if let Err(error) = play(lab, &mut five, &mut ring, &mut keys, &mut rng) {
        five.broken = Some(format!("{error:#}"));
        return Ok(five);
    }
    ring.stop()?;
    Ok(five)
}

fn play(
    lab: &Lab,
    five: &mut Five,
    ring: &mut Joined,
    keys: &mut Keys,
    rng: &mut Rng,
) -> Result<()> {
    for nth in 0..lab.form(COPYINGS) {
        lab.detail(&format!("kill {} of an idle ring", nth + 1));
        five.copyings.push(copying(ring, keys, rng)?);
    }
    for (nth, kind) in kinds(lab.is_long()).into_iter().enumerate() {
        let name = format!("fault {}, {}", nth + 1, kind.name());
        lab.detail(&name);
        match one(ring, keys, kind, rng).with_context(|| name.clone())? {
            Some(one) => five.faults.push(one),
            None => five.left_out.push(name),
        }
    }
    lab.detail("read all keys");
    five.last = keys.check_all(&addresses(ring))?.counts;
    Ok(())
}

fn values(all: &Five, kills_min: usize) -> Measured {
    let faults = all.faults();
    let found = |ended: Ended| {
        let of = |counts: &BTreeMap<Ended, u64>| counts.get(&ended).copied().unwrap_or(0);
        sum(&faults, |fault| of(&fault.load) + of(&fault.checks)) + of(&all.last)
    };
    let [lost, wrong, resurrected] = [Ended::Lost, Ended::Wrong, Ended::Resurrected].map(found);
    let requests = sum(&faults, |fault| fault.load.values().sum());
    let reads = sum(&faults, |fault| fault.checks.values().sum());
    let last: u64 = all.last.values().sum();
    let unread = |counts: &BTreeMap<Ended, u64>| -> u64 {
        let is_unread = |ended: &Ended| *ended != Ended::Well && !ended.is_false();
        counts.iter().filter(|(ended, _)| is_unread(ended)).map(|(_, count)| count).sum()
    };
    let unread = sum(&faults, |fault| unread(&fault.checks)) + unread(&all.last);
    let kills = all.faults.iter().filter(|one| one.kills).count();
    let text = format!(
        "{} faults, {kills} of them with kills: {lost} lost, {wrong} wrong, {resurrected} deletes \
         undone; {requests} requests, {reads} reads after them, {last} at the end",
        all.faults.len()
    );
    let other = all.faults.iter().any(|one| one.lost[1] != one.lost[0]);
    let mut details = vec![
        format!("{unread} of the reads after faults and at the end were not answered well"),
        alone(all),
    ];
    let tries: usize = all.faults.iter().map(|one| one.tries.saturating_sub(1)).sum();
    details.push(format!("times that the map had changed by itself before a fault began: {tries}"));
    details.extend(all.broken.iter().map(|why| format!("it ended before its end: {why}")));
    details.extend(all.left_out.iter().map(|name| format!("no cell fitted: {name}")));
    details.extend(all.faults.iter().enumerate().map(line));
    let false_sum = lost + wrong + resurrected;
    let holds = false_sum + unread == 0 && !other && all.broken.is_none() && last > 0;
    if kills < kills_min && all.broken.is_none() {
        let reason = format!("{kills} kills, {kills_min} are wanted");
        return Measured::not(reason).with_details(details);
    }
    Measured::new(text, false_sum as f64, holds).with_details(details)
}

/// How many changes were acknowledged by one copy alone.
fn alone(all: &Five) -> String {
    let [changes, alone] =
        [0, 1].map(|nth| all.faults.iter().map(|one| one.changes[nth]).sum::<usize>());
    let percent = alone as f64 * 100.0 / changes.max(1) as f64;
    format!(
        "{percent:.1} % of the changes of the load, {alone} of {changes}, were acknowledged while \
         `stats ring` of a cell said, each 20 ms, that their range had one copy"
    )
}

/// A line for one fault.
fn line((nth, one): (usize, &One)) -> String {
    let first = |[read, change]: [Option<f64>; 2]| {
        let text = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.0}"));
        format!("{} / {} ms", text(read), text(change))
    };
    let count = |ended: Ended| one.fault.load.get(&ended).copied().unwrap_or(0);
    let [must, reported, keys] = one.lost;
    let mut lost = match must + reported {
        0 => String::new(),
        _ => format!("; {must} ranges lost, {reported} reported, {keys} keys absent"),
    };
    let counts = [&one.fault.load, &one.fault.checks];
    let is_false = counts.iter().flat_map(|it| it.iter()).filter(|(ended, _)| ended.is_false());
    let is_false: u64 = is_false.map(|(_, count)| count).sum();
    if is_false > 0 || !one.evicted.is_empty() {
        lost.push_str(&format!("; {is_false} false; evicted, by place: {:?}", one.evicted));
    }
    format!(
        "fault {}: {}, place {:?}: first read / change of what was led {}, of what was copied {}; \
         all copies after {:.0} ms; {} of {} changes by one copy alone; longest {:.0} ms, {} in \
         doubt, {} refused, {} closed, {} not sent{lost}",
        nth + 1,
        one.name,
        one.cells,
        first(one.fault.led),
        first(one.fault.copied),
        one.fault.whole_ms,
        one.changes[1],
        one.changes[0],
        one.fault.longest_ms,
        count(Ended::InDoubt),
        count(Ended::Refused),
        count(Ended::Closed),
        one.unsent
    )
}

fn doubt(all: &Five) -> Measured {
    let faults = all.faults();
    let of = |fault: &super::faults::Fault| -> u64 {
        [Ended::InDoubt, Ended::Closed].iter().filter_map(|it| fault.load.get(it)).sum()
    };
    let (doubtful, requests) = (sum(&faults, of), sum(&faults, |fault| fault.load.values().sum()));
    let percent = doubtful as f64 * 100.0 / requests.max(1) as f64;
    let text = format!("{percent:.3} %: {doubtful} of {requests}");
    let details = vec!["a connection that was closed without an answer counts too".to_owned()];
    let holds = requests > 0 && percent <= DOUBT_PERCENT_MAX;
    Measured::new(text, percent, holds).with_details(details)
}

fn success(all: &Five) -> Measured {
    let unsent: u64 = all.faults.iter().map(|one| one.unsent).sum();
    let mut measured = kept::success(&all.faults());
    if unsent > 0 {
        measured = Measured::new(format!("{}; {unsent} not sent", measured.text), 0.0, false)
            .with_details(measured.details);
    }
    let whole: Vec<f64> = all.faults.iter().map(|one| one.fault.whole_ms).collect();
    measured.details.push(format!("from a fault until all copies are in sync: {}", times(&whole)));
    measured
}

fn disk(all: &Five) -> Measured {
    let of = |kind: plan::Kind| all.of(&kind.name());
    let Some((full, freed)) = of(plan::Kind::DiskFull).zip(of(plan::Kind::DiskFreed)) else {
        return Measured::not("the run has ended before it");
    };
    let failed = full.fault.outside[1];
    let said = if full.is_said { "said" } else { "NOT said" };
    let replaced = match full.replaced_ms {
        Some(ms) => format!("replaced after {ms:.0} ms"),
        None => "NOT replaced".to_owned(),
    };
    let refused = if freed.is_refused { "refused" } else { "NOT refused" };
    let text = format!(
        "{said}; {replaced}; {failed} of {} requests failed; a start on the full disk {refused}",
        full.fault.outside[0]
    );
    let in_time = full.replaced_ms.is_some_and(|ms| ms <= REPLACED_MS_MAX);
    let holds = full.is_said && in_time && failed == 0 && freed.is_refused;
    let details = vec![
        "the disk of one of five voters is a small one in memory, and is filled; then a sixth cell \
         joins, and starts again until the voter has had to write. Requests go through all five"
            .to_owned(),
        format!("said: its log has `{}`", harm::VOTES_NO_MORE),
        "with space again, it starts and joins: else the run would have ended there".to_owned(),
    ];
    Measured::new(text, full.replaced_ms.unwrap_or(0.0), holds).with_details(details)
}

fn catch_up(all: &Five) -> Measured {
    let rates: Vec<f64> = all.copyings.iter().map(Copying::mb_per_s).collect();
    let Some((middle, (slowest, fastest))) = median(&rates).zip(range(&rates)) else {
        return Measured::not("the run has ended before it");
    };
    let text = format!("{middle:.0} MB/s ({slowest:.0} to {fastest:.0}), {} kills", rates.len());
    let each = all.copyings.iter().map(|one| {
        format!(
            "{} ranges, {:.1} MB of keys and values: learned from {:.0} ms after the kill on, \
             copied {:.0} ms later; {:.0} ms of processor time of all cells",
            one.ranges,
            one.bytes as f64 / 1e6,
            one.noticed_ms,
            one.copied_ms,
            one.cpu_ms
        )
    });
    Measured::new(text, middle, middle >= MB_PER_S_MIN).with_details(each.collect())
}

fn pair(all: &Five) -> Measured {
    let name = plan::Kind::Pair.name();
    let pairs: Vec<&One> = all.faults.iter().filter(|one| one.name == name).collect();
    if pairs.is_empty() {
        return Measured::not("the run has ended before it");
    }
    let is_false = |counts: &BTreeMap<Ended, u64>| -> u64 {
        counts.iter().filter(|(ended, _)| ended.is_false()).map(|(_, count)| count).sum()
    };
    let of = |one: &&One| is_false(&one.fault.load) + is_false(&one.fault.checks);
    let others = pairs.iter().map(of).sum::<u64>() + is_false(&all.last);
    let sum = |nth: usize| pairs.iter().map(|it| it.lost[nth]).sum::<u64>();
    let [must, reported, keys] = [0, 1, 2].map(sum);
    let text = format!(
        "{} pairs, {must} ranges lost, {reported} reported by all cells; {keys} keys absent, \
         {others} others lost or wrong",
        pairs.len()
    );
    let is_said = |one: &&One| one.lost[0] > 0 && one.lost[0] == one.lost[1] && one.lost[2] > 0;
    let holds = pairs.iter().all(is_said) && others == 0 && all.broken.is_none();
    Measured::new(text, others as f64, holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;
    use crate::claims::ring::faults::Fault;

    /// A run of some kills, with the counts of one of them.
    fn run(kills: usize, load: &[(Ended, u64)]) -> Five {
        let fault =
            Fault { load: load.iter().copied().collect(), outside: [2_000, 2], ..Fault::default() };
        let one = |nth| One {
            kills: true,
            fault: if nth == 0 { fault.clone() } else { Fault::default() },
            ..One::default()
        };
        let last = [(Ended::Well, 9)].into();
        Five { faults: (0..kills).map(one).collect(), last, ..Five::default() }
    }

    #[test]
    fn one_false_answer_fails_and_too_few_kills_prove_nothing() {
        let well = run(3, &[(Ended::Well, 9)]);
        assert_eq!(values(&well, 3).verdict, Verdict::Pass);
        assert!(matches!(values(&well, 4).verdict, Verdict::NotMeasured(_)));
        let lost = run(3, &[(Ended::Lost, 1)]);
        assert_eq!(values(&lost, 3).verdict, Verdict::Fail);
        let mut late = well.clone();
        late.last.insert(Ended::Resurrected, 1);
        assert_eq!(values(&late, 3).verdict, Verdict::Fail);
        let mut broken = well.clone();
        broken.broken = Some("not whole".to_owned());
        assert_eq!(values(&broken, 4).verdict, Verdict::Fail);
        let mut unreported = well;
        unreported.faults[0].lost = [0, 1, 0];
        assert_eq!(values(&unreported, 3).verdict, Verdict::Fail);
    }

    #[test]
    fn a_request_that_is_not_sent_is_no_success() {
        let mut all = run(1, &[(Ended::Well, 1_999), (Ended::InDoubt, 1)]);
        assert_eq!(success(&all).verdict, Verdict::Pass);
        assert_eq!(doubt(&all).verdict, Verdict::Pass);
        all.faults[0].unsent = 1;
        assert_eq!(success(&all).verdict, Verdict::Fail);
    }

    #[test]
    fn a_voter_that_is_not_replaced_fails() {
        let one = |kind: plan::Kind| One { name: kind.name(), is_said: true, ..One::default() };
        let (full, freed) = (one(plan::Kind::DiskFull), one(plan::Kind::DiskFreed));
        let full = One { replaced_ms: Some(900.0), ..full };
        let freed = One { is_refused: true, ..freed };
        let verdict = |full: &One, freed: &One| {
            disk(&Five { faults: vec![full.clone(), freed.clone()], ..Five::default() }).verdict
        };
        assert_eq!(verdict(&full, &freed), Verdict::Pass);
        let not = One { replaced_ms: None, ..full.clone() };
        assert_eq!(verdict(&not, &freed), Verdict::Fail);
        assert_eq!(verdict(&full, &One { is_refused: false, ..freed }), Verdict::Fail);
    }

    #[test]
    fn the_loss_of_a_pair_is_that_of_its_range() {
        let verdict = |lost, load: &[(Ended, u64)]| {
            let mut all = run(1, load);
            all.faults[0] = One { name: plan::Kind::Pair.name(), lost, ..all.faults[0].clone() };
            pair(&all).verdict
        };
        assert_eq!(verdict([1, 1, 70], &[(Ended::Well, 1)]), Verdict::Pass);
        assert_eq!(verdict([1, 0, 70], &[(Ended::Well, 1)]), Verdict::Fail);
        assert_eq!(verdict([1, 1, 70], &[(Ended::Lost, 1)]), Verdict::Fail);
        assert_eq!(verdict([0, 0, 0], &[(Ended::Well, 1)]), Verdict::Fail, "nothing was hit");
    }
}
