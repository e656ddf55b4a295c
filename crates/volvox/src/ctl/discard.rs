//! `ctl tier discard`: changes that cannot be written back are given up.

use std::error::Error;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::tier::{LOOK_SOON, Report, ask, connect};
use super::wanted::Wanted;

/// Bytes of a request with its keys, at most.
const REQUEST_BYTES_MAX: usize = 1900;

/// The words of the request that say which changes.
pub(super) fn which(
    keys: &[String],
    prefix: Option<&str>,
    run: Option<u32>,
) -> Result<String, Box<dyn Error>> {
    let words = match (keys, prefix, run) {
        ([_, ..], None, None) => format!("key {}", keys.join(" ")),
        ([], Some(prefix), None) => format!("prefix {prefix}"),
        ([], None, Some(run)) => format!("run {run}"),
        _ => return Err("name keys, or --prefix PREFIX, or --run RUN: one of them".into()),
    };
    let has_space = |word: &&str| word.is_empty() || word.contains(char::is_whitespace);
    if keys.iter().map(String::as_str).chain(prefix).any(|word| has_space(&word)) {
        return Err("a key or prefix is empty, or has a space; no key has one".into());
    }
    match words.len() <= REQUEST_BYTES_MAX {
        true => Ok(words),
        false => {
            let bytes = words.len();
            Err(format!("{bytes} bytes of keys; name {REQUEST_BYTES_MAX} bytes at once").into())
        }
    }
}

/// Has a cell give up changes, if that `is_certain`, and says which. The code is 1 if some are
/// left.
pub(super) fn discard(
    wanted: &Wanted,
    (which, is_certain, wait): (&str, bool, Duration),
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let mut client = connect(wanted)?;
    let before = Report::of(&mut client, "tier discarded")?.number("discards");
    if !is_certain {
        let dirty = Report::of(&mut client, "tier")?.number("dirty_keys");
        return Err(format!(
            "{dirty} keys have changes that are not in the database; those of them that you name \
             would be lost: their keys have what the database has, an older value or none. Try ctl \
             tier retry first; give them up with --i-lose-data"
        )
        .into());
    }
    ask(&mut client, &format!("stats tier discard {which}"))?;
    let start = Instant::now();
    let report = loop {
        let report = Report::of(&mut client, "tier discarded")?;
        if report.number("discards") > before && report.number("leaving") == 0 {
            break report;
        }
        if start.elapsed() >= wait {
            let seconds = wait.as_secs_f64();
            return Err(format!("nothing came of it in {seconds} s; see ctl tier status").into());
        }
        sleep(LOOK_SOON);
    };
    if report.text("failure") != "none" {
        return Err(format!("nothing is given up: {}", report.text("failure")).into());
    }
    if wanted.json {
        writeln!(out, "{}", report.json())?;
    } else {
        for (key, what) in report.named("key:") {
            writeln!(out, "given up: {key} ({what})")?;
        }
        let number = |name| report.number(name);
        writeln!(
            out,
            "{} changes are given up; {} are younger than three seconds, {} changed meanwhile, {} \
             cannot be read",
            number("given_up"),
            number("young"),
            number("changed"),
            number("unreadable")
        )?;
        if report.text("has_more") == "yes" {
            writeln!(out, "there are more: ask again")?;
        }
    }
    let left =
        ["young", "changed", "unreadable"].iter().map(|name| report.number(name)).sum::<u64>();
    Ok(u8::from(left > 0 || report.text("has_more") == "yes"))
}
