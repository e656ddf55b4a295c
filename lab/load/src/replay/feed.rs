//! The steps of a trace on their way into batches.
//!
//! An error of the trace is its end: steps before it are still returned, and the error is kept for
//! the report. Invariant: a batch is counted whole or not at all. Bound: one batch and one step
//! beside it.

use super::client::{Client, fits};
use super::trace::Step;
use measure::Error;

/// Which steps of a trace are sent, and which count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Steps before hits are counted.
    pub skip: u64,
    /// The most steps.
    pub limit: u64,
    /// Longer objects are not stored: a get of one is a miss that is not sent.
    pub value_bytes_max: u32,
}

/// The steps of a trace, and what was counted of them.
pub(super) struct Feed<S> {
    pub extent: Extent,
    steps: S,
    /// Steps read so far, including one that waits to be sent.
    read: u64,
    /// The step that did not fit the batch before.
    waiting: Option<Step>,
    /// Why the trace ended before its end.
    pub fault: Option<Error>,
    /// Requests carried out.
    pub requests: u64,
    /// Bytes of the objects they named.
    pub bytes: u64,
    /// Requests for objects that are never stored.
    pub too_large: u64,
}

impl<S: Iterator<Item = Result<Step, Error>>> Feed<S> {
    pub fn new(extent: Extent, steps: S) -> Self {
        let (waiting, fault) = (None, None);
        Self { extent, steps, read: 0, waiting, fault, requests: 0, bytes: 0, too_large: 0 }
    }

    /// Whether the step that was read last counts.
    fn counted(&self) -> bool {
        self.read > self.extent.skip
    }

    /// The next step that is sent; gets of objects that are too large are counted as missed.
    fn step(&mut self, client: &mut Client) -> Option<Step> {
        while self.fault.is_none() && self.read < self.extent.limit {
            match self.steps.next()? {
                Ok(step) => {
                    self.read += 1;
                    if step.request.value_bytes <= self.extent.value_bytes_max {
                        return Some(step);
                    }
                    self.too_large += 1;
                    self.carried_out(&step);
                    client.missed(self.counted());
                }
                Err(error) => self.fault = Some(error),
            }
        }
        None
    }

    /// Fills `batch` with the next steps, and returns whether they count; it stays empty at the
    /// end.
    pub fn batch(&mut self, client: &mut Client, batch: &mut Vec<Step>) -> bool {
        batch.clear();
        let (mut bytes, mut counted) = (0, false);
        while let Some(step) = self.waiting.take().or_else(|| self.step(client)) {
            if batch.is_empty() {
                counted = self.counted();
            }
            // Where counting begins, a batch ends.
            if !fits(batch, bytes, &step) || counted != self.counted() {
                self.waiting = Some(step);
                break;
            }
            bytes += step.request.value_bytes as usize;
            batch.push(step);
        }
        counted
    }

    /// Counts a batch that was answered.
    pub fn answered(&mut self, batch: &[Step]) {
        batch.iter().for_each(|step| self.carried_out(step));
    }

    fn carried_out(&mut self, step: &Step) {
        self.requests += 1;
        self.bytes += u64::from(step.request.value_bytes);
    }
}
