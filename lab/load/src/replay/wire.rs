//! A committed stream sent to a server, at the pace of its own clock where its items expire.

use std::sync::Arc;
use std::time::Instant;

use super::client::Client;
use super::feed::{Extent, Feed};
use super::outcome::Outcome;
use super::round::Checks;
use super::sampler::Sampler;
use super::trace::Trace;
use super::walk::{End, Walk};
use crate::drive::Watch;
use crate::progress::Progress;
use measure::account::process::rss_peak_bytes;
use measure::{Error, Target};

/// Replays `trace` to the empty server at `target`; `server_pid` is its process, if known.
///
/// # Errors
/// When the server cannot be reached, falls silent, answers a get with an error, or sends a reply
/// that does not answer its request.
pub fn replay(trace: Trace, target: &Target, server_pid: Option<u32>) -> Result<Outcome, Error> {
    let checks = Checks::default();
    let (skip, limit) = (trace.measured_from(), trace.requests());
    let extent = Extent { skip, limit, value_bytes_max: checks.value_bytes_max };
    let watch = Watch::new(Arc::default(), false);
    let mut walk = Walk {
        client: Client::connect(target, trace.form(), checks)?,
        feed: Feed::new(extent, trace.map(Ok)),
        speed: Some(1.0),
        started: Instant::now(),
        watch: &watch,
        progress: Progress::new(&watch),
        share: Box::new(|| None),
        sampler: Some(Sampler::new(target, skip, limit)),
    };
    if let End::Failed(error) = walk.carry_out() {
        return Err(error);
    }
    let held = walk.sampler.map_or((0, 0), |sampler| sampler.mean());
    let mut outcome = walk.client.outcome;
    if outcome.failed_gets + outcome.wrong_values > 0 {
        return Err(Error::Setting(outcome.faults().join("; ")));
    }
    (outcome.held_bytes, outcome.held_items) = held;
    outcome.rss_bytes_max = server_pid.and_then(|pid| rss_peak_bytes(pid).ok()).unwrap_or(0);
    Ok(outcome)
}
