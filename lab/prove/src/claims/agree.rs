//! Whether the generator's figures are those of memtier, on a server that decides them alone.
//!
//! Two closed loops can agree only where the server is the bottleneck of both, and where it does
//! the same work for both. A memcached at full speed is neither: memtier's thread is slower than
//! its worker, and at depth 16 the batches that a generator forms change what a request costs the
//! server by a third. So memcached is slowed by callgrind, which leaves each generator's core more
//! than half idle. Requests go one at a time on a connection, and the housekeeping of memcached is
//! off. The first round is not counted: callgrind translates code when it first runs.
//!
//! Then the server runs the same instructions and makes the same calls for both, but not in the
//! same time. The cores of a virtual machine share a processor: a program that only spins on the
//! generator's core slows the server by a fifth. So the claim is about the server's share of its
//! core by each generator's rate: that rate times the processor time of a request, which the kernel
//! accounts. The bare rates are shown beside it, with a wider bar.

use anyhow::Result;

use super::cost::{WORKER_ALONE, rounds};
use crate::claim::{Claim, Measured};
use crate::instruments::{CONNECTIONS, Contestant, Duel, NAMES, Run, pinned, times, within};
use crate::lab::Lab;
use measure::stats::{Estimate, Series, alternate, median};
use measure::{process::Instrument, tools};

/// Requests of a run on the slowed server: more than a second of them.
const REQUESTS_SLOW: u64 = 40_000;
/// Requests of a run at full speed.
const REQUESTS: u64 = 80_000;
/// The connections of a moderate load.
const FEW: usize = 8;
/// How far apart the shares may lie if the noise does not hold both, and how far apart the whole
/// interval of the bare rates must not lie.
const APART_MAX: f64 = 0.05;
const BARE_APART_MAX: f64 = 0.10;
/// The widest the interval may be, to each side: beyond it the noise would hold anything.
const HALF_WIDTH_MAX: f64 = 0.10;
/// Rounds are added up to this many times those of the form.
const TRIES: usize = 3;
/// The share of its own time that a server waits for its core in a round that counts.
const WAITED_MAX: f64 = 0.05;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::new(
    "cost.agrees",
    "a memcached that both saturate (slowed by callgrind, depth 1): its load by our rate, beside \
     memtier's",
)
.bar("within 5 % or the noise, which is at most 10 % to each side; the bare rates not beyond 10 %")
.promised("its rate agrees with memtier's on a memcached that both keep busy")
.by(agrees)];

/// Rounds in which no other program had the server's core: memtier's run and ours.
#[derive(Debug, Default)]
struct Rounds {
    counted: Vec<[Run; 2]>,
    /// How long the server waited in each of the others.
    left_out: Series,
}

impl Rounds {
    fn take(&mut self, round: [Run; 2]) {
        let waited = round.iter().map(|run| run.server_waited).fold(0.0, f64::max);
        if waited > WAITED_MAX {
            self.left_out.push(waited);
        } else {
            self.counted.push(round);
        }
    }

    fn series(&self, of: fn(&Run) -> f64) -> [Series; 2] {
        [0, 1].map(|which| self.counted.iter().map(|round| of(&round[which])).collect())
    }

    /// Ours beside memtier's: the share of its core that the server used, by each one's rate.
    fn factor(&self) -> Result<Estimate> {
        let [theirs, ours] = self.series(|run| run.per_s * run.server_us);
        times(&ours, &theirs)
    }

    /// The same of the rates alone.
    fn bare(&self) -> Result<Estimate> {
        let [theirs, ours] = self.series(|run| run.per_s);
        times(&ours, &theirs)
    }

    /// Whether enough is known.
    fn suffice(&self, wanted: usize) -> bool {
        let is_narrow = |factor: Estimate| factor.half_width() <= HALF_WIDTH_MAX;
        self.counted.len() >= wanted && self.factor().is_ok_and(is_narrow)
    }

    /// What each reports, in words.
    fn lines(&self, of: &str) -> [String; 2] {
        [0, 1].map(|which| {
            let middle = |field: fn(&Run) -> f64| median(&self.series(field)[which]).unwrap_or(0.0);
            let (per_s, p50_us) = (middle(|run| run.per_s), middle(|run| run.p50_us));
            let (p99_us, server_us) = (middle(|run| run.p99_us), middle(|run| run.server_us));
            format!(
                "{of}, {}: {per_s:.0} requests/s, p50 {p50_us:.0} us, p99 {p99_us:.0} us, \
                 the server's CPU {server_us:.2} us",
                NAMES[which]
            )
        })
    }
}

/// One round; the generator that was second before is first.
fn round(duel: &Duel<'_>, nth: usize) -> Result<[Run; 2]> {
    if nth.is_multiple_of(2) {
        return Ok([duel.run(0)?, duel.run(1)?]);
    }
    let ours = duel.run(1)?;
    Ok([duel.run(0)?, ours])
}

fn agrees(lab: &Lab) -> Result<Measured> {
    tools::VALGRIND.need()?;
    let contestant = pinned(lab, Contestant::memcached(lab)?).more(WORKER_ALONE);
    let counts = lab.folder().join("callgrind-slow.out");
    let slow = contestant.clone().under(Instrument::Callgrind, &counts).start(lab)?;
    let wanted = rounds(lab);
    let duel = Duel::new(lab, &slow, CONNECTIONS, 1, REQUESTS_SLOW)?;
    lab.detail("a round that is not counted");
    round(&duel, 0)?;
    let mut rounds = Rounds::default();
    for nth in 0..wanted * TRIES {
        lab.detail(&format!("round {}", nth + 1));
        rounds.take(round(&duel, nth)?);
        if rounds.suffice(wanted) {
            break;
        }
    }
    slow.stop()?;
    judge(&rounds, wanted, &moderate(lab, &contestant, wanted / 2)?)
}

/// What each reports of a few connections to a server at full speed. It is shown, but there is no
/// bar: the generator itself is half of what is measured there.
fn moderate(lab: &Lab, contestant: &Contestant, wanted: usize) -> Result<Rounds> {
    let server = contestant.start(lab)?;
    let duel = Duel::new(lab, &server, FEW, 1, REQUESTS)?;
    let runs = alternate(2, wanted, |which, nth| {
        lab.detail(&format!("{FEW} connections, round {}", nth + 1));
        duel.run(which)
    })?;
    server.stop()?;
    let counted = runs[0].iter().zip(&runs[1]).map(|(theirs, ours)| [*theirs, *ours]).collect();
    Ok(Rounds { counted, left_out: Series::new() })
}

fn judge(rounds: &Rounds, wanted: usize, moderate: &Rounds) -> Result<Measured> {
    let of = format!("{CONNECTIONS} connections, slowed");
    let mut details: Vec<String> = rounds.lines(&of).into();
    details.extend(moderate.lines(&format!("{FEW} connections, full speed")));
    let (counted, left_out) = (rounds.counted.len(), rounds.left_out.len());
    details.push(format!(
        "{counted} rounds; {left_out} more are left out: others used the server's core, and it \
         waited {:.0} % of its time",
        median(&rounds.left_out).unwrap_or(0.0) * 100.0
    ));
    if counted < wanted {
        let reason = format!("others used the server's core in {left_out} rounds");
        return Ok(Measured::not(reason).with_details(details));
    }
    let (factor, bare) = (rounds.factor()?, rounds.bare()?);
    let text = format!("{}, bare rates {}", within(factor), within(bare));
    if factor.half_width() > HALF_WIDTH_MAX {
        return Ok(Measured::not(format!("{text} is too wide to tell")).with_details(details));
    }
    let agrees = factor.holds(1.0) || (factor.value - 1.0).abs() <= APART_MAX;
    let bare_agree = bare.low <= 1.0 + BARE_APART_MAX && bare.high >= 1.0 - BARE_APART_MAX;
    Ok(Measured::new(text, factor.value, agrees && bare_agree).with_details(details))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    fn run(per_s: f64, server_waited: f64) -> Run {
        Run { per_s, server_waited, cpu_us: 1.0, p50_us: 1.0, p99_us: 2.0, server_us: 3.0 }
    }

    #[test]
    fn a_server_that_was_slower_answered_less() {
        let slower = |per_s: f64| {
            let mut rounds = Rounds::default();
            let ours = Run { server_us: 3.0 * 100.0 / per_s, ..run(per_s, 0.0) };
            (0..8).for_each(|_| rounds.take([run(100.0, 0.0), ours]));
            judge(&rounds, 8, &Rounds::default()).unwrap().verdict
        };
        assert_eq!(slower(93.0), Verdict::Pass);
        assert_eq!(slower(88.0), Verdict::Fail, "the bare rates are too far apart");
    }

    fn rounds(ours: &[f64]) -> Rounds {
        let mut rounds = Rounds::default();
        ours.iter().for_each(|per_s| rounds.take([run(100.0, 0.0), run(*per_s, 0.0)]));
        rounds
    }

    fn verdict(ours: &[f64]) -> Verdict {
        judge(&rounds(ours), 8, &Rounds::default()).unwrap().verdict
    }

    #[test]
    fn rates_agree_or_not_or_cannot_be_distinguished() {
        assert_eq!(verdict(&[96.0; 8]), Verdict::Pass, "within 5 %");
        let noisy = [88.0, 104.0, 90.0, 103.0, 91.0, 102.0, 92.0, 101.0];
        assert_eq!(verdict(&noisy), Verdict::Pass, "1 lies within the interval");
        assert_eq!(verdict(&[118.0; 8]), Verdict::Fail);
        assert_eq!(verdict(&[93.0; 8]), Verdict::Fail);
        let wide = [60.0, 150.0, 60.0, 150.0, 60.0, 150.0, 60.0, 150.0];
        assert!(matches!(verdict(&wide), Verdict::NotMeasured(_)));
    }

    #[test]
    fn rounds_that_others_disturbed_are_left_out() {
        let mut rounds = rounds(&[100.0; 7]);
        rounds.take([run(100.0, 0.2), run(100.0, 0.0)]);
        assert_eq!((rounds.counted.len(), rounds.left_out.len()), (7, 1));
        assert!(!rounds.suffice(8) && rounds.suffice(7));
        let measured = judge(&rounds, 8, &Rounds::default()).unwrap();
        assert!(matches!(measured.verdict, Verdict::NotMeasured(_)));
    }
}
