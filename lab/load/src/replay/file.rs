//! `load replay`: a trace of somebody's requests, as a cache-aside client would make them.
//!
//! Every record is a get; what it misses is stored with the length of the record. Requests go
//! out in batches over one connection, so a replay tells hit ratios, not latencies. A get of an
//! object longer than the limit is a miss that nobody sends: the object is never stored.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use super::client::Client;
use super::feed::Feed;
use super::line::Line;
use super::record::{Columns, Form, Records};
use super::round::Checks;
use super::source::{STDIN, Source};
use super::summary::study;
use super::walk::{End, Walk};
use crate::drive::Watch;
use crate::report::{Outputs, Study};
use crate::workload::Workload;
use crate::{progress, server};
use measure::{Error, Target};

/// Examples for the help of the command.
pub const EXAMPLES: &str = "Examples:
  A trace in libCacheSim's binary form, as fast as the server answers:
    volvox load replay --target 127.0.0.1:11211 --trace wiki.oracleGeneral.zst
  A CSV with a line of names, id in column 5 and size in column 4; hits counted from the
  millionth request on:
    volvox load replay --trace block.csv --format csv --time-col 2 --id-col 5 --size-col 4 \\
      --header --skip 1000000 --html replay.html
  What another program unpacks:
    gunzip -c block.csv.gz | volvox load replay --trace - --format csv
The server must be empty for the figure to mean something.";

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// libCacheSim's binary form: records of 24 bytes.
    OracleGeneral,
    /// Lines of columns.
    Csv,
}

/// Settings of `load replay`.
#[derive(Debug, clap::Args)]
pub struct ReplayArgs {
    /// The server: HOST:PORT or unix:PATH.
    #[arg(long, default_value = "127.0.0.1:11211")]
    pub target: Target,
    /// The file, or - for standard input; one that zstd compressed is unpacked as it is read.
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// How it is written [default: csv when the name ends in .csv or .csv.zst, else
    /// oracle-general].
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// csv: column of the time in seconds, from 1; 0 for none.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub time_col: usize,
    /// csv: column of the object's id.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub id_col: usize,
    /// csv: column of the object's size; 0 for none.
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub size_col: usize,
    /// csv: what stands between columns.
    #[arg(long, default_value_t = ',')]
    pub delimiter: char,
    /// csv: the first line names the columns.
    #[arg(long)]
    pub header: bool,
    /// Requests before hits are counted.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub skip: u64,
    /// Requests to replay, at most [default: all].
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Keep the trace's own clock, so many times faster [default: as fast as the server answers].
    #[arg(long, value_name = "FACTOR")]
    pub speed: Option<f64>,
    /// Lifetime of what is stored, in seconds up to 30 days; 0 is for ever.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    pub ttl: u32,
    /// Longer objects are not stored.
    #[arg(long, default_value_t = 1_000_000, value_name = "BYTES")]
    pub value_bytes_max: u32,
    /// Compare every byte of every hit; values follow from key and length.
    #[arg(long)]
    pub verify: bool,
    /// What every key begins with; the number of the object follows.
    #[arg(long, default_value = "")]
    pub key_prefix: String,
    /// Where the report goes.
    #[command(flatten)]
    pub outputs: Outputs,
}

/// The fastest and slowest pace against the trace's clock.
const SPEED: std::ops::RangeInclusive<f64> = 1e-3..=1e6;

/// The longest lifetime in seconds: a higher number is a date to memcached.
const TTL_S_MAX: u32 = 30 * 24 * 60 * 60;

impl ReplayArgs {
    /// The trace as reports and errors call it.
    pub(super) fn name(&self) -> String {
        let name = self.trace.display().to_string();
        if name == STDIN { "standard input".to_string() } else { name }
    }

    fn form(&self) -> Result<Form, Error> {
        let name = self.trace.to_string_lossy();
        let named_csv = name.strip_suffix(".zst").unwrap_or(&name).ends_with(".csv");
        let csv = self.format.map_or(named_csv, |format| format == Format::Csv);
        if !csv {
            return Ok(Form::OracleGeneral);
        }
        let delimiter = u8::try_from(self.delimiter).map_err(|_| {
            Error::Setting(format!("--delimiter {:?}: one ASCII character", self.delimiter))
        })?;
        if self.id_col == 0 {
            return Err(Error::Setting("--id-col 0: every request names an object".to_string()));
        }
        Ok(Form::Csv(Columns {
            time: self.time_col,
            id: self.id_col,
            size: self.size_col,
            delimiter,
            header: self.header,
        }))
    }

    /// Refuses what cannot be meant.
    fn check(&self) -> Result<(), Error> {
        if let Some(speed) = self.speed.filter(|speed| !SPEED.contains(speed)) {
            let (slow, fast) = (SPEED.start(), SPEED.end());
            let text = format!("--speed {speed}: choose a factor from {slow} to {fast}");
            return Err(Error::Setting(text));
        }
        if self.ttl > TTL_S_MAX {
            return Err(Error::Setting(format!(
                "--ttl {}: above {TTL_S_MAX} s (30 days) memcached reads a date, not a lifetime; \
                 choose at most {TTL_S_MAX}, or 0 for ever",
                self.ttl
            )));
        }
        Ok(())
    }

    /// Replays the trace until its end, its limit, a stop, or an error; `watch` stops it early, and
    /// `screen` shows how far it is while somebody looks on. An error behind the first answers is
    /// a part of the report.
    ///
    /// # Errors
    /// When there is nothing to report: a setting cannot be meant, the trace cannot be read from
    /// its beginning, or the server cannot be reached.
    pub fn carry_out(&self, watch: &Watch, screen: &mut dyn Write) -> Result<Study, Error> {
        self.check()?;
        let form = Workload::of_trace(&self.key_prefix, self.value_bytes_max, 1)?;
        let form_of_trace = self.form()?;
        let source = Source::open(&self.trace, &watch.stop)?;
        let records = Records::new(self.name(), source, form_of_trace);
        let checks = Checks { value_bytes_max: self.value_bytes_max, verify: self.verify };
        let client = Client::connect(&self.target, checks)?;
        let mut walk = Walk {
            feed: Feed::new(self, records),
            client,
            form,
            speed: self.speed,
            started: Instant::now(),
            watch,
            screen,
            line: Line::default(),
        };
        let end = walk.carry_out();
        walk.client.outcome.elapsed_s = walk.started.elapsed().as_secs_f64();
        if walk.watch.is_live() {
            progress::clear(walk.screen);
        }
        let Walk { feed, mut client, .. } = walk;
        let early = match end {
            End::Failed(error) if feed.requests == 0 => return Err(error),
            End::Failed(error) => Some(format!("ended after {} requests: {error}", feed.requests)),
            End::Stopped => {
                Some(format!("stopped before its end: {} requests replayed", feed.requests))
            }
            End::Whole => None,
        };
        if let Some((bytes, items)) = server::held(&self.target) {
            (client.outcome.held_bytes, client.outcome.held_items) = (bytes, items);
        }
        Ok(study(self, &client, &feed, early))
    }
}
