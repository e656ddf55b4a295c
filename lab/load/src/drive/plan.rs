//! What a run is to do, checked before anything is opened.
//!
//! Invariant: a plan that passed its check keeps every bound of a run: connections, requests and
//! keys in flight, bytes composed. Lengths are bytes.

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::Protocol;
use crate::rate::RateCurve;
use crate::schedule::Arrival;
use crate::workload::{MULTIGET_MAX, Multiget, Workload};
use measure::{Error, Target};

/// The most connections of one run.
pub const CONNECTIONS_MAX: usize = 50_000;
/// The most threads of one run.
pub const THREADS_MAX: usize = 256;
/// The most unanswered requests of one connection.
pub const PIPELINE_MAX: usize = 10_000;
/// The most keys that one connection requests at once: pipeline times multiget.
pub const KEYS_IN_FLIGHT_MAX: usize = 1 << 20;

/// The most bytes of requests that are composed and not sent, over all connections.
pub const COMPOSED_BYTES_MAX: usize = 16 << 30;
/// The most bytes of a request beside keys and values, for each key.
const FRAME_BYTES: usize = 64;

/// When the next request is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// As soon as an earlier one is answered.
    Closed,
    /// When it is due, answered or not.
    Open {
        /// How due times follow each other.
        arrival: Arrival,
        /// Requests per second, all connections together.
        rate: RateCurve,
    },
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After this long, warm-up not counted.
    Time(Duration),
    /// After this many requests, those of the warm-up and refills not counted.
    Requests(u64),
}

/// Everything a run needs.
///
/// ```no_run
/// use load::cli::RunArgs;
/// use load::conclusion::Report;
/// use load::drive::{self, Watch};
///
/// let run = RunArgs::parse_words(&["--target", "127.0.0.1:11211", "--duration", "1s"])?;
/// let plan = run.plan()?;
/// let observed = drive::run(&plan, &Watch::new(Default::default(), false), &mut |_| {})?;
/// println!("{}", Report::new(&plan, run.workload_text(), &observed));
/// # Ok::<(), measure::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server.
    pub target: Target,
    /// What is requested.
    pub workload: Arc<Workload>,
    /// Names the due times, as the workload's own seed names the requests.
    pub seed: u64,
    /// The dialect.
    pub protocol: Protocol,
    /// Closed or open loop.
    pub mode: Mode,
    /// Connections, divided among the threads.
    pub connections: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// Unanswered requests per connection, at most.
    pub pipeline: usize,
    /// Keys per get.
    pub multiget: Multiget,
    /// Keys per set or delete; more than one go quietly, as a batch.
    pub multiset: u32,
    /// When it ends.
    pub limit: Limit,
    /// How long requests flow before they are measured.
    pub warmup: Duration,
    /// The run gives up when no reply has come for this time.
    pub patience: Duration,
    /// Compare every byte of every value.
    pub verify: bool,
    /// Follow each miss with a set of its key.
    pub refill: bool,
    /// Whether an open loop drops, at its end, what is due and not sent. Otherwise it still sends
    /// it.
    pub drop_overdue: bool,
    /// Whether latencies are kept by time too.
    pub by_time: bool,
    /// The process whose CPU time is the server's; without it, the server's `stats` state it.
    pub server_pid: Option<u32>,
}

impl Plan {
    /// Checks every limit.
    ///
    /// # Errors
    /// Names the first value that is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        for (name, value, max) in [
            ("connections", self.connections, CONNECTIONS_MAX),
            ("threads", self.threads, THREADS_MAX),
            ("pipeline", self.pipeline, PIPELINE_MAX),
            ("multiget", self.multiget.keys.max() as usize, MULTIGET_MAX as usize),
            ("multiset", self.multiset as usize, MULTIGET_MAX as usize),
        ] {
            if value == 0 || value > max {
                return Err(Error::Setting(format!("--{name} {value}: choose from 1 to {max}")));
            }
        }
        if self.threads > self.connections {
            return Err(Error::Setting(format!(
                "--threads {} above --connections {}: each thread needs a connection",
                self.threads, self.connections
            )));
        }
        if self.multiset > 1 && self.protocol == Protocol::Text {
            return Err(Error::Setting(format!(
                "--multiset {}: the text protocol has no quiet command that reports failures; \
                 choose --protocol meta or binary",
                self.multiset
            )));
        }
        let multiget = self.multiget.keys.max() as usize;
        if self.pipeline * multiget > KEYS_IN_FLIGHT_MAX {
            return Err(Error::Setting(format!(
                "--pipeline {} times --multiget {multiget} keys: at most {KEYS_IN_FLIGHT_MAX} \
                 together",
                self.pipeline
            )));
        }
        let composed_bytes = self.connections * self.pipeline * self.request_bytes_max();
        if composed_bytes > COMPOSED_BYTES_MAX {
            return Err(Error::Setting(format!(
                "--connections {} times --pipeline {} requests of up to {} bytes: {composed_bytes} \
                 bytes, at most {COMPOSED_BYTES_MAX}; lower one of them",
                self.connections,
                self.pipeline,
                self.request_bytes_max()
            )));
        }
        if self.patience.is_zero() {
            let text = "--patience 0 gives up before any reply; give a time such as 10s";
            return Err(Error::Setting(text.to_string()));
        }
        if let Mode::Open { rate, .. } = &self.mode {
            rate.check().map_err(|error| Error::Setting(format!("--rate: {error}")))?;
        }
        match self.limit {
            Limit::Time(time) if time.is_zero() => {
                Err(Error::Setting("--duration 0 measures nothing; give a time".to_string()))
            }
            Limit::Requests(0) => {
                Err(Error::Setting("--requests 0 measures nothing; give a number".to_string()))
            }
            _ => Ok(()),
        }
    }

    /// The length of the longest request.
    #[must_use]
    pub fn request_bytes_max(&self) -> usize {
        let key_bytes = self.workload.keys.bytes() + FRAME_BYTES;
        let stored_bytes = key_bytes + self.workload.value_bytes_max() as usize;
        let get_bytes = key_bytes * self.multiget.keys.max() as usize;
        let stores = self.refill || self.workload.stores();
        if stores { get_bytes.max(stored_bytes * self.multiset as usize) } else { get_bytes }
    }

    /// The share of `lane` when `total` things are dealt to the lanes in turn.
    pub(super) fn share(&self, lane: usize, total: u64) -> u64 {
        (total + self.threads as u64 - 1 - lane as u64) / self.threads as u64
    }
}
