//! `volvox tier fill`: every key stored once, through a cell that runs, and written back if that is
//! asked for.
//!
//! It is `volvox load populate` on a cell that has a tier, and then `volvox ctl tier drain`. What
//! was refused is not sent again: filled once more, the same keys get the same values.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use load::cli::{PopulateArgs, stop_on_signals};
use load::conclusion::Study;
use load::drive::Watch;
use serde_json::Value;

use super::ctl::seconds;
use crate::ctl::{Question, Wanted, answer_plainly};

pub(super) const EXAMPLES: &str = "\
Examples:
  A million entries of 300 bytes through the cell at 127.0.0.1:11211:
    volvox tier fill --entries 1000000 --value-bytes 300
  Another one, 20,000 entries a second; it ends when all of them are in the database:
    volvox tier fill --entries 1000000 --value-bytes 100:9,1000:1 --at 10.0.0.1:11211 \
      --rate 20k --drain 600
The same settings store the same keys and values again.
Exit code: 0 when every entry was stored, and written back if that was asked for; 1 otherwise.";

/// Connections; each has 16 sets under way.
const CONNECTIONS: &str = "8";
/// How long the cell may take for an answer about its tier.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// With what a tier is filled.
#[derive(Args, Debug)]
pub struct FillArgs {
    /// Number of entries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    entries: u64,
    /// Length of a value: N, uniform:LOW-HIGH, a weighted list such as 100:9,1000:1, etc or twitter
    #[arg(long, value_name = "BYTES", default_value = "300")]
    value_bytes: String,
    /// Length of a key, written likewise
    #[arg(long, value_name = "BYTES", default_value = "20")]
    key_bytes: String,
    /// What every key begins with
    #[arg(long, value_name = "PREFIX", default_value = "key")]
    name: String,
    /// The cell
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:11211")]
    at: String,
    /// Entries a second [default: as fast as they are answered]
    #[arg(long)]
    rate: Option<String>,
    /// Wait until everything is written back, this long at most
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    drain: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Fills; whether every entry was stored, and written back if that was asked for.
///
/// # Errors
/// That the cell does not answer or has no tier, or that a setting cannot be read.
pub fn fill(args: &FillArgs) -> Result<bool, Box<dyn Error>> {
    let populate = args.populate()?;
    args.ask(Question::Tier { every: None }, true)?;
    let stop = Arc::default();
    stop_on_signals(&stop)?;
    let study = populate.carry_out(&Watch::new(stop.clone(), io::stderr().is_terminal()))?;
    let is_stopped = stop.load(std::sync::atomic::Ordering::Relaxed);
    let drained = match args.drain {
        Some(wait) if !is_stopped => {
            Some(args.ask(Question::TierFlush { wait: Some(wait) }, args.json)?)
        }
        _ => None,
    };
    let is_drained = drained.as_ref().is_none_or(|(_, code)| *code == 0);
    let text = args.text(&study, drained.map(|(said, _)| said))?;
    io::stdout().write_all(text.as_bytes())?;
    Ok(study.clean && is_drained && !is_stopped)
}

impl FillArgs {
    fn populate(&self) -> Result<PopulateArgs, String> {
        let keys = self.entries.to_string();
        let mut words = vec!["--keys", &keys, "--connections", CONNECTIONS, "--target", &self.at];
        words.extend(["--value-bytes", &self.value_bytes, "--key-bytes", &self.key_bytes]);
        words.extend(["--key-prefix", &self.name]);
        words.extend(self.rate.iter().flat_map(|rate| ["--rate", rate.as_str()]));
        PopulateArgs::parse_words(&words)
    }

    /// What the cell says of its tier, and the exit code of that.
    fn ask(&self, question: Question, json: bool) -> Result<(String, u8), Box<dyn Error>> {
        let servers = vec![self.at.clone()];
        let mut said = Vec::new();
        let code =
            answer_plainly(&Wanted { servers, timeout: ANSWER_MAX, json, question }, &mut said)?;
        Ok((String::from_utf8(said)?, code))
    }

    fn text(&self, study: &Study, drained: Option<String>) -> serde_json::Result<String> {
        if !self.json {
            return Ok(format!("{study}{}", drained.unwrap_or_default()));
        }
        let mut report = study.conclusion.clone();
        report["warnings"] = study.warnings.clone().into();
        report["drain"] = drained.as_deref().map_or(Ok(Value::Null), serde_json::from_str)?;
        Ok(format!("{report}\n"))
    }
}
