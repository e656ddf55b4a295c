//! The generator against the truth: servers whose behaviour is known, and its own limit.
//!
//! `volvox load honesty` serves what it measures and prints raw figures. The verdicts are made
//! here, from those figures and the bars below; its own verdicts are not read.
//!
//! ```text
//! frozen       p99 of an open loop shows the freeze, p99 of a closed loop hides it
//! delays       each reported percentile is the stated one
//! bottleneck   closed loop: its thread is full; overload: it warns;
//!              30 to 80 % busy: no warning, the rate reached, no delay by its own work
//! ```
//!
//! A due request can be late because the generator works, or because another program or the
//! hypervisor has its core. Only the first is the generator's fault. The kernel's account of the
//! thread's CPU time distinguishes them on any machine: see `drive/open_loop.rs` in `load`. Times
//! are microseconds where no unit is named.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::claim::{Claim, Measured};
use crate::lab::Lab;
use measure::exec::Exec;

/// Longest one part may take.
const RUN_MAX: Duration = Duration::from_secs(300);
/// What the README says of the claims about known servers.
const SEEN: &str =
    "a server that stops for 1 s in 10 is seen; one that delays by stated 5 to 50 ms is too";
/// The freeze and its period, in seconds.
const FREEZE_S: f64 = 1.0;
const PERIOD_S: f64 = 10.0;
/// The percentiles that a known delay is compared by.
const PERCENTILES: [&str; 4] = ["p50", "p90", "p95", "p99"];
/// A reported percentile may differ from the stated one by this share, or by this time.
const TOLERANCE_SHARE: f64 = 0.02;
const TOLERANCE_US: f64 = 300.0;
/// The share of the time above which its thread is the limit of a closed loop.
const FULL: f64 = 0.95;
/// How busy it is in the runs that are judged, and in one of them at least.
const JUDGED: [f64; 2] = [0.3, 0.8];
const HIGH: f64 = 0.6;
/// The share of the offered rate that counts as reached.
const REACHED: f64 = 0.95;
/// A run in which its thread waited for a core for more than this share is not judged.
const STARVED_MAX: f64 = 0.01;
/// The delay of due requests by its own work, at p99, from which on it is at fault.
const WORK_DELAY_US: f64 = 1_000.0;
/// Words in the warnings of a generator that blames itself.
const BLAMES: [&str; 2] = ["the generator may be the bottleneck", "the generator delayed due"];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new(
        "honesty.frozen",
        "a server frozen for 1 s in every 10: the open loop's p99 shows it, a closed loop beside",
    )
    .bar("shown, and hidden by the closed loop")
    .promised(SEEN)
    .by(|lab| Ok(judge_frozen(&report(lab, "frozen")?))),
    Claim::new(
        "honesty.delays",
        "a double that delays by stated 5 to 50 ms: p50 to p99 as reported",
    )
    .bar("within 2 % or 0.3 ms")
    .promised(SEEN)
    .by(|lab| Ok(judge_delays(&report(lab, "delays")?))),
    Claim::new(
        "honesty.bottleneck",
        "the generator warns when it is the bottleneck, and is not at fault below 80 % of its CPU",
    )
    .bar("a warning in overload; none, and the rate reached, at 30 to 80 %")
    .promised("it warns when it is itself the bottleneck, and only then")
    .by(|lab| Ok(judge_bottleneck(&report(lab, "bottleneck")?))),
    Claim::new("honesty.rates", "offered and achieved rates of an overloaded run")
        .bar("both shown, in the JSON and on the screen")
        .by(|lab| Ok(judge_rates(&report(lab, "bottleneck")?))),
];

/// The JSON of one part of `volvox load honesty`.
fn report(lab: &Lab, part: &str) -> Result<Value> {
    // The server that it starts needs a core beside the generator's, so neither is pinned.
    let (freeze, period) = (format!("{FREEZE_S}s"), format!("{PERIOD_S}s"));
    let words = ["load", "honesty", "--json", "--part", part];
    let exec =
        Exec::new(lab.volvox()?).args(words).args(["--freeze", &freeze, "--period", &period]);
    lab.detail(&exec.to_string());
    exec.json(RUN_MAX)
}

/// The reports of the runs whose label is `part`.
fn runs<'r>(report: &'r Value, part: &str) -> impl Iterator<Item = &'r Value> {
    let runs = report["runs"].as_array().into_iter().flatten();
    runs.filter(move |run| run["labels"]["part"] == *part).map(|run| &run["report"])
}

/// Statements, each with whether it is true, as one finding.
fn judge(report: &Value, statements: Vec<(String, bool)>, wanted: usize) -> Measured {
    let true_ones = statements.iter().filter(|(_, holds)| *holds).count();
    let mut details: Vec<String> = statements.into_iter().map(|(text, _)| text).collect();
    let warnings = report["warnings"].as_array().into_iter().flatten();
    details.extend(warnings.filter_map(Value::as_str).map(str::to_owned));
    let sum = format!("{true_ones} of {wanted} statements true");
    Measured::new(sum, true_ones as f64, true_ones == wanted).with_details(details)
}

fn judge_frozen(report: &Value) -> Measured {
    let freeze_us = FREEZE_S * 1e6;
    // Due times are spread evenly over a freeze; the slowest hundredth are the first of them.
    let expected_us = freeze_us * (1.0 - 0.01 / (FREEZE_S / PERIOD_S));
    let statement = |name: &str, low_us: f64, high_us: f64| {
        let p99_us = runs(report, name).last()?["get_latency"]["p99_us"].as_f64()?;
        let (low, high, p99) = (low_us / 1e3, high_us / 1e3, p99_us / 1e3);
        let text =
            format!("{name}: expected p99 of {low:.0} to {high:.0} ms, reported {p99:.2} ms");
        Some((text, (low_us..=high_us).contains(&p99_us)))
    };
    let open = statement("frozen, open loop", expected_us * 0.8, freeze_us * 1.2);
    let closed = statement("frozen, closed loop", 0.0, freeze_us / 10.0);
    judge(report, open.into_iter().chain(closed).collect(), 2)
}

fn judge_delays(report: &Value) -> Measured {
    let stated = &report["conclusion"]["raw"]["delays"]["percentiles"];
    let reported = runs(report, "stated delays").last().map(|run| &run["get_latency"]);
    let statement = |name: &&str| {
        let entry = stated.as_array()?.iter().find(|entry| entry["percentile"] == **name)?;
        let stated_us = entry["stated_us"].as_f64()?;
        let reported_us = reported?[format!("{name}_us")].as_f64()?;
        let tolerance_us = (stated_us * TOLERANCE_SHARE).max(TOLERANCE_US);
        let (stated, seen) = (stated_us / 1e3, reported_us / 1e3);
        let text = format!(
            "{name}: stated {stated:.2} ms +- {:.2}, reported {seen:.2} ms",
            tolerance_us / 1e3
        );
        Some((text, (reported_us - stated_us).abs() <= tolerance_us))
    };
    judge(report, PERCENTILES.iter().filter_map(statement).collect(), PERCENTILES.len())
}

/// What a run shows of the generator itself.
#[derive(Clone, Debug)]
struct Own {
    per_s: f64,
    offered_per_s: f64,
    busy: f64,
    starved: f64,
    work_delay_us: f64,
    blames_itself: bool,
    text: String,
}

impl Own {
    fn read(run: &Value) -> Self {
        let number = |field: &str| run[field].as_f64().unwrap_or(0.0);
        let warnings = run["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let warnings: Vec<&str> = warnings.collect();
        let (per_s, offered_per_s) = (number("achieved_per_s"), number("offered_per_s"));
        let (busy, starved) = (number("busy"), number("starved"));
        let work_delay_us = number("work_delay_p99_us");
        let text = format!(
            "{}: {per_s:.0} of {offered_per_s:.0} requests/s, its thread {:.0} % busy, {:.1} % \
             without a core, {:.1} % of a core stolen; p99 of its delay {:.0} us, of which by its \
             own work {work_delay_us:.0} us; it says: {}",
            run["phase"].as_str().unwrap_or("-"),
            busy * 100.0,
            starved * 100.0,
            number("stolen") * 100.0,
            number("own_delay_p99_us"),
            if warnings.is_empty() { "nothing".to_owned() } else { warnings.join("; ") }
        );
        let blames_itself =
            warnings.iter().any(|text| BLAMES.iter().any(|blame| text.contains(blame)));
        Self { per_s, offered_per_s, busy, starved, work_delay_us, blames_itself, text }
    }

    /// Whether it must be faultless: below its limit, on a core that no other program used.
    fn is_judged(&self) -> bool {
        self.starved <= STARVED_MAX && (JUDGED[0]..JUDGED[1]).contains(&self.busy)
    }

    fn is_faultless(&self) -> bool {
        let reached = self.per_s >= self.offered_per_s * REACHED;
        !self.blames_itself && reached && self.work_delay_us < WORK_DELAY_US
    }
}

fn judge_bottleneck(report: &Value) -> Measured {
    let raw = report["conclusion"]["raw"]["bottleneck"]["runs"].as_array();
    let all: Vec<(&str, Own)> = raw
        .into_iter()
        .flatten()
        .map(|run| (run["phase"].as_str().unwrap_or(""), Own::read(run)))
        .collect();
    let details: Vec<String> = all.iter().map(|(_, own)| own.text.clone()).collect();
    let not = |reason: String| Measured::not(reason).with_details(details.clone());
    let of = |phase: &'static str| all.iter().filter(move |(name, _)| *name == phase);
    let full = of("closed loop").map(|(_, own)| own.busy).fold(0.0, f64::max);
    if full < FULL {
        let percent = full * 100.0;
        return not(format!(
            "the closed loop had another limit: its thread was {percent:.0} % busy"
        ));
    }
    let Some((_, over)) = of("overload").next_back() else {
        return not("the overload was not measured".to_owned());
    };
    let below = || all.iter().filter(|(name, _)| !["closed loop", "overload"].contains(name));
    let judged: Vec<&Own> = below().map(|(_, own)| own).filter(|own| own.is_judged()).collect();
    let highest = judged.iter().map(|own| own.busy).fold(0.0, f64::max);
    if highest < HIGH {
        let starved = below().filter(|(_, own)| own.starved > STARVED_MAX).count();
        return not(format!(
            "no rate kept it 60 to 80 % busy; other programs had its core at {starved} of {} rates",
            below().count()
        ));
    }
    let at_fault = judged.iter().filter(|own| !own.is_faultless()).count();
    let text = format!(
        "{} beyond its limit; at fault at {at_fault} of {} rates, up to {:.0} % of its CPU",
        if over.blames_itself { "warns" } else { "silent" },
        judged.len(),
        highest * 100.0
    );
    Measured::new(text, highest, over.blames_itself && at_fault == 0).with_details(details)
}

/// Both rates by their fields, and on the screen as two numbers of one line, the lower one first.
fn judge_rates(report: &Value) -> Measured {
    let rate = |field: &str| {
        runs(report, "bottleneck, overload").last().and_then(|run| run["rate"][field].as_f64())
    };
    let in_json = rate("achieved_per_s").zip(rate("offered_per_s"));
    let screen = &report["conclusion"]["raw"]["bottleneck"]["overload_screen"];
    let mut lines = screen.as_str().unwrap_or("").lines();
    let line = lines.find(|line| line.contains("requests/s") && line.contains("offered"));
    let details: Vec<String> = line.into_iter().map(str::to_owned).collect();
    if in_json.is_some_and(|(achieved, offered)| achieved >= offered * REACHED) {
        return Measured::not("the rate offered was reached: no overload").with_details(details);
    }
    let numbers = |line: &str| -> Vec<f64> {
        line.split_whitespace().filter_map(|word| word.trim_end_matches(',').parse().ok()).collect()
    };
    let on_screen = line.map(numbers).is_some_and(|found| found.len() >= 2 && found[0] < found[1]);
    let text = match (in_json, on_screen) {
        (Some((achieved, offered)), true) => format!("{achieved:.0} of {offered:.0} requests/s"),
        (Some(_), false) => "not both on the screen".to_owned(),
        (None, _) => "not both in the JSON".to_owned(),
    };
    let holds = in_json.is_some() && on_screen;
    Measured::new(text, f64::from(u8::from(holds)), holds).with_details(details)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::claim::Verdict;

    fn is_unknown(measured: &Measured) -> bool {
        matches!(measured.verdict, Verdict::NotMeasured(_))
    }

    #[test]
    fn one_untrue_figure_fails_whatever_the_generator_says_of_it() {
        let frozen = |open_us: f64, closed_us: f64| {
            let run = |part: &str, p99_us: f64| {
                let report = json!({ "get_latency": { "p99_us": p99_us } });
                json!({ "labels": { "part": part }, "report": report })
            };
            let runs = [run("frozen, open loop", open_us), run("frozen, closed loop", closed_us)];
            let claims = [json!({ "holds": true })];
            json!({ "runs": runs, "conclusion": { "claims": claims }, "warnings": ["busy"] })
        };
        for (open_us, closed_us, verdict) in [
            (900e3, 1e3, Verdict::Pass),
            (500e3, 1e3, Verdict::Fail),
            (900e3, 200e3, Verdict::Fail),
        ] {
            let measured = judge_frozen(&frozen(open_us, closed_us));
            assert_eq!((measured.verdict, measured.details.len()), (verdict, 3));
        }
        assert_eq!(judge_frozen(&json!({})).verdict, Verdict::Fail);
    }

    #[test]
    fn a_percentile_is_compared_with_the_stated_one() {
        let delays = |p99_us: f64| {
            let entry = |name: &&str| json!({ "percentile": name, "stated_us": 20e3 });
            let stated: Vec<Value> = PERCENTILES.iter().map(entry).collect();
            let latency =
                json!({ "p50_us": 20e3, "p90_us": 20e3, "p95_us": 19.7e3, "p99_us": p99_us });
            let run = json!({ "labels": { "part": "stated delays" },
                              "report": { "get_latency": latency } });
            let raw = json!({ "delays": { "percentiles": stated } });
            json!({ "runs": [run], "conclusion": { "raw": raw } })
        };
        assert_eq!(judge_delays(&delays(20.3e3)).verdict, Verdict::Pass);
        assert_eq!(judge_delays(&delays(20.5e3)).verdict, Verdict::Fail);
        assert_eq!(judge_delays(&json!({})).verdict, Verdict::Fail);
    }

    fn own(phase: &str, busy: f64, per_s: f64, starved: f64, warnings: Value) -> Value {
        json!({ "phase": phase, "busy": busy, "achieved_per_s": per_s, "offered_per_s": 100.0,
                "starved": starved, "warnings": warnings })
    }

    fn full(phase: &str) -> Value {
        own(phase, 0.99, 60.0, 0.0, json!(["the generator may be the bottleneck: 99 %"]))
    }

    fn silent(busy: f64) -> Value {
        own("below", busy, 99.0, 0.0, json!([]))
    }

    fn judged(closed: Value, over: Value, ladder: &[Value]) -> Measured {
        let runs: Vec<&Value> = [&closed, &over].into_iter().chain(ladder).collect();
        judge_bottleneck(&json!({ "conclusion": { "raw": { "bottleneck": { "runs": runs } } } }))
    }

    fn below(ladder: &[Value]) -> Measured {
        judged(full("closed loop"), full("overload"), ladder)
    }

    #[test]
    fn a_generator_is_judged_by_what_it_says_and_by_its_figures() {
        let ladder = [silent(0.1), silent(0.4), silent(0.7), full("below")];
        let pass = below(&ladder);
        assert_eq!((pass.verdict, pass.details.len()), (Verdict::Pass, 6));
        let mute = own("overload", 0.99, 60.0, 0.0, json!([]));
        assert_eq!(judged(full("closed loop"), mute, &ladder).verdict, Verdict::Fail);
        let warning = json!(["the generator delayed due requests by 2 ms"]);
        let late = own("below", 0.4, 99.0, 0.0, warning);
        let short = own("below", 0.4, 90.0, 0.0, json!([]));
        // It says nothing, but its own work delays requests.
        let mut at_work = silent(0.4);
        at_work["work_delay_p99_us"] = json!(2_000.0);
        for at_fault in [late, short, at_work] {
            assert_eq!(below(&[at_fault, silent(0.7)]).verdict, Verdict::Fail);
        }
    }

    #[test]
    fn a_delay_that_its_work_does_not_explain_is_no_fault() {
        let mut paused = silent(0.7);
        paused["own_delay_p99_us"] = json!(6_200.0);
        paused["work_delay_p99_us"] = json!(250.0);
        paused["warnings"] = json!(["the machine kept the generator from running"]);
        assert_eq!(below(&[paused]).verdict, Verdict::Pass);
    }

    #[test]
    fn without_its_limit_or_a_high_rate_nothing_is_known() {
        let ladder = [silent(0.4), silent(0.7)];
        let half = own("closed loop", 0.53, 60.0, 0.0, json!([]));
        assert!(is_unknown(&judged(half, full("overload"), &ladder)));
        assert!(is_unknown(&below(&[silent(0.4)])));
        assert!(is_unknown(&judge_bottleneck(&json!({}))));
        let warning = json!(["the generator delayed due requests by 2 ms"]);
        let starved = own("below", 0.7, 99.0, 0.2, warning);
        assert!(is_unknown(&below(&[starved.clone(), silent(0.4)])));
        let beside = below(&[starved, silent(0.7)]);
        assert_eq!(beside.verdict, Verdict::Pass, "a fault of the machine is not its own");
    }

    #[test]
    fn both_rates_are_shown() {
        let shown = |rate: Value, screen: &str| {
            let run = json!({ "labels": { "part": "bottleneck, overload" },
                              "report": { "rate": rate } });
            let raw = json!({ "bottleneck": { "overload_screen": screen } });
            judge_rates(&json!({ "runs": [run], "conclusion": { "raw": raw } }))
        };
        let rate = |achieved: f64| json!({ "achieved_per_s": achieved, "offered_per_s": 100.0 });
        let screen = "rate   60 requests/s of 100 offered, 1.5 MiB/s out\n";
        assert_eq!(shown(rate(60.0), screen).verdict, Verdict::Pass);
        assert_eq!(shown(rate(60.0), "rate 60 requests/s\n").verdict, Verdict::Fail);
        assert_eq!(shown(json!({}), screen).verdict, Verdict::Fail);
        assert!(is_unknown(&shown(rate(99.0), screen)));
    }
}
