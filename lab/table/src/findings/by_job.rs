//! All findings of a report, by the name of their job, and what follows from several of them.
//!
//! The rate of a cell is a share of a lambda-max. So a lambda-max that is measured again may move
//! the rates of cells that were measured before; [`Findings::is_settled`] then says no.

use std::collections::BTreeMap;

use load::report::Report;

use super::finding::{Finding, LambdaMax};
use crate::plan::{Contestant, Job, Level, Task, Workload};

/// All findings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings(BTreeMap<String, Finding>);

impl Findings {
    /// Adds a finding, in place of an older one of the same job.
    pub fn put(&mut self, finding: Finding) {
        self.0.insert(finding.job.clone(), finding);
    }

    /// The finding of a job.
    pub fn of(&self, contestant: Contestant, task: Task) -> Option<&Finding> {
        self.0.get(&Job { contestant, task }.slug())
    }

    /// Whether the job is done and nothing is wrong with its finding; of a cell, whether it was
    /// measured at the rate that follows from the present findings.
    pub fn is_settled(&self, who: &[Contestant], job: &Job) -> bool {
        let found = self.0.get(&job.slug()).filter(|finding| finding.flaw().is_none());
        found.is_some_and(|found| found.rate_per_s == self.cell_rate_per_s(who, job))
    }

    /// The rate of a cell, if the lambda-max is known that it is a share of.
    pub fn cell_rate_per_s(&self, who: &[Contestant], job: &Job) -> Option<f64> {
        let Task::Cell(workload, level) = job.task else { return None };
        let own = self.lambda_max(job.contestant, workload)?;
        Some(level.per_s(own.per_s, self.slowest_per_s(who, workload)?))
    }

    /// All of them, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.0.values()
    }

    /// The run of a job.
    pub fn report(&self, contestant: Contestant, task: Task) -> Option<&Report> {
        self.of(contestant, task)?.report.as_ref()
    }

    /// Lambda-max of a contestant; none if something went wrong during the search.
    fn lambda_max(&self, contestant: Contestant, workload: Workload) -> Option<LambdaMax> {
        let found = self.of(contestant, Task::LambdaMax(workload));
        found.filter(|one| one.missing.is_none())?.lambda_max
    }

    /// The lowest known lambda-max.
    fn slowest_per_s(&self, contestants: &[Contestant], workload: Workload) -> Option<f64> {
        let known = contestants.iter().filter_map(|one| self.lambda_max(*one, workload));
        known.map(|lambda| lambda.per_s).min_by(f64::total_cmp)
    }

    /// The finding of a cell that is already measured under another name: for the slowest
    /// contestant a common share is its own share.
    pub fn same_rate(&self, contestants: &[Contestant], job: &Job) -> Option<Finding> {
        let Task::Cell(workload, Level::Common(percent)) = job.task else { return None };
        let own_per_s = self.lambda_max(job.contestant, workload)?.per_s;
        let is_slowest = self.slowest_per_s(contestants, workload) == Some(own_per_s);
        let measured = self.of(job.contestant, Task::Cell(workload, Level::Own(percent)));
        let measured = measured.filter(|finding| is_slowest && finding.flaw().is_none())?;
        Some(Finding { job: job.slug(), ..measured.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::tests::lambda;
    use super::*;
    use crate::plan::SWEEP;

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
}
