//! What the generator costs, beside a bare exchange of the same bytes and beside memtier; and what
//! io_uring costs beside epoll.
//!
//! Contestants take turns on the generator's core, against the same server on the other. Whole
//! processes are compared with memtier by one ruler: the processor time that a shell says its
//! child has used.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{
    claim::{Claim, Measured, Peer},
    compare::{Series, alternate, median, statistic},
    cpu::{GET, contest, details, pinned, within},
    fleet::{Fleet, Shape, Verb},
    generator::{CONNECTIONS, KEYS, VALUE_BYTES},
    lab::{CLIENT_CORE, Lab, SERVER_CORE},
    procfs,
    server::{Instrument, Launch, Server},
    wire::Client,
};
use crate::{exec::Exec, tools};

/// Longest one run may take.
const RUN_MAX: Duration = Duration::from_secs(300);
/// Rounds of a comparison.
const ROUNDS: usize = 8;
/// The same, in the full form.
const ROUNDS_LONG: usize = 20;
/// How long requests flow before they are measured.
const WARM_UP: Duration = Duration::from_millis(200);
/// How long one exchange lasts.
const RUN_S: &str = "1.0";
/// Requests of a run that memtier makes too.
const REQUESTS: u64 = 600_000;
/// The same, of a server that is many times slower.
const REQUESTS_SLOW: u64 = 30_000;
/// The share of its core that a saturated server uses or waits for.
const SATURATED: f64 = 0.95;
/// How far the rates of two generators may lie apart where the noise is less.
const AGREED: f64 = 0.05;
/// What makes keys of twenty bytes at both generators, so that one finds what the other stored.
const MEMTIER_PREFIX: &str = "memtier-keys-00";

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::alone(
        "cost.depth1",
        "the generator's CPU per request beside a bare ping-pong, depth 1",
        "<= 1.5x",
        floor,
    ),
    Claim::alone(
        "cost.depth16",
        "the generator's CPU per request beside memtier's, depth 16",
        "<= 0.6x",
        beside_memtier,
    ),
    Claim {
        id: "cost.saturates",
        claim: "one thread saturates one worker of memcached at depth 16",
        bar: "core >= 95 % busy",
        peer: Peer::NewestMemcached,
        measure: saturates,
    },
    Claim::alone(
        "cost.agrees",
        "the rate of a memcached that both saturate (slowed by valgrind), beside memtier's figure",
        "within the noise or 5 %",
        agrees,
    ),
    Claim::alone(
        "uring.depth1",
        "server CPU per request at depth 1: uring beside epoll",
        "<= 1.0x, else auto is not uring",
        uring,
    ),
];

fn rounds(lab: &Lab) -> usize {
    if lab.long { ROUNDS_LONG } else { ROUNDS }
}

fn on_core(program: impl AsRef<std::ffi::OsStr>) -> Exec {
    Exec::new("taskset").args(["-c", &CLIENT_CORE.to_string()]).arg(program)
}

fn number(report: &Value, part: &str, field: &str) -> Result<f64> {
    let value = if part.is_empty() { &report[field] } else { &report[part][field] };
    value.as_f64().with_context(|| format!("the report has no {part} {field}"))
}

/// The generator against a bare exchange of the same request and reply, on one server.
fn floor(lab: &Lab) -> Result<Measured> {
    let batch = Shape { verb: Verb::Get(1), depth: 1 }.batch(0);
    let server = pinned(lab.launch_volvox()?).start(&lab.folder())?;
    Fleet::connect(server.address(), 1)?.fill()?;
    fill(lab, &server)?;
    let request = String::from_utf8(batch.request.clone()).context("a request is text")?;
    let (target, reply_bytes) = (server.address().to_string(), batch.reply.len().to_string());
    let connections = CONNECTIONS.to_string();
    let bare = ["load", "ping-pong", "--target", &target, "--request", request.trim_end()];
    let bare = bare.into_iter().chain(["--reply-bytes", &reply_bytes, "--duration-s", RUN_S]);
    let bare = on_core(&lab.volvox).args(bare).args(["--connections", &connections]);
    let words = run_words(&server, 1);
    let checked = on_core(&lab.volvox).args(&words).args(["--duration", "1s"]);
    let series = alternate(2, rounds(lab), |which, round| {
        lab.detail(&format!("round {}", round + 1));
        if which == 0 {
            let played: Value = serde_json::from_str(&bare.capture(RUN_MAX)?)?;
            return number(&played, "", "cpu_us_per_request");
        }
        number(&clean(&checked)?, "generator", "cpu_us_per_request")
    })?;
    server.stop()?;
    let (factor, interval) = statistic(&series, |medians| medians[1] / medians[0]);
    let names = ["ping-pong", "volvox load"];
    let measured = Measured::new(within(factor, interval), factor, factor <= 1.5);
    Ok(measured.with_details(details(&names, &series)))
}

/// Settings of one thread of gets that all hit.
fn run_words(server: &Server, depth: usize) -> Vec<String> {
    let mut words: Vec<String> = ["load", "run", "--json"].map(str::to_owned).into();
    let mut put = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    put("target", server.address().to_string());
    put("server-pid", server.pid().to_string());
    put("connections", CONNECTIONS.to_string());
    put("pipeline", depth.to_string());
    put("ratio", "1:0".to_owned());
    put("keys", KEYS.to_string());
    put("value-bytes", VALUE_BYTES.to_string());
    put("warmup", format!("{}ms", WARM_UP.as_millis()));
    words
}

fn fill(lab: &Lab, server: &Server) -> Result<()> {
    let words = run_words(server, 16);
    clean(&on_core(&lab.volvox).args(&words).args(["--requests", "1", "--populate"])).map(drop)
}

/// A run in which every get was answered and hit.
fn clean(exec: &Exec) -> Result<Value> {
    let text = exec.capture(RUN_MAX)?;
    let report: Value =
        serde_json::from_str(&text).with_context(|| format!("`{exec}` printed:\n{text}"))?;
    if report["misses"] != 0 {
        bail!("not a measurement: {} misses", report["misses"]);
    }
    Ok(report)
}

/// What one generator used and reached in a run of so many requests.
struct Run {
    cpu_us: f64,
    per_s: f64,
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
fn timed(exec: Exec) -> Result<(String, f64)> {
    let text = exec.capture(RUN_MAX)?;
    let cpu_s = child_cpu_s(&text).with_context(|| format!("`{exec}` said no times:\n{text}"))?;
    Ok((text, cpu_s))
}

/// A shell on the generator's core that runs its arguments and prints their processor time.
fn shell() -> Exec {
    on_core("bash").args(["-c", "\"$@\" || exit 1; echo; times", "timed"])
}

fn memtier(lab: &Lab, server: &Server, more: &[&str]) -> Result<Exec> {
    let memtier = lab.memtier.as_ref().context("give --memtier PATH (memtier_benchmark)")?;
    let (port, connections) = (server.address().port().to_string(), CONNECTIONS.to_string());
    let (size, most) = (VALUE_BYTES.to_string(), KEYS.to_string());
    let exec = shell().arg(memtier).args(["-s", "127.0.0.1", "-p", &port, "-P", "memcache_text"]);
    let exec = exec.args(["-c", &connections, "-t", "1", "--hide-histogram", "-d", &size]);
    let exec = exec.args(["--key-prefix", MEMTIER_PREFIX, "--key-minimum", "1"]);
    Ok(exec.args(["--key-maximum", &most]).args(more))
}

/// Gets and misses a second in the table that memtier prints: `Gets  OPS  HITS  MISSES ...`.
fn memtier_gets(said: &str) -> Option<(f64, f64)> {
    let line = said.lines().find(|line| line.starts_with("Gets"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    Some((words.get(1)?.parse().ok()?, words.get(3)?.parse().ok()?))
}

fn memtier_run(lab: &Lab, server: &Server, requests: u64) -> Result<Run> {
    let each = (requests / CONNECTIONS as u64).to_string();
    let exec = memtier(lab, server, &["--ratio", "0:1", "--pipeline", "16", "-n", &each])?;
    let (text, cpu_s) = timed(exec)?;
    let (per_s, misses) =
        memtier_gets(&text).with_context(|| format!("memtier printed:\n{text}"))?;
    if misses > 0.0 {
        bail!("not a measurement: memtier misses {misses} a second");
    }
    Ok(Run { cpu_us: cpu_s * 1e6 / requests as f64, per_s })
}

fn own_run(lab: &Lab, server: &Server, requests: u64) -> Result<Run> {
    let words = run_words(server, 16);
    let exec = shell().arg(&lab.volvox).args(&words).args(["--requests", &requests.to_string()]);
    let (text, cpu_s) = timed(exec)?;
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let report = values.next().context("the generator printed no report")??;
    if report["misses"] != 0 {
        bail!("not a measurement: {} misses", report["misses"]);
    }
    // The warm-up is in the processor time, so its requests count as well.
    let per_s = number(&report, "rate", "achieved_per_s")?;
    let all = requests as f64 + per_s * WARM_UP.as_secs_f64();
    Ok(Run { cpu_us: cpu_s * 1e6 / all, per_s })
}

/// Both generators in turn on one server: processor time and rate, memtier first.
fn duel(lab: &Lab, server: &Server, requests: u64) -> Result<[Vec<Series>; 2]> {
    fill(lab, server)?;
    let all = ["--ratio", "1:0", "--key-pattern", "P:P", "-n", "allkeys", "--pipeline", "16"];
    memtier(lab, server, &all)?.capture(RUN_MAX)?;
    let mut rates = vec![Series::new(), Series::new()];
    let costs = alternate(2, rounds(lab), |which, round| {
        lab.detail(&format!("round {}", round + 1));
        let run = match which {
            0 => memtier_run(lab, server, requests),
            _ => own_run(lab, server, requests),
        }?;
        rates[which].push(run.per_s);
        Ok(run.cpu_us)
    })?;
    Ok([costs, rates])
}

const GENERATORS: [&str; 2] = ["memtier", "volvox load"];

fn beside_memtier(lab: &Lab) -> Result<Measured> {
    let server = pinned(lab.launch_volvox()?).start(&lab.folder())?;
    let [costs, _] = duel(lab, &server, REQUESTS)?;
    server.stop()?;
    let (factor, interval) = statistic(&costs, |medians| medians[1] / medians[0]);
    let measured = Measured::new(within(factor, interval), factor, factor <= 0.6);
    Ok(measured.with_details(details(&GENERATORS, &costs)))
}

fn saturates(lab: &Lab) -> Result<Measured> {
    let server = lab.launch_memcached().memory_mib(256).core(SERVER_CORE).start(&lab.folder())?;
    fill(lab, &server)?;
    let words = run_words(&server, 16);
    let exec = on_core(&lab.volvox).args(&words).args(["--duration", "3s"]);
    let mut shares = Series::new();
    for round in 0..rounds(lab) / 2 {
        lab.detail(&format!("round {}", round + 1));
        shares.push(share(&server, &exec)?);
    }
    server.stop()?;
    let busy = median(&shares);
    let text = format!("{:.0} % busy", busy * 100.0);
    let each = shares.iter().map(|share| format!("{:.0} %", share * 100.0)).collect();
    Ok(Measured::new(text, busy, busy >= SATURATED).with_details(each))
}

/// At full speed memtier's one thread is slower than memcached's worker, and its figure is its
/// own; below valgrind the worker is the slower one, and both say how fast it is.
fn agrees(lab: &Lab) -> Result<Measured> {
    tools::VALGRIND.need()?;
    let mut launch = lab.launch_memcached().memory_mib(256).core(SERVER_CORE);
    launch.instrument = Instrument::Callgrind(lab.folder().join("callgrind-slow.out"));
    let server = launch.start(&lab.folder())?;
    let [_, rates] = duel(lab, &server, REQUESTS_SLOW)?;
    server.stop()?;
    let (factor, interval) = statistic(&rates, |medians| medians[1] / medians[0]);
    let apart = (interval.low - 1.0).max(1.0 - interval.high).max(0.0);
    let rate = |(name, one): (&&str, &Series)| format!("{name}: {:.0} requests/s", median(one));
    let details = GENERATORS.iter().zip(&rates).map(rate).collect();
    let measured = Measured::new(within(factor, interval), factor, apart <= AGREED);
    Ok(measured.with_details(details))
}

/// How much of its core the server used or, kept off it by others, was waiting for.
fn share(server: &Server, exec: &Exec) -> Result<f64> {
    let (began, before_ns) = (Instant::now(), procfs::scheduled(server.pid())?);
    let report = clean(exec)?;
    let waited_ns = procfs::scheduled(server.pid())?.1.saturating_sub(before_ns.1);
    let waited = waited_ns as f64 / began.elapsed().as_nanos() as f64;
    Ok((number(&report, "server", "cores")? + waited).min(1.0))
}

fn uring(lab: &Lab) -> Result<Measured> {
    let with = |driver: &str| -> Result<Launch> {
        let mut launch = lab.launch_volvox()?;
        launch.env.push(("VOLVOX_SERVER_DRIVER", driver.to_owned()));
        Ok(pinned(launch))
    };
    for driver in ["uring", "epoll"] {
        let serving = driver_of(lab, with(driver)?)?;
        if serving != driver {
            return Ok(Measured::not(format!("{driver} is not allowed here, {serving} serves")));
        }
    }
    let auto = driver_of(lab, with("auto")?)?;
    let series = contest(lab, &[with("epoll")?, with("uring")?], GET)?;
    let (factor, interval) = statistic(&series, |medians| medians[1] / medians[0]);
    let text = format!("{}; auto is {auto}", within(factor, interval));
    let holds = factor <= 1.0 || auto != "uring";
    let details = details(&["epoll", "uring"], &series);
    Ok(Measured::new(text, factor, holds).with_details(details))
}

/// Which driver serves, by the server's own word.
fn driver_of(lab: &Lab, launch: Launch) -> Result<String> {
    let server = launch.start(&lab.folder())?;
    let mut said = Client::connect(server.address())?.stats_of("stats settings")?;
    server.stop()?;
    said.remove("driver").context("stats settings names no driver")
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
        let said = "Type  Ops/sec  Hits/sec  Misses/sec\nSets 1.0 --- ---\nGets 5.5 5.0 0.5 0.1\n";
        assert_eq!(memtier_gets(said), Some((5.5, 0.5)));
        assert_eq!(memtier_gets("none"), None);
    }
}
