//! How long the keys of a cell are not served after a fault: from it to the first success.
//!
//! The full form holds the bar against p99. In the quick form there are too few faults for that:
//! the longest may take 1.3 times the bar. Every other killed cell is started again at once by
//! `volvox up`, and its new start proves the end of the earlier one; the others stay away for a
//! second.

use anyhow::Result;

use super::counting::times;
use super::faults::{Fault, Faults, role_of};
use super::kept::{kills, kills_of_copies, pauses};
use super::victims::Role;
use crate::claim::{Claim, Measured};
use crate::lab::Lab;
use measure::stats::{median, quantile, range};

/// How many times the bar of p99 the longest may be, where that is held.
const LONGEST: f64 = 1.3;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("failover.kill.read", "primary killed, to the first read of its keys")
        .bar("p50 <= 100 ms, p99 <= 500 ms (quick: max <= 650 ms)")
        .by(|lab| kill(lab, 0, Bar { p50_ms: Some(100.0), p99_ms: 500.0 })),
    Claim::new("failover.kill.write", "the same, to the first write")
        .bar("p99 <= 800 ms (quick: max <= 1040 ms)")
        .by(|lab| kill(lab, 1, Bar { p50_ms: None, p99_ms: 800.0 })),
    Claim::new("failover.leader", "it led the agreement too, reads and writes")
        .bar("p99 <= 1500 ms (quick: max <= 1950 ms)")
        .by(leader),
    Claim::new("failover.copy", "a copy killed, to the first write of the keys that it copied")
        .bar("p99 <= 200 ms (quick: max <= 260 ms)")
        .by(copy),
    Claim::new("failover.pause.primary", "primary stopped, reads and writes of its keys")
        .bar("p99 <= 1000 ms (quick: max <= 1300 ms)")
        .by(|lab| pause(lab, Role::Primary, 1000.0)),
    Claim::new("failover.pause.leader", "it led the agreement too, reads and writes")
        .bar("p99 <= 1500 ms (quick: max <= 1950 ms)")
        .by(|lab| pause(lab, Role::Leader, 1500.0)),
];

/// What must be reached.
#[derive(Clone, Copy)]
struct Bar {
    p50_ms: Option<f64>,
    p99_ms: f64,
}

/// Kills of a cell that led ranges; of the agreement's leader too where nobody knows who that was.
fn kill(lab: &Lab, kind: usize, bar: Bar) -> Result<Measured> {
    let all = kills(lab)?;
    let of = |fault: &Fault| fault.led[kind].filter(|_| role_of(fault) == Role::Primary);
    Ok(judge(lab.is_long(), &all, &[(["reads", "writes"][kind], &of)], bar))
}

fn leader(lab: &Lab) -> Result<Measured> {
    let all = kills(lab)?;
    let of =
        |fault: &Fault, kind: usize| fault.led[kind].filter(|_| role_of(fault) == Role::Leader);
    let (read, write) = (|fault: &Fault| of(fault, 0), |fault: &Fault| of(fault, 1));
    let bar = Bar { p50_ms: None, p99_ms: 1500.0 };
    Ok(judge(lab.is_long(), &all, &[("reads", &read), ("writes", &write)], bar))
}

fn copy(lab: &Lab) -> Result<Measured> {
    let all = kills_of_copies(lab)?;
    let bar = Bar { p50_ms: None, p99_ms: 200.0 };
    // The leader of the agreement must be followed first: that is the bar of `failover.leader`.
    let of = |fault: &Fault, kind: usize| {
        fault.copied[kind].filter(|_| fault.leads_agreement != Some(true))
    };
    let mut measured = judge(lab.is_long(), &all, &[("writes", &|fault| of(fault, 1))], bar);
    let reads: Vec<f64> = all.faults.iter().filter_map(|fault| of(fault, 0)).collect();
    measured.details.push(format!("reads of the same keys: {}", times(&reads)));
    Ok(measured)
}

fn pause(lab: &Lab, role: Role, p99_ms: f64) -> Result<Measured> {
    let all = pauses(lab)?;
    let bar = Bar { p50_ms: None, p99_ms };
    let of = |fault: &Fault, kind: usize| {
        fault.led[kind].filter(|_| fault.paused_ms.is_some() && role_of(fault) == role)
    };
    let (read, write) = (|fault: &Fault| of(fault, 0), |fault: &Fault| of(fault, 1));
    Ok(judge(lab.is_long(), &all, &[("reads", &read), ("writes", &write)], bar))
}

type Of<'a> = (&'static str, &'a dyn Fn(&Fault) -> Option<f64>);

/// Each kind of request is held against the bar.
fn judge(is_long: bool, all: &Faults, kinds: &[Of], bar: Bar) -> Measured {
    let (mut texts, mut holds, mut worst) = (Vec::new(), true, 0.0_f64);
    for (name, of) in kinds {
        let found: Vec<f64> = all.faults.iter().filter_map(of).collect();
        let (Some(p50), Some(p99), Some((_, longest))) =
            (median(&found), quantile(&found, 0.99), range(&found))
        else {
            return Measured::not(format!("no fault of this cause, {}", name));
        };
        texts.push(format!("{name}: {}", times(&found)));
        holds &= bar.p50_ms.is_none_or(|most| p50 <= most);
        let held = if is_long { p99 <= bar.p99_ms } else { longest <= bar.p99_ms * LONGEST };
        holds &= held;
        worst = worst.max(if is_long { p99 } else { longest });
    }
    let mut details = Vec::new();
    for (what, is_away) in [("away for 1 s", true), ("started again at once", false)] {
        for (name, of) in kinds {
            let same = all.faults.iter().filter(|one| one.is_away == is_away);
            let found: Vec<f64> =
                same.filter(|one| one.paused_ms.is_none()).filter_map(of).collect();
            if !found.is_empty() {
                details.push(format!("killed, {what}, {name}: {}", times(&found)));
            }
        }
    }
    details.push(format!("fsync in the ring's directory: {}", times(&all.fsync_ms)));
    if all.faults.iter().any(|fault| fault.leads_agreement.is_none()) {
        details.push("who led the agreement is not known of some faults".to_owned());
    }
    Measured::new(texts.join("; "), worst, holds).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    fn run(read_ms: &[f64]) -> Faults {
        let fault = |ms: &f64| Fault { led: [Some(*ms), None], ..Fault::default() };
        Faults { faults: read_ms.iter().map(fault).collect(), ..Faults::default() }
    }

    #[test]
    fn the_quick_form_holds_the_longest_and_the_full_one_p99() {
        let bar = Bar { p50_ms: Some(100.0), p99_ms: 500.0 };
        let verdict = |is_long: bool, times: &[f64]| {
            let read = |fault: &Fault| fault.led[0];
            judge(is_long, &run(times), &[("reads", &read)], bar).verdict
        };
        assert_eq!(verdict(false, &[10.0, 20.0, 640.0]), Verdict::Pass);
        assert_eq!(verdict(false, &[10.0, 20.0, 660.0]), Verdict::Fail);
        assert_eq!(verdict(false, &[10.0, 120.0, 130.0]), Verdict::Fail, "p50");
        let mut many = vec![50.0; 300];
        many[0] = 5_000.0;
        assert_eq!(verdict(true, &many), Verdict::Pass);
        many[1..9].fill(5_000.0);
        assert_eq!(verdict(true, &many), Verdict::Fail);
        assert!(matches!(verdict(false, &[]), Verdict::NotMeasured(_)));
    }
}
