//! The driver of all studies: it fills servers, carries out runs, and keeps what they found.
//!
//! A study ends with its last run, a stop or an error. Invariant: what was measured by then is
//! reported, so a port that is not free does not lose hours of measurements. A report that is not
//! whole is kept, but no figure may rest on it.

use std::time::Duration;

use super::settings::Settings;
use crate::conclusion::{Labelled, Report, Study};
use crate::drive::{self, COMPOSED_BYTES_MAX, Glimpse, Limit, Mode, Observed, Plan, Watch};
use crate::progress::{Progress, bar};
use measure::Error;

/// Pipeline depth of filling: it hides the round trip, and is no burst.
const FILL_PIPELINE: usize = 16;

/// Runs `plan` with a line of progress while `watch` is live.
pub(super) fn watched(plan: &Plan, watch: &Watch) -> Result<Observed, Error> {
    let mut progress = Progress::new(watch);
    let observed = drive::run(plan, watch, &mut |glimpse| {
        progress.show(glimpse.time, glimpse.replies, "replies", || match plan.limit {
            Limit::Requests(all) => {
                format!("{}  {}", bar(glimpse.time, glimpse.replies, all), percentiles(glimpse))
            }
            Limit::Time(_) => percentiles(glimpse),
        });
    });
    progress.clear();
    observed
}

fn percentiles(glimpse: &Glimpse) -> String {
    let Some(latencies) = glimpse.latencies_ns.as_ref().filter(|it| !it.is_empty()) else {
        return "warming up".to_string();
    };
    let us = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e3;
    format!("p50 {:.0} us  p99 {:.0} us  p99.9 {:.0} us", us(0.5), us(0.99), us(0.999))
}

/// The plan that stores every key of `plan` once.
pub(super) fn filling(plan: &Plan) -> Plan {
    let mut filling = Plan {
        workload: plan.workload.filling(),
        mode: Mode::Closed,
        multiset: 1,
        limit: Limit::Requests(plan.workload.keys_count()),
        warmup: Duration::ZERO,
        by_time: false,
        ..plan.clone()
    };
    // Large values over many connections hide the round trip without a pipeline.
    let each_bytes = filling.connections * filling.request_bytes_max();
    let depth_max = (COMPOSED_BYTES_MAX / each_bytes.max(1)).max(1);
    filling.pipeline = plan.pipeline.max(FILL_PIPELINE).min(depth_max);
    filling
}

/// Stores every key once, before something else.
pub(super) fn fill(plan: &Plan, watch: &Watch) -> Result<(), Error> {
    let observed = watched(&filling(plan), watch)?;
    let (requests, wanted) = (observed.tally.requests, plan.workload.keys_count());
    let stored = requests.sets - requests.not_stored;
    if stored == wanted || observed.stopped {
        return Ok(());
    }
    let complaints = observed.tally.samples.join("; ");
    Err(Error::Setting(format!(
        "stored {stored} of {wanted} keys before the run ({complaints}): lower --keys or \
         --value-bytes, or raise the server's memory"
    )))
}

/// Why a study ended before its last run.
enum End {
    Stopped,
    Failed(Error),
}

/// A study in progress.
pub(super) struct Bench<'a> {
    settings: &'a Settings,
    watch: &'a Watch,
    runs: Vec<Labelled>,
    end: Option<End>,
}

/// The runs of a study, and why some are missing.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub runs: Vec<Labelled>,
    pub warnings: Vec<String>,
    /// Whether every run was begun.
    pub complete: bool,
}

impl<'a> Bench<'a> {
    pub fn new(settings: &'a Settings, watch: &'a Watch) -> Self {
        Self { settings, watch, runs: Vec::new(), end: None }
    }

    /// The settings of the study.
    pub fn settings(&self) -> &'a Settings {
        self.settings
    }

    /// Whether there may be another run; a study that ends here is not complete.
    fn continues(&mut self) -> bool {
        if self.end.is_none() && self.watch.is_stopped() {
            self.end = Some(End::Stopped);
        }
        self.end.is_none()
    }

    /// Ends the study with `error`, unless it has ended already.
    pub fn fail(&mut self, error: Error) {
        self.end.get_or_insert(End::Failed(error));
    }

    /// Stores every key of `plan`.
    pub fn fill(&mut self, plan: &Plan) {
        if self.continues()
            && let Err(error) = fill(plan, self.watch)
        {
            self.fail(error);
        }
    }

    /// Measures `plan` under the settings of the study.
    pub fn measure(&mut self, plan: &Plan, labels: &[(&'static str, String)]) -> Option<&Report> {
        self.measure_as(plan, self.settings, labels)
    }

    /// Measures `plan`, made of `settings`, and keeps the report under `labels`. None once the
    /// study has ended.
    pub fn measure_as(
        &mut self,
        plan: &Plan,
        settings: &Settings,
        labels: &[(&'static str, String)],
    ) -> Option<&Report> {
        if !self.continues() {
            return None;
        }
        match watched(plan, self.watch) {
            Ok(observed) => {
                let report = Report::new(plan, settings.workload_text(), &observed);
                let run = Labelled { labels: labels.to_vec(), report };
                if self.watch.is_live() {
                    let rate = run.report.rate.achieved_per_s;
                    eprintln!("{}: {rate:.0} requests/s", run.name());
                }
                self.runs.push(run);
                self.runs.last().map(|run| &run.report)
            }
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// What was measured.
    ///
    /// # Errors
    /// The error that ended the study before anything was measured.
    pub fn finish(self) -> Result<Done, Error> {
        let count = self.runs.len();
        let warnings = match self.end {
            None => Vec::new(),
            Some(End::Stopped) => vec![format!("the study was stopped after {count} runs")],
            Some(End::Failed(error)) if count == 0 => return Err(error),
            Some(End::Failed(error)) => {
                vec![format!("the study ended after {count} runs: {error}")]
            }
        };
        Ok(Done { runs: self.runs, complete: warnings.is_empty(), warnings })
    }
}

impl Done {
    /// A study of these runs without its answer.
    pub fn study(self, command: &'static str, title: impl Into<String>) -> Study {
        let Self { runs, warnings, complete: clean } = self;
        Study { command, title: title.into(), runs, warnings, clean, ..Study::default() }
    }
}

/// The rate of a run that was carried to its end.
pub(super) fn whole_per_s(report: Option<&Report>) -> Option<f64> {
    report.filter(|report| report.whole).map(|report| report.rate.achieved_per_s)
}
