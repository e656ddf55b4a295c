//! `load replay`: a trace of somebody's requests, as a cache-aside client would make them.
//!
//! Every record is a get; what it misses is stored with the length of the record. Requests go
//! out in batches over one connection, so a replay tells hit ratios, not latencies. A get of an
//! object longer than the limit is a miss that nobody sends: the object is never stored.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Client, fits};
use super::record::{Columns, Form, Record, Records};
use super::round::Checks;
use super::trace::Step;
use crate::drive::Watch;
use crate::report::figure::{Axis, Figure, Plot, Scale, Series, short};
use crate::report::{Outputs, Study};
use crate::workload::{Op, Request, Workload};
use crate::{Error, Target, server};

/// Examples for the help of the command.
pub const EXAMPLES: &str = "Examples:
  A trace in libCacheSim's binary form, as fast as the server answers:
    volvox load replay --target 127.0.0.1:11211 --trace wiki.oracleGeneral
  A CSV with a line of names, id in column 5 and size in column 4; hits counted from the
  millionth request on:
    volvox load replay --trace block.csv --format csv --time-col 2 --id-col 5 --size-col 4 \\
      --header --skip 1000000 --html replay.html
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
    /// The file; a compressed one must be unpacked first.
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// How it is written [default: csv when the name ends so, else oracle-general].
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

/// Longest sleep, so that a stop is noticed.
const TICK: Duration = Duration::from_millis(50);

/// The records on their way into batches, and counts beside those of the wire.
struct Feed<'a> {
    args: &'a ReplayArgs,
    records: Records,
    /// The step that did not fit the batch before.
    waiting: Option<Step>,
    requests: u64,
    bytes: u64,
    too_large: u64,
}

impl Feed<'_> {
    /// Whether the request read last counts.
    fn counted(&self) -> bool {
        self.requests > self.args.skip
    }

    /// The get of the next record that is not too large; those that are, are counted as missed.
    fn step(&mut self, client: &mut Client) -> Result<Option<Step>, Error> {
        while self.requests < self.args.limit.unwrap_or(u64::MAX) {
            let Some(Record { at_s, id, bytes }) = self.records.next().transpose()? else {
                return Ok(None);
            };
            self.requests += 1;
            self.bytes += u64::from(bytes);
            if bytes > self.args.value_bytes_max {
                self.too_large += 1;
                client.missed(self.counted());
                continue;
            }
            // Without a pace, time is no reason to end a batch.
            let at_s = if self.args.speed.is_some() { at_s } else { 0 };
            let (op, ttl_s) = (Op::Get, self.args.ttl);
            let request = Request { op, key: id, value_bytes: bytes, ttl_s };
            return Ok(Some(Step { at_s, request }));
        }
        Ok(None)
    }

    /// Fills `batch` with the next steps, and says whether they count; none at the end.
    fn batch(&mut self, client: &mut Client, batch: &mut Vec<Step>) -> Result<bool, Error> {
        batch.clear();
        let (mut bytes, mut counted) = (0, false);
        while let Some(step) = match self.waiting.take() {
            Some(step) => Some(step),
            None => self.step(client)?,
        } {
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
        Ok(counted)
    }
}

/// Sleeps until `due`, or until told to stop.
fn wait_until(due: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(TICK));
    }
}

impl ReplayArgs {
    fn form(&self) -> Result<Form, Error> {
        let named_csv = self.trace.extension().is_some_and(|extension| extension == "csv");
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

    /// Replays the trace until its end, its limit, or a stop.
    ///
    /// # Errors
    /// When the trace cannot be read, or the server cannot be reached or says what the protocol
    /// does not know.
    pub fn carry_out(&self, watch: &Watch) -> Result<Study, Error> {
        self.check()?;
        let form = Workload::of_trace(&self.key_prefix, self.value_bytes_max, 1)?;
        let records = Records::open(&self.trace, self.form()?)?;
        let mut feed =
            Feed { args: self, records, waiting: None, requests: 0, bytes: 0, too_large: 0 };
        let checks = Checks { value_bytes_max: self.value_bytes_max, verify: self.verify };
        let mut client = Client::connect(&self.target, checks)?;
        let started = Instant::now();
        let (mut batch, mut begin_s) = (Vec::new(), None);
        loop {
            let counted = feed.batch(&mut client, &mut batch)?;
            let Some(first) = batch.first() else { break };
            if let Some(speed) = self.speed {
                let begin_s = *begin_s.get_or_insert(first.at_s);
                let due_s = f64::from(first.at_s.saturating_sub(begin_s)) / speed;
                wait_until(started + Duration::from_secs_f64(due_s), &watch.stop);
            }
            if watch.stop.load(Ordering::Relaxed) {
                break;
            }
            client.exchange(&batch, &form, counted)?;
        }
        client.outcome.elapsed_s = started.elapsed().as_secs_f64();
        if let Some((bytes, items)) = server::held(&self.target) {
            (client.outcome.held_bytes, client.outcome.held_items) = (bytes, items);
        }
        Ok(self.study(&client, &feed))
    }

    fn study(&self, client: &Client, seen: &Feed<'_>) -> Study {
        let outcome = &client.outcome;
        let points = client.history.percent();
        let hit_percent = outcome.hit_ratio() * 100.0;
        let rate = seen.requests as f64 / outcome.elapsed_s.max(1e-9);
        let mut csv = "gets,hit_percent\n".to_string();
        for (gets, percent) in &points {
            csv.push_str(&format!("{gets},{percent}\n"));
        }
        let mut warnings = Vec::new();
        if outcome.gets + outcome.failed_gets == 0 {
            warnings.push("no get was counted; lower --skip".to_string());
        }
        if seen.too_large > 0 {
            let limit = self.value_bytes_max;
            warnings.push(format!(
                "{} requests for objects above {limit} bytes are misses; see --value-bytes-max",
                seen.too_large
            ));
        }
        if outcome.other_lengths > 0 && !self.verify {
            warnings.push(format!(
                "{} hits had another length than their record: the trace changes lengths, or the \
                 server does, which --verify tells apart",
                outcome.other_lengths
            ));
        }
        warnings.extend(outcome.faults());
        let plot = Figure::Plot(Plot {
            title: "Hit ratio over the trace".to_string(),
            note: "Each point is the share of hits among the gets around it.".to_string(),
            x: Axis::new("gets", Scale::Linear),
            y: Axis::new("hits, percent", Scale::Linear),
            series: vec![Series::new("hits", points)],
        });
        let text = format!(
            "{}: hit ratio {hit_percent:.2} % of {} gets; {} requests in {:.1} s ({rate:.0}/s); \
             {} items in {} bytes held",
            self.trace.display(),
            outcome.gets,
            seen.requests,
            outcome.elapsed_s,
            outcome.held_items,
            outcome.held_bytes
        );
        Study {
            command: "replay",
            title: format!("Replay of {}", self.trace.display()),
            conclusion: json!({
                "hit_ratio": outcome.hit_ratio(),
                "requests": seen.requests,
                "requested_bytes": seen.bytes,
                "too_large": seen.too_large,
                "outcome": outcome,
            }),
            text,
            facts: vec![
                ("hit ratio".to_string(), format!("{hit_percent:.2} %")),
                ("gets counted".to_string(), outcome.gets.to_string()),
                ("requests per second".to_string(), short(rate)),
                ("items held".to_string(), outcome.held_items.to_string()),
            ],
            warnings,
            runs: Vec::new(),
            varied: &[],
            sections: vec![("Hits".to_string(), vec![plot])],
            csv: Some(csv),
            clean: outcome.is_clean(),
        }
    }
}
