//! `load populate`: every key stored once.
//!
//! A closed loop as fast as the server answers, or an open one at `--rate`. It is complete when the
//! server confirmed every set; what the server states that it holds is reported beside that.

use serde_json::json;

use super::bench::{Done, filling, watched};
use super::settings::{Subject, args_of_words};
use crate::conclusion::pictures::{by_percentile, over_time, runs_table};
use crate::conclusion::{Labelled, Report, Study};
use crate::drive::{Limit, Mode, Plan, Watch};
use crate::server;
use measure::Error;
use report::figure::{Figure, short};

pub(super) const EXAMPLES: &str = "Examples:
  A million keys as fast as the server takes them:
    volvox load populate --target 127.0.0.1:11211 --keys 1000000
  At 50,000 a second, with the sizes of Facebook's ETC pool:
    volvox load populate --keys 1000000 --workload etc --rate 50k
Exit code: 0 when every key was stored, 1 otherwise.";

/// Settings of `load populate`.
#[derive(Debug, clap::Args)]
pub struct PopulateArgs {
    /// The server, keys and values.
    #[command(flatten)]
    pub subject: Subject,
    /// Sets per second [default: as fast as they are answered].
    #[arg(long)]
    pub rate: Option<String>,
}

impl PopulateArgs {
    /// The settings in `words`, as after `load populate`.
    ///
    /// # Errors
    /// The message of the command line's parser.
    pub fn parse_words(words: &[&str]) -> Result<Self, String> {
        args_of_words(words)
    }

    /// Stores every key.
    ///
    /// # Errors
    /// When the run cannot be started or carried through.
    pub fn carry_out(&self, watch: &Watch) -> Result<Study, Error> {
        let Subject { settings, server, .. } = &self.subject;
        let keys = settings.keys;
        let plan = filling(&self.subject.plan(Mode::Closed, Limit::Requests(keys.max(1)))?);
        let plan = Plan { mode: settings.mode(self.rate.as_deref())?, ..plan };
        let observed = watched(&plan, watch)?;
        let report = Report::new(&plan, settings.workload_text(), &observed);
        let stored = report.requests.sets - report.requests.not_stored;
        let (window_s, per_s) = (report.window_s, report.rate.achieved_per_s);
        let held = server::held(&server.target);
        let mut text = format!(
            "stored {stored} of {keys} keys in {window_s:.1} s: {per_s:.0} sets/s, {:.1} MiB/s out",
            report.sent_bytes as f64 / window_s.max(1e-9) / f64::from(1 << 20)
        );
        if let Some((bytes, items)) = held {
            text.push_str(&format!("; the server holds {items} items in {bytes} bytes"));
        }
        let (bytes, items) = held.unzip();
        let latencies: Vec<_> =
            report.set_latency.iter().map(|set| ("set".to_string(), set)).collect();
        let mut figures = vec![
            over_time("Sets over time", "sets", &report),
            by_percentile("Latency of sets", &latencies),
        ];
        let runs = vec![Labelled { labels: Vec::new(), report }];
        figures.push(Figure::Table(runs_table(&runs)));
        let conclusion = json!({
            "keys": keys,
            "stored": stored,
            "window_s": window_s,
            "stored_per_s": per_s,
            "held_items": items,
            "held_bytes": bytes,
        });
        let done = Done { runs, complete: stored == keys, ..Done::default() };
        Ok(Study {
            conclusion,
            text,
            varied: &["ratio", "popularity", "keys per get"],
            sections: vec![("Filling".to_string(), figures)],
            ..done.study("populate", format!("Filling {}", server.target))
        }
        .fact("keys stored", format!("{stored} of {keys}"))
        .fact("sets per second", short(per_s))
        .fact("seconds", format!("{window_s:.1}"))
        .fact("items held", items.map_or("-".to_string(), |items| items.to_string()))
        .gather(None))
    }
}
