//! A division while clients go on, where each cell has a share of the processors of its own.
//!
//! ```text
//! 3 cells, 1 spare: store --peak--> a part of it, offered |-- before --|-- divide --|-- after --|
//! ```
//!
//! A closed load finds the peak. A part of it is offered then by an open one, whose latencies count
//! from when requests are due. A generator connects to each cell that leads something, and requests
//! any key. Each round has a new ring, and divides the range of its first cell, which the spare
//! learns as a whole.
//!
//! What copying takes is the processor time of all cells during the division, less that of the
//! requests that were answered meanwhile, by what one took before. Where fewer are answered than
//! are offered, cells are never idle, and a request takes less of them than before: what is left is
//! less than the copying took then. So the same is stated by what a request takes at the peak,
//! which is the most that it can have been, and what a division takes without load.

mod load;
mod round;

use anyhow::Result;

use crate::claim::{Claim, Measured};
use crate::lab::Lab;
use round::{Division, Round, Shares};

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("quotas.reads", "a cell is divided at half the peak, 9:1, 1.4 cores in all")
        .bar(HALF_BAR)
        .by(|lab| half(lab, "9:1")),
    Claim::new("quotas.writes", "the same where all requests are writes")
        .bar(HALF_BAR)
        .by(|lab| half(lab, "0:1")),
    Claim::new("quotas.full", "the same at 90 % of the peak: how long the division takes")
        .bar("it ends, in <= 4x its time without load; no error")
        .by(full),
];

const HALF_BAR: &str = "each second >= 80 % of what is offered; p99 <= 3x that before; copying \
                        <= 10 ms of CPU per MB, of all cells; no error, no miss";
/// The least part of what is offered that is answered in a second.
const SHARE_MIN: f64 = 0.8;
/// How many times that of before the p99 may be.
const P99_TIMES_MAX: f64 = 3.0;
/// What copying a million bytes may take of the processors.
const CPU_MS_PER_MB_MAX: f64 = 10.0;
/// How many times as long as without load a division may take.
const TIMES_MAX: f64 = 4.0;
/// The parts of the peak that are offered.
const HALF: f64 = 0.5;
const NEARLY_ALL: f64 = 0.9;
/// Rounds in the quick and the full form.
const ROUNDS: [usize; 2] = [1, 4];

fn half(lab: &Lab, ratio: &'static str) -> Result<Measured> {
    measured(|shares| {
        let rounds = (0..lab.form(ROUNDS)).map(|_| shares.under_load(lab, ratio, HALF));
        Ok(judge_half(&rounds.collect::<Result<Vec<_>>>()?))
    })
}

fn full(lab: &Lab) -> Result<Measured> {
    measured(|shares| {
        let round = |_| Ok((shares.idle(lab)?, shares.under_load(lab, "0:1", NEARLY_ALL)?));
        let rounds = (0..lab.form(ROUNDS)).map(round);
        Ok(judge_full(&rounds.collect::<Result<Vec<_>>>()?))
    })
}

/// What is measured with a group for each cell; nothing where this process may make none.
fn measured(measure: impl FnOnce(&Shares) -> Result<Measured>) -> Result<Measured> {
    match Shares::new() {
        Ok(shares) => measure(&shares),
        Err(error) => Ok(Measured::not(format!("{error:#}"))),
    }
}

fn judge_half(rounds: &[Round]) -> Measured {
    let most = |of: fn(&Round) -> f64| rounds.iter().map(of).fold(f64::MIN, f64::max);
    let share = rounds.iter().map(Round::share).fold(f64::INFINITY, f64::min);
    let (p99_times, cpu) = (most(Round::p99_times), most(|it| it.division.cpu_ms_per_mb));
    let wrong: usize = rounds.iter().map(|it| it.division.wrong.len()).sum();
    if rounds.is_empty() {
        return Measured::not("nothing was divided");
    }
    let text = format!(
        "{:.0} % of what is offered in the worst second; p99 {p99_times:.1}x; copying {cpu:.1} ms \
         of CPU per MB ({:.1} at most); {:.1} s at most; {}",
        share * 100.0,
        most(|it| it.cpu_most_ms_per_mb),
        most(|it| it.division.took_s),
        errors(wrong),
    );
    let holds = share >= SHARE_MIN && p99_times <= P99_TIMES_MAX && wrong == 0;
    let holds = holds && cpu <= CPU_MS_PER_MB_MAX;
    Measured::new(text, share, holds).with_details(rounds.iter().flat_map(Round::lines).collect())
}

fn judge_full(rounds: &[(Division, Round)]) -> Measured {
    let times = rounds.iter().map(|(idle, loaded)| loaded.division.took_s / idle.took_s);
    let Some(times) = times.reduce(f64::max) else {
        return Measured::not("nothing was divided");
    };
    let wrong = rounds.iter().map(|(idle, loaded)| idle.wrong.len() + loaded.division.wrong.len());
    let wrong: usize = wrong.sum();
    let longest = rounds.iter().map(|(_, loaded)| loaded.division.took_s).fold(0.0, f64::max);
    let text =
        format!("{times:.1}x its time without load, {longest:.1} s at most; {}", errors(wrong));
    let details = rounds.iter().flat_map(|(idle, loaded)| {
        let Division { took_s, cpu_ms_per_mb, wrong } = idle;
        let line = format!("without load {took_s:.1} s, {cpu_ms_per_mb:.1} ms of CPU per MB");
        let wrong = wrong.iter().map(|what| format!("wrong: {what}"));
        [line].into_iter().chain(wrong).chain(loaded.lines()).collect::<Vec<_>>()
    });
    Measured::new(text, times, times <= TIMES_MAX && wrong == 0).with_details(details.collect())
}

fn errors(wrong: usize) -> &'static str {
    if wrong == 0 { "no error, no miss" } else { "not all was answered as it should be" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    fn round() -> Round {
        let division = Division { took_s: 4.0, cpu_ms_per_mb: 9.0, ..Division::default() };
        let (answered, p99_ms) = ([vec![100], vec![90, 85, 110], vec![100]], [2.0, 5.9]);
        Round { offered_per_s: 100.0, answered, p99_ms, division, ..Round::default() }
    }

    fn wrong() -> Division {
        Division { wrong: vec!["3 misses".to_owned()], ..round().division }
    }

    #[test]
    fn a_slow_second_a_long_tail_costly_copying_and_an_error_fail() {
        let verdict = |second: Round| judge_half(&[round(), second]).verdict;
        assert_eq!(verdict(round()), Verdict::Pass);
        let answered = [vec![100], vec![100, 79], vec![100]];
        assert_eq!(verdict(Round { answered, ..round() }), Verdict::Fail);
        let answered = [vec![100], Vec::new(), vec![100]];
        assert_eq!(verdict(Round { answered, ..round() }), Verdict::Fail, "no second is known");
        assert_eq!(verdict(Round { p99_ms: [2.0, 6.1], ..round() }), Verdict::Fail);
        assert_eq!(verdict(Round { p99_ms: [0.0, 0.0], ..round() }), Verdict::Fail);
        let division = Division { cpu_ms_per_mb: 10.1, ..round().division };
        assert_eq!(verdict(Round { division, ..round() }), Verdict::Fail);
        assert_eq!(verdict(Round { division: wrong(), ..round() }), Verdict::Fail);
        assert!(matches!(judge_half(&[]).verdict, Verdict::NotMeasured(_)));
    }

    #[test]
    fn a_division_that_takes_too_long_at_nearly_the_peak_fails() {
        let verdict = |took_s, loaded| {
            let idle = Division { took_s, ..Division::default() };
            judge_full(&[(idle, loaded)]).verdict
        };
        assert_eq!(verdict(1.0, round()), Verdict::Pass);
        assert_eq!(verdict(0.9, round()), Verdict::Fail);
        assert_eq!(verdict(1.0, Round { division: wrong(), ..round() }), Verdict::Fail);
        let idle = (wrong(), round());
        assert_eq!(judge_full(&[idle]).verdict, Verdict::Fail);
        assert!(matches!(judge_full(&[]).verdict, Verdict::NotMeasured(_)));
    }
}
