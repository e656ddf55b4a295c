//! `load replay`: a recorded trace, as a cache-aside client would send it.
//!
//! Every record is a get; an object that it misses is stored with the length of the record.
//! Requests are sent in batches over one connection, so a replay shows hit ratios, not latencies.
//! A get of an object longer than the limit is a miss that is not sent: it is never stored.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::client::Client;
use super::feed::{Extent, Feed};
use super::record::{Columns, Form, Record, Records};
use super::round::Checks;
use super::source::{self, STDIN};
use super::summary::study;
use super::trace::Step;
use super::walk::{End, Walk};
use crate::conclusion::{Outputs, Study};
use crate::drive::Watch;
use crate::progress::Progress;
use crate::server;
use crate::workload::{Op, Request, Workload};
use measure::{Error, Target};

/// Examples for the help of the command.
pub const EXAMPLES: &str = "Examples:
  A trace in libCacheSim's binary form, as fast as the server answers:
    volvox load replay --target 127.0.0.1:11211 --trace wiki.oracleGeneral.zst
  A CSV with a line of names, id in column 5 and size in column 4; hits counted from the
  millionth request on:
    volvox load replay --trace block.csv --format csv --time-col 2 --id-col 5 --size-col 4 \\
      --header --skip 1000000 --html replay.html
  A trace that another program unpacks:
    gunzip -c block.csv.gz | volvox load replay --trace - --format csv
The server must be empty, or the figure means nothing.";

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
    /// csv: the delimiter of columns.
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
    /// Keep the trace's own clock, FACTOR times faster [default: as fast as the server answers].
    #[arg(long, value_name = "FACTOR")]
    pub speed: Option<f64>,
    /// Lifetime of what is stored, in seconds up to 30 days; 0 never expires.
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

    /// Refuses settings that are out of range.
    fn check(&self) -> Result<(), Error> {
        if let Some(speed) = self.speed.filter(|speed| !SPEED.contains(speed)) {
            let (slow, fast) = (SPEED.start(), SPEED.end());
            let text = format!("--speed {speed}: choose a factor from {slow} to {fast}");
            return Err(Error::Setting(text));
        }
        if self.ttl > TTL_S_MAX {
            return Err(Error::Setting(format!(
                "--ttl {}: above {TTL_S_MAX} s (30 days) memcached reads a date, not a lifetime; \
                 choose at most {TTL_S_MAX}, or 0 to never expire",
                self.ttl
            )));
        }
        Ok(())
    }

    /// The get of a record. Without a pace, time does not end a batch.
    fn step(&self, Record { at_s, id, bytes }: Record) -> Step {
        let at_s = if self.speed.is_some() { at_s } else { 0 };
        let request = Request { op: Op::Get, key: id, value_bytes: bytes, ttl_s: self.ttl };
        Step { at_s, request }
    }

    /// Replays the trace until its end, its limit, a stop, or an error; `watch` stops it early. An
    /// error after the first replies is part of the report.
    ///
    /// # Errors
    /// When there is nothing to report: a setting is out of range, the trace cannot be read from
    /// its beginning, or the server cannot be reached.
    pub fn carry_out(&self, watch: &Watch) -> Result<Study, Error> {
        self.check()?;
        let (value_bytes_max, verify) = (self.value_bytes_max, self.verify);
        let form = Arc::new(Workload::of_trace(&self.key_prefix, value_bytes_max, 1)?);
        let form_of_trace = self.form()?;
        let (source, meter) = source::open(&self.trace, watch.stop())?;
        let records = Records::new(self.name(), source, form_of_trace);
        let steps = records.map(|record| record.map(|record| self.step(record)));
        let limit = self.limit.unwrap_or(u64::MAX);
        let mut walk = Walk {
            feed: Feed::new(Extent { skip: self.skip, limit, value_bytes_max }, steps),
            client: Client::connect(&self.target, &form, Checks { value_bytes_max, verify })?,
            speed: self.speed,
            started: Instant::now(),
            watch,
            progress: Progress::new(watch),
            share: Box::new(move || meter.share()),
            sampler: None,
        };
        let end = walk.carry_out();
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
        Ok(study(&self.name(), &feed, &client, verify, early.as_ref()))
    }
}
