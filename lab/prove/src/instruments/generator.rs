//! Load from a process of its own: `volvox load`, and redis's generator for redis.
//!
//! What is measured is the server: the processor time that its threads used while the generator
//! ran, by the kernel's account, divided by the requests answered. A run with an error, a miss or a
//! wrong value is no measurement.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::lab::Lab;
use measure::{account::Account, exec::Exec, process::Server, tools};

/// Longest one run may take.
pub const RUN_MAX: Duration = Duration::from_secs(300);
/// Keys that most loads store and request.
pub const KEYS: u64 = 50_000;
/// Bytes of the values of most loads.
pub const VALUE_BYTES: usize = 300;
/// Connections that a generator opens.
pub const CONNECTIONS: usize = 50;
/// Seconds that one bare exchange lasts.
const BARE_S: &str = "1.0";

/// What the generator is to do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Gets for each set, as the generator writes it.
    pub ratio: &'static str,
    /// Connections.
    pub connections: usize,
    /// Requests in flight on one connection.
    pub depth: usize,
    /// Keys of one get.
    pub multiget: usize,
    /// How long requests flow before they are measured.
    pub warm_up: &'static str,
    /// When it ends.
    pub limit: Limit,
    /// Requests a second; closed loop when absent.
    pub rate: Option<u64>,
    /// What every key begins with.
    pub prefix: &'static str,
    /// How many keys there are.
    pub keys: u64,
    /// Which of them are requested, as the generator writes it.
    pub popularity: &'static str,
    /// Bytes of every value.
    pub value_bytes: usize,
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// After a number of requests.
    Requests(u64),
    /// After a time, as the generator writes it.
    Duration(&'static str),
}

/// Gets of one key, one at a time on each connection.
pub const GET: Load = Load {
    ratio: "1:0",
    connections: CONNECTIONS,
    depth: 1,
    multiget: 1,
    warm_up: "200ms",
    limit: Limit::Requests(100_000),
    rate: None,
    prefix: "key",
    keys: KEYS,
    popularity: "uniform",
    value_bytes: VALUE_BYTES,
};

/// Counts of a report that must be zero.
const WRONG: [&str; 7] = [
    "/requests/not_stored",
    "/requests/errors",
    "/requests/lost",
    "/requests/unanswered",
    "/requests/unsent",
    "/misses",
    "/wrong_values",
];

/// Latencies by time, in microseconds, as the generator reports them.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ByTime {
    /// When the window began, by the clock that processes share.
    pub began_mono_ns: u64,
    /// One after the other.
    pub seconds: Vec<Second>,
    /// Length of a slot.
    pub slot_ms: f64,
    /// The longest latency of the requests that were answered in each slot.
    pub worst_us: Vec<f64>,
    /// The longest wait for the generator of the requests that were sent in each slot.
    pub own_delay_us: Vec<f64>,
}

/// The requests that were answered within one second.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Second {
    /// How many they were.
    pub count: u64,
    /// Their percentiles.
    pub p50_us: f64,
    /// See above.
    pub p99_us: f64,
    /// See above.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// The report of a run, as the generator prints it.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Outcome(Value);

impl Outcome {
    /// A number by its path: `/rate/achieved_per_s`.
    pub fn number(&self, path: &str) -> Result<f64> {
        let number = self.0.pointer(path).and_then(Value::as_f64);
        number.with_context(|| format!("the report has no {path}"))
    }

    /// Latencies by time, where the run kept them.
    pub fn by_time(&self) -> Result<ByTime> {
        let by_time = self.0.get("by_time").cloned().unwrap_or_default();
        serde_json::from_value(by_time).context("the report has no latencies by time")
    }

    /// What went wrong, in words: nothing where every request was answered as it should be.
    pub fn wrong(&self) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for path in WRONG {
            let (count, name) = (self.number(path)?, path.rsplit('/').next().unwrap_or(path));
            if count > 0.0 {
                wrong.push(format!("{count} {}", name.replace('_', " ")));
            }
        }
        Ok(wrong)
    }

    /// Fails unless every request was answered as it should be.
    pub fn clean(self) -> Result<Self> {
        let wrong = self.wrong()?;
        if !wrong.is_empty() {
            bail!("not a measurement: {}", wrong.join(", "));
        }
        Ok(self)
    }
}

impl Load {
    /// The words of `volvox` that drive this load on a server.
    pub fn words(&self, server: &Server) -> Vec<String> {
        self.words_for(server.address(), server.pid())
    }

    /// The same for the process `pid` that listens at `target`.
    pub fn words_for(&self, target: SocketAddr, pid: u32) -> Vec<String> {
        let mut words: Vec<String> = ["load", "run", "--json"].map(str::to_owned).into();
        let mut put = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        put("target", target.to_string());
        put("server-pid", pid.to_string());
        put("warmup", self.warm_up.to_owned());
        put("connections", self.connections.to_string());
        put("pipeline", self.depth.to_string());
        put("multiget", self.multiget.to_string());
        put("ratio", self.ratio.to_owned());
        put("keys", self.keys.to_string());
        put("popularity", self.popularity.to_owned());
        put("key-prefix", self.prefix.to_owned());
        put("value-bytes", self.value_bytes.to_string());
        match self.limit {
            Limit::Requests(requests) => put("requests", requests.to_string()),
            Limit::Duration(time) => put("duration", time.to_owned()),
        }
        if let Some(rate) = self.rate {
            put("rate", rate.to_string());
        }
        words
    }

    /// Stores every key that this load requests.
    pub fn populate(&self, lab: &Lab, server: &Server) -> Result<()> {
        let one = Self { limit: Limit::Requests(1), rate: None, warm_up: "0s", ..*self };
        let exec = lab.generator()?.args(one.words(server)).arg("--populate");
        exec.json::<Outcome>(RUN_MAX)?.clean().context("store the keys").map(drop)
    }

    /// Drives a server that has the keys.
    pub fn drive(&self, lab: &Lab, server: &Server) -> Result<Outcome> {
        self.try_drive(lab, server)?.clean()
    }

    /// Drives a server that may refuse some of the requests.
    pub fn try_drive(&self, lab: &Lab, server: &Server) -> Result<Outcome> {
        lab.generator()?.args(self.words(server)).json(RUN_MAX)
    }
}

/// What a bare exchange of messages reports.
#[derive(Deserialize)]
pub struct Exchanged {
    /// Messages that were answered.
    pub requests: u64,
    /// The generator's own processor time of one.
    pub cpu_us_per_request: f64,
}

/// Exchanges messages of fixed lengths, as many in flight as a load has; `request` are the words
/// that say what is sent.
pub fn exchange(
    lab: &Lab,
    server: &Server,
    request: [&str; 2],
    reply_bytes: usize,
    depth: usize,
) -> Result<Exchanged> {
    let target = server.address().to_string();
    let numbers = [reply_bytes, CONNECTIONS, depth].map(|number| number.to_string());
    let words = ["load", "ping-pong", "--target", &target, "--duration-s", BARE_S];
    let exec = lab.generator()?.args(words).args(request).args(["--reply-bytes", &numbers[0]]);
    exec.args(["--connections", &numbers[1], "--pipeline", &numbers[2]]).json(RUN_MAX)
}

/// Microseconds of a server's processor time for one of the requests that `drive` makes and counts.
pub fn server_us(server: &Server, drive: impl FnOnce() -> Result<u64>) -> Result<f64> {
    let before = Account::of(server.pid())?;
    let requests = drive()?;
    if requests == 0 {
        bail!("the generator made no request");
    }
    Ok((Account::of(server.pid())? - before).cpu_ns as f64 / 1e3 / requests as f64)
}

/// Loads redis through its own generator.
pub fn redis(lab: &Lab, server: &Server, test: &str, depth: usize, requests: u64) -> Result<u64> {
    let port = server.address().port().to_string();
    let numbers = [CONNECTIONS as u64, depth as u64, requests, VALUE_BYTES as u64, KEYS];
    let [connections, depth, count, size, keys] = numbers.map(|number| number.to_string());
    let exec = Exec::new(tools::REDIS_BENCHMARK.need()?).cores(lab.cores().generator());
    let exec = exec.args(["-q", "-p", &port, "-c", &connections, "-P", &depth, "-n", &count]);
    exec.args(["-d", &size, "-r", &keys, "-t", test]).capture(RUN_MAX)?;
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(misses: u64) -> Outcome {
        let text = format!(
            r#"{{"schema": "volvox-load/1", "misses": {misses}, "wrong_values": 0,
                "requests": {{"not_stored": 0, "errors": 0, "lost": 0, "unanswered": 0,
                "unsent": 0, "gets": 10}}, "rate": {{"achieved_per_s": 5.0}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_report_of_a_run_is_read() {
        let outcome = outcome(0).clean().unwrap();
        assert_eq!(outcome.number("/rate/achieved_per_s").unwrap(), 5.0);
        let error = outcome.number("/get_latency/p999_us").unwrap_err().to_string();
        assert!(error.contains("/get_latency/p999_us"), "{error}");
    }

    #[test]
    fn a_run_with_a_miss_is_no_measurement() {
        let error = outcome(3).clean().unwrap_err().to_string();
        assert!(error.contains("3 misses"), "{error}");
    }
}
