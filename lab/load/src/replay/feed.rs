//! The records of a trace on their way into batches.
//!
//! An error of the trace is its end: what stood before it is still handed out, and the error kept
//! for whoever asks why nothing follows. Bound: one batch and one step beside it.

use super::client::{Client, fits};
use super::file::ReplayArgs;
use super::record::{Record, Records};
use super::source::Source;
use super::trace::Step;
use crate::workload::{Op, Request};
use measure::Error;

/// The records of a trace, and what was counted of them.
pub(super) struct Feed<'a> {
    args: &'a ReplayArgs,
    records: Records<Source>,
    /// Records read so far, those included that wait to be sent.
    read: u64,
    /// The step that did not fit the batch before.
    waiting: Option<Step>,
    /// Why the trace ended before its end.
    pub fault: Option<Error>,
    /// Requests carried out.
    pub requests: u64,
    /// Bytes of the objects they asked for.
    pub bytes: u64,
    /// Requests among them for objects that are never stored, so that nobody sends them.
    pub too_large: u64,
}

impl<'a> Feed<'a> {
    pub fn new(args: &'a ReplayArgs, records: Records<Source>) -> Self {
        let (waiting, fault) = (None, None);
        Self { args, records, read: 0, waiting, fault, requests: 0, bytes: 0, too_large: 0 }
    }

    /// The share of the trace that was read so far, where its length is known.
    pub fn share(&self) -> Option<f64> {
        self.records.reader().share()
    }

    /// Whether the request read last counts.
    fn counted(&self) -> bool {
        self.read > self.args.skip
    }

    /// The next record before the limit; none at the end, and from a fault on.
    fn record(&mut self) -> Option<Record> {
        if self.fault.is_some() || self.args.limit.is_some_and(|limit| self.read >= limit) {
            return None;
        }
        match self.records.next()? {
            Ok(record) => {
                self.read += 1;
                Some(record)
            }
            Err(error) => {
                self.fault = Some(error);
                None
            }
        }
    }

    /// The get of the next record that is not too large; those that are, are counted as missed.
    fn step(&mut self, client: &mut Client) -> Option<Step> {
        loop {
            let Record { at_s, id, bytes } = self.record()?;
            if bytes > self.args.value_bytes_max {
                self.too_large += 1;
                self.carried_out(bytes);
                client.missed(self.counted());
                continue;
            }
            // Without a pace, time is no reason to end a batch.
            let at_s = if self.args.speed.is_some() { at_s } else { 0 };
            let (op, ttl_s) = (Op::Get, self.args.ttl);
            let request = Request { op, key: id, value_bytes: bytes, ttl_s };
            return Some(Step { at_s, request });
        }
    }

    /// Fills `batch` with the next steps, and says whether they count; none at the end.
    pub fn batch(&mut self, client: &mut Client, batch: &mut Vec<Step>) -> bool {
        batch.clear();
        let (mut bytes, mut counted) = (0, false);
        while let Some(step) = self.waiting.take().or_else(|| self.step(client)) {
            let first = batch.first().copied().unwrap_or(step);
            if batch.is_empty() {
                counted = self.counted();
            }
            // Where counting begins, a batch ends.
            if !fits(batch, bytes, &first, &step) || counted != self.counted() {
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
        for step in batch {
            self.carried_out(step.request.value_bytes);
        }
    }

    fn carried_out(&mut self, bytes: u32) {
        self.requests += 1;
        self.bytes += u64::from(bytes);
    }
}
