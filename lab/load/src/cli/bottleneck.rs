//! The generator beyond its own limit, and below it: it must blame itself there and nowhere else.
//!
//! ```text
//! null server   answers every get of many keys with the same bytes: far cheaper than asking them
//! closed loop   how much the generator asks, compares and counts at most
//! overload      above that: the generator must say that it is the bottleneck
//! below         rates that keep it 40 to 70 % busy: no fault of its own may show
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::honesty::Claim;
use super::settings::{Server, Settings};
use super::work::Bench;
use crate::drive::{Limit, Mode, Plan};
use crate::protocol::{Protocol, compose_get};
use crate::rate::RateCurve;
use crate::report::{Report, warnings};
use crate::schedule::Arrival;
use crate::workload::Workload;
use doubles::null_server::NullServer;
use measure::Error;

/// How the names of its runs begin.
pub(super) const LABEL: &str = "bottleneck";
/// Keys of a get: each is compared, found and checked, while the server only moves its bytes.
const KEYS_PER_GET: usize = 400;
/// What flows: one key, whose value is ten bytes.
const WORDS: &str = "--ratio 1:0 --keys 1 --value-bytes 10 --multiget 400 --connections 16 \
                     --pipeline 4 --verify --warmup 300ms";
/// Longest one of the runs takes.
const RUN_MAX: Duration = Duration::from_secs(3);
/// The overload, as a multiple of what the closed loop reaches.
const OVERLOAD: f64 = 1.5;
/// The first rate below the limit, as a share of it; it tells what a request costs when few are
/// answered at once.
const FIRST_SHARE: f64 = 0.25;
/// How busy it is to be at the rates after it.
const BUSY: [f64; 3] = [0.4, 0.55, 0.7];
/// The generator's share of a core within which it must not be at fault.
const FAULTLESS: std::ops::RangeInclusive<f64> = 0.3..=0.8;
/// A generator that is the limit has work for this share of the time at least.
const ALWAYS: f64 = 0.95;
/// A rate that is reached is reached to this share.
const REACHED: f64 = 0.95;

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

/// Whether a run finds fault with the generator itself.
fn blames_itself(report: &Report) -> bool {
    says(report, warnings::BOTTLENECK) || says(report, warnings::DELAYED)
}

/// Whether a run that the generator limits owns up to it. One that was mostly kept from running
/// proves nothing: it says so, but the claim fails.
fn owns_up(report: &Report) -> bool {
    let generator = &report.generator;
    let working = generator.busiest_thread + generator.starved_thread;
    working >= ALWAYS && says(report, warnings::BOTTLENECK)
}

fn seen(report: &Report) -> String {
    let (generator, rate) = (&report.generator, &report.rate);
    let delay_us = generator.own_delay.as_ref().map_or(0.0, |delay| delay.p99_us);
    let said = [
        (warnings::BOTTLENECK, "bottleneck"),
        (warnings::DELAYED, "delay"),
        (warnings::STARVED, "no core"),
    ];
    let said: Vec<&str> =
        said.iter().filter(|(words, _)| says(report, words)).map(|(_, name)| *name).collect();
    format!(
        "{} at {:.0} requests/s, {:.0} % busy, {:.0} % without a core, late by {delay_us:.0} us",
        if said.is_empty() {
            "silent".to_string()
        } else {
            format!("warns of {}", said.join(", "))
        },
        rate.achieved_per_s,
        generator.busiest_thread * 100.0,
        generator.starved_thread * 100.0,
    )
}

/// CPU time of the generator for a request, in seconds.
fn cost_s(report: &Report) -> f64 {
    (report.generator.busiest_thread / report.rate.achieved_per_s.max(1.0)).max(1e-9)
}

/// Measures beyond the limit and below it; none when a run was not carried to its end.
pub(super) fn claims(bench: &mut Bench<'_>, seed: u64, duration: Duration) -> Option<Vec<Claim>> {
    let settings = Settings { seed, ..Settings::of_words(WORDS) };
    let measured =
        with_null_server(&settings, duration.min(RUN_MAX), |plan| measure(bench, &settings, plan));
    measured.unwrap_or_else(|error| {
        bench.fail(error);
        None
    })
}

/// Runs `measure` with a plan whose target answers it.
fn with_null_server<T>(
    settings: &Settings,
    duration: Duration,
    measure: impl FnOnce(&Plan) -> T,
) -> Result<T, Error> {
    // No process has the number 0: there is no CPU time to tell, and nobody is asked for it.
    let mut server = Server { target: "127.0.0.1:0".parse()?, server_pid: Some(0) };
    let plan = settings.plan(&server, Mode::Closed, Limit::Time(duration))?;
    let (request, reply) = request_and_reply(&plan.workload);
    let null = NullServer::bind(&server.target, request.len(), &reply)?;
    server.target = null.address().clone();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let served = scope.spawn(|| null.serve(&stop));
        let measured = measure(&Plan { target: server.target, ..plan });
        stop.store(true, Ordering::Relaxed);
        served.join().expect("the null server does not panic")?;
        Ok(measured)
    })
}

fn measure(bench: &mut Bench<'_>, settings: &Settings, closed: &Plan) -> Option<Vec<Claim>> {
    let mut run = |label: String, plan: &Plan| {
        let report = bench.measure_as(plan, settings, &[("part", label)])?;
        report.whole.then(|| report.clone())
    };
    let open = |rate_per_s: f64| Plan {
        mode: Mode::Open {
            arrival: Arrival::Poisson,
            rate: RateCurve::constant(rate_per_s.round().max(1.0)),
        },
        drop_overdue: true,
        ..closed.clone()
    };
    let limit_per_s = run(format!("{LABEL}, closed loop"), closed)?.rate.achieved_per_s;
    let over = run(format!("{LABEL}, overload"), &open(limit_per_s * OVERLOAD))?;
    let mut claims = vec![Claim {
        what: "bottleneck: beyond its limit the generator owns up".to_string(),
        expected: format!("a warning, with work for {:.0} % of the time", ALWAYS * 100.0),
        seen: seen(&over),
        holds: owns_up(&over),
    }];
    let first = run(format!("{LABEL}, first rate"), &open(limit_per_s * FIRST_SHARE))?;
    let mut cost_s = cost_s(&first);
    for busy in BUSY {
        let percent = busy * 100.0;
        let offered_per_s = (busy / cost_s).min(limit_per_s);
        let below = run(format!("{LABEL}, about {percent:.0} % busy"), &open(offered_per_s))?;
        cost_s = self::cost_s(&below);
        let in_range = FAULTLESS.contains(&below.generator.busiest_thread);
        let reached = below.rate.achieved_per_s >= offered_per_s * REACHED;
        claims.push(Claim {
            what: format!("bottleneck: about {percent:.0} % busy, it is not at fault"),
            expected: format!(
                "no blame, {:.0} to {:.0} % busy",
                FAULTLESS.start() * 100.0,
                FAULTLESS.end() * 100.0
            ),
            seen: seen(&below),
            holds: !blames_itself(&below) && in_range && reached,
        });
    }
    Some(claims)
}
