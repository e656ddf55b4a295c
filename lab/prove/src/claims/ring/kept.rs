//! What a ring keeps through kills and pauses: acknowledged writes, and its answers.
//!
//! One run of kills and one of pauses serve these claims and those of `failover`. Requests in doubt
//! are counted of the load alone: its clients wait for each answer, the probes of `failover` do
//! not.

use std::time::Duration;

use anyhow::{Context, Result};

use super::counting::times;
use super::faults::{self, Fault, Faults};
use super::victims::Plan;
use crate::claim::{Claim, Measured};
use crate::instruments::Ended;
use crate::lab::Lab;

/// The most of a hundred requests that may be in doubt.
pub(super) const DOUBT_PERCENT_MAX: f64 = 0.1;
/// The least of a hundred that must be answered well outside failover.
const SUCCESS_PERCENT_MIN: f64 = 99.9;

/// The kills, in the quick and the full form.
const KILLS: [Plan; 2] = [
    Plan {
        primaries: 20,
        leaders: 10,
        copies: 10,
        pauses: 0,
        paused_s: [0.0; 2],
        faults_max: 60,
        time_max: Duration::from_secs(480),
    },
    Plan {
        primaries: 300,
        leaders: 300,
        copies: 0,
        pauses: 0,
        paused_s: [0.0; 2],
        faults_max: 1500,
        time_max: Duration::from_secs(4 * 3600),
    },
];
/// In the full form, a run of its own: cells that only copy.
const COPIES: Plan = Plan { primaries: 0, leaders: 0, copies: 300, ..KILLS[1] };
/// The pauses.
const PAUSES: [Plan; 2] = [
    Plan {
        primaries: 0,
        leaders: 0,
        copies: 0,
        pauses: 10,
        paused_s: [0.4, 10.0],
        faults_max: 40,
        time_max: Duration::from_secs(300),
    },
    Plan {
        primaries: 0,
        leaders: 0,
        copies: 0,
        pauses: 300,
        paused_s: [0.1, 60.0],
        faults_max: 900,
        time_max: Duration::from_secs(4 * 3600),
    },
];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("kill.values", "cells killed under load: acknowledged writes lost, wrong values")
        .bar("none, no delete undone, >= 20 kills (300)")
        .by(|lab| kills(lab).and_then(|all| values(&all, lab.form([20, 300])))),
    Claim::new("kill.evictions", "items evicted in the same run")
        .bar("none")
        .by(|lab| kills(lab).map(|all| evictions(&all))),
    Claim::new("kill.doubt", "requests of the load in doubt")
        .bar("<= 0.1 %")
        .by(|lab| kills(lab).map(|all| doubt(&all))),
    Claim::new("kill.success", "requests answered well outside failover")
        .bar(">= 99.9 %")
        .by(|lab| kills(lab).map(|all| success(&all))),
    Claim::new(
        "pause.values",
        "cells stopped for 0.4 to 10 s (0.1 to 60) under load: the same, stale reads",
    )
    .bar("none, >= 20 pauses (600)")
    .by(|lab| pauses(lab).and_then(|all| values(&all, lab.form([20, 600])))),
    Claim::new("pause.evictions", "items evicted in the same run")
        .bar("none")
        .by(|lab| pauses(lab).map(|all| evictions(&all))),
    Claim::new("pause.doubt", "requests of the load in doubt")
        .bar("<= 0.1 %")
        .by(|lab| pauses(lab).map(|all| doubt(&all))),
    Claim::new("pause.success", "requests answered well outside failover")
        .bar(">= 99.9 %")
        .by(|lab| pauses(lab).map(|all| success(&all))),
];

/// The run of kills, carried out once.
pub(super) fn kills(lab: &Lab) -> Result<Faults> {
    shared(lab, "kills", lab.form(KILLS))
}

/// The run in which cells are killed that only copy: in the quick form that of all kills.
pub(super) fn kills_of_copies(lab: &Lab) -> Result<Faults> {
    if lab.is_long() { shared(lab, "kills of copies", COPIES) } else { kills(lab) }
}

/// The run of pauses, carried out once.
pub(super) fn pauses(lab: &Lab) -> Result<Faults> {
    shared(lab, "pauses", lab.form(PAUSES))
}

fn shared(lab: &Lab, name: &'static str, plan: Plan) -> Result<Faults> {
    let made = lab.shared(name, || Ok(serde_json::to_value(faults::carry_out(lab, plan)?)?))?;
    serde_json::from_value(made.as_ref().clone()).context("invariant: it was just written")
}

/// How many requests of a kind have ended so, in all faults.
pub(super) fn sum(all: &Faults, of: impl Fn(&Fault) -> u64) -> u64 {
    all.faults.iter().map(of).sum()
}

fn values(all: &Faults, faults_min: usize) -> Result<Measured> {
    let found = |ended: Ended| {
        sum(all, |fault| {
            let kinds = [&fault.load, &fault.probes, &fault.checks];
            kinds.iter().filter_map(|counts| counts.get(&ended)).sum()
        })
    };
    let [lost, resurrected, wrong] = [Ended::Lost, Ended::Resurrected, Ended::Wrong].map(found);
    let false_sum = lost + resurrected + wrong + all.stored_wrong as u64;
    let requests = sum(all, |fault| fault.load.values().chain(fault.probes.values()).sum());
    let checks = sum(all, |fault| fault.checks.values().sum());
    let unread = sum(all, |fault| {
        let is_unread = |ended: &Ended| *ended != Ended::Well && !ended.is_false();
        fault.checks.iter().filter(|(ended, _)| is_unread(ended)).map(|(_, count)| count).sum()
    });
    let count = all.faults.len();
    let whole_ms: Vec<f64> = all.faults.iter().map(|fault| fault.whole_ms).collect();
    let text = format!(
        "{count} faults: {lost} lost, {wrong} wrong, {resurrected} deletes undone; {requests} \
         requests, {checks} reads afterwards"
    );
    let mut details = vec![
        format!("{} of the keys that were stored once are absent or wrong", all.stored_wrong),
        format!("{unread} of the reads afterwards were not answered with a value"),
        format!("ranges that lost their last copy: {}", all.losses),
        format!("all copies again after the fault: {}", times(&whole_ms)),
    ];
    details.extend(all.faults.iter().enumerate().map(line));
    let holds = false_sum == 0 && unread == 0 && all.losses == 0;
    if count < faults_min && holds {
        let reason = format!("{count} faults in the time, {faults_min} are wanted");
        return Ok(Measured::not(reason).with_details(details));
    }
    Ok(Measured::new(text, false_sum as f64, holds).with_details(details))
}

/// A line for one fault.
fn line((nth, fault): (usize, &Fault)) -> String {
    let what = match fault.paused_ms {
        Some(paused_ms) => format!("paused {:.1} s", paused_ms / 1e3),
        None if fault.is_away => "killed, away for 1 s".to_owned(),
        None => "killed, started again at once".to_owned(),
    };
    let leads = match fault.leads_agreement {
        Some(true) => ", led the agreement",
        Some(false) => "",
        None => ", the leader of the agreement is not known",
    };
    let first = |[read, write]: [Option<f64>; 2]| {
        let text = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.0}"));
        format!("{} / {} ms", text(read), text(write))
    };
    let count = |ended: Ended| fault.load.get(&ended).copied().unwrap_or(0);
    let stale = fault.stale_error.as_ref();
    let stale = stale.map_or(String::new(), |error| format!("; when it ran again: {error}"));
    format!(
        "fault {}: {what}{leads}; first read / write of what it led {}, of what it copied {}; all \
         copies after {:.0} ms; load: longest {:.0} ms, {} in doubt, {} refused, {} closed{stale}",
        nth + 1,
        first(fault.led),
        first(fault.copied),
        fault.whole_ms,
        fault.longest_ms,
        count(Ended::InDoubt),
        count(Ended::Refused),
        count(Ended::Closed)
    )
}

/// No item may be evicted.
pub(super) fn evictions(all: &Faults) -> Measured {
    let evicted = sum(all, |fault| fault.evictions);
    Measured::new(format!("{evicted}"), evicted as f64, evicted == 0)
}

fn doubt(all: &Faults) -> Measured {
    let doubtful = |counts: &std::collections::BTreeMap<Ended, u64>| -> u64 {
        [Ended::InDoubt, Ended::Closed].iter().filter_map(|ended| counts.get(ended)).sum()
    };
    let (of_load, of_probes) =
        (sum(all, |fault| doubtful(&fault.load)), sum(all, |fault| doubtful(&fault.probes)));
    let requests = sum(all, |fault| fault.load.values().sum());
    let percent = of_load as f64 * 100.0 / requests.max(1) as f64;
    let probes = sum(all, |fault| fault.probes.values().sum());
    let details = vec![
        "a connection that was closed without an answer counts as in doubt".to_owned(),
        format!(
            "each of the clients has one request under way: {:.1} in doubt for each fault",
            of_load as f64 / all.faults.len().max(1) as f64
        ),
        format!("of the probes, which do not wait for answers: {of_probes} of {probes}"),
    ];
    let text = format!("{percent:.3} %: {of_load} of {requests}, {} faults", all.faults.len());
    let holds = requests > 0 && percent <= DOUBT_PERCENT_MAX;
    Measured::new(text, percent, holds).with_details(details)
}

/// Requests outside failover must be answered well.
pub(super) fn success(all: &Faults) -> Measured {
    let [requests, failed] = [0, 1].map(|nth| sum(all, |fault| fault.outside[nth]));
    let percent = (requests - failed) as f64 * 100.0 / requests.max(1) as f64;
    let text = format!("{percent:.3} %: {failed} of {requests} failed");
    let details = vec![
        "failover lasts from the fault to the first success of reads and of writes, of what the \
         cell led and of what it copied; what overlaps it does not count"
            .to_owned(),
    ];
    let holds = requests > 0 && percent >= SUCCESS_PERCENT_MIN;
    Measured::new(text, percent, holds).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    fn run(load: &[(Ended, u64)], checks: &[(Ended, u64)]) -> Faults {
        let [load, checks] = [load, checks].map(|counts| counts.iter().copied().collect());
        let fault = Fault { load, checks, outside: [2_000, 2], ..Fault::default() };
        Faults { faults: vec![fault], ..Faults::default() }
    }

    #[test]
    fn one_false_answer_fails_and_too_few_faults_prove_nothing() {
        let well = run(&[(Ended::Well, 9)], &[(Ended::Well, 9)]);
        assert_eq!(values(&well, 1).unwrap().verdict, Verdict::Pass);
        assert!(matches!(values(&well, 2).unwrap().verdict, Verdict::NotMeasured(_)));
        for ended in [Ended::Lost, Ended::Resurrected, Ended::Wrong] {
            let load = run(&[(ended, 1)], &[(Ended::Well, 9)]);
            let checks = run(&[(Ended::Well, 9)], &[(ended, 1)]);
            assert_eq!(values(&load, 2).unwrap().verdict, Verdict::Fail, "{ended:?}");
            assert_eq!(values(&checks, 1).unwrap().verdict, Verdict::Fail, "{ended:?}");
        }
        let refused = run(&[(Ended::Well, 9)], &[(Ended::Refused, 1)]);
        assert_eq!(values(&refused, 1).unwrap().verdict, Verdict::Fail);
        let mut stale = refused;
        stale.faults[0].stale_error = Some("SERVER_ERROR range 3".to_owned());
        let of_stale = values(&stale, 1).unwrap().details;
        assert!(of_stale.iter().any(|line| line.ends_with(": SERVER_ERROR range 3")));
        let evicted = Faults {
            faults: vec![Fault { evictions: 1, ..Fault::default() }],
            ..Faults::default()
        };
        assert_eq!(evictions(&evicted).verdict, Verdict::Fail);
    }

    #[test]
    fn shares_are_held_against_their_bars() {
        let at = |doubtful| run(&[(Ended::Well, 1_999), (Ended::InDoubt, doubtful)], &[]);
        assert_eq!(doubt(&at(1)).verdict, Verdict::Pass);
        assert_eq!(doubt(&at(3)).verdict, Verdict::Fail);
        assert_eq!(doubt(&run(&[], &[])).verdict, Verdict::Fail, "nothing was requested");
        assert_eq!(success(&at(1)).verdict, Verdict::Pass);
        let mut worse = at(1);
        worse.faults[0].outside = [2_000, 3];
        assert_eq!(success(&worse).verdict, Verdict::Fail);
    }

    #[test]
    fn a_run_survives_being_written_and_read() {
        let all = run(&[(Ended::InDoubt, 3)], &[]);
        let text = serde_json::to_string(&all).unwrap();
        let back: Faults = serde_json::from_str(&text).unwrap();
        assert_eq!(back.faults[0].load[&Ended::InDoubt], 3);
    }
}
