//! `load hit-ratio`: one committed stream to a server, to a file, or the list of streams.
//!
//! A stream is replayed or written, never both. The file has a line per step, whose bytes are those
//! of key and value.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::list::{STREAMS, find};
use super::outcome::Outcome;
use super::trace::{Spec, Trace, is_get};
use super::wire::replay;
use measure::{Error, Target};

/// Settings of `load hit-ratio`.
#[derive(Clone, Debug, clap::Args)]
pub struct HitRatioArgs {
    /// The stream; without it, the list is printed: name, whether it is quick, memory in MiB.
    #[arg(long)]
    pub stream: Option<String>,
    /// The server, which must be empty: HOST:PORT or unix:PATH.
    #[arg(long, conflicts_with = "dump")]
    pub target: Option<Target>,
    /// The server's process, for its memory.
    #[arg(long, value_name = "PID", requires = "target")]
    pub server_pid: Option<u32>,
    /// Write the stream to this file as lines of second,key,bytes,op,ttl,counted instead; bytes
    /// are those of key and value.
    #[arg(long, value_name = "FILE")]
    pub dump: Option<PathBuf>,
    /// Print the outcome as JSON.
    #[arg(long)]
    pub json: bool,
}

/// The outcome with its name, as printed.
#[derive(Serialize)]
struct Report<'a> {
    stream: &'a str,
    memory_mib: u64,
    hit_ratio: f64,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

impl HitRatioArgs {
    /// Replays, writes or lists; returns what is to be printed.
    ///
    /// # Errors
    /// When the stream is unknown, or the server or the file fails.
    pub fn carry_out(&self) -> Result<String, Error> {
        let Some(name) = &self.stream else { return Ok(listing()) };
        let spec = find(name).ok_or_else(|| {
            Error::Setting(format!("--stream {name}: no such stream; omit it for the list"))
        })?;
        let trace = Trace::new(spec)?;
        match (&self.target, &self.dump) {
            (Some(target), _) => {
                let outcome = replay(trace, target, self.server_pid)?;
                Ok(self.text(spec, &outcome))
            }
            (None, Some(path)) => {
                let steps = dump(trace, path).map_err(|error| {
                    Error::io(format!("cannot write {}", path.display()), error)
                })?;
                Ok(format!("{steps} steps"))
            }
            (None, None) => Err(Error::Setting(format!(
                "--stream {name}: choose where it goes: --target HOST:PORT or --dump FILE"
            ))),
        }
    }

    fn text(&self, spec: &Spec, outcome: &Outcome) -> String {
        let (stream, memory_mib) = (spec.name, spec.memory_mib);
        let hit_ratio = outcome.hit_ratio();
        if self.json {
            return serde_json::to_string(&Report { stream, memory_mib, hit_ratio, outcome })
                .expect("numbers and names are JSON");
        }
        format!(
            "{stream}: hit ratio {hit_ratio:.4} of {} gets, {} items in {} bytes, {:.1} s",
            outcome.gets, outcome.held_items, outcome.held_bytes, outcome.elapsed_s
        )
    }
}

fn listing() -> String {
    let mut text = String::new();
    for spec in &STREAMS {
        let extent = if spec.quick { "quick" } else { "full" };
        let _ = writeln!(text, "{} {extent} {}", spec.name, spec.memory_mib);
    }
    text
}

/// Writes the steps of `trace`, one a line; returns how many there were.
fn dump(trace: Trace, path: &Path) -> std::io::Result<u64> {
    let measured_from = trace.measured_from();
    let key_bytes = trace.form().keys.bytes() as u32;
    let mut file = BufWriter::new(File::create(path)?);
    let mut steps = 0;
    for step in trace {
        let request = step.request;
        let op = if is_get(&step) { "get" } else { "set" };
        let bytes = key_bytes + request.value_bytes;
        let counted = u8::from(steps >= measured_from);
        writeln!(file, "{},{},{bytes},{op},{},{counted}", step.at_s, request.key, request.ttl_s)?;
        steps += 1;
    }
    file.flush()?;
    Ok(steps)
}
