//! What the commands have in common: filling a server, and running a plan under a line of progress.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::settings::Settings;
use crate::drive::{self, Limit, Mode, Observed, Plan, Watch};
use crate::report::{Labelled, Report};
use crate::{Error, progress};

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
    Plan {
        workload: plan.workload.filling(),
        mode: Mode::Closed,
        multiset: 1,
        pipeline: plan.pipeline.max(FILL_PIPELINE),
        limit: Limit::Requests(plan.workload.keys_count()),
        warmup: Duration::ZERO,
        ..plan.clone()
    }
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

/// Carries out the runs of a study, one after another.
pub(super) struct Bench<'a> {
    pub settings: &'a Settings,
    pub watch: &'a Watch,
    pub screen: &'a mut dyn Write,
    /// The runs that are done.
    pub runs: Vec<Labelled>,
}

impl<'a> Bench<'a> {
    pub fn new(settings: &'a Settings, watch: &'a Watch, screen: &'a mut dyn Write) -> Self {
        Self { settings, watch, screen, runs: Vec::new() }
    }

    /// Whether the study is to end early; what is measured by then is still reported.
    pub fn stopped(&self) -> bool {
        self.watch.stop.load(Ordering::Relaxed)
    }

    /// Stores every key of `plan`.
    pub fn fill(&mut self, plan: &Plan) -> Result<(), Error> {
        fill(plan, self.watch, self.screen)
    }

    /// Measures `plan` and keeps the report under `labels`.
    pub fn measure(
        &mut self,
        plan: &Plan,
        labels: &[(&'static str, String)],
    ) -> Result<&Report, Error> {
        let observed = watched(plan, self.watch, self.screen)?;
        let report = Report::new(plan, self.settings.workload_text(), &observed);
        let run = Labelled { labels: labels.to_vec(), report };
        if self.watch.is_live() {
            let rate = run.report.rate.achieved_per_s;
            // A screen that has gone away is no reason to end a study.
            let _ = writeln!(self.screen, "{}: {rate:.0} requests/s", run.name());
        }
        self.runs.push(run);
        Ok(&self.runs[self.runs.len() - 1].report)
    }
}
