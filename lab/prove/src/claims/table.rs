//! The table of the lab: filled, without a wrong answer, by servers that were busy.
//!
//! One run of `volvox lab` serves all claims: the quick form, or in `--long` the full one, which
//! takes hours and continues where it was interrupted on the same commit.
//!
//! The report is judged by its JSON alone. Whether other programs used the machine follows from
//! what our servers did: a server of one thread that waited for its core shared it. Nothing that
//! needs an idle machine is known then.

use std::{collections::BTreeSet, fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::claim::{Claim, Measured};
use crate::lab::Lab;
use measure::exec::Exec;

/// Longest each form may take; for the full one, what it promises.
const RUN_MAX: [Duration; 2] = [Duration::from_secs(15 * 60), Duration::from_secs(3 * 3600)];
/// The share of its core that a server must be using at lambda-max.
const BUSY_MIN: f64 = 0.95;
/// The share of the time that a server of one thread may wait for its core on an idle machine.
const WAITED_MAX: f64 = 0.05;
/// The share of the offered rate below which a cell fell short of it.
const SHORT_BELOW: f64 = 0.98;
/// Lines that name what is empty or missing.
const NAMED_MAX: usize = 20;
/// The drivers, and which of them serve by one thread: the others wait for themselves.
const DRIVERS: [(&str, bool); 4] =
    [("epoll", true), ("signal", true), ("uring", true), ("threads", false)];
/// The forms: name, and how many sizes, mixes, rates and kinds of request each promises.
const FORMS: [(&str, [usize; 4]); 2] = [("quick", [1, 2, 5, 2]), ("full", [3, 3, 6, 2])];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new(
        "table.filled",
        "every cell that the form promises, all four drivers, own rates and common ones",
    )
    .bar("none absent or empty, no error, no wrong value")
    .promised("the lab's table of four drivers and memcached: every cell")
    .by(filled),
    Claim::new("table.busy", "the server's core at lambda-max")
        .bar(">= 95 % busy, every driver")
        .promised("servers are busy at lambda-max")
        .by(busy),
    Claim::new("table.why", "who wins where, with the costs of a request")
        .bar("every size and mix")
        .promised("who wins where, each loser with its reason")
        .by(why),
];

/// The report, measured once.
fn report(lab: &Lab) -> Result<&Value> {
    lab.table(|| {
        let form = lab.form(["--quick", "--full"]);
        let exec = Exec::new(lab.volvox()?).args(["lab", form, "--resume", "--json", "--out"]);
        let exec = exec.arg(folder(lab)?).arg("--memcached").arg(lab.memcached()?.0);
        lab.detail(&format!("volvox lab {form}"));
        exec.json(lab.form(RUN_MAX))
    })
}

/// Where the report goes: emptied by the quick form, kept by the full one to be continued.
fn folder(lab: &Lab) -> Result<PathBuf> {
    if lab.is_long() {
        return Ok(lab.folder().join(format!("lab-{}", lab.repo().commit()?)));
    }
    let folder = lab.folder().join("lab-quick");
    if folder.is_dir() {
        fs::remove_dir_all(&folder).with_context(|| format!("empty {}", folder.display()))?;
    }
    Ok(folder)
}

fn list<'v>(report: &'v Value, name: &str) -> &'v [Value] {
    report[name].as_array().map_or(&[], Vec::as_slice)
}

fn words(values: &[Value]) -> Vec<String> {
    values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The first of the words: as many as a person reads.
fn named(values: &[Value]) -> Vec<String> {
    words(&values[..values.len().min(NAMED_MAX)])
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or("-")
}

fn filled(lab: &Lab) -> Result<Measured> {
    Ok(judge_filled(report(lab)?))
}

fn judge_filled(report: &Value) -> Measured {
    let (cells, empty) = (list(report, "cells"), list(report, "empty_cells"));
    let Some((form, axes)) = FORMS.into_iter().find(|(name, _)| *name == text(report, "form"))
    else {
        return Measured::not(format!("the form {} is not known", report["form"]));
    };
    let contestants = words(list(report, "contestants"));
    let all_drivers = DRIVERS.iter().all(|(driver, _)| contestants.iter().any(|who| who == driver));
    let promised = contestants.len() * axes.iter().product::<usize>();
    let axis = ["contestant", "size", "mix", "rate", "op"];
    let different: BTreeSet<String> =
        cells.iter().map(|cell| axis.map(|name| cell[name].to_string()).join(", ")).collect();
    // Both kinds of request of a run carry what went wrong in it.
    let once = cells.iter().filter(|cell| cell["op"] == "GET");
    let wrong: u64 = once.filter_map(|cell| cell["wrong"].as_u64()).sum();
    let filled = different.len() - empty.len().min(different.len());
    let [sizes, mixes, rates, _] = axes;
    let found = format!(
        "{form} form, sizes {sizes}, mixes {mixes}, rates {rates}: {filled} of {promised} cells, \
         {wrong} wrong answers"
    );
    let whole = report["whole"].as_bool() == Some(true) && wrong == 0;
    let holds = whole && all_drivers && filled == promised && cells.len() == promised;
    let mut details = vec![short(cells)];
    details.extend(
        ["empty_cells", "missing", "doubts"].map(|part| named(list(report, part))).concat(),
    );
    Measured::new(found, filled as f64, holds).with_details(details)
}

/// How many cells achieved less than the rate offered.
fn short(cells: &[Value]) -> String {
    let fell_short = |cell: &&Value| {
        let per_s = |field: &str| cell[field].as_f64();
        let rates = per_s("achieved_per_s").zip(per_s("offered_per_s"));
        rates.is_some_and(|(achieved, offered)| achieved < offered * SHORT_BELOW)
    };
    let count = cells.iter().filter(fell_short).count();
    format!(
        "{count} of {} cells achieved less than {:.0} % of the rate offered",
        cells.len(),
        SHORT_BELOW * 100.0
    )
}

fn busy(lab: &Lab) -> Result<Measured> {
    Ok(judge_busy(report(lab)?))
}

/// Only what a server used of its core counts. Where a server of one thread or the generator waited
/// for its core, another program had it, and how busy the server would have been is not known.
fn judge_busy(report: &Value) -> Measured {
    let mut least = f64::MAX;
    let (mut details, mut crowded, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for peak in list(report, "lambda_max") {
        let share = |name: &str| peak["counters"][name].as_f64();
        let name = text(peak, "contestant");
        let who = format!("{name}, {} B, {}", peak["size"], text(peak, "mix"));
        let Some((ran, waited)) = share("busy_cores").zip(share("waiting_cores")) else {
            return Measured::not(format!("{who} was not counted"));
        };
        if let Some((driver, single)) = DRIVERS.into_iter().find(|(driver, _)| *driver == name) {
            seen.insert(driver);
            least = least.min(ran);
            if single && waited > WAITED_MAX {
                crowded.push(format!("{who} waited {:.0} %", waited * 100.0));
            }
            let starved = peak["generator_starved"].as_f64().unwrap_or(0.0);
            if starved > WAITED_MAX {
                crowded.push(format!("{who}: the generator waited {:.0} %", starved * 100.0));
            }
        }
        details.push(format!(
            "{who}: ran {:.0} %, waited {:.0} %; the generator's thread ran {:.0} %",
            ran * 100.0,
            waited * 100.0,
            peak["generator_busy"].as_f64().unwrap_or(0.0) * 100.0
        ));
    }
    if let Some((driver, _)) = DRIVERS.iter().find(|(driver, _)| !seen.contains(driver)) {
        return Measured::not(format!("no lambda-max of {driver} was measured"));
    }
    if !crowded.is_empty() {
        let reason = format!("others used the cores: {}", crowded.join("; "));
        return Measured::not(reason).with_details(details);
    }
    let text = format!("{:.0} % at least, every driver", least * 100.0);
    Measured::new(text, least, least >= BUSY_MIN).with_details(details)
}

fn why(lab: &Lab) -> Result<Measured> {
    Ok(judge_why(report(lab)?))
}

/// How much a sentence about one size and mix says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sentence {
    /// Who wins, and why each of the others does not.
    Explained,
    /// A loser is left without a reason, or nothing was measured.
    Short,
    /// It takes itself back, for others used the machine.
    Crowded,
}

/// Reads `PLACE: A answers most, N a second; 1.26 x B (a request costs it ...); 1.10 x C.`, or
/// `PLACE: A leads ..., within the intervals of C, D: nobody wins; ...`: C and D owe no reason.
fn sentence(said: &str) -> Sentence {
    if said.contains("no verdict") {
        return Sentence::Crowded;
    }
    if said.contains("not measured") {
        return Sentence::Short;
    }
    let mut parts = said.trim_end_matches('.').split("; ");
    let head = parts.next().unwrap_or("");
    let equals = head.split_once("within the intervals of ").map_or("", |(_, rest)| rest);
    let equals = equals.split_once(':').map_or("", |(names, _)| names);
    let equals: Vec<&str> = equals.split(", ").collect();
    let is_explained = |part: &str| {
        let loser = part.split_once(" x ").map_or(part, |(_, loser)| loser);
        let name = loser.split_whitespace().next().unwrap_or("");
        let reason = part.contains(" (") || part.contains("no counted cost differs");
        equals.contains(&name) || reason
    };
    if parts.all(is_explained) { Sentence::Explained } else { Sentence::Short }
}

fn judge_why(report: &Value) -> Measured {
    let peaks = list(report, "lambda_max");
    let place = |peak: &Value| format!("{} B, {}:", peak["size"], text(peak, "mix"));
    let places: BTreeSet<String> = peaks.iter().map(place).collect();
    let said = words(list(report, "verdict"));
    let of = |place: &String| said.iter().find(|text| text.starts_with(place.as_str()));
    let read: Vec<Option<Sentence>> =
        places.iter().map(|place| of(place).map(|text| sentence(text))).collect();
    let count = |wanted| read.iter().filter(|one| **one == Some(wanted)).count();
    let (explained, crowded) = (count(Sentence::Explained), count(Sentence::Crowded));
    let rows = peaks;
    let costs = ["instructions_per_request", "system_calls_per_request"];
    let counted = rows.iter().filter(|row| costs.iter().all(|cost| row[*cost].is_number())).count();
    let text = format!(
        "{explained} of {} sizes and mixes, every loser with its reason; instructions and system \
         calls counted in {counted} of {}",
        places.len(),
        rows.len()
    );
    let whole = counted == rows.len() && !rows.is_empty() && !places.is_empty();
    if whole && crowded > 0 && explained + crowded == places.len() {
        let reason = format!("others used the machine at {crowded} of {} places", places.len());
        return Measured::not(reason).with_details(said);
    }
    let holds = whole && explained == places.len();
    Measured::new(text, explained as f64, holds).with_details(said)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::claim::Verdict;

    /// A quick report on four drivers as it should be.
    fn whole() -> Value {
        let names = DRIVERS.map(|(name, _)| name);
        let mut cells = Vec::new();
        for (mix, rate, op) in
            (0..20).map(|n| (n % 2, n / 4, if n % 4 < 2 { "GET" } else { "PUT" }))
        {
            cells.extend(names.map(|name| {
                json!({
                    "contestant": name, "size": 1000, "mix": mix, "rate": rate, "op": op,
                    "wrong": 0, "offered_per_s": 100.0, "achieved_per_s": 99.0,
                })
            }));
        }
        let peak = |name| {
            let waited = if name == "threads" { 47.0 } else { 0.02 };
            json!({
                "contestant": name, "size": 1000, "mix": "9:1", "generator_busy": 0.5,
                "instructions_per_request": 900.0, "system_calls_per_request": 0.5,
                "counters": { "busy_cores": 0.97, "waiting_cores": waited },
            })
        };
        json!({
            "form": "quick", "whole": true, "empty_cells": [], "missing": [], "doubts": [],
            "contestants": names, "cells": cells,
            "verdict": ["1000 B, 9:1: epoll leads with 5 a second, within the intervals of uring: \
                nobody wins; 1.10 x uring; 1.52 x signal (a request costs it sleeps 1 against 0)."],
            "lambda_max": names.map(peak),
        })
    }

    fn is_unknown(measured: &Measured) -> bool {
        matches!(measured.verdict, Verdict::NotMeasured(_))
    }

    #[test]
    fn a_whole_report_passes_and_an_empty_one_does_not() {
        let report = whole();
        for measured in [judge_filled(&report), judge_busy(&report), judge_why(&report)] {
            assert_eq!(measured.verdict, Verdict::Pass, "{}", measured.text);
        }
        let nothing = json!({});
        for measured in [judge_filled(&nothing), judge_busy(&nothing), judge_why(&nothing)] {
            assert_ne!(measured.verdict, Verdict::Pass, "{}", measured.text);
        }
    }

    #[test]
    fn the_form_says_how_many_cells_there_are() {
        let report = whole();
        assert!(judge_filled(&report).text.starts_with("quick form"));
        type Spoil = fn(&mut Value);
        let spoils: [Spoil; 5] = [
            |report| report["empty_cells"] = json!(["epoll, 1000 B"]),
            |report| report["whole"] = json!(false),
            |report| report["cells"][0]["wrong"] = json!(1),
            |report| report["form"] = json!("full"),
            |report| report["cells"][1] = report["cells"][0].clone(),
        ];
        for (n, spoil) in spoils.iter().enumerate() {
            let mut spoiled = report.clone();
            spoil(&mut spoiled);
            assert_eq!(judge_filled(&spoiled).verdict, Verdict::Fail, "{n}");
        }
        let mut short = report.clone();
        short["cells"][0]["achieved_per_s"] = json!(97.0);
        assert!(judge_filled(&short).details[0].starts_with("1 of 80 cells achieved less"));
    }

    #[test]
    fn a_server_is_busy_by_what_it_ran_on_an_idle_machine() {
        let at = |driver: usize, ran: f64, waited: f64| {
            let mut report = whole();
            report["lambda_max"][driver]["counters"] =
                json!({ "busy_cores": ran, "waiting_cores": waited });
            judge_busy(&report)
        };
        assert_eq!(at(0, 0.94, 0.01).verdict, Verdict::Fail);
        assert_eq!(at(3, 0.94, 47.0).verdict, Verdict::Fail, "threads wait for each other");
        assert!(is_unknown(&at(2, 0.90, 0.08)));
        let mut report = whole();
        report["lambda_max"][3]["generator_starved"] = json!(0.2);
        assert!(is_unknown(&judge_busy(&report)));
        report["lambda_max"][1]["counters"] = json!(null);
        assert!(is_unknown(&judge_busy(&report)));
        report["lambda_max"].as_array_mut().unwrap().truncate(1);
        assert!(is_unknown(&judge_busy(&report)), "the other drivers are absent");
    }

    #[test]
    fn every_loser_has_a_reason() {
        let cases = [
            (
                "p: a answers most, 5 a second; 2.0 x b (a request costs it x 1).",
                Sentence::Explained,
            ),
            (
                "p: a answers most, 5 a second; 2.0 x b: no counted cost differs.",
                Sentence::Explained,
            ),
            ("p: a answers most, 5 a second; 2.0 x b.", Sentence::Short),
            (
                "p: a leads, within the intervals of b, c: nobody wins; 1.1 x c.",
                Sentence::Explained,
            ),
            ("p: a leads, within the intervals of b: nobody wins; 1.1 x c.", Sentence::Short),
            (
                "p: a answers most; 2.0 x b. Others used it, so this is no verdict.",
                Sentence::Crowded,
            ),
            ("p: not measured.", Sentence::Short),
        ];
        for (said, expected) in cases {
            assert_eq!(sentence(said), expected, "{said}");
        }
    }

    #[test]
    fn reasons_are_wanted_at_every_place() {
        let said = |text: &str| {
            let mut report = whole();
            report["verdict"] = json!([format!("1000 B, 9:1: {text}")]);
            judge_why(&report)
        };
        assert_eq!(said("epoll answers most; 2.0 x uring.").verdict, Verdict::Fail);
        assert!(is_unknown(&said("epoll answers most; 2.0 x uring. So this is no verdict.")));
        let mut report = whole();
        report["verdict"] = json!([]);
        assert_eq!(judge_why(&report).verdict, Verdict::Fail);
        report["lambda_max"][0]["instructions_per_request"] = json!(null);
        assert_eq!(judge_why(&report).verdict, Verdict::Fail);
    }
}
