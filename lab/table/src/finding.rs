//! What a measurement brought, and where the report looks it up.

use std::collections::BTreeMap;

use load::conclusion::Report;
use serde::{Deserialize, Serialize};

use crate::contestant::Contestant;
use crate::counters::Counters;
use crate::form::Level;
use crate::plan::{Job, Place, Task};

/// Name and version of the files of findings.
pub(crate) const FINDING_SCHEMA: &str = "volvox-lab-finding/1";

/// Share of its core that a server uses at its lambda-max, at least.
pub(crate) const SATURATED: f64 = 0.95;

/// The most requests per second that a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LambdaMax {
    /// The mean of the plateau.
    pub per_s: f64,
    /// Lower end of its 95 % interval.
    pub low_per_s: f64,
    /// Upper end.
    pub high_per_s: f64,
    /// The highest rate that was answered in full.
    pub kept_per_s: Option<f64>,
    /// Whether throughput had flattened; else it is a lower bound.
    pub flat: bool,
}

/// What one job brought.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Finding {
    /// Always [`FINDING_SCHEMA`].
    pub schema: String,
    /// The job.
    pub job: String,
    /// The command that repeats it against a server of the same kind.
    pub command: String,
    /// Requests per second that a cell was asked for.
    pub rate_per_s: Option<f64>,
    /// The run; of lambda-max, one beyond the plateau.
    pub report: Option<Report>,
    /// What the server did in the meantime.
    pub counters: Option<Counters>,
    /// Of lambda-max only.
    pub lambda_max: Option<LambdaMax>,
    /// What an instrument counted per request, by name.
    pub counts: Option<BTreeMap<String, f64>>,
    /// Why there is no figure, where there is none.
    pub missing: Option<String>,
}

impl Finding {
    /// A finding without figures yet.
    pub fn of(job: &Job, command: String) -> Self {
        Self {
            schema: FINDING_SCHEMA.to_string(),
            job: job.slug(),
            command,
            rate_per_s: None,
            report: None,
            counters: None,
            lambda_max: None,
            counts: None,
            missing: None,
        }
    }

    /// Whether others kept the generator, or a server of one thread, off its core, be it on this
    /// machine or on the one that it is a part of.
    pub fn is_crowded(&self, contestant: Contestant) -> bool {
        /// Shares of the time below which it is only noise.
        const CROWDED: f64 = 0.05;
        let starved = self.report.as_ref().map_or(0.0, |report| report.generator.starved_thread);
        let waited = self.counters.map_or(0.0, |counters| counters.waiting_cores);
        let stolen = self.counters.map_or(0.0, |counters| counters.stolen_cores);
        starved > CROWDED || stolen > CROWDED || (contestant.is_one_thread() && waited > CROWDED)
    }

    /// Whether a server was not kept busy: what was measured then is the generator.
    pub fn is_idle(&self) -> bool {
        self.counters.is_some_and(|counters| counters.busy_cores < SATURATED)
    }

    /// Why it is not what was asked for: nothing was measured, or not all was answered well.
    pub fn flaw(&self) -> Option<String> {
        if let Some(missing) = &self.missing {
            return Some(missing.clone());
        }
        let report = self.report.as_ref().filter(|report| !report.is_clean())?;
        let requests = &report.requests;
        Some(format!(
            "{} errors, {} refused, {} lost, {} unanswered, {} unsent, {} wrong values, {} \
             connections lost{}",
            requests.errors,
            requests.not_stored,
            requests.lost,
            requests.unanswered,
            requests.unsent,
            report.wrong_values,
            requests.connections_lost,
            if report.whole { "" } else { ", and the run was given up" },
        ))
    }
}

/// All findings, by the name of their job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings(BTreeMap<String, Finding>);

impl Findings {
    /// Takes one over, in place of an older one.
    pub fn put(&mut self, finding: Finding) {
        self.0.insert(finding.job.clone(), finding);
    }

    /// The finding of a job.
    pub fn of(&self, contestant: Contestant, task: Task) -> Option<&Finding> {
        self.0.get(&Job { contestant, task }.slug())
    }

    /// Whether the job is done and done well; a cell, at the rate that follows from what is known
    /// now.
    pub fn is_settled(&self, who: &[Contestant], job: &Job) -> bool {
        let found = self.0.get(&job.slug()).filter(|finding| finding.flaw().is_none());
        let Some(found) = found else { return false };
        found.rate_per_s == self.cell_rate_per_s(who, job)
    }

    /// Requests per second of a cell, once the lambda-max that it is a share of are known.
    pub fn cell_rate_per_s(&self, who: &[Contestant], job: &Job) -> Option<f64> {
        let Task::Cell(place, level) = job.task else { return None };
        let own = self.lambda_max(job.contestant, place)?;
        Some(level.per_s(own.per_s, self.slowest_per_s(who, place)?))
    }

    /// In the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.0.values()
    }

    /// The run of a job.
    pub fn report(&self, contestant: Contestant, task: Task) -> Option<&Report> {
        self.of(contestant, task)?.report.as_ref()
    }

    /// Lambda-max of a contestant; none where something went wrong on the way to it.
    pub fn lambda_max(&self, contestant: Contestant, place: Place) -> Option<LambdaMax> {
        self.of(contestant, Task::LambdaMax(place)).filter(|one| one.missing.is_none())?.lambda_max
    }

    /// The lowest lambda-max of those that have one.
    pub fn slowest_per_s(&self, contestants: &[Contestant], place: Place) -> Option<f64> {
        let own = contestants.iter().filter_map(|one| self.lambda_max(*one, place));
        own.map(|lambda| lambda.per_s).min_by(f64::total_cmp)
    }

    /// The finding of a cell that is measured already under another name: a share common to all is
    /// the slowest contestant's own share.
    pub fn same_rate(&self, contestants: &[Contestant], job: &Job) -> Option<Finding> {
        let Task::Cell(place, Level::Common(percent)) = job.task else { return None };
        let own_per_s = self.lambda_max(job.contestant, place)?.per_s;
        let is_slowest = self.slowest_per_s(contestants, place) == Some(own_per_s);
        let measured = self.of(job.contestant, Task::Cell(place, Level::Own(percent)));
        let measured = measured.filter(|finding| is_slowest && finding.flaw().is_none())?;
        Some(Finding { job: job.slug(), ..measured.clone() })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::SWEEP;

    /// A finding of lambda-max with counters, for the tests of what is made of it.
    pub fn lambda(contestant: Contestant, place: Place, per_s: f64, cpu_us: f64) -> Finding {
        let job = Job { contestant, task: Task::LambdaMax(place) };
        let counters = Counters {
            window_s: 1.0,
            requests: 1_000,
            busy_cores: 0.97,
            cpu_us_per_request: cpu_us,
            sleeps_per_request: cpu_us / 10.0,
            receives_per_request: Some(0.25),
            sends_per_request: Some(0.25),
            ..Counters::default()
        };
        let (low_per_s, high_per_s) = (per_s * 0.99, per_s * 1.01);
        let lambda_max =
            LambdaMax { per_s, low_per_s, high_per_s, kept_per_s: Some(per_s), flat: true };
        Finding {
            counters: Some(counters),
            lambda_max: Some(lambda_max),
            ..Finding::of(&job, "volvox load run".to_string())
        }
    }

    #[test]
    fn the_slowest_of_all_sets_the_common_rates() {
        let mut findings = Findings::default();
        let all = [Contestant::Epoll, Contestant::Threads, Contestant::Uring];
        assert_eq!(findings.slowest_per_s(&all, SWEEP), None);
        findings.put(lambda(Contestant::Epoll, SWEEP, 100.0, 1.0));
        findings.put(lambda(Contestant::Threads, SWEEP, 60.0, 2.0));
        assert_eq!(findings.slowest_per_s(&all, SWEEP), Some(60.0));
        let missing = Some("wrong values".to_string());
        findings.put(Finding { missing, ..lambda(Contestant::Threads, SWEEP, 60.0, 2.0) });
        assert_eq!(findings.slowest_per_s(&all, SWEEP), Some(100.0), "what went wrong is no rate");
    }

    #[test]
    fn a_cell_is_settled_at_the_rate_that_is_planned_now() {
        let who = [Contestant::Epoll];
        let lambda_job = Job { contestant: who[0], task: Task::LambdaMax(SWEEP) };
        let cell_job = Job { contestant: who[0], task: Task::Cell(SWEEP, Level::Own(90)) };
        let mut findings = Findings::default();
        assert!(!findings.is_settled(&who, &lambda_job));
        findings.put(lambda(who[0], SWEEP, 1_000.0, 1.0));
        assert!(findings.is_settled(&who, &lambda_job) && !findings.is_settled(&who, &cell_job));
        assert_eq!(findings.cell_rate_per_s(&who, &cell_job), Some(900.0));
        let rate_per_s = Some(900.0);
        findings.put(Finding { rate_per_s, ..Finding::of(&cell_job, "run".to_string()) });
        assert!(findings.is_settled(&who, &cell_job));
        findings.put(lambda(who[0], SWEEP, 1_100.0, 1.0));
        assert!(!findings.is_settled(&who, &cell_job), "lambda-max was measured again");
        let missing = Some("not allowed".to_string());
        findings.put(Finding { missing, ..lambda(who[0], SWEEP, 1_000.0, 1.0) });
        assert!(!findings.is_settled(&who, &lambda_job), "what is missing is tried again");
    }

    #[test]
    fn only_a_server_of_one_thread_waits_for_others() {
        let waits = |who: Contestant| {
            let mut finding = lambda(who, SWEEP, 100.0, 1.0);
            assert!(!finding.is_crowded(who));
            finding.counters.as_mut().unwrap().waiting_cores = 0.1;
            finding.is_crowded(who)
        };
        assert!(waits(Contestant::Epoll) && waits(Contestant::Signal));
        assert!(!waits(Contestant::Threads) && !waits(Contestant::Memcached));
    }

    #[test]
    fn what_a_hypervisor_takes_is_taken_from_all() {
        let mut finding = lambda(Contestant::Threads, SWEEP, 100.0, 1.0);
        for (stolen, crowded) in [(0.04, false), (0.06, true)] {
            finding.counters.as_mut().unwrap().stolen_cores = stolen;
            assert_eq!(finding.is_crowded(Contestant::Threads), crowded, "{stolen}");
        }
    }

    #[test]
    fn a_common_share_is_the_slowests_own() {
        let all = [Contestant::Epoll, Contestant::Threads];
        let cell = |contestant, level| Job { contestant, task: Task::Cell(SWEEP, level) };
        let mut findings = Findings::default();
        for (who, per_s) in all.into_iter().zip([100.0, 60.0]) {
            findings.put(lambda(who, SWEEP, per_s, 1.0));
            findings.put(Finding::of(&cell(who, Level::Own(90)), "run".to_string()));
        }
        let same = |job| findings.same_rate(&all, &job).map(|finding| finding.job);
        let slowest = cell(Contestant::Threads, Level::Common(90));
        assert_eq!(same(slowest), Some(slowest.slug()));
        for other in [
            cell(Contestant::Epoll, Level::Common(90)),
            cell(Contestant::Threads, Level::Common(60)),
            cell(Contestant::Threads, Level::Own(90)),
        ] {
            assert_eq!(same(other), None, "{}", other.title());
        }
    }

    #[test]
    fn a_finding_survives_its_file() {
        let finding = lambda(Contestant::Epoll, SWEEP, 100.0, 1.0);
        let text = serde_json::to_string(&finding).unwrap();
        let back: Finding = serde_json::from_str(&text).unwrap();
        assert_eq!((back.lambda_max, back.counters), (finding.lambda_max, finding.counters));
        assert_eq!(back.flaw(), None);
        let missing = Finding { missing: Some("no uring".to_string()), ..back };
        assert_eq!(missing.flaw().as_deref(), Some("no uring"));
    }
}
