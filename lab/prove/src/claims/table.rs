//! The table of the lab: every cell filled, no wrong answer, every server busy.
//!
//! One run of `volvox lab` serves all three claims: the quick form, or with `--long` the full form
//! of hours, which continues after an interruption on the same commit.
//!
//! The report is judged by its JSON alone. A server of one thread that waited for its core shared
//! it with another program; then what needs an idle machine is "not measured". Shares are of the
//! time.

use std::{collections::BTreeSet, fs, path::PathBuf, rc::Rc, time::Duration};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::claim::{Claim, Measured};
use crate::lab::Lab;
use measure::exec::Exec;

/// Longest each form may take; for the full one, what it promises.
const RUN_MAX: [Duration; 2] = [Duration::from_secs(15 * 60), Duration::from_secs(3 * 3600)];
/// The share of its core that a server must be using at lambda-max.
const BUSY_MIN: f64 = 0.95;
/// The largest share that a server of one thread waits for its core on an idle machine.
const WAITED_MAX: f64 = 0.05;
/// A cell falls short of the offered rate below this share of it.
const SHORT_BELOW: f64 = 0.98;
/// The most lines that name what is empty or missing.
const NAMED_MAX: usize = 20;
/// The drivers, and whether one thread serves: the threads of the others wait for each other.
const DRIVERS: [(&str, bool); 4] =
    [("epoll", true), ("signal", true), ("uring", true), ("threads", false)];
/// The forms: name, and the number of sizes, mixes, rates and kinds of request.
const FORMS: [(&str, [usize; 4]); 2] = [("quick", [1, 2, 5, 2]), ("full", [3, 3, 6, 2])];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new(
        "table.filled",
        "every cell that the form promises, all four drivers, own rates and common ones",
    )
    .bar("none absent or empty, no error, no wrong value")
    .promised("the lab's table of four drivers and memcached: every cell")
    .by(|lab| Ok(judge_filled(report(lab)?.as_ref()))),
    Claim::new("table.busy", "the server's core at lambda-max")
        .bar(">= 95 % busy, every driver")
        .promised("servers are busy at lambda-max")
        .by(|lab| Ok(judge_busy(report(lab)?.as_ref()))),
    Claim::new("table.why", "who wins where, with the costs of a request")
        .bar("every size and mix")
        .promised("who wins where, each loser with its reason")
        .by(|lab| Ok(judge_why(report(lab)?.as_ref()))),
];

/// The report, measured once.
fn report(lab: &Lab) -> Result<Rc<Value>> {
    lab.shared("table", || {
        let memcached = lab.memcached()?.0.display().to_string();
        table(lab, "lab", &["--memcached", &memcached])
    })
}

/// The report of `volvox lab` with more words, in a folder of this name.
pub(super) fn table(lab: &Lab, name: &str, more: &[&str]) -> Result<Value> {
    let form = lab.form(["--quick", "--full"]);
    let exec = Exec::new(lab.volvox()?).args(["lab", form, "--resume", "--json", "--out"]);
    lab.detail(&format!("volvox lab {form}"));
    exec.arg(folder(lab, name)?).args(more).json(lab.form(RUN_MAX))
}

/// Where a report goes: emptied by the quick form, kept by the full one to be continued.
fn folder(lab: &Lab, name: &str) -> Result<PathBuf> {
    if lab.is_long() {
        return Ok(lab.folder().join(format!("{name}-{}", lab.repo().commit()?)));
    }
    let folder = lab.folder().join(format!("{name}-quick"));
    if folder.is_dir() {
        fs::remove_dir_all(&folder).with_context(|| format!("empty {}", folder.display()))?;
    }
    Ok(folder)
}

fn list<'v>(report: &'v Value, name: &str) -> &'v [Value] {
    report[name].as_array().map_or(&[], Vec::as_slice)
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or("-")
}

/// The size and the mix of a row.
fn workload(row: &Value) -> String {
    format!("{} B, {}", row["size"], text(row, "mix"))
}

pub(super) fn judge_filled(report: &Value) -> Measured {
    let (cells, empty) = (list(report, "cells"), list(report, "empty_cells"));
    let Some((form, axes)) = FORMS.into_iter().find(|(name, _)| *name == text(report, "form"))
    else {
        return Measured::not(format!("the form {} is not known", report["form"]));
    };
    let contestants = list(report, "contestants");
    let all_drivers = DRIVERS.iter().all(|(driver, _)| contestants.iter().any(|who| who == driver));
    let promised = contestants.len() * axes.iter().product::<usize>();
    let axis = ["contestant", "size", "mix", "rate", "op"];
    let different: BTreeSet<String> =
        cells.iter().map(|cell| axis.map(|name| cell[name].to_string()).join(", ")).collect();
    // The rows of GET and PUT of a run both hold the wrong answers of the whole run.
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
    for part in ["empty_cells", "missing", "doubts"] {
        let lines = list(report, part).iter().take(NAMED_MAX);
        details.extend(lines.filter_map(Value::as_str).map(str::to_owned));
    }
    Measured::new(found, filled as f64, holds).with_details(details)
}

/// How many cells did not reach the offered rate.
fn short(cells: &[Value]) -> String {
    let fell_short = |cell: &&Value| {
        let rates = cell["achieved_per_s"].as_f64().zip(cell["offered_per_s"].as_f64());
        rates.is_some_and(|(achieved, offered)| achieved < offered * SHORT_BELOW)
    };
    let (count, all) = (cells.iter().filter(fell_short).count(), cells.len());
    let percent = SHORT_BELOW * 100.0;
    format!("{count} of {all} cells achieved less than {percent:.0} % of the rate offered")
}

/// Only what a server used of its core counts. If a server of one thread, or the generator, waited
/// for its core, another program had it, and how busy the server would have been is not known.
fn judge_busy(report: &Value) -> Measured {
    let mut least = f64::MAX;
    let (mut details, mut crowded, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for peak in list(report, "lambda_max") {
        let share = |name: &str| peak["counters"][name].as_f64();
        let name = text(peak, "contestant");
        let who = format!("{name}, {}", workload(peak));
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

/// What the report says about one size and mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// Who leads, and which costs explain the distance of each loser.
    Explained,
    /// A loser has no reason, or nothing was measured.
    Unexplained,
    /// Nothing is decided, because others used the machine.
    Crowded,
}

/// Reads an entry of `winners`. An empty list of costs is a reason: no counted cost is higher.
fn said(win: &Value) -> Said {
    if win["crowded"] == true {
        return Said::Crowded;
    }
    let (led, losers) = (win["leader"].is_string(), win["losers"].as_array());
    match losers.filter(|all| led && all.iter().all(|loser| loser["costs"].is_array())) {
        Some(_) => Said::Explained,
        None => Said::Unexplained,
    }
}

/// The same for people.
fn sentence(win: &Value) -> String {
    let names = |list: &[Value]| {
        list.iter().filter_map(Value::as_str).map(|name| format!(" = {name}")).collect::<String>()
    };
    let figure = |of: &Value, name: &str| of[name].as_f64().unwrap_or(0.0);
    let cost = |of: &Value| {
        format!("{} {:.2} against {:.2}", text(of, "cost"), figure(of, "own"), figure(of, "leader"))
    };
    let loser = |of: &Value| {
        let costs: Vec<String> = list(of, "costs").iter().map(cost).collect();
        let (factor, who) = (figure(of, "factor"), text(of, "contestant"));
        format!("; {factor:.2} x {who} ({})", costs.join(", "))
    };
    let losers: String = list(win, "losers").iter().map(loser).collect();
    format!("{}: {}{}{losers}", workload(win), text(win, "leader"), names(list(win, "equals")))
}

fn judge_why(report: &Value) -> Measured {
    let (rows, winners) = (list(report, "lambda_max"), list(report, "winners"));
    let places: BTreeSet<String> = rows.iter().map(workload).collect();
    let of = |place: &String| winners.iter().find(|win| workload(win) == *place).map(said);
    let read: Vec<Option<Said>> = places.iter().map(of).collect();
    let count = |wanted| read.iter().filter(|one| **one == Some(wanted)).count();
    let (explained, crowded) = (count(Said::Explained), count(Said::Crowded));
    let costs = ["instructions_per_request", "system_calls_per_request"];
    let counted = rows.iter().filter(|row| costs.iter().all(|cost| row[*cost].is_number())).count();
    let text = format!(
        "{explained} of {} sizes and mixes, every loser with its reason; instructions and system \
         calls counted in {counted} of {}",
        places.len(),
        rows.len()
    );
    let details = winners.iter().map(sentence).collect();
    let whole = counted == rows.len() && !rows.is_empty();
    if whole && crowded > 0 && explained + crowded == places.len() {
        let reason = format!("others used the machine at {crowded} of {} places", places.len());
        return Measured::not(reason).with_details(details);
    }
    Measured::new(text, explained as f64, whole && explained == places.len()).with_details(details)
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
            "winners": [{
                "size": 1000, "mix": "9:1", "leader": "epoll", "equals": ["uring"],
                "losers": [{ "contestant": "signal", "factor": 1.52, "costs": [
                    { "cost": "sleeps", "own": 1.0, "leader": 0.1 },
                ] }],
            }],
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
        let cost = json!({ "cost": "sleeps", "own": 1.0, "leader": 0.1 });
        let b = json!({ "contestant": "b", "costs": [cost] });
        let c = json!({ "contestant": "c", "costs": [] });
        let silent = json!({ "contestant": "d", "factor": 2.0 });
        let cases = [
            (json!({ "leader": "a", "losers": [b] }), Said::Explained),
            (json!({ "leader": "a", "losers": [b, c] }), Said::Explained),
            (json!({ "leader": "a", "losers": [b, silent] }), Said::Unexplained),
            (json!({ "leader": "a", "equals": ["b", "c"], "losers": [] }), Said::Explained),
            (json!({ "leader": "a", "equals": ["b"], "losers": [silent] }), Said::Unexplained),
            (json!({ "leader": "a", "losers": [b], "crowded": true }), Said::Crowded),
            (json!({ "leader": null, "losers": [] }), Said::Unexplained),
            (json!({ "leader": "a" }), Said::Unexplained),
        ];
        for (win, expected) in cases {
            assert_eq!(said(&win), expected, "{win}");
        }
        let win = json!({ "size": 9, "mix": "1:1", "leader": "a", "equals": ["e"], "losers": [b] });
        assert_eq!(sentence(&win), "9 B, 1:1: a = e; 0.00 x b (sleeps 1.00 against 0.10)");
    }

    #[test]
    fn reasons_are_wanted_for_every_size_and_mix() {
        let with = |field: &str, value: Value| {
            let mut report = whole();
            report["winners"][0][field] = value;
            judge_why(&report)
        };
        assert_eq!(with("losers", json!([{ "contestant": "uring" }])).verdict, Verdict::Fail);
        assert!(is_unknown(&with("crowded", json!(true))));
        assert_eq!(with("mix", json!("1:9")).verdict, Verdict::Fail, "of another mix");
        let mut report = whole();
        report["winners"] = json!([]);
        assert_eq!(judge_why(&report).verdict, Verdict::Fail);
        report["lambda_max"][0]["instructions_per_request"] = json!(null);
        assert_eq!(judge_why(&report).verdict, Verdict::Fail);
    }
}
