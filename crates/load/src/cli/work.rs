//! What the commands have in common: filling a server, and running a plan under a line of progress.

use std::io::Write;
use std::time::Duration;

use crate::drive::{self, Limit, Mode, Observed, Plan, Watch};
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
