//! A committed stream over the wire, at the pace of its own clock where its items expire.

use std::thread;
use std::time::{Duration, Instant};

use super::client::{BATCH_REQUESTS, Client, fits};
use super::round::Checks;
use super::{Outcome, Trace};
use crate::server;
use measure::{Error, Target};

/// How often the server is asked what it holds, while hits are counted.
const SAMPLES: u64 = 16;

/// Replays `trace` to the empty server at `target`; `server_pid` names its process, if known.
///
/// # Errors
/// When the server cannot be reached, falls silent, answers a get with an error, or says what is
/// no reply to what it was asked.
pub fn replay(trace: Trace, target: &Target, server_pid: Option<u32>) -> Result<Outcome, Error> {
    let mut client = Client::connect(target, Checks::default())?;
    let started = Instant::now();
    let form = trace.form().clone();
    let measured_from = trace.measured_from();
    let mut watch = Watch::new(&trace, target);
    let mut steps = trace.peekable();
    let (mut batch, mut at) = (Vec::with_capacity(BATCH_REQUESTS), 0_u64);
    while let Some(first) = steps.peek().copied() {
        wait_until(started + Duration::from_secs(u64::from(first.at_s)));
        batch.clear();
        let mut bytes = 0;
        while let Some(step) = steps.next_if(|step| fits(&batch, bytes, &first, step)) {
            bytes += step.request.value_bytes as usize;
            batch.push(step);
        }
        client.exchange(&batch, &form, at >= measured_from)?;
        at += batch.len() as u64;
        watch.look(at);
    }
    let mut outcome = client.outcome;
    if outcome.failed_gets + outcome.wrong_values > 0 {
        return Err(Error::Setting(outcome.faults().join("; ")));
    }
    (outcome.held_bytes, outcome.held_items) = watch.mean();
    outcome.rss_bytes_max = server_pid.and_then(server::rss_bytes_max).unwrap_or(0);
    outcome.elapsed_s = started.elapsed().as_secs_f64();
    Ok(outcome)
}

/// The pace of a stream whose items expire; it waits for a moment, not for an event.
fn wait_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
}

/// Asks the server what it holds, at even distances.
struct Watch<'t> {
    target: &'t Target,
    next: u64,
    every: u64,
    sums: (u64, u64),
    samples: u64,
}

impl<'t> Watch<'t> {
    fn new(trace: &Trace, target: &'t Target) -> Self {
        let next = trace.measured_from();
        let every = (trace.requests() - next).div_ceil(SAMPLES).max(1);
        Self { target, next, every, sums: (0, 0), samples: 0 }
    }

    fn look(&mut self, at: u64) {
        if at < self.next {
            return;
        }
        self.next += self.every;
        if let Some((bytes, items)) = server::held(self.target) {
            self.sums = (self.sums.0 + bytes, self.sums.1 + items);
            self.samples += 1;
        }
    }

    fn mean(&self) -> (u64, u64) {
        let samples = self.samples.max(1);
        (self.sums.0 / samples, self.sums.1 / samples)
    }
}
