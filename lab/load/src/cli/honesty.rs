//! `load honesty`: the generator against servers of which the truth is known.
//!
//! ```text
//! frozen   a server that stands still for 1 s in every 10: an open loop must show it, and a
//!          closed loop beside it shows how it would be hidden
//! delays   a server that delays each reply by a stated time from 5 to 50 ms: what is reported
//!          must be what was stated
//! bottleneck   a server that only moves bytes: beyond its own limit the generator must say that
//!          it is the bottleneck, and below 80 % of its CPU it must not be at fault
//! ```

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::json;

use super::bottleneck;
use super::settings::{Server, Settings};
use super::work::{Bench, Done};
use crate::drive::{Limit, Mode, Watch};
use crate::rate::RateCurve;
use crate::report::pictures::{aligned, by_percentile, over_time};
use crate::report::{Latency, Outputs, Report, Study};
use crate::schedule::Arrival;
use doubles::delayed::{Account, Double, Manner};
use measure::Error;
use measure::units::duration;
use report::figure::{Figure, Table};

pub(super) const EXAMPLES: &str = "Examples:
  All parts, about a minute and a half:
    volvox load honesty
  The stated delays alone:
    volvox load honesty --part delays
Exit code: 0 when everything reported is true, 1 otherwise. A machine that is busy with something
else fails this honestly: the delays are checked to 0.3 ms.";

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

/// How the runs against the server that stands still are called.
const FROZEN: &str = "frozen";

/// Why the two loops differ.
const DIFFERENCE: &str = "A closed loop asks nothing while the server stands still, so it misses \
                          the requests that would have waited; an open loop counts each from the \
                          moment it was due.";

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The server that stands still.
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
    /// How long the server stands still.
    #[arg(long, value_parser = duration, default_value = "1s")]
    pub freeze: Duration,
    /// From one freeze to the next.
    #[arg(long, value_parser = duration, default_value = "10s")]
    pub period: Duration,
    /// How long each measurement takes; whole periods of freezes.
    #[arg(long, value_parser = duration, default_value = "20s")]
    pub duration: Duration,
    /// Names the delays and due times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the report goes.
    #[command(flatten)]
    pub outputs: Outputs,
}

/// One thing that was claimed, and whether it held.
pub(super) struct Claim {
    pub what: String,
    pub expected: String,
    pub seen: String,
    pub holds: bool,
}

impl HonestyArgs {
    /// Serves, measures, and holds the one against the other.
    ///
    /// # Errors
    /// When a setting is out of range, or a measurement cannot be carried through.
    pub fn carry_out(&self, watch: &Watch, screen: &mut dyn Write) -> Result<Study, Error> {
        self.check()?;
        let settings =
            Settings { seed: self.seed, ..Settings::of_words("--ratio 1:0 --warmup 0s") };
        let mut bench = Bench::new(&settings, watch, screen);
        let mut claims = Vec::new();
        let wanted = |part| [part, Part::All].contains(&self.part);
        if wanted(Part::Frozen) {
            claims.extend(self.frozen(&mut bench).into_iter().flatten());
        }
        if wanted(Part::Delays) {
            claims.extend(self.delays(&mut bench).into_iter().flatten());
        }
        if wanted(Part::Bottleneck) {
            let own = bottleneck::claims(&mut bench, self.seed, self.duration);
            claims.extend(own.into_iter().flatten());
        }
        Ok(study(bench.finish()?, &claims))
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

    /// Measures a double of that manner, as an open loop or a closed one; none when the run was
    /// not carried to its end, for then nothing can be held against it.
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
                let account = served.join().expect("the double does not panic")?;
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

    fn frozen(&self, bench: &mut Bench<'_>) -> Option<Vec<Claim>> {
        let manner = Manner::Freezes { freeze: self.freeze, period: self.period };
        let limit = Limit::Time(self.duration);
        let open = Mode::Open { arrival: Arrival::Poisson, rate: RateCurve::constant(RATE_PER_S) };
        let settings = bench.settings;
        let mut p99_us = |label: &str, mode: Mode| {
            let label = format!("{FROZEN}, {label}");
            let (report, _) = self.measure(bench, settings, manner, (&label, mode, limit))?;
            Some(report.get_latency?.p99_us)
        };
        let (seen_us, hidden_us) =
            (p99_us("open loop", open)?, p99_us("closed loop", Mode::Closed)?);
        let freeze_us = self.freeze.as_secs_f64() * 1e6;
        // Due times fall evenly into a freeze, so what is due while it lasts waits evenly from all
        // of it down to nothing; the slowest hundredth of all requests is the front of that.
        let frozen_share = self.freeze.as_secs_f64() / self.period.as_secs_f64();
        let expected_us = freeze_us * (1.0 - 0.01 / frozen_share).max(0.0);
        let open = Claim {
            what: "frozen: the open loop's p99 shows the freeze".to_string(),
            expected: format!("about {:.0} ms", expected_us / 1e3),
            seen: format!("{:.0} ms", seen_us / 1e3),
            holds: seen_us >= expected_us * 0.8 && seen_us <= freeze_us * 1.2,
        };
        let closed = Claim {
            what: "frozen: the closed loop's p99 hides it".to_string(),
            expected: format!("below {:.0} ms", freeze_us / 1e4),
            seen: format!("{:.2} ms", hidden_us / 1e3),
            holds: hidden_us < freeze_us / 10.0,
        };
        Some(vec![open, closed])
    }

    fn delays(&self, bench: &mut Bench<'_>) -> Option<Vec<Claim>> {
        let requests = Limit::Requests((RATE_PER_S * self.duration.as_secs_f64()) as u64);
        // As many connections as requests are ever under way, and twice that again.
        let connections = (RATE_PER_S * DELAYS.1.as_secs_f64() * 3.0) as usize;
        let settings = Settings { connections, ..bench.settings.clone() };
        let open = Mode::Open { arrival: Arrival::Poisson, rate: RateCurve::constant(RATE_PER_S) };
        let manner = Manner::Delays(DELAYS.0, DELAYS.1);
        let run = ("stated delays", open, requests);
        let (report, account) = self.measure(bench, &settings, manner, run)?;
        Some(against_stated(&report.get_latency?, &account))
    }
}

/// Every percentile that was reported beside the one that was stated.
fn against_stated(latency: &Latency, account: &Account) -> Vec<Claim> {
    let us = |of: &Histogram<u64>, quantile: f64| of.value_at_quantile(quantile) as f64 / 1e3;
    let percentiles = [
        ("p50", 0.5, latency.p50_us),
        ("p90", 0.9, latency.p90_us),
        ("p95", 0.95, latency.p95_us),
        ("p99", 0.99, latency.p99_us),
    ];
    let late_us = us(&account.late_ns, 0.99);
    let claim = |(name, quantile, seen_us): (&str, f64, f64)| {
        let stated_us = us(&account.stated_ns, quantile);
        let tolerance_us = (stated_us * TOLERANCE_SHARE).max(TOLERANCE_US);
        Claim {
            what: format!("delays: {name} is what was stated"),
            expected: format!("{:.2} ms +- {:.2}", stated_us / 1e3, tolerance_us / 1e3),
            seen: format!(
                "{:.2} ms (the double's own lateness: p99 {late_us:.0} us)",
                seen_us / 1e3
            ),
            holds: (seen_us - stated_us).abs() <= tolerance_us,
        }
    };
    percentiles.into_iter().map(claim).collect()
}

fn study(Done { runs, warnings, complete }: Done, claims: &[Claim]) -> Study {
    let word = |holds: bool| if holds { "true" } else { "FALSE" };
    let table = Table {
        title: "What was claimed".to_string(),
        head: ["claim", "expected", "reported", "verdict"].map(str::to_string).to_vec(),
        rows: claims
            .iter()
            .map(|claim| {
                let cells = [&claim.what, &claim.expected, &claim.seen];
                let mut row = cells.map(Clone::clone).to_vec();
                row.push(word(claim.holds).to_string());
                row
            })
            .collect(),
    };
    // Beyond the generator's own limit there is no truth to hold a latency against.
    let curves: Vec<(String, &Latency)> = runs
        .iter()
        .filter(|run| !run.name().starts_with(bottleneck::LABEL))
        .filter_map(|run| Some((run.name(), run.report.get_latency.as_ref()?)))
        .collect();
    let mut figures = vec![by_percentile("Latency by percentile", &curves)];
    let frozen = || runs.iter().filter(|run| run.name().starts_with(FROZEN));
    // A picture for each: the closed loop asks so much faster that one scale would hide the other.
    figures.extend(frozen().map(|run| {
        over_time(&format!("Replies over time: {}", run.name()), &[("replies".into(), &run.report)])
    }));
    let mut text = aligned(&table);
    let mut explanation = None;
    if frozen().next().is_some() {
        explanation = Some(DIFFERENCE);
        text.push_str(&format!("\n{DIFFERENCE}"));
        figures.push(Figure::Text(vec![DIFFERENCE.to_string()]));
    }
    figures.push(Figure::Table(table));
    let holds = claims.iter().filter(|claim| claim.holds).count();
    let conclusion: Vec<_> = claims
        .iter()
        .map(|claim| {
            json!({ "claim": claim.what, "expected": claim.expected, "reported": claim.seen,
                    "holds": claim.holds })
        })
        .collect();
    let mut study = Study {
        command: "honesty",
        title: "Is the generator to be believed?".to_string(),
        conclusion: json!({ "claims": conclusion, "explanation": explanation }),
        text,
        facts: vec![("claims that hold".to_string(), format!("{holds} of {}", claims.len()))],
        warnings,
        runs,
        varied: &["loop", "connections", "target"],
        sections: vec![("Truth and report".to_string(), figures)],
        csv: None,
        clean: complete && holds == claims.len() && holds > 0,
    };
    study.gather(Some("no warm-up"));
    study
}
