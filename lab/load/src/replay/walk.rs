//! A trace walked to its end: batch by batch, at its own pace or as fast as the server answers.
//!
//! Every wait ends within a tick of a stop. Times are those of the wall clock; a step's time is
//! seconds of the trace's own clock.

use std::time::{Duration, Instant};

use super::client::Client;
use super::feed::Feed;
use super::sampler::Sampler;
use super::trace::Step;
use crate::drive::Watch;
use crate::progress::Progress;
use measure::Error;

/// The longest wait, after which a stop is noticed and the line of progress is renewed.
const TICK: Duration = Duration::from_millis(50);

/// How a walk ended.
#[derive(Debug)]
pub(super) enum End {
    /// With the trace, or at its limit.
    Whole,
    /// It was stopped.
    Stopped,
    /// The trace could not be read further, or the server broke the protocol or went away.
    Failed(Error),
}

/// A replay in progress.
pub(super) struct Walk<'a, S> {
    pub feed: Feed<S>,
    pub client: Client,
    /// How many times faster than the trace's own clock; none for as fast as the server answers.
    pub speed: Option<f64>,
    pub started: Instant,
    pub watch: &'a Watch,
    pub progress: Progress<'a>,
    /// The share of the trace that was read, where its length is known.
    pub share: Box<dyn Fn() -> Option<f64> + 'a>,
    pub sampler: Option<Sampler<'a>>,
}

impl<S: Iterator<Item = Result<Step, Error>>> Walk<'_, S> {
    /// Replays what is left of the trace.
    pub fn carry_out(&mut self) -> End {
        let end = self.walk();
        self.client.outcome.elapsed_s = self.started.elapsed().as_secs_f64();
        self.progress.clear();
        end
    }

    fn walk(&mut self) -> End {
        let (mut batch, mut begin_s) = (Vec::new(), None);
        loop {
            let counted = self.feed.batch(&mut self.client, &mut batch);
            if let (Some(first), Some(speed)) = (batch.first(), self.speed) {
                let begin_s = *begin_s.get_or_insert(first.at_s);
                let due_s = f64::from(first.at_s.saturating_sub(begin_s)) / speed;
                self.wait_until(self.started + Duration::from_secs_f64(due_s));
            }
            if self.watch.is_stopped() {
                return End::Stopped;
            }
            if batch.is_empty() {
                return self.feed.fault.take().map_or(End::Whole, End::Failed);
            }
            if let Err(error) = self.client.exchange(&batch, counted) {
                return End::Failed(error);
            }
            self.feed.answered(&batch);
            if let Some(sampler) = &mut self.sampler {
                sampler.look(self.feed.requests);
            }
            self.show();
        }
    }

    /// Waits until `due`, or for a stop.
    fn wait_until(&mut self, due: Instant) {
        while !self.watch.is_stopped() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(TICK));
            self.show();
        }
    }

    fn show(&mut self) {
        let (outcome, share) = (&self.client.outcome, &self.share);
        self.progress.show(self.started.elapsed(), self.feed.requests, "requests", || {
            let read = share().map(|share| format!("  {:.0} % of the file read", share * 100.0));
            let hits = match outcome.gets {
                0 => "not counting yet".to_string(),
                _ => format!("hit ratio {:.2} %", outcome.hit_ratio() * 100.0),
            };
            hits + &read.unwrap_or_default()
        });
    }
}
