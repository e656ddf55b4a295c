//! Load from a process of its own: `volvox load run`, and redis's generator for redis.
//!
//! What is measured is the server: the processor time its threads used while the generator ran, by
//! the kernel's account, divided by the requests answered. A run with an error, a miss or a wrong
//! value is no measurement.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{
    bench::{CLIENT_CORE, Lab},
    procfs,
    server::Server,
};
use measure::{exec::Exec, tools};

/// Longest one run may take.
const RUN_MAX: Duration = Duration::from_secs(300);
/// Keys that are stored and asked for.
pub const KEYS: u64 = 50_000;
/// Bytes of every key.
pub const KEY_BYTES: usize = 20;
/// Bytes of every value.
pub const VALUE_BYTES: usize = 300;
/// Seconds that one exchange with the null server lasts.
const NULL_S: &str = "1.0";
/// How long requests flow before they are measured.
const WARM_UP: &str = "200ms";
/// Connections the generator opens.
pub const CONNECTIONS: usize = 50;

/// What the generator is to do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Gets for each set, as the generator writes it.
    pub ratio: &'static str,
    /// Requests in flight on one connection.
    pub depth: usize,
    /// Keys of one get.
    pub multiget: usize,
    /// How many requests.
    pub requests: u64,
    /// Requests a second; closed loop when absent.
    pub rate: Option<u64>,
}

/// What the generator reports, as far as it is used here.
#[derive(Debug, Deserialize)]
pub struct Outcome {
    requests: Requests,
    misses: u64,
    wrong_values: u64,
    rate: Rate,
    get_latency: Option<Latency>,
    server: Option<Cost>,
}

#[derive(Debug, Deserialize)]
struct Requests {
    not_stored: u64,
    errors: u64,
    lost: u64,
    unanswered: u64,
    unsent: u64,
}

#[derive(Debug, Deserialize)]
struct Rate {
    achieved_per_s: f64,
}

#[derive(Debug, Deserialize)]
struct Latency {
    p999_us: f64,
}

#[derive(Debug, Deserialize)]
struct Cost {
    cpu_us_per_request: f64,
}

impl Outcome {
    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.rate.achieved_per_s
    }

    /// Latency of the 999th of a thousand gets.
    pub fn p999_us(&self) -> Result<f64> {
        self.get_latency.as_ref().map(|latency| latency.p999_us).context("no get was answered")
    }

    /// Microseconds of the server's processor time for one request.
    pub fn cpu_us(&self) -> Result<f64> {
        let cost = self.server.as_ref().context("the server's processor time is not known")?;
        Ok(cost.cpu_us_per_request)
    }

    fn clean(self) -> Result<Self> {
        let requests = &self.requests;
        let lost = requests.lost + requests.unanswered + requests.unsent + requests.not_stored;
        if requests.errors + lost + self.misses + self.wrong_values > 0 {
            bail!(
                "not a measurement: {} errors, {lost} requests without their answer, {} misses, \
                 {} wrong values",
                requests.errors,
                self.misses,
                self.wrong_values
            );
        }
        Ok(self)
    }
}

impl Load {
    fn words(&self, server: &Server) -> Vec<String> {
        let mut words: Vec<String> = ["load", "run", "--json"].map(str::to_owned).into();
        let mut put = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        put("target", server.address().to_string());
        put("server-pid", server.pid().to_string());
        put("warmup", WARM_UP.to_owned());
        put("connections", CONNECTIONS.to_string());
        put("pipeline", self.depth.to_string());
        put("multiget", self.multiget.to_string());
        put("ratio", self.ratio.to_owned());
        put("keys", KEYS.to_string());
        put("key-bytes", KEY_BYTES.to_string());
        put("value-bytes", VALUE_BYTES.to_string());
        put("requests", self.requests.to_string());
        if let Some(rate) = self.rate {
            put("rate", rate.to_string());
        }
        words
    }
}

/// Stores every key.
pub fn populate(lab: &Lab, server: &Server) -> Result<()> {
    let load = Load { ratio: "1:0", depth: 1, multiget: 1, requests: 1, rate: None };
    let mut words = load.words(server);
    words.push("--populate".to_owned());
    run(lab, &words)?.clean().context("store the keys").map(drop)
}

/// Runs the load against a server that has the keys.
pub fn drive(lab: &Lab, server: &Server, load: Load) -> Result<Outcome> {
    run(lab, &load.words(server))?.clean()
}

fn run(lab: &Lab, words: &[String]) -> Result<Outcome> {
    let core = CLIENT_CORE.to_string();
    let exec = Exec::new("taskset").args(["-c", &core]).arg(&lab.volvox).args(words);
    let text = exec.capture(RUN_MAX)?;
    serde_json::from_str(&text).with_context(|| format!("`{exec}` printed:\n{text}"))
}

/// Exchanges messages with the null server, as many in flight as the load would have;
/// microseconds of its processor time for one.
pub fn drive_null(lab: &Lab, server: &Server, bytes: (usize, usize), depth: usize) -> Result<f64> {
    #[derive(Deserialize)]
    struct Played {
        requests: u64,
    }
    let target = server.address().to_string();
    let numbers = [bytes.0, bytes.1, CONNECTIONS, depth].map(|number| number.to_string());
    let words = ["load", "ping-pong", "--target", &target, "--duration-s", NULL_S];
    let sizes = ["--request-bytes", &numbers[0], "--reply-bytes", &numbers[1]];
    let shape = ["--connections", &numbers[2], "--pipeline", &numbers[3]];
    let core = CLIENT_CORE.to_string();
    let exec = Exec::new("taskset").args(["-c", &core]).arg(&lab.volvox);
    let exec = exec.args(words).args(sizes).args(shape);
    let before_ns = procfs::cpu_ns(server.pid())?;
    let text = exec.capture(RUN_MAX)?;
    let spent_ns = procfs::cpu_ns(server.pid())?.saturating_sub(before_ns);
    let played: Played =
        serde_json::from_str(&text).with_context(|| format!("`{exec}` printed:\n{text}"))?;
    per_request_us(spent_ns, played.requests)
}

/// Stores in redis what `drive_redis` asks for.
pub fn fill_redis(server: &Server, depth: usize) -> Result<()> {
    // Keys are drawn, not counted through: ten draws a key leave few out.
    redis(server, "set", depth, 10 * KEYS)
}

/// Loads redis with gets through its own generator; microseconds of its processor time a request.
pub fn drive_redis(server: &Server, depth: usize, requests: u64) -> Result<f64> {
    let before_ns = procfs::cpu_ns(server.pid())?;
    redis(server, "get", depth, requests)?;
    let spent_ns = procfs::cpu_ns(server.pid())?.saturating_sub(before_ns);
    per_request_us(spent_ns, requests)
}

fn per_request_us(spent_ns: u64, requests: u64) -> Result<f64> {
    if requests == 0 {
        bail!("the generator made no request");
    }
    Ok(spent_ns as f64 / 1000.0 / requests as f64)
}

fn redis(server: &Server, test: &str, depth: usize, requests: u64) -> Result<()> {
    let benchmark = tools::REDIS_BENCHMARK.need()?;
    let port = server.address().port().to_string();
    let text = |number: u64| number.to_string();
    let core = CLIENT_CORE.to_string();
    let exec = Exec::new("taskset").args(["-c", &core]).arg(benchmark).args(["-q", "-p", &port]);
    let exec = exec.args(["-c", &CONNECTIONS.to_string(), "-P", &depth.to_string()]);
    let exec =
        exec.args(["-n", &text(requests), "-d", &VALUE_BYTES.to_string(), "-r", &text(KEYS)]);
    exec.args(["-t", test]).capture(RUN_MAX).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(misses: u64) -> Outcome {
        let text = format!(
            r#"{{"schema": "volvox-load/1", "misses": {misses}, "wrong_values": 0,
                "requests": {{"not_stored": 0, "errors": 0, "lost": 0, "unanswered": 0,
                "unsent": 0, "gets": 10}}, "rate": {{"achieved_per_s": 5.0}},
                "get_latency": {{"p999_us": 7.5}}, "server": {{"cpu_us_per_request": 1.25}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_report_of_a_run_is_read() {
        let outcome = outcome(0).clean().unwrap();
        assert_eq!(outcome.rate(), 5.0);
        assert_eq!(outcome.p999_us().unwrap(), 7.5);
        assert_eq!(outcome.cpu_us().unwrap(), 1.25);
    }

    #[test]
    fn a_run_with_a_miss_is_no_measurement() {
        let error = outcome(3).clean().unwrap_err().to_string();
        assert!(error.contains("3 misses"), "{error}");
    }
}
