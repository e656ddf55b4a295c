//! The table of the lab: filled, without a wrong answer, by servers that were busy.
//!
//! One run of `volvox lab` serves all claims: the quick form, or the full one of hours in `--long`,
//! which goes on where it was when it is interrupted on the same commit.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    claim::{Claim, Measured},
    lab::Lab,
};
use crate::exec::{Exec, tail};

/// Longest the quick form may take.
const QUICK_MAX: Duration = Duration::from_secs(15 * 60);
/// Longest the full form may take.
const FULL_MAX: Duration = Duration::from_secs(4 * 3600);
/// The share of its core that a server must be using or waiting for at lambda-max.
const BUSY_MIN: f64 = 0.95;
/// Lines that name what is empty or missing.
const NAMED_MAX: usize = 20;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::alone(
        "table.filled",
        "every cell, all four drivers, own rates and common ones",
        "none empty, no error, no wrong value",
        filled,
    ),
    Claim::alone(
        "table.busy",
        "the server's core at lambda-max",
        ">= 95 % busy, every driver",
        busy,
    ),
    Claim::alone(
        "table.why",
        "who wins where, with the costs of a request",
        "every size and mix",
        why,
    ),
];

/// The report, measured once.
fn report(lab: &Lab) -> Result<&Value> {
    if let Some(report) = lab.table.get() {
        return Ok(report);
    }
    lab.built()?;
    let folder = folder(lab)?;
    let form = if lab.long { "--full" } else { "--quick" };
    let exec = Exec::new(&lab.volvox).args(["lab", form, "--resume", "--json", "--out"]);
    let exec = exec.arg(&folder).arg("--memcached").arg(&lab.memcached);
    lab.detail(&format!("volvox lab {form}"));
    let said = exec.said(if lab.long { FULL_MAX } else { QUICK_MAX })?;
    let report: Value = serde_json::from_str(&said.output)
        .with_context(|| format!("`{exec}` printed no report:\n{}", tail(&said.complaints)))?;
    Ok(lab.table.get_or_init(|| report))
}

/// Where the report goes: begun anew by the quick form, gone on with by the full one.
fn folder(lab: &Lab) -> Result<PathBuf> {
    if lab.long {
        return Ok(lab.folder().join(format!("lab-{}", lab.repo.commit()?)));
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
    values.iter().filter_map(Value::as_str).take(NAMED_MAX).map(str::to_owned).collect()
}

fn filled(lab: &Lab) -> Result<Measured> {
    Ok(judge_filled(report(lab)?))
}

fn judge_filled(report: &Value) -> Measured {
    let (cells, empty) = (list(report, "cells"), list(report, "empty_cells"));
    let wrong: u64 = cells.iter().filter_map(|cell| cell["wrong"].as_u64()).sum();
    let (all, filled) = (cells.len(), cells.len() - empty.len().min(cells.len()));
    let form = report["form"].as_str().unwrap_or("no");
    let text = format!("{filled} of {all} cells, {wrong} wrong answers, {form} form");
    let whole = report["whole"].as_bool() == Some(true) && wrong == 0 && all > 0;
    let details = [words(empty), words(list(report, "missing")), words(list(report, "doubts"))];
    Measured::new(text, filled as f64, whole).with_details(details.concat())
}

fn busy(lab: &Lab) -> Result<Measured> {
    judge_busy(report(lab)?)
}

/// A server that waits for its core is as busy as one that has it: on a machine of its own it
/// would be running. Both shares are named; threads that wait for each other count once.
fn judge_busy(report: &Value) -> Result<Measured> {
    let mut least = f64::MAX;
    let mut details = Vec::new();
    for peak in list(report, "lambda_max") {
        let share = |name: &str| peak["counters"][name].as_f64();
        let [name, mix] = ["contestant", "mix"].map(|field| peak[field].as_str().unwrap_or("-"));
        let who = format!("{name}, {} B, {mix}", peak["size"]);
        let Some((ran, waited)) = share("busy_cores").zip(share("waiting_cores")) else {
            return Ok(Measured::not(format!("{who} was not counted")));
        };
        if name != "memcached" {
            least = least.min((ran + waited).min(1.0));
        }
        details.push(format!(
            "{who}: ran {:.0} %, waited for its core {:.0} %; the generator's thread ran {:.0} %",
            ran * 100.0,
            waited * 100.0,
            peak["generator_busy"].as_f64().unwrap_or(0.0) * 100.0
        ));
    }
    if details.is_empty() {
        return Ok(Measured::not("no lambda-max was measured"));
    }
    let text = format!("{:.0} % at least, ran and waited", least * 100.0);
    Ok(Measured::new(text, least, least >= BUSY_MIN).with_details(details))
}

fn why(lab: &Lab) -> Result<Measured> {
    Ok(judge_why(report(lab)?))
}

fn judge_why(report: &Value) -> Measured {
    let mut places: Vec<(&Value, &Value)> = Vec::new();
    for peak in list(report, "lambda_max") {
        let place = (&peak["size"], &peak["mix"]);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let said = words(list(report, "verdict"));
    let named = |place: &&(&Value, &Value)| {
        let head = format!("{} B, {}:", place.0, place.1.as_str().unwrap_or("-"));
        said.iter().any(|text| text.starts_with(&head) && !text.contains("not measured"))
    };
    let count = places.iter().filter(named).count();
    let rows = list(report, "lambda_max");
    let costs = ["instructions_per_request", "system_calls_per_request"];
    let counted = rows.iter().filter(|row| costs.iter().all(|cost| row[*cost].is_number())).count();
    let text = format!(
        "{count} of {} sizes and mixes; instructions and system calls counted in {counted} of {}",
        places.len(),
        rows.len()
    );
    let holds = count == places.len() && count > 0 && counted == rows.len();
    Measured::new(text, count as f64, holds).with_details(said)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::claim::Verdict;
    use super::*;

    fn whole() -> Value {
        json!({
            "form": "quick", "whole": true, "empty_cells": [], "missing": [], "doubts": [],
            "cells": [{ "wrong": 0 }, { "wrong": 0 }],
            "verdict": ["100 B, 9:1: epoll answers most, 5 a second."],
            "lambda_max": [{
                "contestant": "epoll", "size": 100, "mix": "9:1", "generator_busy": 0.5,
                "instructions_per_request": 900.0, "system_calls_per_request": 0.5,
                "counters": { "busy_cores": 0.9, "waiting_cores": 0.08 },
            }],
        })
    }

    #[test]
    fn a_whole_report_passes() {
        let report = whole();
        for measured in [judge_filled(&report), judge_busy(&report).unwrap(), judge_why(&report)] {
            assert_eq!(measured.verdict, Verdict::Pass, "{}", measured.text);
        }
    }

    #[test]
    fn what_is_missing_fails() {
        let mut report = whole();
        report["empty_cells"] = json!(["epoll, 100 B"]);
        report["whole"] = json!(false);
        report["lambda_max"][0]["counters"]["busy_cores"] = json!(0.5);
        report["verdict"] = json!(["100 B, 9:1: not measured."]);
        assert_eq!(judge_filled(&report).verdict, Verdict::Fail);
        assert_eq!(judge_busy(&report).unwrap().verdict, Verdict::Fail);
        assert_eq!(judge_why(&report).verdict, Verdict::Fail);
        report["lambda_max"][0]["counters"] = json!(null);
        assert!(matches!(judge_busy(&report).unwrap().verdict, Verdict::NotMeasured(_)));
        assert_eq!(judge_filled(&json!({})).verdict, Verdict::Fail);
    }
}
