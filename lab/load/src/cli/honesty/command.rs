//! Settings and parts of `load honesty`, and its study.
//!
//! Every part serves what it measures, within this process. The statements of the study are for
//! people; the raw figures beside them let another program judge. A run that was not carried to its
//! end gives no statement, and the study fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::json;

use super::bottleneck;
use super::statement::Statement;
use crate::cli::bench::{Bench, Done};
use crate::cli::settings::{Server, Settings};
use crate::conclusion::pictures::{by_percentile, over_time};
use crate::conclusion::{Latency, Outputs, Report, Study};
use crate::drive::{Limit, Mode, Watch};
use crate::rate::RateCurve;
use crate::schedule::Arrival;
use doubles::delayed::{Account, Double, Manner};
use measure::Error;
use measure::units::duration;
use report::figure::{Figure, Table};
use report::table::aligned;

pub(in crate::cli) const EXAMPLES: &str = "Examples:
  All parts, about a minute and a half:
    volvox load honesty
  The stated delays alone:
    volvox load honesty --part delays
Exit code: 0 when everything reported is true, 1 otherwise. It fails on a machine that other
programs use: the delays are checked to 0.3 ms.";

/// A reported delay may differ from the stated one by this share, or by this time.
const TOLERANCE_SHARE: f64 = 0.02;
const TOLERANCE_US: f64 = 300.0;

/// The stated delays.
const DELAYS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// Rate of the open loops, in requests per second.
const RATE_PER_S: f64 = 1_000.0;

/// The shortest freeze as a share of its period: half of what is due in it is then among the
/// slowest hundredth.
const FREEZE_SHARE_MIN: f64 = 0.02;

/// How the labels of the runs against the frozen server begin.
const FROZEN: &str = "frozen";

/// Why the two loops differ.
const DIFFERENCE: &str = "A closed loop requests nothing while the server is frozen, so it misses \
                          the requests that would have waited; an open loop counts each from the \
                          moment it was due.";

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The server that freezes.
    Frozen,
    /// The server of stated delays.
    Delays,
    /// The generator's own limit.
    Bottleneck,
    /// One after the other.
    All,
}

/// Settings of `load honesty`.
#[derive(Debug, clap::Args)]
pub struct HonestyArgs {
    /// What is checked.
    #[arg(long, value_enum, default_value = "all")]
    pub part: Part,
    /// How long the server is frozen.
    #[arg(long, value_parser = duration, default_value = "1s")]
    pub freeze: Duration,
    /// From one freeze to the next.
    #[arg(long, value_parser = duration, default_value = "10s")]
    pub period: Duration,
    /// How long each measurement takes; whole periods of freezes.
    #[arg(long, value_parser = duration, default_value = "20s")]
    pub duration: Duration,
    /// Seed of the delays and due times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the report goes.
    #[command(flatten)]
    pub outputs: Outputs,
}

impl HonestyArgs {
    /// Serves, measures, and compares the report with what was served.
    ///
    /// # Errors
    /// When a setting is out of range, or a measurement cannot be carried through.
    pub fn carry_out(&self, watch: &Watch) -> Result<Study, Error> {
        self.check()?;
        let settings =
            Settings { seed: self.seed, ..Settings::of_words("--ratio 1:0 --warmup 0s") };
        let mut bench = Bench::new(&settings, watch);
        let mut statements = Vec::new();
        for part in [Part::Frozen, Part::Delays, Part::Bottleneck] {
            if ![part, Part::All].contains(&self.part) {
                continue;
            }
            let found = match part {
                Part::Frozen => self.frozen(&mut bench),
                Part::Delays => self.delays(&mut bench),
                Part::Bottleneck | Part::All => {
                    bottleneck::find(&mut bench, self.seed, self.duration)
                }
            };
            statements.extend(found.into_iter().flatten());
        }
        Ok(study(bench.finish()?, &statements))
    }

    /// A freeze of less than `FREEZE_SHARE_MIN` would not reach the slowest hundredth.
    fn check(&self) -> Result<(), Error> {
        let share = self.freeze.as_secs_f64() / self.period.as_secs_f64();
        let freezes = (FREEZE_SHARE_MIN..=0.5).contains(&share) && self.duration >= self.period;
        if freezes || ![Part::Frozen, Part::All].contains(&self.part) {
            return Ok(());
        }
        Err(Error::Setting(format!(
            "--freeze {:?}, --period {:?}, --duration {:?}: choose a freeze of 2 % to half of a \
             period, so that its p99 can show it, and a duration of at least a period",
            self.freeze, self.period, self.duration
        )))
    }

    /// Measures a double of that manner, as an open loop or a closed one; none when the run was not
    /// carried to its end.
    fn measure(
        &self,
        bench: &mut Bench<'_>,
        settings: &Settings,
        manner: Manner,
        (label, mode, limit): (&str, Mode, Limit),
    ) -> Option<(Report, Account)> {
        let serve = |bench: &mut Bench<'_>| {
            let double = Double::bind(manner)?;
            let server = Server { target: double.target().clone(), server_pid: None };
            let plan = settings.plan(&server, mode, limit)?;
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let served = scope.spawn(|| double.serve(self.seed, &stop));
                let labels = [("part", label.to_string())];
                let report = bench.measure_as(&plan, settings, &labels).cloned();
                stop.store(true, Ordering::Relaxed);
                let account = served.join().expect("invariant: the double does not panic")?;
                Ok(report.map(|report| (report, account)))
            })
        };
        match serve(bench) {
            Ok(measured) => measured.filter(|(report, _)| report.whole),
            Err(error) => {
                bench.fail(error);
                None
            }
        }
    }

    fn frozen(&self, bench: &mut Bench<'_>) -> Option<Vec<Statement>> {
        let manner = Manner::Freezes { freeze: self.freeze, period: self.period };
        let limit = Limit::Time(self.duration);
        let settings = bench.settings();
        let mut p99_us = |label: &str, mode: Mode| {
            let label = format!("{FROZEN}, {label}");
            let (report, _) = self.measure(bench, settings, manner, (&label, mode, limit))?;
            Some(report.get_latency?.p99_us)
        };
        let open_us = p99_us("open loop", open_loop())?;
        let closed_us = p99_us("closed loop", Mode::Closed)?;
        let (freeze_s, period_s) = (self.freeze.as_secs_f64(), self.period.as_secs_f64());
        let freeze_us = freeze_s * 1e6;
        // Due times are spread evenly over a freeze, so requests that are due in it wait for all of
        // it down to nothing, evenly. The slowest hundredth of all requests are the first of those.
        let expected_us = freeze_us * (1.0 - 0.01 / (freeze_s / period_s)).max(0.0);
        let open = Statement {
            what: "frozen: the open loop's p99 shows the freeze".to_string(),
            expected: format!("about {:.0} ms", expected_us / 1e3),
            seen: format!("{:.0} ms", open_us / 1e3),
            holds: Some(open_us >= expected_us * 0.8 && open_us <= freeze_us * 1.2),
        };
        let closed = Statement {
            what: "frozen: the closed loop's p99 hides it".to_string(),
            expected: format!("below {:.0} ms", freeze_us / 1e4),
            seen: format!("{:.2} ms", closed_us / 1e3),
            holds: Some(closed_us < freeze_us / 10.0),
        };
        Some(vec![open, closed])
    }

    fn delays(&self, bench: &mut Bench<'_>) -> Option<Vec<Statement>> {
        let requests = Limit::Requests((RATE_PER_S * self.duration.as_secs_f64()) as u64);
        // Three times as many connections as requests are ever on their way.
        let connections = (RATE_PER_S * DELAYS.1.as_secs_f64() * 3.0) as usize;
        let settings = Settings { connections, ..bench.settings().clone() };
        let manner = Manner::Delays(DELAYS.0, DELAYS.1);
        let run = ("stated delays", open_loop(), requests);
        let (report, account) = self.measure(bench, &settings, manner, run)?;
        Some(against_stated(&report.get_latency?, &account))
    }
}

fn open_loop() -> Mode {
    Mode::Open { arrival: Arrival::Poisson, rate: RateCurve::constant(RATE_PER_S) }
}

/// Every percentile that was reported beside the one that was stated.
fn against_stated(latency: &Latency, account: &Account) -> Vec<Statement> {
    let us = |of: &Histogram<u64>, quantile: f64| of.value_at_quantile(quantile) as f64 / 1e3;
    let late_us = us(&account.late_ns, 0.99);
    let statement = |(name, quantile, seen_us): (&str, f64, f64)| {
        let stated_us = us(&account.stated_ns, quantile);
        let tolerance_us = (stated_us * TOLERANCE_SHARE).max(TOLERANCE_US);
        let seen_ms = seen_us / 1e3;
        Statement {
            what: format!("delays: {name} is what was stated"),
            expected: format!("{:.2} ms +- {:.2}", stated_us / 1e3, tolerance_us / 1e3),
            seen: format!("{seen_ms:.2} ms (the double's own lateness: p99 {late_us:.0} us)"),
            holds: Some((seen_us - stated_us).abs() <= tolerance_us),
        }
    };
    let percentiles = [
        ("p50", 0.5, latency.p50_us),
        ("p90", 0.9, latency.p90_us),
        ("p95", 0.95, latency.p95_us),
        ("p99", 0.99, latency.p99_us),
    ];
    percentiles.map(statement).into()
}

fn study(done: Done, statements: &[Statement]) -> Study {
    let mut table = Table::new("Statements", &["claim", "expected", "reported", "verdict"]);
    table.rows = statements
        .iter()
        .map(|Statement { what, expected, seen, holds }| {
            let verdict = match holds {
                Some(true) => "true",
                Some(false) => "FALSE",
                None => "disturbed",
            };
            [what, expected, seen, verdict].map(str::to_owned).into()
        })
        .collect();
    // Beyond the generator's own limit no true latency is known.
    let known = done.runs.iter().filter(|run| !run.name().starts_with(bottleneck::LABEL));
    let curves: Vec<(String, &Latency)> =
        known.filter_map(|run| Some((run.name(), run.report.get_latency.as_ref()?))).collect();
    let mut figures = vec![by_percentile("Latency by percentile", &curves)];
    let frozen = done.runs.iter().filter(|run| run.name().starts_with(FROZEN));
    // A figure for each: the closed loop is so much faster that one scale would hide the other.
    figures.extend(frozen.map(|run| {
        over_time(&format!("Replies over time: {}", run.name()), "replies", &run.report)
    }));
    let mut text = aligned(&table);
    let explanation = (figures.len() > 1).then_some(DIFFERENCE);
    if explanation.is_some() {
        text.push_str(&format!("\n{DIFFERENCE}"));
        figures.push(Figure::Text(vec![DIFFERENCE.to_string()]));
    }
    figures.push(Figure::Table(table));
    let holds = statements.iter().filter(|statement| statement.holds == Some(true)).count();
    let clean = done.complete && holds == statements.len() && holds > 0;
    Study {
        conclusion: json!({ "claims": statements, "explanation": explanation }),
        text,
        varied: &["loop", "connections", "target"],
        sections: vec![("Truth and report".to_string(), figures)],
        clean,
        ..done.study("honesty", "Does the generator report the truth?")
    }
    .fact("claims that hold", format!("{holds} of {}", statements.len()))
    .gather(Some("no warm-up"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_compared_with_the_stated_one() {
        let mut stated_ns = Histogram::new(3).unwrap();
        stated_ns.record(20_000_000).unwrap();
        let account = Account { late_ns: stated_ns.clone(), stated_ns };
        let reported = Latency::of(&account.stated_ns).unwrap();
        let holds = |p99_us: f64| {
            let (p50_us, p90_us, p95_us) = (20e3, 20e3, 19.7e3);
            let latency = Latency { p50_us, p90_us, p95_us, p99_us, ..reported.clone() };
            against_stated(&latency, &account).iter().map(|it| it.holds).collect::<Vec<_>>()
        };
        assert_eq!(holds(20.3e3), [Some(true); 4]);
        assert_eq!(holds(20.5e3), [Some(true), Some(true), Some(true), Some(false)]);
    }
}
