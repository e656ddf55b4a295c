//! A trace walked to its end: batch by batch, at its own pace or as fast as the server answers.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::client::Client;
use super::feed::Feed;
use super::line::{Line, Sight};
use crate::drive::Watch;
use crate::workload::Workload;
use measure::Error;

/// Longest sleep, so that a stop is noticed and the line of progress goes on.
const TICK: Duration = Duration::from_millis(50);

/// How a walk ended.
#[derive(Debug)]
pub(super) enum End {
    /// With the trace, or at its limit.
    Whole,
    /// Because somebody stopped it.
    Stopped,
    /// The trace could not be read further, or the server broke the protocol or went away.
    Failed(Error),
}

/// A replay on its way.
pub(super) struct Walk<'a> {
    pub feed: Feed<'a>,
    pub client: Client,
    pub form: Workload,
    /// How many times faster than the trace's own clock; none for as fast as it goes.
    pub speed: Option<f64>,
    pub started: Instant,
    pub watch: &'a Watch,
    pub screen: &'a mut dyn Write,
    pub line: Line,
}

impl Walk<'_> {
    /// Replays what is left of the trace.
    pub fn carry_out(&mut self) -> End {
        let (mut batch, mut begin_s) = (Vec::new(), None);
        loop {
            let counted = self.feed.batch(&mut self.client, &mut batch);
            if let (Some(first), Some(speed)) = (batch.first(), self.speed) {
                let begin_s = *begin_s.get_or_insert(first.at_s);
                let due_s = f64::from(first.at_s.saturating_sub(begin_s)) / speed;
                self.wait_until(self.started + Duration::from_secs_f64(due_s));
            }
            if self.is_stopped() {
                return End::Stopped;
            }
            if batch.is_empty() {
                return self.feed.fault.take().map_or(End::Whole, End::Failed);
            }
            if let Err(error) = self.client.exchange(&batch, &self.form, counted) {
                return End::Failed(error);
            }
            self.feed.answered(&batch);
            self.show();
        }
    }

    fn is_stopped(&self) -> bool {
        self.watch.stop.load(Ordering::Relaxed)
    }

    /// Sleeps until `due`, or until told to stop.
    fn wait_until(&mut self, due: Instant) {
        while !self.is_stopped() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(TICK));
            self.show();
        }
    }

    /// Shows how far the walk is, while somebody looks on.
    fn show(&mut self) {
        if !self.watch.is_live() {
            return;
        }
        let outcome = &self.client.outcome;
        let sight = Sight {
            time: self.started.elapsed(),
            requests: self.feed.requests,
            gets: outcome.gets,
            hits: outcome.hits,
            share: self.feed.share(),
        };
        self.line.show(self.screen, &sight);
    }
}
