//! What the commands have in common: filling a server, and running a plan under a line of progress.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::settings::Settings;
use crate::drive::{self, COMPOSED_BYTES_MAX, Limit, Mode, Observed, Plan, Watch};
use crate::progress;
use crate::report::{Labelled, Report};
use measure::Error;

/// Pipeline depth of filling: enough to hide the round trip, little enough to be no burst.
const FILL_PIPELINE: usize = 16;

/// Runs `plan` with a line of progress on `screen` while `watch` is live.
pub(super) fn watched(
    plan: &Plan,
    watch: &Watch,
    screen: &mut dyn Write,
) -> Result<Observed, Error> {
    let mut line = progress::Line::default();
    let observed = drive::run(plan, watch, &mut |glimpse| line.show(screen, glimpse));
    if watch.is_live() {
        progress::clear(screen);
    }
    observed
}

/// The plan that stores every key of `plan` once.
pub(super) fn filling(plan: &Plan) -> Plan {
    let mut filling = Plan {
        workload: plan.workload.filling(),
        mode: Mode::Closed,
        multiset: 1,
        limit: Limit::Requests(plan.workload.keys_count()),
        warmup: Duration::ZERO,
        ..plan.clone()
    };
    // Large values over many connections hide the round trip without being pipelined.
    let each_bytes = filling.connections * filling.request_bytes_max();
    let room = (COMPOSED_BYTES_MAX / each_bytes.max(1)).max(1);
    filling.pipeline = plan.pipeline.max(FILL_PIPELINE).min(room);
    filling
}

/// Stores every key once, before something else.
pub(super) fn fill(plan: &Plan, watch: &Watch, screen: &mut dyn Write) -> Result<(), Error> {
    let observed = watched(&filling(plan), watch, screen)?;
    let (stored, wanted) =
        (observed.tally.sets - observed.tally.not_stored, plan.workload.keys_count());
    if stored == wanted || observed.stopped {
        return Ok(());
    }
    let complaints = observed.tally.samples.join("; ");
    Err(Error::Setting(format!(
        "stored {stored} of {wanted} keys before the run ({complaints}); lower --keys or \
         --value-bytes, or raise the server's memory"
    )))
}

/// Why a study ended before its last run.
enum End {
    Stopped,
    Failed(Error),
}

/// Carries out the runs of a study, one after another, until the last one, a stop or an error.
///
/// What is measured by then is still reported: hours of measurements are not lost to a port that
/// was not free.
pub(super) struct Bench<'a> {
    pub settings: &'a Settings,
    pub watch: &'a Watch,
    pub screen: &'a mut dyn Write,
    /// The runs that are done.
    runs: Vec<Labelled>,
    end: Option<End>,
}

/// The runs of a study, and why they are not all that were to be.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub runs: Vec<Labelled>,
    pub warnings: Vec<String>,
    /// Whether every run that was to be was begun.
    pub complete: bool,
}

impl<'a> Bench<'a> {
    pub fn new(settings: &'a Settings, watch: &'a Watch, screen: &'a mut dyn Write) -> Self {
        Self { settings, watch, screen, runs: Vec::new(), end: None }
    }

    /// Whether there may be another run; a study that ends here is not complete.
    pub fn goes_on(&mut self) -> bool {
        if self.end.is_none() && self.watch.stop.load(Ordering::Relaxed) {
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
        if self.goes_on()
            && let Err(error) = fill(plan, self.watch, self.screen)
        {
            self.fail(error);
        }
    }

    /// Measures `plan` under the settings of the study.
    pub fn measure(&mut self, plan: &Plan, labels: &[(&'static str, String)]) -> Option<&Report> {
        self.measure_as(plan, self.settings, labels)
    }

    /// Measures `plan`, made of `settings`, and keeps the report under `labels`. None once the
    /// study has ended. A report that is not whole is kept, but no figure may rest on it.
    pub fn measure_as(
        &mut self,
        plan: &Plan,
        settings: &Settings,
        labels: &[(&'static str, String)],
    ) -> Option<&Report> {
        if !self.goes_on() {
            return None;
        }
        let observed = match watched(plan, self.watch, self.screen) {
            Ok(observed) => observed,
            Err(error) => {
                self.fail(error);
                return None;
            }
        };
        let report = Report::new(plan, settings.workload_text(), &observed);
        let run = Labelled { labels: labels.to_vec(), report };
        if self.watch.is_live() {
            let rate = run.report.rate.achieved_per_s;
            // A screen that has gone away is no reason to end a study.
            let _ = writeln!(self.screen, "{}: {rate:.0} requests/s", run.name());
        }
        self.runs.push(run);
        self.runs.last().map(|run| &run.report)
    }

    /// What was measured.
    ///
    /// # Errors
    /// The error that ended the study before anything was.
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
