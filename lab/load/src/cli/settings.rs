//! Settings that every kind of measurement shares, and the plan that they make.
//!
//! A named workload replaces defaults only: a setting that is written on the command line wins. A
//! plan is checked before it is returned. Lengths are bytes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::preset::Preset;
use crate::conclusion::{Outputs, WorkloadText};
use crate::drive::{Limit, Mode, Plan};
use crate::protocol::Protocol;
use crate::rate::RateCurve;
use crate::schedule::Arrival;
use crate::workload::{Multiget, Popularity, Ratio, Spread, Workload, WorkloadSpec};
use measure::units::duration;
use measure::{Error, Target};

/// What flows to the server, and over what.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Connections, divided among the threads.
    #[arg(long, default_value_t = 50)]
    pub connections: usize,
    /// Threads of the generator.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Unanswered requests per connection, at most.
    #[arg(long, default_value_t = 1)]
    pub pipeline: usize,
    /// A named workload: it replaces the defaults of settings that are not written.
    #[arg(long, value_enum, value_name = "NAME")]
    pub workload: Option<Preset>,
    /// Weights of requests: GETS:SETS, then :DELETES and :MODIFIES if wanted [default: 9:1].
    #[arg(long)]
    pub ratio: Option<String>,
    /// Keys per get: N or uniform:LOW-HIGH [default: 1].
    #[arg(long, value_name = "KEYS")]
    pub multiget: Option<String>,
    /// The keys of a get follow each other in order.
    #[arg(long)]
    pub consecutive: bool,
    /// Keys per set or delete: quiet commands, closed by a no-op (meta and binary).
    #[arg(long, default_value_t = 1, value_name = "KEYS")]
    pub multiset: u32,
    /// Number of different keys.
    #[arg(long, default_value_t = 100_000)]
    pub keys: u64,
    /// Length of keys: N, uniform:LOW-HIGH, a weighted list, or etc-keys [default: 20].
    #[arg(long, value_name = "BYTES")]
    pub key_bytes: Option<String>,
    /// What every key begins with.
    #[arg(long, default_value = "key")]
    pub key_prefix: String,
    /// The numbers of the keys, one on each line, rising, instead of 0, 1, 2 and so on.
    #[arg(long, value_name = "FILE")]
    pub key_numbers: Option<PathBuf>,
    /// uniform, zipf:S, hotset:K%:R%, sequential, scan:P%, drift:N or latest [default: uniform].
    #[arg(long, value_name = "LAW")]
    pub popularity: Option<String>,
    /// Length of values: N, uniform:LOW-HIGH, a weighted list such as 100:9,1000:1, etc or
    /// twitter [default: 300].
    #[arg(long, value_name = "BYTES")]
    pub value_bytes: Option<String>,
    /// Lifetime of items in seconds, written like --value-bytes; 0 never expires.
    #[arg(long, default_value = "0", value_name = "SECONDS")]
    pub ttl: String,
    /// How due times follow each other in an open loop: poisson or fixed.
    #[arg(long, default_value = "poisson")]
    pub arrival: Arrival,
    /// How long requests are sent before they are measured.
    #[arg(long, value_parser = duration, default_value = "1s")]
    pub warmup: Duration,
    /// Follow every miss with a set of its key, as a cache-aside client does.
    #[arg(long)]
    pub refill: bool,
    /// Compare length and bytes of every value received.
    #[arg(long)]
    pub verify: bool,
    /// text, meta or binary.
    #[arg(long, default_value = "text")]
    pub protocol: Protocol,
    /// Seed of the sequence of requests and due times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Give up when no reply has come for this time. After its end, an open loop sends overdue
    /// requests for this time.
    #[arg(long, value_parser = duration, default_value = "10s")]
    pub patience: Duration,
}

/// What is measured, and where its report goes.
#[derive(Clone, Debug, clap::Args)]
pub struct Subject {
    /// The server.
    #[command(flatten)]
    pub server: Server,
    /// What flows to it.
    #[command(flatten)]
    pub settings: Settings,
    /// Where the report goes.
    #[command(flatten)]
    pub outputs: Outputs,
}

impl Subject {
    /// The plan of a measurement; see [`Settings::plan`].
    pub(super) fn plan(&self, mode: Mode, limit: Limit) -> Result<Plan, Error> {
        self.settings.plan(&self.server, mode, limit)
    }
}

/// The server that is measured, and its process.
#[derive(Clone, Debug, clap::Args)]
pub struct Server {
    /// The server: HOST:PORT or unix:PATH.
    #[arg(long, default_value = "127.0.0.1:11211")]
    pub target: Target,
    /// Read the server's CPU time from this process instead of the server's stats.
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
}

impl Settings {
    /// The settings in `words`, which a command chose itself.
    pub(super) fn of_words(words: &str) -> Self {
        let words: Vec<_> = words.split_whitespace().collect();
        args_of_words(&words).expect("invariant: a command knows its own settings")
    }

    /// The workload as written, with the defaults of the named workload.
    #[must_use]
    pub fn workload_text(&self) -> WorkloadText {
        let preset = Self::of_words(self.workload.map_or("", Preset::words));
        let chosen = |own: &Option<String>, preset: Option<String>, default: &str| {
            own.clone().or(preset).unwrap_or_else(|| default.to_string())
        };
        let key_lengths = chosen(&self.key_bytes, preset.key_bytes, "20");
        WorkloadText {
            popularity: chosen(&self.popularity, preset.popularity, "uniform"),
            ratio: chosen(&self.ratio, preset.ratio, "9:1"),
            multiget: chosen(&self.multiget, preset.multiget, "1"),
            consecutive: self.consecutive || preset.consecutive,
            key_bytes: key_lengths.parse::<Spread>().map_or(0, |spread| spread.max() as usize),
            key_lengths,
            value_bytes: chosen(&self.value_bytes, preset.value_bytes, "300"),
            ttl_s: self.ttl.clone(),
            seed: self.seed,
        }
    }

    /// An open loop at `rate`, or a closed one without a rate.
    pub(super) fn mode(&self, rate: Option<&str>) -> Result<Mode, Error> {
        Ok(match rate {
            None => Mode::Closed,
            Some(rate) => {
                Mode::Open { arrival: self.arrival, rate: read::<RateCurve>("rate", rate)? }
            }
        })
    }

    /// The plan of a measurement of `server`; every limit of it is checked.
    ///
    /// # Errors
    /// When a setting cannot be read or exceeds its limit.
    pub fn plan(&self, server: &Server, mode: Mode, limit: Limit) -> Result<Plan, Error> {
        let text = self.workload_text();
        let workload = Workload::new(&WorkloadSpec {
            keys: self.keys,
            key_bytes: read("key-bytes", &text.key_lengths)?,
            key_prefix: self.key_prefix.clone(),
            popularity: read::<Popularity>("popularity", &text.popularity)?,
            ratio: read::<Ratio>("ratio", &text.ratio)?,
            value_bytes: read("value-bytes", &text.value_bytes)?,
            ttl_s: read("ttl", &text.ttl_s)?,
            seed: self.seed,
        })?;
        let workload = match &self.key_numbers {
            None => workload,
            Some(path) => workload.only(numbers(path)?)?,
        };
        let multiget = Multiget {
            keys: read::<Spread>("multiget", &text.multiget)?,
            consecutive: text.consecutive,
        };
        let plan = Plan {
            target: server.target.clone(),
            workload,
            seed: self.seed,
            protocol: self.protocol,
            mode,
            connections: self.connections,
            threads: self.threads,
            pipeline: self.pipeline,
            multiget,
            multiset: self.multiset,
            limit,
            warmup: self.warmup,
            patience: self.patience,
            verify: self.verify,
            refill: self.refill,
            drop_overdue: false,
            by_time: false,
            server_pid: server.server_pid,
        };
        plan.check()?;
        Ok(plan)
    }
}

/// The arguments in `words`, as after the name of their command.
///
/// # Errors
/// The message of the command line's parser.
pub(super) fn args_of_words<T: clap::Args>(words: &[&str]) -> Result<T, String> {
    #[derive(clap::Parser)]
    struct Line<T: clap::Args> {
        #[command(flatten)]
        args: T,
    }
    let words = std::iter::once("load").chain(words.iter().copied());
    let line = <Line<T> as clap::Parser>::try_parse_from(words);
    line.map(|line| line.args).map_err(|error| error.to_string())
}

/// The numbers in a file.
fn numbers(path: &Path) -> Result<Vec<u64>, Error> {
    let refused = |what: &dyn std::fmt::Display| {
        Error::Setting(format!("--key-numbers {}: {what}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| refused(&error))?;
    let number = |line: &str| line.trim().parse().map_err(|_| refused(&format!("{line:?}")));
    text.lines().map(number).collect()
}

/// Checks a number of things of which a comparison needs two.
pub(super) fn at_least_two(name: &str, value: usize, max: usize) -> Result<(), Error> {
    if (2..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::Setting(format!("{name} {value}: choose from 2 to {max}")))
}

/// The value of the setting called `name`.
pub(super) fn read<T: std::str::FromStr<Err = String>>(name: &str, text: &str) -> Result<T, Error> {
    text.parse().map_err(|error| Error::Setting(format!("--{name}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(words: &str) -> Settings {
        Settings::of_words(words)
    }

    #[test]
    fn presets_stand_in_for_what_is_not_written() {
        for (words, ratio, popularity, multiget, value_bytes, key_lengths) in [
            ("", "9:1", "uniform", "1", "300", "20"),
            ("--workload ycsb-a", "50:50", "zipf:0.99", "1", "1000", "20"),
            ("--workload ycsb-d", "95:5", "latest:0.99", "1", "1000", "20"),
            ("--workload ycsb-e", "95:5", "zipf:0.99", "uniform:1-100", "1000", "20"),
            ("--workload ycsb-f", "50:0:0:50", "zipf:0.99", "1", "1000", "20"),
            ("--workload ycsb-c --value-bytes 8", "1:0", "zipf:0.99", "1", "8", "20"),
            ("--workload etc --popularity zipf:1", "30:1", "zipf:1", "1", "etc", "etc-keys"),
            ("--workload twitter --ratio 1:1", "1:1", "uniform", "1", "twitter", "38"),
        ] {
            let text = settings(words).workload_text();
            assert_eq!(
                [text.ratio, text.popularity, text.multiget, text.value_bytes, text.key_lengths],
                [ratio, popularity, multiget, value_bytes, key_lengths],
                "{words}"
            );
            assert_eq!(text.consecutive, words.contains("ycsb-e"), "{words}");
        }
    }

    #[test]
    fn every_preset_makes_a_plan() {
        let server = Server { target: "127.0.0.1:1".parse().unwrap(), server_pid: None };
        for name in ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f", "etc", "twitter"] {
            let settings = settings(&format!("--keys 1000 --workload {name}"));
            let plan = settings.plan(&server, Mode::Closed, Limit::Requests(1));
            assert!(plan.is_ok(), "{name}: {plan:?}");
        }
    }
}
