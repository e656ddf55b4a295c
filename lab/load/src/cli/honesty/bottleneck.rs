//! The generator beyond its own limit, and below it: it must blame itself there and nowhere else.
//!
//! ```text
//! null server   answers every get of many keys with the same bytes, far cheaper than to ask
//! closed loop   how much the generator requests, compares and counts at most
//! overload      above that: the generator must say that it is the bottleneck
//! below         rates that keep it 40 to 75 % busy: no fault of its own may show
//! ```
//!
//! A real server cannot serve here: its core would be full first. A run in which other programs
//! used the generator's core, or the hypervisor took it, is repeated. Bound: eight runs of a kind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::statement::Statement;
use crate::cli::bench::Bench;
use crate::cli::settings::{Server, Settings};
use crate::conclusion::{BOTTLENECK, DELAYED, Generator, Latency, Report};
use crate::drive::{Limit, Mode, Plan};
use crate::protocol::{Protocol, compose_get};
use crate::rate::RateCurve;
use crate::schedule::Arrival;
use crate::workload::Workload;
use doubles::null_server::NullServer;
use measure::Error;
use measure::process::Cores;

/// How the names of its runs begin.
pub(super) const LABEL: &str = "bottleneck";
/// Keys of a get: each is compared, found and checked, while the server only moves its bytes.
const KEYS_PER_GET: usize = 400;
/// What flows: one key, whose value is ten bytes.
const WORDS: &str = "--ratio 1:0 --keys 1 --value-bytes 10 --multiget 400 --connections 16 \
                     --pipeline 4 --verify --warmup 300ms";
/// The longest of the runs.
const RUN_MAX: Duration = Duration::from_secs(3);
/// The most runs of one kind, while other programs use the generator's core.
const TRIES: usize = 8;
/// A run is repeated, and at last not judged, when its thread was without a core for more than this
/// share of the window, or the hypervisor took more than this share of a core.
const TAKEN_MAX: f64 = 0.01;
/// The overload, as a multiple of what the closed loop reaches.
const OVERLOAD: f64 = 2.0;
/// The first rate below the limit, as a share of it; it shows the cost of a request when few are
/// answered at once.
const FIRST_SHARE: f64 = 0.25;
/// How busy the rates after it are to make it. A batch is cheaper than single requests, so each
/// rate falls a little short; the last one corrects that.
const BUSY: [f64; 4] = [0.4, 0.55, 0.7, 0.75];
/// The generator's share of a core within which it must not be at fault.
const FAULTLESS: std::ops::RangeInclusive<f64> = 0.3..=0.8;
/// A generator that is the limit has work for this share of the time at least.
const ALWAYS: f64 = 0.95;
/// The share of the offered rate that counts as reached.
const REACHED: f64 = 0.95;
/// The delay of due requests by its own work, at p99, from which on it is at fault.
const WORK_DELAY_US: f64 = 1_000.0;

/// The bytes of a get, and of its right reply.
fn request_and_reply(workload: &Workload) -> (Vec<u8>, Vec<u8>) {
    let (mut request, mut reply) = (Vec::new(), Vec::new());
    compose_get(Protocol::Text, workload, std::iter::repeat_n(0, KEYS_PER_GET), &mut request);
    let value_bytes = workload.value_bytes(0);
    for _ in 0..KEYS_PER_GET {
        reply.extend_from_slice(b"VALUE ");
        workload.keys.write(0, &mut reply);
        reply.extend_from_slice(format!(" 0 {value_bytes}\r\n").as_bytes());
        workload.values.write(0, value_bytes, &mut reply);
        reply.extend_from_slice(b"\r\n");
    }
    reply.extend_from_slice(b"END\r\n");
    (request, reply)
}

fn says(report: &Report, words: &str) -> bool {
    report.warnings.iter().any(|text| text.contains(words))
}

fn p99_us(delay: Option<&Latency>) -> f64 {
    delay.map_or(0.0, |delay| delay.p99_us)
}

fn seen(report: &Report) -> String {
    let generator = &report.generator;
    let warnings = &report.warnings;
    format!(
        "{:.0} requests/s, {:.0} % busy, {:.1} % without a core, {:.1} % of a core stolen, late by \
         {:.0} us, of which its own work {:.0} us; {}",
        report.rate.achieved_per_s,
        generator.busiest_thread * 100.0,
        generator.starved_thread * 100.0,
        generator.stolen * 100.0,
        p99_us(generator.own_delay.as_ref()),
        p99_us(generator.work_delay.as_ref()),
        if warnings.is_empty() { "no warning".to_string() } else { warnings.join("; ") }
    )
}

/// CPU time of the generator for a request, in seconds.
fn cost_s(report: &Report) -> f64 {
    (report.generator.busiest_thread / report.rate.achieved_per_s.max(1.0)).max(1e-9)
}

/// Measures beyond the limit and below it; none when a run was not carried to its end.
pub(super) fn find(bench: &mut Bench<'_>, seed: u64, duration: Duration) -> Option<Vec<Statement>> {
    let settings = Settings { seed, ..Settings::of_words(WORDS) };
    let measured = with_null_server(&settings, duration.min(RUN_MAX), |plan| {
        Runs { bench, settings: &settings, closed: plan }.carry_out()
    });
    measured.unwrap_or_else(|error| {
        bench.fail(error);
        None
    })
}

/// Runs `measure` with a plan whose target answers it. Each has a core of its own meanwhile.
fn with_null_server<T>(
    settings: &Settings,
    duration: Duration,
    measure: impl FnOnce(&Plan) -> T,
) -> Result<T, Error> {
    // No process has the number 0: there is no CPU time to read, and the server is not asked.
    let mut server = Server { target: "127.0.0.1:0".parse()?, server_pid: Some(0) };
    let plan = settings.plan(&server, Mode::Closed, Limit::Time(duration))?;
    let (request, reply) = request_and_reply(&plan.workload);
    let null = NullServer::bind(&server.target, request.len(), &reply)?;
    server.target = null.address().clone();
    let stop = AtomicBool::new(false);
    let pinned = |error| Error::io("cannot choose a core", error);
    let cores = Cores::find().map_err(pinned)?;
    let measured = std::thread::scope(|scope| {
        let served = scope.spawn(|| cores.server().run(|| null.serve(&stop)));
        // The threads of the generator inherit its core.
        let measured = cores
            .generator()
            .move_here()
            .map(|()| measure(&Plan { target: server.target, ..plan }));
        stop.store(true, Ordering::Relaxed);
        let served = served.join().expect("invariant: the null server does not panic");
        served.map_err(pinned)??;
        measured.map_err(pinned)
    });
    cores.all().move_here().map_err(pinned)?;
    measured
}

/// The runs of the experiment so far.
struct Runs<'r, 'b> {
    bench: &'r mut Bench<'b>,
    settings: &'r Settings,
    closed: &'r Plan,
}

impl Runs<'_, '_> {
    /// Repeats a run until `is_good`, and returns the last one.
    fn run(
        &mut self,
        phase: &str,
        rate_per_s: Option<f64>,
        is_good: impl Fn(&Report) -> bool,
    ) -> Option<Report> {
        let rate = |rate_per_s: f64| RateCurve::constant(rate_per_s.round().max(1.0));
        let mode = rate_per_s.map_or(Mode::Closed, |rate_per_s| Mode::Open {
            arrival: Arrival::Poisson,
            rate: rate(rate_per_s),
        });
        let plan = Plan { mode, drop_overdue: rate_per_s.is_some(), ..self.closed.clone() };
        let labels = [("part", format!("{LABEL}, {phase}"))];
        let mut last = None;
        for _ in 0..TRIES {
            let report = self.bench.measure_as(&plan, self.settings, &labels)?.clone();
            if !report.whole {
                return None;
            }
            let good = is_good(&report);
            last = Some(report);
            if good {
                break;
            }
        }
        last
    }

    fn carry_out(mut self) -> Option<Vec<Statement>> {
        let closed = self.run("closed loop", None, is_full)?;
        let limit_per_s = closed.rate.achieved_per_s;
        let over = self.run("overload", Some(limit_per_s * OVERLOAD), is_full)?;
        let mut statements = vec![beyond(&closed, &over), both_rates(&over)];
        let first = self.run("first rate", Some(limit_per_s * FIRST_SHARE), undisturbed)?;
        let mut cost_s = cost_s(&first);
        for busy in BUSY {
            let offered_per_s = (busy / cost_s).min(limit_per_s);
            let phase = format!("about {:.0} % busy", busy * 100.0);
            let report = self.run(&phase, Some(offered_per_s), undisturbed)?;
            cost_s = self::cost_s(&report);
            statements.push(below(&phase, &report));
        }
        Some(statements)
    }
}

/// Whether the machine left the generator its core.
fn undisturbed(report: &Report) -> bool {
    report.generator.starved_thread <= TAKEN_MAX && report.generator.stolen <= TAKEN_MAX
}

/// Whether the generator had work all the time.
fn is_full(report: &Report) -> bool {
    report.generator.busiest_thread + report.generator.starved_thread >= ALWAYS
}

/// The share of the offered rate that was achieved.
fn reached(report: &Report) -> f64 {
    let offered_per_s = report.rate.offered_per_s.unwrap_or(f64::INFINITY);
    report.rate.achieved_per_s / offered_per_s
}

/// Beyond its limit it must say so. Where its thread was not the limit, nothing is known.
fn beyond(closed: &Report, over: &Report) -> Statement {
    Statement {
        what: format!("{LABEL}: beyond its limit the generator says so"),
        expected: format!("a warning, with work for {:.0} % of the time", ALWAYS * 100.0),
        seen: seen(over),
        holds: (is_full(closed) && is_full(over)).then(|| says(over, BOTTLENECK)),
    }
}

/// The report that people read must show an overload by both rates.
fn both_rates(over: &Report) -> Statement {
    let text = over.to_string();
    let line = text.lines().find(|line| line.starts_with("rate")).unwrap_or("no rate");
    let rates = [Some(over.rate.achieved_per_s), over.rate.offered_per_s];
    let shows = |rate: &Option<f64>| rate.is_some_and(|rate| line.contains(&format!("{rate:.0} ")));
    Statement {
        what: "overload: the report shows both rates".to_string(),
        expected: "the rate achieved and the rate offered".to_string(),
        seen: line.to_string(),
        holds: (reached(over) < REACHED).then(|| rates.iter().all(shows)),
    }
}

/// Below its limit it must reach the rate, delay nothing by its own work, and not blame itself.
fn below(phase: &str, report: &Report) -> Statement {
    let Generator { busiest_thread, work_delay, .. } = &report.generator;
    let (low, high) = (FAULTLESS.start() * 100.0, FAULTLESS.end() * 100.0);
    let faultless = || {
        let blames_itself = says(report, BOTTLENECK) || says(report, DELAYED);
        let is_late = p99_us(work_delay.as_ref()) >= WORK_DELAY_US;
        !blames_itself && !is_late && reached(report) >= REACHED
    };
    Statement {
        what: format!("{LABEL}: {phase}, it is not at fault"),
        expected: format!("no blame, {low:.0} to {high:.0} % busy"),
        seen: seen(report),
        holds: (FAULTLESS.contains(busiest_thread) && undisturbed(report)).then(faultless),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conclusion::tests::{observed, report};
    use crate::drive::Observed;

    /// A report at this busy and starved share of a core, 500 of some requests per second reached.
    fn run(busiest: f64, starved: f64, offered_per_s: f64, warnings: &[&str]) -> Report {
        let mut report = report(&[], &Observed { busiest, starved, ..observed() });
        report.rate.offered_per_s = Some(offered_per_s);
        report.warnings = warnings.iter().map(|text| (*text).to_string()).collect();
        report
    }

    #[test]
    fn below_its_limit_it_is_judged_by_what_it_says_and_by_its_figures() {
        let holds = |report: &Report| below("below", report).holds;
        let silent = run(0.7, 0.0, 500.0, &[]);
        assert_eq!(holds(&silent), Some(true));
        assert_eq!(holds(&run(0.7, 0.0, 600.0, &[])), Some(false), "the rate was not reached");
        for blame in [BOTTLENECK, DELAYED] {
            assert_eq!(holds(&run(0.7, 0.0, 500.0, &[blame])), Some(false), "{blame}");
        }
        // A delay that its work does not explain is no fault, whatever the warning of it.
        let late = |work_us: f64| {
            let mut report = run(0.7, 0.0, 500.0, &["the machine kept the generator from running"]);
            let latency = report.get_latency.clone().unwrap();
            let delay = |p99_us| Some(Latency { p99_us, ..latency.clone() });
            report.generator.own_delay = delay(6_200.0);
            report.generator.work_delay = delay(work_us);
            report
        };
        assert_eq!(holds(&late(250.0)), Some(true));
        assert_eq!(holds(&late(2_000.0)), Some(false));
        let mut stolen = run(0.7, 0.0, 500.0, &[DELAYED]);
        stolen.generator.stolen = 0.5;
        for disturbed in [stolen, run(0.7, 0.2, 500.0, &[DELAYED]), run(0.2, 0.0, 500.0, &[])] {
            assert_eq!(holds(&disturbed), None);
        }
    }

    #[test]
    fn beyond_its_limit_it_must_warn_and_show_both_rates() {
        let full = run(0.99, 0.0, 900.0, &[BOTTLENECK]);
        assert_eq!(beyond(&full, &full).holds, Some(true));
        assert_eq!(beyond(&full, &run(0.99, 0.0, 900.0, &[])).holds, Some(false));
        assert_eq!(beyond(&run(0.5, 0.0, 900.0, &[]), &full).holds, None);
        assert_eq!(both_rates(&full).holds, Some(true), "{}", both_rates(&full).seen);
        assert_eq!(both_rates(&run(0.99, 0.0, 500.0, &[])).holds, None);
    }
}
