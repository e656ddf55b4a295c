//! `load run`: one measurement of one server.
//!
//! It fills the server on request, carries out one plan, and reports. `RunArgs` is also how other
//! crates make a plan from words.

use std::time::Duration;

use super::bench;
use super::settings::{Subject, args_of_words};
use crate::conclusion::{Labelled, Report, WorkloadText, csv, page};
use crate::drive::{Limit, Plan, Watch};
use measure::Error;
use measure::units::duration;

pub(super) const EXAMPLES: &str = "Examples:
  Closed loop, 50 connections, 16 deep, 9 gets to 1 set, all keys stored before:
    volvox load run --target 127.0.0.1:11211 --populate --pipeline 16 --ratio 9:1
  Open loop at 100,000 requests a second, latency counted from the due time:
    volvox load run --target 127.0.0.1:11211 --populate --rate 100k
  From 10,000 to 100,000 requests a second within a minute:
    volvox load run --populate --rate 10k..100k/60s --duration 70s
  A cache-aside client whose every value is checked:
    volvox load run --target unix:/run/volvox.sock --refill --verify --popularity zipf:0.99
  YCSB's workload F:
    volvox load run --populate --workload ycsb-f
Exit code: 0 when every request was answered well, 1 when something was lost, wrong or refused
(errors, sets not stored), or was due and could not be sent.";

/// How long is measured by default.
const DURATION_DEFAULT: Duration = Duration::from_secs(10);

/// Settings of `load run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// What is measured.
    #[command(flatten)]
    pub subject: Subject,
    /// Open loop: requests per second, sent when due whether or not earlier ones are answered:
    /// 50k, a ramp 10k..100k/60s, or steps:10k,20k,50k/10s.
    #[arg(long)]
    pub rate: Option<String>,
    /// How long to measure, such as 10s, 500ms or 2m [default: 10s].
    #[arg(long, value_parser = duration, conflicts_with = "requests")]
    pub duration: Option<Duration>,
    /// How many requests to measure, instead of a duration.
    #[arg(long)]
    pub requests: Option<u64>,
    /// Store every key once before the run.
    #[arg(long)]
    pub populate: bool,
    /// Report latencies by time too: of every second, and the worst of every 2 ms.
    #[arg(long)]
    pub by_time: bool,
}

impl RunArgs {
    /// The settings in `words`, as after `load run`.
    ///
    /// # Errors
    /// The message of the command line's parser.
    pub fn parse_words(words: &[&str]) -> Result<Self, String> {
        args_of_words(words)
    }

    /// The plan of the run itself.
    ///
    /// # Errors
    /// When a setting cannot be read or exceeds its limit.
    pub fn plan(&self) -> Result<Plan, Error> {
        let mode = self.subject.settings.mode(self.rate.as_deref())?;
        let limit = match self.requests {
            Some(requests) => Limit::Requests(requests),
            None => Limit::Time(self.duration.unwrap_or(DURATION_DEFAULT)),
        };
        Ok(Plan { by_time: self.by_time, ..self.subject.plan(mode, limit)? })
    }

    /// The workload as written, for a report.
    #[must_use]
    pub fn workload_text(&self) -> WorkloadText {
        self.subject.settings.workload_text()
    }

    /// Fills the server if requested, runs, and reports; `watch` may stop it early.
    ///
    /// # Errors
    /// When the run cannot be started or carried through.
    pub fn carry_out(&self, watch: &Watch) -> Result<Report, Error> {
        let plan = self.plan()?;
        if self.populate {
            bench::fill(&plan, watch)?;
        }
        let observed = bench::watched(&plan, watch)?;
        Ok(Report::new(&plan, self.workload_text(), &observed))
    }

    /// Carries the command out, and writes its report; whether the run was clean.
    ///
    /// # Errors
    /// When the run cannot be started or carried through, or the report cannot be written.
    pub(super) fn report(&self, watch: &Watch) -> Result<bool, Error> {
        let sinks = self.subject.outputs.open()?;
        let report = self.carry_out(watch)?;
        let run = || Labelled { labels: Vec::new(), report: report.clone() };
        sinks.put(&report, || report.to_json(), || csv(&[run()]), || page(&report))?;
        Ok(report.is_clean())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_by_name() {
        for (words, word) in [
            (&["--connections", "0"][..], "--connections 0"),
            (&["--connections", "2", "--threads", "3"], "each thread"),
            (&["--pipeline", "10001"], "--pipeline"),
            (&["--multiget", "0"], "--multiget"),
            (&["--multiget", "x"], "--multiget"),
            (&["--multiget", "2000", "--pipeline", "2000"], "1048576 together"),
            (&["--multiset", "0", "--protocol", "meta"], "--multiset"),
            (&["--multiset", "2"], "--protocol meta or binary"),
            (&["--rate", "0"], "--rate"),
            (&["--rate", "NaN"], "--rate"),
            (&["--rate", "1k..2k"], "--rate"),
            (&["--duration", "0"], "--duration"),
            (&["--requests", "0"], "--requests"),
            (&["--popularity", "zipf"], "--popularity"),
            (&["--ratio", "1"], "--ratio"),
            (&["--value-bytes", "x"], "--value-bytes"),
            (&["--ttl", "x"], "--ttl"),
            (&["--ttl", "0:1,2592001:1"], "2592000"),
            (&["--patience", "0s"], "--patience"),
            (&["--pipeline", "10000", "--value-bytes", "100000"], "lower one"),
            (&["--keys", "0"], "0 keys"),
            (&["--key-bytes", "4"], "--key-bytes must be at least"),
            (&["--key-bytes", "y"], "--key-bytes"),
        ] {
            let error = RunArgs::parse_words(words).unwrap().plan().unwrap_err().to_string();
            assert!(error.contains(word), "{words:?}: {error}");
        }
        for words in [&["--duration", "1s", "--requests", "5"][..], &["--protocol", "morse"]] {
            assert!(RunArgs::parse_words(words).is_err(), "{words:?}");
        }
        for words in [
            &[][..],
            &["--ttl", "2592000"],
            // Gets hold no values, however large those that they bring.
            &["--pipeline", "10000", "--value-bytes", "100000", "--ratio", "1:0"],
            &["--connections", "10000", "--workload", "etc", "--populate"],
        ] {
            let plan = RunArgs::parse_words(words).unwrap().plan();
            assert!(plan.is_ok_and(|plan| bench::filling(&plan).check().is_ok()), "{words:?}");
        }
    }
}
