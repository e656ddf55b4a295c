//! The lab from its plan to its report.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use load::drive::Watch;

use crate::Error;
use crate::contestant::Contestant;
use crate::document::Document;
use crate::finding::{Finding, Findings};
use crate::form::Form;
use crate::host::Programs;
use crate::instrument::Instrument;
use crate::measure::Bench;
use crate::pin::Cores;
use crate::plan::{Job, Task, jobs};
use crate::progress::{Progress, clock};
use crate::store::Store;
use crate::subject::Subject;

/// How often a measurement is tried that others disturbed, or that the generator limited.
const ATTEMPTS_MAX: usize = 3;

/// Such further tries of all measurements together, so that a machine on which they are of no use
/// costs minutes and no more.
const RETRIES_MAX: usize = 20;

/// Everything that is settled before the first measurement.
pub(crate) struct Lab<'a> {
    /// How thorough.
    pub form: &'a Form,
    /// Who is measured.
    pub who: &'a [Contestant],
    /// What counts, as far as it is installed.
    pub instruments: &'a [Instrument],
    /// Where the programs are.
    pub programs: &'a Programs,
    /// Which cores they run on.
    pub cores: &'a Cores,
    /// Where the report goes.
    pub store: &'a Store,
    /// How it is stopped.
    pub watch: &'a Watch,
}

impl Lab<'_> {
    /// Says what will be done and how long it takes; then measures what is not `found` yet.
    ///
    /// Whether everything was measured, or it was told to stop.
    pub fn measure(&self, found: &mut Findings) -> Result<bool, Error> {
        let all = jobs(self.form, self.who, self.instruments);
        let left: Vec<&Job> = all.iter().filter(|job| !found.is_settled(self.who, job)).collect();
        let total: Duration = left.iter().map(|job| job.expected(self.form)).sum();
        self.announce(all.len(), left.len(), total);
        let (mut progress, mut retries) = (Progress::new(left.len(), total), RETRIES_MAX);
        let mut bench = Bench::new(self.form, self.programs, self.cores, self.store, self.watch);
        // All, and not those left at first: a lambda-max that is measured now may move the rates of
        // cells that were settled.
        for job in &all {
            if found.is_settled(self.who, job) {
                continue;
            }
            progress.begin(&job.title());
            if let Some(finding) = found.same_rate(self.who, job) {
                self.store.keep(&finding)?;
                found.put(finding);
                progress.end(job.expected(self.form));
                continue;
            }
            let rate_per_s = found.cell_rate_per_s(self.who, job);
            let measured = undisturbed(job, &mut retries, || bench.measure(job, rate_per_s));
            if self.watch.is_stopped() {
                progress.clear();
                // Servers that the same Ctrl-C has ended already are no failure.
                let _ = bench.end();
                return Ok(false);
            }
            let finding = match measured {
                Ok(finding) => finding,
                Err(error @ (Error::File { .. } | Error::Foreign { .. })) => return Err(error),
                Err(error) => {
                    Finding { missing: Some(error.to_string()), ..Finding::of(job, String::new()) }
                }
            };
            self.store.keep(&finding)?;
            found.put(finding);
            progress.end(job.expected(self.form));
        }
        progress.clear();
        bench.end()?;
        Ok(true)
    }

    fn announce(&self, all: usize, left: usize, total: Duration) {
        let mut text = format!(
            "volvox lab, {} form: {} contestants, {all} measurements",
            self.form.name,
            self.who.len()
        );
        if left < all {
            text.push_str(&format!(", {} done before", all - left));
        }
        text.push_str(&format!("; about {} on an idle machine", clock(total)));
        match self.cores.pair() {
            Some((server, generator)) => {
                text.push_str(&format!("; servers on core {server}, generator on {generator}"));
            }
            None => text.push_str("; one core for all, so the figures are too low"),
        }
        // A screen that has gone away is no reason not to measure.
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// Writes every form of the report.
    pub fn report(
        &self,
        subject: Subject,
        found: &Findings,
        command: &str,
    ) -> Result<Document, Error> {
        let document = Document::new(self.form, self.who, subject, found);
        for (name, text) in [
            ("lab.json", document.to_json() + "\n"),
            ("lab.csv", document.to_csv()),
            ("lab.md", document.to_markdown(command)),
            ("lab.html", document.page().to_html()),
        ] {
            self.store.write(name, &text)?;
        }
        Ok(document)
    }
}

/// The first of a few tries that nothing disturbed, or the last of them.
fn undisturbed(
    job: &Job,
    retries: &mut usize,
    mut measure: impl FnMut() -> Result<Finding, Error>,
) -> Result<Finding, Error> {
    let mut measured = measure();
    for _ in 1..ATTEMPTS_MAX {
        if *retries == 0 || !is_disturbed(job, &measured) {
            break;
        }
        *retries -= 1;
        measured = measure();
    }
    measured
}

/// Whether it is worth another try: everything else is a share of lambda-max.
fn is_disturbed(job: &Job, measured: &Result<Finding, Error>) -> bool {
    match measured {
        Err(error) => matches!(error, Error::Disturbed(_)),
        Ok(finding) => {
            let lambda_max = matches!(job.task, Task::LambdaMax(_));
            lambda_max && (finding.is_crowded(job.contestant) || finding.is_idle())
        }
    }
}

/// What a memcached says it is.
pub(crate) fn version_of(memcached: &Path) -> Result<String, Error> {
    let output = std::process::Command::new(memcached).arg("-V").output();
    let output = output.map_err(|error| Error::file(memcached, error))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_string();
    if said.starts_with("memcached ") {
        return Ok(said);
    }
    Err(Error::Setting(format!(
        "--memcached {}: -V does not print memcached's version but {said:?}",
        memcached.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::tests::lambda;
    use crate::form::Level;
    use crate::plan::SWEEP;

    #[test]
    fn a_disturbed_lambda_max_is_tried_again_and_a_cell_is_not() {
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
                is_disturbed(&lambda_max, &found(busy, waiting)),
                again,
                "{busy}, {waiting}"
            );
            assert!(!is_disturbed(&cell, &found(busy, waiting)));
        }
        assert!(is_disturbed(&cell, &Err(Error::Disturbed("no reply".to_string()))));
        assert!(!is_disturbed(&cell, &Err(Error::Server("ended".to_string()))));
    }

    #[test]
    fn tries_are_few_and_end_with_the_first_that_is_good() {
        let contestant = Contestant::Epoll;
        let job = Job { contestant, task: Task::LambdaMax(SWEEP) };
        let tried = |busy: &[f64], retries: &mut usize| {
            let mut nth = 0;
            let measured = undisturbed(&job, retries, || {
                let mut finding = lambda(contestant, SWEEP, 100.0, 1.0);
                finding.counters.as_mut().unwrap().busy_cores = busy[nth];
                nth += 1;
                Ok(finding)
            });
            (nth, measured.unwrap().counters.unwrap().busy_cores)
        };
        let mut retries = 4;
        assert_eq!(tried(&[0.97], &mut retries), (1, 0.97));
        assert_eq!(tried(&[0.90, 0.96], &mut retries), (2, 0.96));
        assert_eq!(tried(&[0.90, 0.91, 0.92, 0.97], &mut retries), (3, 0.92));
        assert_eq!(tried(&[0.90, 0.91, 0.97], &mut retries), (2, 0.91), "no retries are left");
        assert_eq!(retries, 0);
    }

    #[test]
    fn only_a_memcached_is_taken_for_one() {
        for (path, word) in [("/no/such/program", "/no/such/program"), ("/bin/true", "--memcached")]
        {
            let error = version_of(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
