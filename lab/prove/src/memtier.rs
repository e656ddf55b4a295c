//! Our generator and memtier in turn on one server: what each used, and what each says it saw.
//!
//! Both make the same requests: as many gets on as many connections, for the same items, drawn
//! evenly. The keys are stored once: a server finds what was stored last sooner. memtier asks for
//! four fifths of them, those whose numbers fill their places without zeros. Whole processes are
//! compared by one ruler: the processor time that a shell says its child has used, and the kernel's
//! account of the server's. A run with a miss is no measurement.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{
    bench::{CLIENT_CORE, Lab},
    generator::{CONNECTIONS, KEYS, VALUE_BYTES},
    procfs,
    server::Server,
};
use measure::exec::Exec;

/// Longest one run may take.
const RUN_MAX: Duration = Duration::from_secs(300);
/// The beginning of a key: ours ends with six digits and zeros before them, memtier's with five.
const OUR_PREFIX: [&str; 2] = ["--key-prefix", "memtier-keys-0"];
const PREFIX: &str = "memtier-keys-00";
/// The numbers of memtier's keys.
const FIRST: u64 = 10_000;
const LAST: u64 = KEYS - 1;
/// Requests in flight on a connection while keys are stored.
const FILL_DEPTH: usize = 16;

/// The two, in the order of every series.
pub const NAMES: [&str; 2] = ["memtier", "volvox load"];

/// What one generator used, and what it says it saw.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Its own processor time for a request.
    pub cpu_us: f64,
    /// Replies a second, by its own word.
    pub per_s: f64,
    /// Latency of the middle request, by its own word.
    pub p50_us: f64,
    /// Latency of the 99th of a hundred.
    pub p99_us: f64,
    /// The server's processor time for a request.
    pub server_us: f64,
    /// How long the server's threads waited for their core, as a share of the time they ran.
    pub server_waited: f64,
}

/// The shape of a run.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Connections.
    pub connections: usize,
    /// Requests in flight on each.
    pub depth: usize,
    /// Requests of a run; a multiple of the connections.
    pub requests: u64,
}

/// Both generators on one server that holds their keys.
pub struct Duel<'a> {
    lab: &'a Lab,
    memtier: &'a Path,
    server: &'a Server,
}

impl<'a> Duel<'a> {
    /// Stores what both ask for.
    pub fn new(lab: &'a Lab, server: &'a Server) -> Result<Self> {
        let memtier = lab.memtier.as_ref().context("give --memtier PATH (memtier_benchmark)")?;
        store(lab, server, &OUR_PREFIX)?;
        Ok(Self { lab, memtier, server })
    }

    /// One run of memtier (0) or ours (1).
    pub fn run(&self, which: usize, shape: Shape) -> Result<Run> {
        let before = procfs::scheduled(self.server.pid())?;
        let run = if which == 0 { self.memtier(shape) } else { self.own(shape) }?;
        let after = procfs::scheduled(self.server.pid())?;
        let ran_ns = after.0.saturating_sub(before.0).max(1) as f64;
        let waited_ns = after.1.saturating_sub(before.1) as f64;
        let server_us = ran_ns / 1e3 / shape.requests as f64;
        Ok(Run { server_us, server_waited: waited_ns / ran_ns, ..run })
    }

    fn theirs(&self, connections: usize, depth: usize) -> Exec {
        let port = self.server.address().port().to_string();
        let numbers = [VALUE_BYTES as u64, FIRST, LAST, connections as u64, depth as u64];
        let [size, first, last, connections, depth] = numbers.map(|number| number.to_string());
        let exec = shell().arg(self.memtier).args(["-s", "127.0.0.1", "-p", &port]);
        let exec = exec.args(["-P", "memcache_text", "-t", "1", "--hide-histogram"]);
        let exec = exec.args(["-c", &connections, "--pipeline", &depth, "-d", &size]);
        let exec = exec.args(["--key-prefix", PREFIX, "--key-minimum", &first]);
        exec.args(["--key-maximum", &last])
    }

    fn memtier(&self, shape: Shape) -> Result<Run> {
        let each = (shape.requests / shape.connections as u64).to_string();
        let exec =
            self.theirs(shape.connections, shape.depth).args(["--ratio", "0:1", "-n", &each]);
        let (text, cpu_s) = timed(&exec)?;
        let gets = Gets::read(&text).with_context(|| format!("memtier printed:\n{text}"))?;
        if gets.misses_per_s > 0.0 {
            bail!("not a measurement: memtier misses {} a second", gets.misses_per_s);
        }
        let Gets { per_s, p50_us, p99_us, .. } = gets;
        let cpu_us = cpu_s * 1e6 / shape.requests as f64;
        Ok(Run { cpu_us, per_s, p50_us, p99_us, server_us: 0.0, server_waited: 0.0 })
    }

    fn own(&self, shape: Shape) -> Result<Run> {
        let words = run_words(self.server, shape.connections, shape.depth);
        // Without a warm-up the processor time is that of the requests counted, as at memtier.
        let limit = ["--warmup", "0s", "--requests", &shape.requests.to_string()];
        let exec = shell().arg(&self.lab.volvox).args(&words).args(OUR_PREFIX).args(limit);
        let (text, cpu_s) = timed(&exec)?;
        let report = first_value(&text)?;
        no_miss(&report)?;
        let latency = |field: &str| number(&report, "get_latency", field);
        Ok(Run {
            cpu_us: cpu_s * 1e6 / shape.requests as f64,
            per_s: number(&report, "rate", "achieved_per_s")?,
            p50_us: latency("p50_us")?,
            p99_us: latency("p99_us")?,
            server_us: 0.0,
            server_waited: 0.0,
        })
    }
}

/// Settings of one thread of gets that all hit.
pub fn run_words(server: &Server, connections: usize, depth: usize) -> Vec<String> {
    let mut words: Vec<String> = ["load", "run", "--json"].map(str::to_owned).into();
    let mut put = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    put("target", server.address().to_string());
    put("server-pid", server.pid().to_string());
    put("connections", connections.to_string());
    put("pipeline", depth.to_string());
    put("ratio", "1:0".to_owned());
    put("keys", KEYS.to_string());
    put("value-bytes", VALUE_BYTES.to_string());
    words
}

/// Stores the keys of our generator.
pub fn fill(lab: &Lab, server: &Server) -> Result<()> {
    store(lab, server, &[])
}

fn store(lab: &Lab, server: &Server, more: &[&str]) -> Result<()> {
    let words = run_words(server, CONNECTIONS, FILL_DEPTH);
    let one = ["--warmup", "0s", "--requests", "1", "--populate"];
    clean(&on_core(&lab.volvox).args(&words).args(one).args(more)).map(drop)
}

/// A run in which every get was answered and hit.
pub fn clean(exec: &Exec) -> Result<Value> {
    let text = exec.capture(RUN_MAX)?;
    let report = first_value(&text)?;
    no_miss(&report)?;
    Ok(report)
}

/// A number of a report.
pub fn number(report: &Value, part: &str, field: &str) -> Result<f64> {
    let value = if part.is_empty() { &report[field] } else { &report[part][field] };
    value.as_f64().with_context(|| format!("the report has no {part} {field}"))
}

/// A program on the generator's core.
pub fn on_core(program: impl AsRef<std::ffi::OsStr>) -> Exec {
    Exec::new("taskset").args(["-c", &CLIENT_CORE.to_string()]).arg(program)
}

fn no_miss(report: &Value) -> Result<()> {
    if report["misses"] != 0 {
        bail!("not a measurement: {} misses", report["misses"]);
    }
    Ok(())
}

fn first_value(text: &str) -> Result<Value> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    values
        .next()
        .and_then(Result::ok)
        .with_context(|| format!("the generator printed no report:\n{text}"))
}

/// What memtier prints of its gets: `Gets  OPS  HITS  MISSES  AVERAGE  P50  P99 ...`, in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gets {
    per_s: f64,
    misses_per_s: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Gets {
    fn read(said: &str) -> Option<Self> {
        let line = said.lines().find(|line| line.starts_with("Gets"))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse::<f64>().ok();
        let (p50_us, p99_us) = (number(5)? * 1e3, number(6)? * 1e3);
        Some(Self { per_s: number(1)?, misses_per_s: number(3)?, p50_us, p99_us })
    }
}

/// Processor seconds of the child in what bash's `times` prints last: `0m1.234s 0m0.567s`.
fn child_cpu_s(said: &str) -> Option<f64> {
    let seconds = |word: &str| -> Option<f64> {
        let (minutes, rest) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + rest.parse::<f64>().ok()?)
    };
    let mut words = said.lines().rev().find(|line| !line.trim().is_empty())?.split_whitespace();
    Some(seconds(words.next()?)? + seconds(words.next()?)?)
}

/// Runs a program below a shell that then says what it has used.
fn timed(exec: &Exec) -> Result<(String, f64)> {
    let text = exec.capture(RUN_MAX)?;
    let cpu_s = child_cpu_s(&text).with_context(|| format!("`{exec}` said no times:\n{text}"))?;
    Ok((text, cpu_s))
}

/// A shell on the generator's core that runs its arguments and prints their processor time.
fn shell() -> Exec {
    on_core("bash").args(["-c", "\"$@\" || exit 1; echo; times", "timed"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_child() {
        let said = "x\n0m0.002s 0m0.000s\n1m1.500s 0m0.250s\n";
        assert_eq!(child_cpu_s(said), Some(61.75));
        assert_eq!(child_cpu_s("nothing"), None);
    }

    #[test]
    fn memtiers_table_is_read() {
        let said = "Type  Ops/sec  Hits/sec\nSets 1.0 --- ---\nGets 5.5 5.0 0.5 1.2 1.5 2.5 9 9\n";
        let expected = Gets { per_s: 5.5, misses_per_s: 0.5, p50_us: 1500.0, p99_us: 2500.0 };
        assert_eq!(Gets::read(said), Some(expected));
        assert_eq!(Gets::read("none"), None);
    }
}
