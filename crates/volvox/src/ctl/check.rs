//! `ctl tier check`: whether all can be read that lies below the memory of a cell.

use std::error::Error;
use std::io::{IsTerminal, Write, stderr};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::table::bytes;
use super::tier::{LOOK, Report, ask, connect};
use super::wanted::Wanted;

/// Has a cell check what lies below its memory, and says what is wrong. The code is 1 if something
/// is, or if not all was checked.
pub(super) fn check(
    wanted: &Wanted,
    wait: Duration,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let mut client = connect(wanted)?;
    let before = Report::of(&mut client, "tier checked")?.number("checks");
    ask(&mut client, "stats tier check")?;
    let (start, is_shown) = (Instant::now(), stderr().is_terminal());
    let report = loop {
        let report = Report::of(&mut client, "tier checked")?;
        if report.number("checks") > before {
            break report;
        }
        if start.elapsed() >= wait {
            let (seconds, so_far) = (wait.as_secs_f64(), so_far(&report));
            return Err(format!(
                "the check has not ended in {seconds} s: {so_far}; it goes on, and stats tier \
                 checked shows it"
            )
            .into());
        }
        if is_shown {
            eprint!("\r\x1b[K{}", so_far(&report));
        }
        sleep(LOOK);
    };
    if is_shown {
        eprint!("\r\x1b[K");
    }
    match wanted.json {
        true => writeln!(out, "{}", report.json())?,
        false => print(&report, out)?,
    }
    Ok(u8::from(report.number("wrong") > 0 || report.text("failure") != "none"))
}

/// How far a check is.
fn so_far(report: &Report) -> String {
    let number = |name| report.number(name);
    match report.text("stage") {
        "journal" => {
            let (read, all) = (bytes(number("journal_bytes_read")), bytes(number("journal_bytes")));
            format!("{read} of {all} of the journal are read")
        }
        "index" => format!("{} keys of the journal are checked", number("places_right")),
        _ => format!("{} keys of the database are checked", number("keys_below")),
    }
}

fn print(report: &Report, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let number = |name| report.number(name);
    for (_, what) in report.named("wrong:") {
        writeln!(out, "wrong: {what}")?;
    }
    writeln!(
        out,
        "journal: {} in {} batches; {} keys that are not written back, of which {} can be read and \
         {} changed meanwhile",
        bytes(number("journal_bytes")),
        number("batches"),
        number("places"),
        number("places_right"),
        number("changed")
    )?;
    match report.text("keys_below") {
        "unknown" => writeln!(out, "database: not checked, it cannot show what it has")?,
        keys => writeln!(out, "database: {keys} keys")?,
    }
    match (number("wrong"), report.text("failure")) {
        (0, "none") => writeln!(out, "nothing is wrong")?,
        (wrong, "none") => writeln!(out, "{wrong} things are wrong")?,
        (wrong, why) => writeln!(out, "{wrong} things are wrong, and not all was checked: {why}")?,
    }
    Ok(())
}
