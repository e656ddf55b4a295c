//! All measurements of the lab, in the order of the plan.
//!
//! A finding is written as soon as it is made, so that an interrupted lab continues where it was. A
//! measurement that fails is a finding too, with its reason; only a folder that cannot be written
//! ends the lab. Attempts are bounded: [`ATTEMPTS_MAX`] per measurement, [`RETRIES_MAX`] in all.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Result;
use measure::process::instrument::Instrument;
use measure::screen::Progress;

use super::disturbed::Disturbed;
use super::pace::{Pace, clock};
use super::runner::Runner;
use crate::findings::{Finding, Findings};
use crate::plan::{Contestant, Job, Task, jobs};

/// The most attempts of a measurement that others disturbed, or that the generator limited.
const ATTEMPTS_MAX: usize = 3;

/// The most second and third attempts of all measurements, so that a machine on which they do not
/// help costs minutes and no more.
const RETRIES_MAX: usize = 20;

/// Prints what will be measured and how long it takes; then measures what is not `found` yet.
///
/// `false` if the user stopped it before the end.
pub(crate) fn measure_all(
    runner: &mut Runner<'_>,
    who: &[Contestant],
    instruments: &[Instrument],
    found: &mut Findings,
) -> Result<bool> {
    let all = jobs(runner.form, who, instruments);
    let left: Vec<&Job> = all.iter().filter(|job| !found.is_settled(who, job)).collect();
    let total: Duration = left.iter().map(|job| job.expected(runner.form)).sum();
    announce(runner, who.len(), all.len(), left.len(), total);
    let (mut progress, mut pace) = (Progress::new(left.len()), Pace::new(total));
    let mut retries = RETRIES_MAX;
    // All jobs, not only those left at first: a lambda-max that is measured now may move the rates
    // of cells that were settled.
    for job in &all {
        if found.is_settled(who, job) {
            continue;
        }
        progress.begin(&format!("{} ({})", job.title(), pace.text()));
        let finding = match found.same_rate(who, job) {
            Some(finding) => finding,
            None => {
                let rate_per_s = found.cell_rate_per_s(who, job);
                // Above a tier no server has its core for itself: its own threads use it too.
                let is_judged = !runner.form.is_tiered;
                let measured =
                    undisturbed(job, is_judged, &mut retries, || runner.measure(job, rate_per_s));
                if runner.is_stopped() {
                    progress.clear();
                    // The same Ctrl-C may have ended the servers already: that is no failure.
                    let _ = runner.end();
                    return Ok(false);
                }
                measured.unwrap_or_else(|error| Finding {
                    missing: Some(format!("{error:#}")),
                    ..Finding::of(job, String::new())
                })
            }
        };
        runner.folder.keep(&finding)?;
        found.put(finding);
        pace.end(job.expected(runner.form));
    }
    progress.clear();
    runner.end()?;
    Ok(true)
}

fn announce(runner: &Runner<'_>, contestants: usize, all: usize, left: usize, total: Duration) {
    let form = runner.form.name;
    let before = if left < all { format!(", {} done before", all - left) } else { String::new() };
    let cores = match runner.programs.cores().are_apart() {
        true => "servers on the first core, the generator on the last",
        false => "one core for all, so the figures are too low",
    };
    let text = format!(
        "volvox lab, {form} form: {contestants} contestants, {all} measurements{before}; about {} \
         on an idle machine; {cores}",
        clock(total)
    );
    // A closed screen is no reason not to measure.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The first attempt that nothing disturbed, or the last one.
fn undisturbed(
    job: &Job,
    is_judged: bool,
    retries: &mut usize,
    mut measure: impl FnMut() -> Result<Finding>,
) -> Result<Finding> {
    let mut measured = measure();
    for _ in 1..ATTEMPTS_MAX {
        if *retries == 0 || !is_disturbed(job, is_judged, &measured) {
            break;
        }
        *retries -= 1;
        measured = measure();
    }
    measured
}

/// Whether another attempt is worth its time. Of the figures only lambda-max is, if its costs are
/// judged: all others are shares of it.
fn is_disturbed(job: &Job, is_judged: bool, measured: &Result<Finding>) -> bool {
    match measured {
        Err(error) => error.is::<Disturbed>(),
        Ok(finding) => {
            let lambda_max = is_judged && matches!(job.task, Task::LambdaMax(_));
            lambda_max && (finding.is_crowded(job.contestant) || finding.is_idle())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::lambda;
    use crate::plan::{Level, SWEEP};

    #[test]
    fn a_disturbed_lambda_max_is_measured_again_and_a_cell_is_not() {
        let contestant = Contestant::Epoll;
        let lambda_max = Job { contestant, task: Task::LambdaMax(SWEEP) };
        let cell = Job { contestant, task: Task::Cell(SWEEP, Level::Own(90)) };
        let found = |busy_cores: f64, waiting_cores: f64| {
            let mut finding = lambda(contestant, SWEEP, 100.0, 1.0);
            let counters = finding.counters.as_mut().unwrap();
            (counters.busy_cores, counters.waiting_cores) = (busy_cores, waiting_cores);
            Ok(finding)
        };
        for (busy, waiting, again) in [(0.97, 0.0, false), (0.97, 0.1, true), (0.93, 0.0, true)] {
            assert_eq!(
                is_disturbed(&lambda_max, true, &found(busy, waiting)),
                again,
                "{busy}, {waiting}"
            );
            assert!(!is_disturbed(&cell, true, &found(busy, waiting)));
            assert!(!is_disturbed(&lambda_max, false, &found(busy, waiting)));
        }
        assert!(is_disturbed(&cell, false, &Err(Disturbed("no reply".to_string()).into())));
        assert!(!is_disturbed(&cell, true, &Err(anyhow::anyhow!("ended"))));
    }

    #[test]
    fn attempts_are_few_and_end_with_the_first_undisturbed() {
        let contestant = Contestant::Epoll;
        let job = Job { contestant, task: Task::LambdaMax(SWEEP) };
        let attempted = |busy: &[f64], retries: &mut usize| {
            let mut nth = 0;
            let measured = undisturbed(&job, true, retries, || {
                let mut finding = lambda(contestant, SWEEP, 100.0, 1.0);
                finding.counters.as_mut().unwrap().busy_cores = busy[nth];
                nth += 1;
                Ok(finding)
            });
            (nth, measured.unwrap().counters.unwrap().busy_cores)
        };
        let mut retries = 4;
        assert_eq!(attempted(&[0.97], &mut retries), (1, 0.97));
        assert_eq!(attempted(&[0.90, 0.96], &mut retries), (2, 0.96));
        assert_eq!(attempted(&[0.90, 0.91, 0.92, 0.97], &mut retries), (3, 0.92));
        assert_eq!(attempted(&[0.90, 0.91, 0.97], &mut retries), (2, 0.91), "no retries are left");
        assert_eq!(retries, 0);
    }
}
