//! What is lost of what was answered: by a kill, and by a power cut; beside Redis, PostgreSQL and
//! SQLite.
//!
//! All have the same writers, keys and values, are killed in the same way, and go through the same
//! cuts. See `power` for how power is cut on one machine.

mod dialect;
mod history;
mod kill;
mod load;
mod power;
mod system;

use anyhow::{Result, ensure};

use crate::claim::{Claim, Measured};
use crate::lab::Lab;
pub(super) use dialect::{Dialect, Speaker};
use load::Tally;
use power::Cut;
pub(super) use system::kill as killed;
use system::{ALL, System};

/// Kills of each system, in the quick and the full form.
const KILLS: [usize; 2] = [10, 100];
/// Power cuts of each level of ours, and of each other system.
const CUTS: [usize; 2] = [20, 500];
const CUTS_OF_OTHERS: [usize; 2] = [10, 100];
/// How often `os` syncs: what is older than this and two syncs is not lost.
const SYNC_EVERY_NS: u64 = 1_000_000_000;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("loss.kill", "kill -9: answered changes lost, by level, beside three others")
        .bar("none at os, disk, backend; the others are shown")
        .by(by_kill),
    Claim::new("loss.power", "power cut on ext4 and XFS: the same")
        .bar("none at disk, backend; at os none older than 1 s and two syncs; the others are shown")
        .by(by_power),
];

fn by_kill(lab: &Lab) -> Result<Measured> {
    let kills = |system| Ok((system, kill::kills(lab, system, lab.form(KILLS))?));
    let all: Vec<_> = ALL.into_iter().map(kills).collect::<Result<_>>()?;
    Ok(judge_kills(&all))
}

fn by_power(lab: &Lab) -> Result<Measured> {
    let cuts = |system: System| {
        let count = lab.form(if system.is_ours() { CUTS } else { CUTS_OF_OTHERS });
        Ok((system, power::cuts(lab, system, count)?))
    };
    let all: Vec<_> = ALL.into_iter().map(cuts).collect::<Result<_>>()?;
    Ok(judge_cuts(&all))
}

/// Cuts the power of our cell on both file systems; an error where something was lost at `disk`.
pub(crate) fn holds(lab: &Lab) -> Result<()> {
    power::need()?;
    let system = System::Volvox("disk");
    let cut = power::cuts(lab, system, lab.form(CUTS))?;
    let line = cut.tally.line("power cuts");
    println!("{}: {line}", system.name());
    let complaints = cut.tally.complaints.join("\n");
    ensure!(!is_false(&cut.tally) && cut.tally.lost == 0, "{line}\n{complaints}");
    Ok(())
}

/// Whether what nobody stored was found, or a server did not start.
fn is_false(tally: &Tally) -> bool {
    tally.wrong > 0 || tally.unstarted > 0
}

/// What was not kept that should have been: changes, wrong values, failed starts.
fn broken(all: &[(System, &Tally)], keeps: impl Fn(System) -> bool) -> u64 {
    let of = |(system, tally): &(System, &Tally)| {
        let lost = if keeps(*system) { tally.lost } else { 0 };
        lost + tally.wrong + tally.unstarted as u64
    };
    all.iter().filter(|(system, _)| system.is_ours()).map(of).sum()
}

fn judge_kills(all: &[(System, Tally)]) -> Measured {
    let tallies: Vec<_> = all.iter().map(|(system, tally)| (*system, tally)).collect();
    let broken = broken(&tallies, System::keeps_at_kill);
    let kept = tallies.iter().filter(|(system, _)| system.keeps_at_kill());
    let (kills, answered) = kept.fold((0, 0), |(kills, answered), (_, tally)| {
        (kills + tally.cuts, answered + tally.answered)
    });
    let text = format!("{broken} lost or wrong in {kills} kills, of {answered} changes");
    Measured::new(text, broken as f64, broken == 0 && answered > 0)
        .with_details(table(&tallies, "kills"))
}

fn judge_cuts(all: &[(System, Cut)]) -> Measured {
    let tallies: Vec<_> = all.iter().map(|(system, cut)| (*system, &cut.tally)).collect();
    let broken = broken(&tallies, System::keeps_at_cut);
    let of = |system| all.iter().find(|(it, _)| *it == system).map(|(_, cut)| cut);
    let os = of(System::Volvox("os"));
    let is_late = os.is_some_and(|os| os.tally.oldest_ns > SYNC_EVERY_NS + 2 * os.sync_max_ns);
    let mut details = table(&tallies, "cuts");
    let blocks =
        all.iter().fold([0, 0], |sum, (_, cut)| [sum[0] + cut.blocks[0], sum[1] + cut.blocks[1]]);
    details
        .push(format!("of what was not flushed, {} blocks kept, {} dropped", blocks[0], blocks[1]));
    details.extend(os.map(|os| format!("at os a sync took {:.2} s", os.sync_max_ns as f64 / 1e9)));
    let kept: usize =
        tallies.iter().filter(|(it, _)| it.keeps_at_cut()).map(|(_, tally)| tally.cuts).sum();
    let text = format!("{broken} lost or wrong in {kept} cuts at disk and backend");
    if broken == 0 && !is_late && tallies.iter().all(|(_, tally)| tally.lost == 0) {
        let reason = "no system lost anything at any level: the cuts show nothing";
        return Measured::not(reason).with_details(details);
    }
    Measured::new(text, broken as f64, broken == 0 && !is_late).with_details(details)
}

/// A line for each system, and what was found first.
fn table(all: &[(System, &Tally)], what: &str) -> Vec<String> {
    let lines =
        all.iter().map(|(system, tally)| format!("{}: {}", system.name(), tally.line(what)));
    let ours = all.iter().flat_map(|(_, tally)| tally.complaints.clone());
    lines.chain(ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    fn cut(system: System, change: impl FnOnce(&mut Cut)) -> (System, Cut) {
        let mut cut = Cut { sync_max_ns: 100_000_000, ..Cut::default() };
        (cut.tally.cuts, cut.tally.answered) = (20, 1_000);
        change(&mut cut);
        (system, cut)
    }

    fn loses(lost: u64, oldest_ns: u64) -> impl FnOnce(&mut Cut) {
        move |cut| (cut.tally.lost, cut.tally.oldest_ns) = (lost, oldest_ns)
    }

    #[test]
    fn a_level_is_held_to_what_it_promises() {
        let [memory, os, disk] = ["memory", "os", "disk"].map(System::Volvox);
        let other = System::Redis("always");
        let verdict = |cuts: Vec<(System, Cut)>| judge_cuts(&cuts).verdict;
        let lossy = || cut(memory, loses(9, 5_000_000_000));
        assert_eq!(verdict(vec![lossy(), cut(disk, |_| ())]), Verdict::Pass);
        assert_eq!(verdict(vec![lossy(), cut(disk, loses(1, 1))]), Verdict::Fail);
        assert_eq!(verdict(vec![cut(os, loses(5, 1_200_000_000))]), Verdict::Pass);
        assert_eq!(verdict(vec![cut(os, loses(5, 1_200_000_001))]), Verdict::Fail);
        assert_eq!(verdict(vec![cut(memory, |cut| cut.tally.wrong = 1)]), Verdict::Fail);
        assert_eq!(verdict(vec![cut(memory, |cut| cut.tally.unstarted = 1)]), Verdict::Fail);
        assert_eq!(verdict(vec![cut(other, loses(5, 9))]), Verdict::Pass, "it is not held");
        assert!(matches!(verdict(vec![cut(disk, |_| ())]), Verdict::NotMeasured(_)));
    }

    #[test]
    fn a_kill_may_take_from_memory_alone() {
        let tally = |lost| Tally { cuts: 10, answered: 100, lost, ..Tally::default() };
        let verdict = |level, lost| {
            let all = [(System::Volvox("disk"), tally(0)), (System::Volvox(level), tally(lost))];
            judge_kills(&all).verdict
        };
        assert_eq!(verdict("memory", 5), Verdict::Pass);
        assert_eq!([verdict("os", 5), verdict("backend", 1)], [Verdict::Fail, Verdict::Fail]);
    }
}
