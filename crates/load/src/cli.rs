//! The command line: `load run`, and the two hidden tools that measure the floor.
//!
//! The binary mounts [`Args`] as a subcommand and calls [`run`]; the answer is whether everything
//! that was checked was right, which becomes the exit code.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Parser as _;

use crate::drive::{self, Limit, Mode, Observed, Plan, Watch};
use crate::null_server::NullServerArgs;
use crate::pingpong::PingPongArgs;
use crate::protocol::Protocol;
use crate::replay::HitRatioArgs;
use crate::report::{Report, WorkloadText};
use crate::schedule::Arrival;
use crate::workload::{Popularity, Ratio, Spread, Workload, WorkloadSpec};
use crate::{Error, Target, progress};

/// Pipeline depth of filling: enough to hide the round trip, little enough to be no burst.
const POPULATE_PIPELINE: usize = 16;

/// Everything after `load`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The tools of the generator.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Load a server and report rates, latencies, hits, errors and CPU per request.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Exchange fixed bytes with a null server: the floor that the generator is held against.
    #[command(hide = true)]
    PingPong(PingPongArgs),
    /// Answer fixed bytes to fixed bytes: the floor that a server is held against.
    #[command(hide = true)]
    NullServer(NullServerArgs),
    /// Replay a committed stream as a cache-aside client, and report the hit ratio.
    #[command(hide = true)]
    HitRatio(HitRatioArgs),
}

const RUN_EXAMPLES: &str = "Examples:
  Closed loop, 50 connections, 16 deep, 9 gets to 1 set, all keys stored before:
    volvox load run --target 127.0.0.1:11211 --populate --pipeline 16 --ratio 9:1
  Open loop at 100,000 requests a second, latency counted from the due time:
    volvox load run --target 127.0.0.1:11211 --populate --rate 100000
  A cache-aside client whose every value is checked:
    volvox load run --target unix:/run/volvox.sock --refill --verify --popularity zipf:0.99
Exit code: 0 when every request was answered well, 1 when something was lost, wrong or refused.";

/// Settings of `load run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// The server: HOST:PORT or unix:PATH.
    #[arg(long, default_value = "127.0.0.1:11211")]
    pub target: Target,
    /// Connections, shared out among the threads.
    #[arg(long, default_value_t = 50)]
    pub connections: usize,
    /// Threads of the generator.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Unanswered requests per connection, at most.
    #[arg(long, default_value_t = 1)]
    pub pipeline: usize,
    /// Keys per get.
    #[arg(long, default_value_t = 1)]
    pub multiget: usize,
    /// Gets against sets.
    #[arg(long, default_value = "9:1", value_name = "GETS:SETS")]
    pub ratio: String,
    /// Number of different keys.
    #[arg(long, default_value_t = 100_000)]
    pub keys: u64,
    /// Length of every key.
    #[arg(long, default_value_t = 20)]
    pub key_bytes: usize,
    /// What every key begins with.
    #[arg(long, default_value = "key")]
    pub key_prefix: String,
    /// uniform, zipf:S, hotset:K%:R% or sequential.
    #[arg(long, default_value = "uniform")]
    pub popularity: String,
    /// Length of values: N, uniform:LOW-HIGH, or a weighted list such as 100:9,1000:1.
    #[arg(long, default_value = "300")]
    pub value_bytes: String,
    /// Lifetime of items in seconds, written like --value-bytes; 0 is for ever.
    #[arg(long, default_value = "0", value_name = "SECONDS")]
    pub ttl: String,
    /// Open loop: requests per second, sent when due whether or not earlier ones are answered.
    #[arg(long)]
    pub rate: Option<f64>,
    /// How due times follow each other in an open loop: poisson or fixed.
    #[arg(long, default_value = "poisson")]
    pub arrival: Arrival,
    /// How long to measure, such as 10s, 500ms or 2m.
    #[arg(long, value_parser = duration, conflicts_with = "requests")]
    pub duration: Option<Duration>,
    /// How many requests to measure, instead of a duration.
    #[arg(long)]
    pub requests: Option<u64>,
    /// How long requests flow before they are measured.
    #[arg(long, value_parser = duration, default_value = "1s")]
    pub warmup: Duration,
    /// Follow every miss with a set of its key, as a cache-aside client does.
    #[arg(long)]
    pub refill: bool,
    /// Store every key once before the run.
    #[arg(long)]
    pub populate: bool,
    /// Compare length and bytes of every value received.
    #[arg(long)]
    pub verify: bool,
    /// text or meta.
    #[arg(long, default_value = "text")]
    pub protocol: Protocol,
    /// Names the sequence of requests and due times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Give up when no reply has come for so long.
    #[arg(long, value_parser = duration, default_value = "10s")]
    pub patience: Duration,
    /// Read the server's CPU time from this process instead of asking the server.
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

impl RunArgs {
    /// The settings that `words` stand for, as after `load run`.
    ///
    /// # Errors
    /// What clap has to say about them.
    pub fn parse_words(words: &[&str]) -> Result<Self, String> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            run: RunArgs,
        }
        let words = std::iter::once("run").chain(words.iter().copied());
        Line::try_parse_from(words).map(|line| line.run).map_err(|error| error.to_string())
    }

    /// The plan of the run itself.
    ///
    /// # Errors
    /// When a setting cannot be read or exceeds its limit.
    pub fn plan(&self) -> Result<Plan, Error> {
        let named = |name: &str| {
            let name = name.to_string();
            move |error: String| Error::Setting(format!("--{name}: {error}"))
        };
        let workload = Workload::new(&WorkloadSpec {
            keys: self.keys,
            key_bytes: self.key_bytes,
            key_prefix: self.key_prefix.clone(),
            popularity: self.popularity.parse::<Popularity>().map_err(named("popularity"))?,
            ratio: self.ratio.parse::<Ratio>().map_err(named("ratio"))?,
            value_bytes: self.value_bytes.parse::<Spread>().map_err(named("value-bytes"))?,
            ttl_s: self.ttl.parse::<Spread>().map_err(named("ttl"))?,
            seed: self.seed,
        })?;
        const DURATION_DEFAULT: Duration = Duration::from_secs(10);
        let plan = Plan {
            target: self.target.clone(),
            workload,
            seed: self.seed,
            protocol: self.protocol,
            mode: match self.rate {
                None => Mode::Closed,
                Some(rate) => Mode::Open { arrival: self.arrival, rate },
            },
            connections: self.connections,
            threads: self.threads,
            pipeline: self.pipeline,
            multiget: self.multiget,
            limit: match self.requests {
                Some(requests) => Limit::Requests(requests),
                None => Limit::Time(self.duration.unwrap_or(DURATION_DEFAULT)),
            },
            warmup: self.warmup,
            patience: self.patience,
            verify: self.verify,
            refill: self.refill,
            server_pid: self.server_pid,
        };
        plan.check()?;
        Ok(plan)
    }

    fn workload_text(&self) -> WorkloadText {
        WorkloadText {
            popularity: self.popularity.clone(),
            ratio: self.ratio.clone(),
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes.clone(),
            ttl_s: self.ttl.clone(),
            seed: self.seed,
        }
    }

    /// Fills the server if asked to, runs, and reports; `watch` may stop it early.
    ///
    /// # Errors
    /// When the run cannot be started or carried through.
    pub fn carry_out(&self, watch: &Watch, screen: &mut dyn Write) -> Result<Report, Error> {
        let plan = self.plan()?;
        if self.populate {
            populate(&plan, watch, screen)?;
        }
        let observed = watched(&plan, watch, screen)?;
        Ok(Report::new(&plan, self.workload_text(), &observed))
    }
}

/// Runs `plan` with a line of progress on `screen` while `watch` is live.
fn watched(plan: &Plan, watch: &Watch, screen: &mut dyn Write) -> Result<Observed, Error> {
    let mut line = progress::Line::default();
    let observed = drive::run(plan, watch, &mut |glimpse| line.show(screen, glimpse));
    if watch.is_live() {
        progress::clear(screen);
    }
    observed
}

/// Stores every key once.
fn populate(plan: &Plan, watch: &Watch, screen: &mut dyn Write) -> Result<(), Error> {
    let fill = Plan {
        workload: plan.workload.filling(),
        mode: Mode::Closed,
        pipeline: POPULATE_PIPELINE,
        limit: Limit::Requests(plan.workload.keys_count()),
        warmup: Duration::ZERO,
        ..plan.clone()
    };
    let observed = watched(&fill, watch, screen)?;
    let (stored, wanted) =
        (observed.tally.sets - observed.tally.not_stored, plan.workload.keys_count());
    if stored == wanted || observed.stopped {
        return Ok(());
    }
    let complaints = observed.tally.samples.join("; ");
    Err(Error::Setting(format!(
        "--populate stored {stored} of {wanted} keys ({complaints}); lower --keys or \
         --value-bytes, or raise the server's memory"
    )))
}

/// A time such as `10s`, `500ms`, `2m`; a plain number is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    const DAY_S: f64 = 86_400.0;
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit_s = match unit {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err(format!("{text:?} ends with no unit of ms, s, m, h")),
    };
    match number.parse::<f64>() {
        Ok(number) if (0.0..=DAY_S).contains(&(number * unit_s)) => {
            Ok(Duration::from_secs_f64(number * unit_s))
        }
        _ => Err(format!("{text:?} is no time from 0 to 24h; write 10s, 500ms or 2m")),
    }
}

/// Carries a command out; `false` when something that was checked was wrong.
///
/// # Errors
/// When it cannot be started or carried through.
pub fn run(args: &Args) -> Result<bool, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_signals(&stop)?;
    match &args.command {
        Command::Run(run) => {
            let mut screen = std::io::stderr();
            let watch = Watch::new(stop, screen.is_terminal());
            let report = run.carry_out(&watch, &mut screen)?;
            let text = if run.json { report.to_json() } else { report.to_string() };
            print(text.trim_end())?;
            Ok(report.is_clean())
        }
        Command::PingPong(args) => {
            print(&args.carry_out(&stop)?)?;
            Ok(true)
        }
        Command::HitRatio(args) => {
            print(args.carry_out()?.trim_end())?;
            Ok(true)
        }
        Command::NullServer(args) => {
            print(&args.carry_out(&stop, &mut std::io::stderr())?)?;
            Ok(true)
        }
    }
}

fn print(text: &str) -> Result<(), Error> {
    writeln!(std::io::stdout(), "{text}").map_err(|error| Error::io("cannot print", error))
}

/// The first signal ends the run with its report, the second ends the process.
fn stop_on_signals(stop: &Arc<AtomicBool>) -> Result<(), Error> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(stop)))
            .map_err(|error| Error::io("cannot watch for Ctrl-C", error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_parse() {
        for (text, ms) in [("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("1.5", 1_500)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1s", "10d", "25h", "NaN", "infs"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn settings_are_checked_by_name() {
        for (words, word) in [
            (&["--connections", "0"][..], "--connections 0"),
            (&["--connections", "2", "--threads", "3"], "each thread"),
            (&["--pipeline", "10001"], "--pipeline"),
            (&["--multiget", "0"], "--multiget"),
            (&["--multiget", "2000", "--pipeline", "2000"], "1048576 together"),
            (&["--rate", "0"], "--rate"),
            (&["--rate", "NaN"], "--rate"),
            (&["--duration", "0"], "--duration"),
            (&["--requests", "0"], "--requests"),
            (&["--popularity", "zipf"], "--popularity"),
            (&["--ratio", "1"], "--ratio"),
            (&["--value-bytes", "x"], "--value-bytes"),
            (&["--ttl", "x"], "--ttl"),
            (&["--keys", "0"], "0 keys"),
            (&["--key-bytes", "4"], "--key-bytes must be at least"),
        ] {
            let error = RunArgs::parse_words(words).unwrap().plan().unwrap_err().to_string();
            assert!(error.contains(word), "{words:?}: {error}");
        }
        for words in [&["--duration", "1s", "--requests", "5"][..], &["--protocol", "binary"]] {
            assert!(RunArgs::parse_words(words).is_err(), "{words:?}");
        }
        assert!(RunArgs::parse_words(&[]).unwrap().plan().is_ok());
    }
}
