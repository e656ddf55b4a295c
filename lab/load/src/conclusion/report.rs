//! What a run found, in one stable structure: printed as text for people, as JSON for tools.
//!
//! The JSON is the structure below, field for field. `schema` names its version: fields may be
//! added under the same name, but none is removed, renamed or given another unit. Units are in
//! the names; latencies are microseconds with three digits after the point. Pure: it reads what was
//! observed, and never measures.

use serde::{Deserialize, Serialize};

use super::by_time::ByTimeText;
use super::latency::{Latency, round};
use super::warnings::warnings;
use crate::drive::{Mode, Observed, Plan};
use crate::schedule::Arrival;
use crate::tally::{Requests, Totals};

/// Name and version of the JSON.
pub const SCHEMA: &str = "volvox-load/1";

/// The most points of the rate over time.
const TIMELINE_POINTS_MAX: usize = 300;

/// The report of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The settings.
    pub setup: Setup,
    /// Length of the measured window.
    pub window_s: f64,
    /// Whether the run went to its end: not stopped, not given up, no connection lost.
    pub whole: bool,
    /// Requests that were due or sent in the window.
    pub requests: Requests,
    /// Keys found.
    pub hits: u64,
    /// Keys not found.
    pub misses: u64,
    /// Hits per requested key; absent when there was no get.
    pub hit_ratio: Option<f64>,
    /// Values that were not those of their key (only with `verify`), warm-up included.
    pub wrong_values: u64,
    /// Rates over the window.
    pub rate: Rate,
    /// Latency of gets; from the due time in an open loop, else from the moment of sending.
    pub get_latency: Option<Latency>,
    /// Latency of sets and refills.
    pub set_latency: Option<Latency>,
    /// Latency of deletes.
    pub delete_latency: Option<Latency>,
    /// Latency of read-modify-writes, from the beginning of the read to the end of the write.
    pub modify_latency: Option<Latency>,
    /// Replies over time.
    pub timeline: TimelineText,
    /// Latencies over time; absent where they were not kept.
    #[serde(default)]
    pub by_time: Option<ByTimeText>,
    /// Bytes sent in the window.
    pub sent_bytes: u64,
    /// Bytes received in the window.
    pub received_bytes: u64,
    /// What the generator cost.
    pub generator: Generator,
    /// What the server cost; absent when it does not state it and no process was named.
    pub server: Option<Server>,
    /// Why the figures may not mean what they seem to.
    pub warnings: Vec<String>,
    /// The first few different complaints, word for word.
    pub complaints: Vec<String>,
}

/// The settings of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Address of the server.
    pub target: String,
    /// `text`, `meta` or `binary`.
    pub protocol: String,
    /// `closed`, `open-poisson` or `open-fixed`.
    pub mode: String,
    /// Connections in all.
    pub connections: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// Unanswered requests per connection, at most.
    pub pipeline: usize,
    /// Keys per get, at most.
    pub multiget: usize,
    /// Keys per set or delete.
    pub multiset: u32,
    /// Seconds before the window.
    pub warmup_s: f64,
    /// Number of keys.
    pub keys: u64,
    /// Whether values were compared byte for byte.
    pub verify: bool,
    /// Whether misses were filled.
    pub refill: bool,
    /// Whether what was due and not sent at the end of the window was dropped, because more was
    /// offered than the server answers.
    #[serde(default)]
    pub drop_overdue: bool,
    /// The workload as written on the command line.
    pub workload: WorkloadText,
}

/// Settings of the workload, as written.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkloadText {
    /// Popularity of keys.
    pub popularity: String,
    /// Weights of gets, sets, deletes and read-modify-writes.
    pub ratio: String,
    /// Keys per get.
    pub multiget: String,
    /// Whether the keys of a get follow each other in order.
    pub consecutive: bool,
    /// Length of the longest key.
    pub key_bytes: usize,
    /// Lengths of keys.
    pub key_lengths: String,
    /// Lengths of values.
    pub value_bytes: String,
    /// Lifetimes in seconds.
    pub ttl_s: String,
    /// Name of the sequence.
    pub seed: u64,
}

/// Requests and keys per second.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rate {
    /// The rate of the open loop, as written.
    pub offered: Option<String>,
    /// The same, on average over the window.
    pub offered_per_s: Option<f64>,
    /// Replies of any kind that arrived in the window, per second.
    pub achieved_per_s: f64,
    /// Keys in those.
    pub keys_per_s: f64,
}

/// Replies over time, in equal stretches of the window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimelineText {
    /// Length of a stretch.
    pub stretch_s: f64,
    /// Replies per second in each; a last one that the window does not fill is left out.
    pub replies_per_s: Vec<f64>,
}

/// Cost of the generator itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time of its threads in the window.
    pub cpu_s: f64,
    /// The same per reply.
    pub cpu_us_per_request: f64,
    /// The busiest thread's share of one core, 0 to 1.
    pub busiest_thread: f64,
    /// The largest share of the window that a thread was ready and had no core, 0 to 1.
    pub starved_thread: f64,
    /// The share of one core, 0 to 1, that the hypervisor took from the machine.
    #[serde(default)]
    pub stolen: f64,
    /// Open loop: how long due requests waited for the generator while a connection was free.
    pub own_delay: Option<Latency>,
    /// The part of that delay that the CPU time of the generator's thread explains; the rest is
    /// time in which the thread had no core.
    #[serde(default)]
    pub work_delay: Option<Latency>,
}

/// Cost of the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Server {
    /// Its version where it states one.
    pub version: Option<String>,
    /// `stats` or `process`.
    pub source: String,
    /// CPU time in the window.
    pub cpu_s: f64,
    /// The same per second: how many cores it kept busy.
    pub cores: f64,
    /// The part in user mode, where the source distinguishes it.
    pub user_s: Option<f64>,
    /// The part in the kernel.
    pub system_s: Option<f64>,
    /// The headline: CPU time per reply.
    pub cpu_us_per_request: f64,
    /// CPU time per key, for gets of many keys.
    pub cpu_us_per_key: f64,
}

fn ratio(part: f64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part / whole as f64 }
}

impl Report {
    /// Computes the report of what was `observed`.
    #[must_use]
    pub fn new(plan: &Plan, workload: WorkloadText, observed: &Observed) -> Self {
        let tally = &observed.tally;
        let Totals { hits, misses, answered, .. } = tally.totals;
        let window_s = observed.window_ns as f64 / 1e9;
        let per_s = |count: u64| if window_s > 0.0 { round(count as f64 / window_s) } else { 0.0 };
        let offered = match &plan.mode {
            Mode::Closed => None,
            Mode::Open { rate, .. } => Some(rate),
        };
        let (stretch_s, rates) = tally.timeline.rates(observed.window_ns, TIMELINE_POINTS_MAX);
        let own_us = observed.own_cpu_ns as f64 / 1e3;
        let rate = Rate {
            offered: offered.map(ToString::to_string),
            offered_per_s: offered.map(|rate| round(rate.mean(observed.window_ns as f64))),
            achieved_per_s: per_s(answered),
            keys_per_s: per_s(tally.totals.keys_answered),
        };
        Self {
            schema: SCHEMA.to_string(),
            setup: Setup::new(plan, workload),
            window_s: round(window_s),
            whole: !observed.stopped && !observed.gave_up && tally.requests.connections_lost == 0,
            requests: Requests { completed: tally.completed(), ..tally.requests },
            hits,
            misses,
            hit_ratio: (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64),
            wrong_values: tally.totals.wrong_values,
            warnings: warnings(plan, observed, rate.offered_per_s.zip(Some(rate.achieved_per_s))),
            rate,
            get_latency: Latency::of(&tally.get_ns),
            set_latency: Latency::of(&tally.set_ns),
            delete_latency: Latency::of(&tally.delete_ns),
            modify_latency: Latency::of(&tally.modify_ns),
            timeline: TimelineText {
                stretch_s: round(stretch_s),
                replies_per_s: rates.into_iter().map(round).collect(),
            },
            by_time: tally.by_time.as_ref().map(|it| ByTimeText::of(it, observed.began_mono_ns)),
            sent_bytes: tally.totals.sent_bytes,
            received_bytes: tally.totals.received_bytes,
            generator: Generator {
                cpu_s: round(observed.own_cpu_ns as f64 / 1e9),
                cpu_us_per_request: round(ratio(own_us, answered)),
                busiest_thread: round(observed.busiest),
                starved_thread: round(observed.starved),
                stolen: round(observed.stolen),
                own_delay: Latency::of(&tally.own_delay_ns),
                work_delay: Latency::of(&tally.work_delay_ns),
            },
            server: Server::new(observed),
            complaints: tally.samples.clone(),
        }
    }

    /// Whether the exit code is 0: a whole run in which every request was sent and answered well.
    /// With `drop_overdue`, requests may be left unsent.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let requests = &self.requests;
        let refused = requests.errors + requests.not_stored + self.wrong_values;
        let unsent = if self.setup.drop_overdue { 0 } else { requests.unsent };
        let unserved = requests.lost + requests.unanswered + unsent;
        self.whole && refused + unserved == 0 && requests.completed > 0
    }

    /// Latencies by kind of request, in the order in which they are shown.
    #[must_use]
    pub fn latencies(&self) -> [(&'static str, Option<&Latency>); 4] {
        [
            ("get", self.get_latency.as_ref()),
            ("set", self.set_latency.as_ref()),
            ("delete", self.delete_latency.as_ref()),
            ("modify", self.modify_latency.as_ref()),
        ]
    }

    /// The report as JSON, on several lines.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and strings always serialise")
    }
}

impl Setup {
    fn new(plan: &Plan, workload: WorkloadText) -> Self {
        Self {
            target: plan.target.to_string(),
            protocol: plan.protocol.name().to_string(),
            mode: match &plan.mode {
                Mode::Closed => "closed",
                Mode::Open { arrival: Arrival::Poisson, .. } => "open-poisson",
                Mode::Open { arrival: Arrival::Fixed, .. } => "open-fixed",
            }
            .to_string(),
            connections: plan.connections,
            threads: plan.threads,
            pipeline: plan.pipeline,
            multiget: plan.multiget.keys.max() as usize,
            multiset: plan.multiset,
            warmup_s: plan.warmup.as_secs_f64(),
            keys: plan.workload.keys_count(),
            verify: plan.verify,
            refill: plan.refill,
            drop_overdue: plan.drop_overdue,
            workload,
        }
    }

    /// Names and values of the settings, for people.
    #[must_use]
    pub fn parts(&self) -> Vec<(&'static str, String)> {
        let workload = &self.workload;
        vec![
            ("target", self.target.clone()),
            ("protocol", self.protocol.clone()),
            ("loop", self.mode.clone()),
            ("connections", self.connections.to_string()),
            ("pipeline", self.pipeline.to_string()),
            ("threads", self.threads.to_string()),
            ("keys", self.keys.to_string()),
            ("key bytes", workload.key_lengths.clone()),
            ("value bytes", workload.value_bytes.clone()),
            ("ratio", workload.ratio.clone()),
            ("popularity", workload.popularity.clone()),
            ("keys per get", workload.multiget.clone()),
            ("lifetimes", format!("{} s", workload.ttl_s)),
            ("seed", workload.seed.to_string()),
        ]
    }
}

impl Server {
    fn new(observed: &Observed) -> Option<Self> {
        let server = observed.server.as_ref()?;
        let per = |count| round(ratio(server.cpu_s * 1e6, count));
        Some(Self {
            version: server.version.clone(),
            source: server.source.to_string(),
            cpu_s: round(server.cpu_s),
            cores: round(server.cpu_s / (observed.window_ns as f64 / 1e9).max(1e-9)),
            user_s: server.parts_s.map(|(user_s, _)| round(user_s)),
            system_s: server.parts_s.map(|(_, system_s)| round(system_s)),
            cpu_us_per_request: per(observed.tally.totals.answered),
            cpu_us_per_key: per(observed.tally.totals.keys_answered),
        })
    }
}

#[cfg(test)]
#[path = "report_test.rs"]
pub(crate) mod tests;
