//! `load populate`: every key stored once.

use std::io::Write;

use serde_json::json;

use super::settings::{Server, Settings, read};
use super::work::{filling, watched};
use crate::drive::{Limit, Mode, Plan, Watch};
use crate::rate::RateCurve;
use crate::report::pictures::{by_percentile, over_time, runs_table};
use crate::report::{Labelled, Outputs, Report, Study};
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
    /// The server.
    #[command(flatten)]
    pub server: Server,
    /// Keys and values.
    #[command(flatten)]
    pub settings: Settings,
    /// Sets per second [default: as fast as they are answered].
    #[arg(long)]
    pub rate: Option<String>,
    /// Where the report goes.
    #[command(flatten)]
    pub outputs: Outputs,
}

impl PopulateArgs {
    /// Stores every key.
    ///
    /// # Errors
    /// When the run cannot be started or carried through.
    pub fn carry_out(&self, watch: &Watch, screen: &mut dyn Write) -> Result<Study, Error> {
        let keys = self.settings.keys;
        let limit = Limit::Requests(keys.max(1));
        let mut plan = filling(&self.settings.plan(&self.server, Mode::Closed, limit)?);
        if let Some(rate) = &self.rate {
            let rate = read::<RateCurve>("rate", rate)?;
            plan = Plan { mode: Mode::Open { arrival: self.settings.arrival, rate }, ..plan };
        }
        let observed = watched(&plan, watch, screen)?;
        let report = Report::new(&plan, self.settings.workload_text(), &observed);
        let runs = vec![Labelled { labels: Vec::new(), report }];
        let report = &runs[0].report;
        let stored = report.requests.sets - report.requests.not_stored;
        let (window_s, per_s) = (report.window_s, report.rate.achieved_per_s);
        let held = server::held(&self.server.target);
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
        let figures = vec![
            over_time("Sets over time", &[("sets".to_string(), report)]),
            by_percentile("Latency of sets", &latencies),
            Figure::Table(runs_table(&runs)),
        ];
        let mut study = Study {
            command: "populate",
            title: format!("Filling {}", self.server.target),
            conclusion: json!({
                "keys": keys,
                "stored": stored,
                "window_s": window_s,
                "stored_per_s": per_s,
                "held_items": items,
                "held_bytes": bytes,
            }),
            text,
            facts: vec![
                ("keys stored".to_string(), format!("{stored} of {keys}")),
                ("sets per second".to_string(), short(per_s)),
                ("seconds".to_string(), format!("{window_s:.1}")),
                ("items held".to_string(), items.map_or("-".to_string(), |n| n.to_string())),
            ],
            warnings: Vec::new(),
            varied: &["ratio", "popularity", "keys per get"],
            runs,
            sections: vec![("Filling".to_string(), figures)],
            csv: None,
            clean: stored == keys,
        };
        study.gather(None);
        Ok(study)
    }
}
