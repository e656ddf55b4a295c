//! The generator at its own limit: it says so there, and is silent well below it.
//!
//! A real server cannot show this: its core is full first. So every request is answered by a server
//! that has nothing to do but to send ready bytes, a real reply, while the generator parses and
//! compares it.
//!
//! ```text
//! closed loop              its thread is full: what it can do
//! twice as much            offered beyond that: both rates shown, and a warning
//! a ladder of rates        where its thread is 30 to 80 % busy: no warning, the rate reached
//! ```

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::claim::{Claim, Measured};
use crate::instruments::{Client, Contestant, Reply};
use crate::lab::Lab;
use measure::{exec::Exec, process::Server};

/// Longest one run of the generator may take.
const RUN_MAX: Duration = Duration::from_secs(60);
/// The share of the time above which its thread is the limit of a closed loop.
const FULL: f64 = 0.95;
/// How busy it is in the runs that are held against its silence, and in one of them at least.
const JUDGED: [f64; 2] = [0.3, 0.8];
const HIGH: f64 = 0.6;
/// How often the closed loop is tried while others use the generator's core.
const TRIES: usize = 4;
/// How much of what it can do is offered beyond its limit.
const BEYOND: f64 = 2.0;
/// A rate that is reached is reached to this share.
const REACHED: f64 = 0.95;
/// The share of the time it may wait for a core that is its own: more, and what was sent late at
/// the 99th percentile may have been sent late by others.
const STARVED_MAX: f64 = 0.01;
/// Rungs of the ladder, those repeated included, and how far apart they may be.
const RUNGS_MAX: usize = 20;
const RUNG: [f64; 2] = [1.25, 6.0];
/// How busy the next rung is to make it while it idles, and the share of its limit on the lowest:
/// request by request, each with its own calls, is many times dearer than batch by batch.
const AIM: f64 = 0.35;
const LOWEST: f64 = 0.003;
/// Words in the warnings of a generator that blames itself.
const BLAMES: [&str; 2] = ["the generator may be the bottleneck", "the generator delayed due"];
/// The one key, as the generator writes it.
const KEY: &str = "key00000000000000000";
const VALUE_BYTES: &str = "100";
/// What every run has in common.
const RUN: [&str; 10] = [
    "--keys",
    "1",
    "--value-bytes",
    VALUE_BYTES,
    "--ratio",
    "1:0",
    "--pipeline",
    "256",
    "--verify",
    "--warmup",
];
const WARM_UP: &str = "300ms";

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new(
        "honesty.bottleneck",
        "the generator warns when it is the bottleneck, and is not at fault below 80 % of its CPU",
    )
    .bar("a warning in overload; none, and the rate reached, at 30 to 80 %")
    .promised("it warns when it is itself the bottleneck, and only then")
    .by(bottleneck),
    Claim::new("honesty.rates", "offered and achieved rates of an overloaded run")
        .bar("both shown, in the JSON and on the screen")
        .by(rates),
];

/// A server of ready bytes, and what the generator on the other core makes of it.
struct Canned<'a> {
    lab: &'a Lab,
    server: Server,
    reply: PathBuf,
}

impl<'a> Canned<'a> {
    fn start(lab: &'a Lab) -> Result<Self> {
        let reply = lab.folder().join("reply");
        let bytes = real_reply(lab)?;
        fs::write(&reply, bytes).with_context(|| format!("write {}", reply.display()))?;
        let request_bytes = format!("get {KEY}\r\n").len();
        let null = Contestant::null(lab, request_bytes, Reply::File(reply.clone()))?;
        let server = null.pinned(lab).start(lab)?;
        Ok(Self { lab, server, reply })
    }

    fn exec(&self, rate_per_s: Option<f64>, more: &[&str]) -> Result<Exec> {
        let target = self.server.address().to_string();
        let pid = self.server.pid().to_string();
        let exec =
            self.lab.generator()?.args(["load", "run", "--target", &target, "--server-pid", &pid]);
        let exec = exec.args(RUN).arg(WARM_UP).args(["--duration", "2s"]).args(more);
        Ok(match rate_per_s {
            Some(rate_per_s) => exec.args(["--rate", &format!("{rate_per_s:.0}")]),
            None => exec,
        })
    }

    fn run(&self, rate_per_s: Option<f64>) -> Result<Value> {
        let exec = self.exec(rate_per_s, &["--json"])?;
        self.lab
            .detail(&rate_per_s.map_or("closed loop".to_owned(), |rate| format!("{rate:.0}/s")));
        exec.json(RUN_MAX)
    }

    /// What the generator can do: the closed loop in which its thread was busiest.
    fn limit(&self) -> Result<Own> {
        let mut best = Own::read(&self.run(None)?, "closed loop");
        for _ in 1..TRIES {
            if best.busy >= FULL {
                break;
            }
            let again = Own::read(&self.run(None)?, "closed loop");
            best = if again.busy > best.busy { again } else { best };
        }
        Ok(best)
    }

    fn stop(self) -> Result<()> {
        self.server.stop()?;
        fs::remove_file(&self.reply).with_context(|| format!("remove {}", self.reply.display()))
    }
}

/// What our server answers to a get of the one key.
fn real_reply(lab: &Lab) -> Result<Vec<u8>> {
    let server = Contestant::volvox(lab)?.start(lab)?;
    let target = server.address().to_string();
    let exec =
        Exec::new(lab.volvox()?).args(["load", "populate", "--target", &target, "--keys", "1"]);
    exec.args(["--value-bytes", VALUE_BYTES]).capture(RUN_MAX)?;
    let reply = Client::connect(server.address())?.reply(format!("get {KEY}\r\n").as_bytes())?;
    server.stop()?;
    if !reply.starts_with(b"VALUE") {
        bail!("the generator stores its one key under another name than {KEY}");
    }
    Ok(reply)
}

/// What a run says of the generator itself.
#[derive(Clone, Debug)]
struct Own {
    per_s: f64,
    offered_per_s: f64,
    busy: f64,
    starved: f64,
    blames_itself: bool,
    text: String,
}

impl Own {
    fn read(report: &Value, name: &str) -> Self {
        let number = |part: &str, field: &str| report[part][field].as_f64().unwrap_or(0.0);
        let warnings: Vec<&str> =
            report["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let (per_s, offered_per_s) =
            (number("rate", "achieved_per_s"), number("rate", "offered_per_s"));
        let busy = number("generator", "busiest_thread");
        let starved = number("generator", "starved_thread");
        let text = format!(
            "{name}: {per_s:.0} of {offered_per_s:.0} requests/s, its thread {:.0} % busy and \
             {:.0} % without a core, the server {:.2} cores; it says: {}",
            busy * 100.0,
            starved * 100.0,
            number("server", "cores"),
            if warnings.is_empty() { "nothing".to_owned() } else { warnings.join("; ") }
        );
        let blames_itself =
            warnings.iter().any(|text| BLAMES.iter().any(|blame| text.contains(blame)));
        Self { per_s, offered_per_s, busy, starved, blames_itself, text }
    }

    fn is_starved(&self) -> bool {
        self.starved > STARVED_MAX
    }

    /// Whether it must be faultless: below its limit, on a core that no other program used.
    fn is_judged(&self) -> bool {
        !self.is_starved() && (JUDGED[0]..JUDGED[1]).contains(&self.busy)
    }

    fn is_faultless(&self) -> bool {
        !self.blames_itself && self.per_s >= self.offered_per_s * REACHED
    }
}

fn bottleneck(lab: &Lab) -> Result<Measured> {
    let canned = Canned::start(lab)?;
    let closed = canned.limit()?;
    let over = Own::read(&canned.run(Some(closed.per_s * BEYOND))?, "beyond its limit");
    let mut ladder: Vec<Own> = Vec::new();
    let mut rate_per_s = closed.per_s * LOWEST;
    while ladder.len() < RUNGS_MAX && ladder.last().is_none_or(|own| own.busy < JUDGED[1]) {
        let own = Own::read(&canned.run(Some(rate_per_s))?, "below it");
        if !own.is_starved() {
            rate_per_s *= (AIM / own.busy.max(0.01)).clamp(RUNG[0], RUNG[1]);
        }
        ladder.push(own);
    }
    canned.stop()?;
    Ok(judge_bottleneck(&closed, &over, &ladder))
}

fn judge_bottleneck(closed: &Own, over: &Own, ladder: &[Own]) -> Measured {
    let all = [closed, over].into_iter().chain(ladder);
    let details: Vec<String> = all.map(|own| own.text.clone()).collect();
    let not = |reason: String| Measured::not(reason).with_details(details.clone());
    if closed.busy < FULL {
        return not(format!(
            "the generator was not what bound the closed loop: its thread was {:.0} % busy",
            closed.busy * 100.0
        ));
    }
    let judged: Vec<&Own> = ladder.iter().filter(|own| own.is_judged()).collect();
    let Some(highest) = judged.iter().map(|own| own.busy).reduce(f64::max).filter(|b| *b >= HIGH)
    else {
        let starved = ladder.iter().filter(|own| own.is_starved()).count();
        return not(format!(
            "no rate kept it 60 to 80 % busy; others used its core at {starved} of {} rates",
            ladder.len()
        ));
    };
    let at_fault = judged.iter().filter(|own| !own.is_faultless()).count();
    let text = format!(
        "{} beyond its limit; at fault at {at_fault} of {} rates, up to {:.0} % of its CPU",
        if over.blames_itself { "warns" } else { "silent" },
        judged.len(),
        highest * 100.0
    );
    Measured::new(text, highest, over.blames_itself && at_fault == 0).with_details(details)
}

fn rates(lab: &Lab) -> Result<Measured> {
    let canned = Canned::start(lab)?;
    let closed = canned.limit()?;
    let beyond_per_s = closed.per_s * BEYOND;
    let report = canned.run(Some(beyond_per_s))?;
    let screen = canned.exec(Some(beyond_per_s), &[])?.said(RUN_MAX)?.output;
    canned.stop()?;
    Ok(judge_rates(&report, &screen))
}

/// Both rates by their fields, and on the screen as two numbers of one line, the lower one first.
fn judge_rates(report: &Value, screen: &str) -> Measured {
    let rate = |field: &str| report["rate"][field].as_f64();
    let in_json = rate("achieved_per_s").zip(rate("offered_per_s"));
    let line = screen.lines().find(|line| line.contains("requests/s") && line.contains("offered"));
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

    fn own(busy: f64, per_s: f64, starved: f64, warnings: Value) -> Own {
        let report = json!({
            "rate": { "achieved_per_s": per_s, "offered_per_s": 100.0 },
            "generator": { "busiest_thread": busy, "starved_thread": starved },
            "warnings": warnings,
        });
        Own::read(&report, "x")
    }

    fn full() -> Own {
        own(0.99, 60.0, 0.0, json!(["the generator may be the bottleneck: 99 %"]))
    }

    fn silent(busy: f64) -> Own {
        own(busy, 99.0, 0.0, json!([]))
    }

    fn is_unknown(measured: &Measured) -> bool {
        matches!(measured.verdict, Verdict::NotMeasured(_))
    }

    #[test]
    fn a_generator_is_judged_by_what_it_says_of_itself() {
        let ladder = [silent(0.1), silent(0.4), silent(0.7), full()];
        let pass = judge_bottleneck(&full(), &full(), &ladder);
        assert_eq!((pass.verdict, pass.details.len()), (Verdict::Pass, 6));
        assert_eq!(judge_bottleneck(&full(), &silent(0.99), &ladder).verdict, Verdict::Fail);
        let late = own(0.4, 99.0, 0.0, json!(["the generator delayed due requests by 2 ms"]));
        let short = own(0.4, 90.0, 0.0, json!([]));
        for at_fault in [late, short] {
            let ladder = [at_fault, silent(0.7)];
            assert_eq!(judge_bottleneck(&full(), &full(), &ladder).verdict, Verdict::Fail);
        }
    }

    #[test]
    fn without_its_limit_or_a_high_rate_nothing_is_known() {
        let ladder = [silent(0.4), silent(0.7)];
        assert!(is_unknown(&judge_bottleneck(&silent(0.53), &full(), &ladder)));
        assert!(is_unknown(&judge_bottleneck(&full(), &full(), &[silent(0.4)])));
        let late = json!(["the generator delayed due requests by 2 ms"]);
        let starved = own(0.7, 99.0, 0.2, late);
        assert!(is_unknown(&judge_bottleneck(&full(), &full(), &[starved.clone(), silent(0.4)])));
        let beside = judge_bottleneck(&full(), &full(), &[starved, silent(0.7)]);
        assert_eq!(beside.verdict, Verdict::Pass, "a fault of the machine's is not its own");
    }

    #[test]
    fn both_rates_are_shown() {
        let report = |achieved: f64| {
            let rate = json!({ "achieved_per_s": achieved, "offered_per_s": 100.0 });
            json!({ "rate": rate })
        };
        let screen = "rate   60 requests/s of 100 offered, 1.5 MiB/s out\n";
        assert_eq!(judge_rates(&report(60.0), screen).verdict, Verdict::Pass);
        assert_eq!(judge_rates(&report(60.0), "rate 60 requests/s\n").verdict, Verdict::Fail);
        assert_eq!(judge_rates(&json!({ "rate": {} }), screen).verdict, Verdict::Fail);
        assert!(is_unknown(&judge_rates(&report(99.0), screen)));
    }
}
