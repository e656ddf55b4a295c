//! Whether the generator's figures are those of memtier, on a server that decides them alone.
//!
//! Two closed loops can agree only where the server is the bottleneck of both, and where it does
//! the same work for both. A memcached at full speed is neither: memtier's thread is slower than
//! its worker, and at depth 16 the shape of the batches, which is the generator's doing, changes
//! what a request costs the server by a third. So memcached is slowed by callgrind, which leaves
//! each generator's core more than half idle; requests go one at a time on a connection; and its
//! housekeeping, which works by itself for a while, is off. The first round is not counted:
//! callgrind translates the code that it meets.
//!
//! Then the server runs the same instructions and makes the same calls for both, but not in the
//! same time: the cores of a virtual machine share a processor, and a program that only spins on
//! the generator's slows the server by a fifth. So what is held within the noise is the server's
//! share of its core by each one's word: its rate times the processor time of a request, which
//! the kernel accounts. The bare rates stand beside it, with a wider bar.

use anyhow::Result;

use crate::{
    bench::{Lab, SERVER_CORE},
    claim::{Claim, Measured},
    compare::{Interval, Series, median, statistic},
    cost::{WORKER_ALONE, rounds},
    cpu::within,
    generator::CONNECTIONS,
    memtier::{Duel, NAMES, Run, Shape},
    server::{Instrument, Launch},
};
use measure::tools;

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
/// Rounds are added up to so many times those of the form.
const TRIES: usize = 3;
/// The share of its own time that a server waits for its core in a round that counts.
const WAITED_MAX: f64 = 0.05;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::alone(
    "cost.agrees",
    "a memcached that both saturate (slowed by callgrind, depth 1): its load by our rate, beside \
     memtier's",
    "within 5 % or the noise, which is at most 10 % to each side; the bare rates not beyond 10 %",
    agrees,
)];

/// Rounds in which nobody else had the server's core: memtier's run and ours.
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
    fn factor(&self) -> (f64, Interval) {
        let share = |run: &Run| run.per_s * run.server_us;
        statistic(&self.series(share), |medians| medians[1] / medians[0])
    }

    /// The same of the rates alone.
    fn bare(&self) -> (f64, Interval) {
        statistic(&self.series(|run| run.per_s), |medians| medians[1] / medians[0])
    }

    /// Whether enough is known.
    fn suffice(&self, wanted: usize) -> bool {
        self.counted.len() >= wanted && half_width(self.factor().1) <= HALF_WIDTH_MAX
    }

    /// What each saw, in words.
    fn lines(&self, of: &str) -> [String; 2] {
        let [rate, p50, p99, server] = [
            |run: &Run| run.per_s,
            |run: &Run| run.p50_us,
            |run: &Run| run.p99_us,
            |run: &Run| run.server_us,
        ]
        .map(|of| self.series(of));
        [0, 1].map(|which| {
            format!(
                "{of}, {}: {:.0} requests/s, p50 {:.0} us, p99 {:.0} us, the server's CPU {:.2} us",
                NAMES[which],
                median(&rate[which]),
                median(&p50[which]),
                median(&p99[which]),
                median(&server[which])
            )
        })
    }
}

fn half_width(interval: Interval) -> f64 {
    (interval.high - interval.low) / 2.0
}

/// One round, the one first that was second before.
fn round(duel: &Duel<'_>, shape: Shape, nth: usize) -> Result<[Run; 2]> {
    if nth.is_multiple_of(2) {
        return Ok([duel.run(0, shape)?, duel.run(1, shape)?]);
    }
    let ours = duel.run(1, shape)?;
    Ok([duel.run(0, shape)?, ours])
}

fn agrees(lab: &Lab) -> Result<Measured> {
    tools::VALGRIND.need()?;
    let launch = lab.launch_memcached().memory_mib(256).core(SERVER_CORE);
    let launch = Launch { more: WORKER_ALONE.into(), ..launch };
    let instrument = Instrument::Callgrind(lab.folder().join("callgrind-slow.out"));
    let slow = Launch { instrument, ..launch.clone() }.start(&lab.folder())?;
    let wanted = rounds(lab);
    let shape = Shape { connections: CONNECTIONS, depth: 1, requests: REQUESTS_SLOW };
    let duel = Duel::new(lab, &slow)?;
    lab.detail("a round that is not counted");
    round(&duel, shape, 0)?;
    let mut rounds = Rounds::default();
    for nth in 0..wanted * TRIES {
        lab.detail(&format!("round {}", nth + 1));
        rounds.take(round(&duel, shape, nth)?);
        if rounds.suffice(wanted) {
            break;
        }
    }
    slow.stop()?;
    let moderate = moderate(lab, &launch, wanted / 2)?;
    Ok(judge(&rounds, wanted, moderate))
}

/// What each says of a few connections to a server at full speed: shown, and held against nothing,
/// for there the generator itself is half of what is measured.
fn moderate(lab: &Lab, launch: &Launch, wanted: usize) -> Result<Rounds> {
    let server = launch.start(&lab.folder())?;
    let duel = Duel::new(lab, &server)?;
    let shape = Shape { connections: FEW, depth: 1, requests: REQUESTS };
    let mut rounds = Rounds::default();
    for nth in 0..wanted {
        lab.detail(&format!("{FEW} connections, round {}", nth + 1));
        rounds.counted.push(round(&duel, shape, nth)?);
    }
    server.stop()?;
    Ok(rounds)
}

fn judge(rounds: &Rounds, wanted: usize, moderate: Rounds) -> Measured {
    let of = format!("{CONNECTIONS} connections, slowed");
    let mut details: Vec<String> = rounds.lines(&of).into();
    details.extend(moderate.lines(&format!("{FEW} connections, full speed")));
    let (counted, left_out) = (rounds.counted.len(), rounds.left_out.len());
    details.push(format!(
        "{counted} rounds; {left_out} more were left out, for others used the server's core: it \
         waited {:.0} % of its time",
        median(&rounds.left_out) * 100.0
    ));
    if counted < wanted {
        let reason = format!("others used the server's core in {left_out} rounds");
        return Measured::not(reason).with_details(details);
    }
    let ((factor, interval), (bare, bare_interval)) = (rounds.factor(), rounds.bare());
    let text = format!("{}, bare rates {}", within(factor, interval), within(bare, bare_interval));
    if half_width(interval) > HALF_WIDTH_MAX {
        return Measured::not(format!("{text} is too wide to tell")).with_details(details);
    }
    let in_noise = interval.low <= 1.0 && 1.0 <= interval.high;
    let agrees = in_noise || (factor - 1.0).abs() <= APART_MAX;
    let bare_agree =
        bare_interval.low <= 1.0 + BARE_APART_MAX && bare_interval.high >= 1.0 - BARE_APART_MAX;
    let holds = agrees && bare_agree;
    Measured::new(text, factor, holds).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::super::claim::Verdict;
    use super::*;

    fn run(per_s: f64, server_waited: f64) -> Run {
        Run { per_s, server_waited, cpu_us: 1.0, p50_us: 1.0, p99_us: 2.0, server_us: 3.0 }
    }

    #[test]
    fn a_server_that_was_slower_answered_less() {
        let slower = |per_s: f64| {
            let mut rounds = Rounds::default();
            let ours = Run { server_us: 3.0 * 100.0 / per_s, ..run(per_s, 0.0) };
            (0..8).for_each(|_| rounds.take([run(100.0, 0.0), ours]));
            judge(&rounds, 8, Rounds::default()).verdict
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
        judge(&rounds(ours), 8, Rounds::default()).verdict
    }

    #[test]
    fn rates_agree_or_not_or_cannot_be_told_apart() {
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
        let measured = judge(&rounds, 8, Rounds::default());
        assert!(matches!(measured.verdict, Verdict::NotMeasured(_)));
    }
}
