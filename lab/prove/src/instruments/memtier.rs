//! memtier_benchmark: its load on a server, and itself in turn with our generator.
//!
//! One thread of it asks for keys that it draws evenly; a run with a miss is no measurement. Beside
//! our generator both make the same requests: as many gets on as many connections, for the same
//! items. The keys are stored once, since a server finds what was stored last sooner. memtier
//! requests four fifths of them, those whose numbers fill their places without zeros. Whole
//! processes are compared by one ruler: the processor time that a shell reports of its child, and
//! the kernel's account of the server's.

use anyhow::{Context, Result, bail};

use super::generator::{
    CONNECTIONS, GET, KEYS, Limit, Load, Outcome, RUN_MAX, VALUE_BYTES, server_us,
};
use crate::lab::Lab;
use measure::{account::Account, exec::Exec, process::Server};

/// The beginning of a key: ours ends with six digits and zeros before them, memtier's with five.
const OUR_PREFIX: &str = "memtier-keys-0";
const PREFIX: &str = "memtier-keys-00";
/// The numbers of memtier's keys.
const FIRST: u64 = 10_000;
const LAST: u64 = KEYS - 1;
/// Requests in flight on a connection while keys are stored.
const FILL_DEPTH: usize = 16;

/// The two, in the order of every series.
pub const NAMES: [&str; 2] = ["memtier", "volvox load"];

/// What memtier is to do.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// Sets for each get, as memtier writes it.
    pub ratio: &'static str,
    /// Connections.
    pub connections: usize,
    /// Requests in flight on each.
    pub depth: usize,
    /// Requests of a run; a multiple of the connections.
    pub requests: u64,
    /// Bytes of every value.
    pub value_bytes: usize,
    /// What every key begins with.
    pub prefix: &'static str,
}

/// Gets of the keys that our generator stores.
pub const GETS: Asking = Asking {
    ratio: "0:1",
    connections: CONNECTIONS,
    depth: 1,
    requests: 0,
    value_bytes: VALUE_BYTES,
    prefix: PREFIX,
};

impl Asking {
    fn words(&self, server: &Server, more: &[&str]) -> Vec<String> {
        let port = server.address().port().to_string();
        let numbers = [self.value_bytes as u64, FIRST, LAST, self.connections as u64];
        let [size, first, last, connections] = numbers.map(|number| number.to_string());
        let depth = self.depth.to_string();
        let target = ["-s", "127.0.0.1", "-p", &port, "-P", "memcache_text", "-t", "1"];
        let keys = ["--key-prefix", self.prefix, "--key-minimum", &first, "--key-maximum", &last];
        let shape = ["-c", &connections, "--pipeline", &depth, "-d", &size, "--hide-histogram"];
        [&target[..], &keys, &shape, more].concat().into_iter().map(str::to_owned).collect()
    }

    fn run_words(&self, server: &Server) -> Vec<String> {
        let each = (self.requests / self.connections as u64).to_string();
        self.words(server, &["--ratio", self.ratio, "-n", &each])
    }

    /// Stores every key once.
    pub fn fill(&self, lab: &Lab, server: &Server) -> Result<()> {
        let one = Self { connections: 1, depth: FILL_DEPTH, ..*self };
        let more = ["--ratio", "1:0", "--key-pattern", "S:S", "-n", "allkeys"];
        alone(lab)?.args(one.words(server, &more)).capture(RUN_MAX).map(drop)
    }

    /// Microseconds of the server's processor time for one request.
    pub fn server_us(&self, lab: &Lab, server: &Server) -> Result<f64> {
        let exec = alone(lab)?.args(self.run_words(server));
        server_us(server, || {
            Gets::read(&exec.capture(RUN_MAX)?)?;
            Ok(self.requests)
        })
    }
}

/// What one generator used, and what it reports.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Its own processor time for a request.
    pub cpu_us: f64,
    /// Replies a second.
    pub per_s: f64,
    /// Latency of the middle request.
    pub p50_us: f64,
    /// Latency of the 99th of a hundred.
    pub p99_us: f64,
    /// The server's processor time for a request.
    pub server_us: f64,
    /// How long the server's threads waited for their core, as a share of the time they ran.
    pub server_waited: f64,
}

/// Both generators on one server that holds their keys.
pub struct Duel<'a> {
    lab: &'a Lab,
    server: &'a Server,
    connections: usize,
    depth: usize,
    requests: u64,
}

impl<'a> Duel<'a> {
    /// Stores what both request. A run has this many requests, a multiple of the connections.
    pub fn new(
        lab: &'a Lab,
        server: &'a Server,
        connections: usize,
        depth: usize,
        requests: u64,
    ) -> Result<Self> {
        Load { prefix: OUR_PREFIX, depth: FILL_DEPTH, ..GET }.populate(lab, server)?;
        Ok(Self { lab, server, connections, depth, requests })
    }

    /// One run of memtier (0) or ours (1).
    pub fn run(&self, which: usize) -> Result<Run> {
        let before = Account::of(self.server.pid())?;
        let (cpu_s, gets) = if which == 0 { self.memtier() } else { self.own() }?;
        let used = Account::of(self.server.pid())? - before;
        let each_us = |seconds: f64| seconds * 1e6 / self.requests as f64;
        Ok(Run {
            cpu_us: each_us(cpu_s),
            per_s: gets.per_s,
            p50_us: gets.p50_us,
            p99_us: gets.p99_us,
            server_us: each_us(used.cpu_ns as f64 / 1e9),
            server_waited: used.waited_ns as f64 / used.cpu_ns.max(1) as f64,
        })
    }

    fn memtier(&self) -> Result<(f64, Gets)> {
        let Self { connections, depth, requests, .. } = *self;
        let asking = Asking { connections, depth, requests, ..GETS };
        let exec = shell(self.lab).arg(self.lab.memtier()?).args(asking.run_words(self.server));
        let (text, cpu_s) = timed(&exec)?;
        Ok((cpu_s, Gets::read(&text)?))
    }

    fn own(&self) -> Result<(f64, Gets)> {
        let Self { connections, depth, requests, .. } = *self;
        // Without a warm-up the processor time is that of the requests counted, as at memtier.
        let (limit, warm_up) = (Limit::Requests(requests), "0s");
        let load = Load { connections, depth, limit, warm_up, prefix: OUR_PREFIX, ..GET };
        let words = load.words(self.server);
        let (text, cpu_s) = timed(&shell(self.lab).arg(self.lab.volvox()?).args(words))?;
        let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Outcome>();
        let outcome = values.next().context("the generator printed no report")??.clean()?;
        let per_s = outcome.number("/rate/achieved_per_s")?;
        let p50_us = outcome.number("/get_latency/p50_us")?;
        Ok((cpu_s, Gets { per_s, p50_us, p99_us: outcome.number("/get_latency/p99_us")? }))
    }
}

/// What memtier prints of its gets: `Gets  OPS  HITS  MISSES  AVERAGE  P50  P99 ...`, in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gets {
    per_s: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Gets {
    /// Of a run without a miss.
    fn read(said: &str) -> Result<Self> {
        let row = |said: &str| -> Option<[f64; 4]> {
            let line = said.lines().find(|line| line.starts_with("Gets"))?;
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words.get(at)?.parse::<f64>().ok();
            Some([number(1)?, number(3)?, number(5)?, number(6)?])
        };
        let [per_s, misses_per_s, p50_ms, p99_ms] =
            row(said).with_context(|| format!("memtier printed:\n{said}"))?;
        if misses_per_s > 0.0 {
            bail!("not a measurement: memtier misses {misses_per_s} a second");
        }
        Ok(Self { per_s, p50_us: p50_ms * 1e3, p99_us: p99_ms * 1e3 })
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

/// Runs a program below a shell that then prints what it has used.
fn timed(exec: &Exec) -> Result<(String, f64)> {
    let text = exec.capture(RUN_MAX)?;
    let cpu_s = child_cpu_s(&text).with_context(|| format!("`{exec}` said no times:\n{text}"))?;
    Ok((text, cpu_s))
}

/// memtier on the generator's core.
fn alone(lab: &Lab) -> Result<Exec> {
    Ok(Exec::new(lab.memtier()?).cores(lab.cores().generator()))
}

/// A shell on the generator's core that runs its arguments and prints their processor time.
fn shell(lab: &Lab) -> Exec {
    let script = ["-c", "\"$@\" || exit 1; echo; times", "timed"];
    Exec::new("bash").args(script).cores(lab.cores().generator())
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
    fn memtiers_table_is_read_and_a_miss_is_no_measurement() {
        let said = "Type  Ops/sec  Hits/sec\nSets 1.0 --- ---\nGets 5.5 5.0 0.0 1.2 1.5 2.5 9 9\n";
        let expected = Gets { per_s: 5.5, p50_us: 1500.0, p99_us: 2500.0 };
        assert_eq!(Gets::read(said).unwrap(), expected);
        assert!(Gets::read(&said.replace("5.0 0.0", "5.0 0.5")).is_err());
        assert!(Gets::read("none").is_err());
    }
}
