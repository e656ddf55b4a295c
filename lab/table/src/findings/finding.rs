//! What one measurement found.
//!
//! A finding is kept as one file. It has figures, or says why it has none, or both: then something
//! was wrong with the figures. Rates are requests per second.

use std::collections::BTreeMap;

use load::report::Report;
use serde::{Deserialize, Serialize};

use super::counters::Counters;
use crate::plan::{Contestant, Job};

/// Name and version of the files of findings.
pub(super) const FINDING_SCHEMA: &str = "volvox-lab-finding/1";

/// The least share of its core that a server uses at its lambda-max.
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

/// What one job found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Finding {
    /// Always [`FINDING_SCHEMA`].
    pub schema: String,
    /// The job, by its slug.
    pub job: String,
    /// The command that repeats it with a server of the same kind.
    pub command: String,
    /// The rate of a cell.
    pub rate_per_s: Option<f64>,
    /// The run; of lambda-max, one above the plateau.
    pub report: Option<Report>,
    /// The cost to the server during the run.
    pub counters: Option<Counters>,
    /// Of lambda-max only.
    pub lambda_max: Option<LambdaMax>,
    /// Counts per request by an instrument, by name.
    pub counts: Option<BTreeMap<String, f64>>,
    /// Why there is no figure, or none to rely on.
    pub missing: Option<String>,
}

/// Requests of a run with an error, refused, without a reply, or with a wrong value.
pub(crate) fn wrong(report: &Report) -> u64 {
    let requests = &report.requests;
    let unanswered = requests.lost + requests.unanswered;
    requests.errors + requests.not_stored + unanswered + report.wrong_values
}

impl Finding {
    /// A finding without figures.
    pub fn of(job: &Job, command: String) -> Self {
        let (schema, job) = (FINDING_SCHEMA.to_string(), job.slug());
        Self { schema, job, command, ..Self::default() }
    }

    /// Whether others kept the generator, or a server of one thread, off its core: other programs
    /// on this machine, or its hypervisor.
    pub fn is_crowded(&self, contestant: Contestant) -> bool {
        /// Smaller shares of the time are noise.
        const CROWDED: f64 = 0.05;
        let starved = self.report.as_ref().map_or(0.0, |report| report.generator.starved_thread);
        let waited = self.counters.map_or(0.0, |counters| counters.waiting_cores);
        let stolen = self.counters.map_or(0.0, |counters| counters.stolen_cores);
        starved > CROWDED || stolen > CROWDED || (contestant.is_one_thread() && waited > CROWDED)
    }

    /// Whether the server was not busy: then the generator was measured, not the server.
    pub fn is_idle(&self) -> bool {
        self.counters.is_some_and(|counters| counters.busy_cores < SATURATED)
    }

    /// What is wrong with it: it has no figure, or a request was not answered well.
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
            if report.whole { "" } else { ", and the run did not reach its end" },
        ))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::{SWEEP, Task, Workload};

    /// A finding of lambda-max with counters, for the tests of what is made of it.
    pub fn lambda(contestant: Contestant, workload: Workload, per_s: f64, cpu_us: f64) -> Finding {
        let job = Job { contestant, task: Task::LambdaMax(workload) };
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
