//! `volvox up`: a ring on one machine. It starts a process for each cell, starts one again that
//! ends, and ends all of them when it ends.
//!
//! ```text
//! plan (directory, ports, secret) --> children --> wait until the ring serves --> table
//!                                        ^  |
//!                                        +--+ a cell has ended: start it again, later each time
//! ```

mod children;
mod plan;
mod ready;
mod wanted;

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use children::{Children, Ended};
use plan::Plan;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGKILL, SIGTERM};
use signal_hook::flag;

pub use wanted::Wanted;

/// How long the cells may take to form a ring.
const FORMING: Duration = Duration::from_secs(30);
/// A cell that has run for so long has started.
const RUNS: Duration = Duration::from_secs(5);
/// How long a cell that has not rests before it is started again; twice as long each time.
const REST: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_secs(5);
/// How often in a row.
const FAILURES_MAX: u32 = 10;
/// How often it is looked whether a cell has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Runs the ring until a signal ends it.
///
/// # Errors
/// What the directory, a port or a process is refused for, or that no ring has formed.
pub fn up(wanted: &Wanted) -> Result<u8, Box<dyn Error>> {
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, ends.clone())?;
    }
    let mut plan = Plan::make(wanted)?;
    let done = run(&plan, wanted, &ends);
    if done.is_err() {
        plan.keep();
    }
    done
}

/// Runs the cells of `plan` until it `ends`.
fn run(plan: &Plan, wanted: &Wanted, ends: &AtomicBool) -> Result<u8, Box<dyn Error>> {
    let start = Instant::now();
    let mut children = Children::start(plan, &wanted.flags, ends)?;
    loop {
        if ends.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let serves = ready::serves(plan, children.processes());
        if let Some(ended) = children.take_ended()? {
            return Err(ended.describe(plan).into());
        }
        if serves {
            break;
        }
        if start.elapsed() > FORMING {
            let seconds = FORMING.as_secs();
            let logs = plan.directory.display();
            return Err(format!("no ring in {seconds} s; the logs are in {logs}/*.log").into());
        }
        std::thread::sleep(LOOK);
    }
    show(plan, &children, start.elapsed(), wanted.json)?;
    let mut failures = vec![Failures::default(); plan.cells.len()];
    while !ends.load(Ordering::Relaxed) {
        if let Some(ended) = children.take_ended()? {
            let rests = failures[ended.cell].add(ended.ran, ended.signal());
            let mut process = None;
            if let Some(rest) = rests.filter(|_| !wanted.stays_ended) {
                wait(rest, ends);
                process = Some(children.start_again(plan, &wanted.flags, ended.cell)?);
            }
            let gives_up = rests.is_none() && !wanted.stays_ended;
            say(&report(&ended, plan, (process, gives_up), wanted.json))?;
        }
        std::thread::sleep(LOOK);
    }
    drop(children);
    Ok(0)
}

/// How often a cell has ended soon after its start.
#[derive(Clone, Copy, Default)]
struct Failures(u32);

impl Failures {
    /// Adds the end of a cell that `ran` for this time, and that a `signal` may have ended. Returns
    /// how long it rests before its next start; `None` if it is not started again. A killed one
    /// has not failed.
    fn add(&mut self, ran: Duration, signal: Option<i32>) -> Option<Duration> {
        if ran >= RUNS || signal == Some(SIGKILL) {
            self.0 = 0;
            return Some(Duration::ZERO);
        }
        self.0 += 1;
        (self.0 < FAILURES_MAX).then(|| REST.saturating_mul(1 << self.0).min(REST_MAX))
    }
}

/// Waits for `rest`, unless a signal ends it.
fn wait(rest: Duration, ends: &AtomicBool) {
    let start = Instant::now();
    while start.elapsed() < rest && !ends.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
    }
}

/// What is printed of a cell that has ended, and was started again as a process, or is given up.
fn report(
    ended: &Ended,
    plan: &Plan,
    (process, gives_up): (Option<u32>, bool),
    as_json: bool,
) -> String {
    let line = ended.describe(plan);
    if as_json {
        let (cell, code, signal) = (plan.cells[ended.cell].number, ended.code(), ended.signal());
        let report = json!({
            "cell": cell, "ended": line, "code": code, "signal": signal, "process": process,
        });
        return format!("{report}\n");
    }
    match process {
        Some(process) => format!("{line}; started again as process {process}\n"),
        None if gives_up => {
            format!("{line}; it has ended {FAILURES_MAX} times soon after its start: given up\n")
        }
        None => format!("{line}\n"),
    }
}

fn show(plan: &Plan, children: &Children, took: Duration, as_json: bool) -> io::Result<()> {
    let cells = || plan.cells.iter().zip(children.processes());
    if as_json {
        let row = |(cell, process): (&plan::CellPlan, u32)| {
            json!({
                "cell": cell.number,
                "clients": cell.clients.to_string(),
                "control": cell.control.to_string(),
                "links": cell.links.to_string(),
                "process": process,
                "is_spare": usize::from(cell.number) > plan.forms_with(),
            })
        };
        let rows: Vec<_> = cells().map(row).collect();
        let seconds = took.as_secs_f64();
        let directory = plan.directory.display().to_string();
        let all = json!({ "cells": rows, "seconds": seconds, "directory": directory });
        return say(&format!("{all}\n"));
    }
    let mut text = format!("{:<6}{:<18}{:<9}log\n", "cell", "clients", "process");
    for (cell, process) in cells() {
        let (number, clients) = (cell.number, cell.clients.to_string());
        let log = plan.log(cell.number).display().to_string();
        let _ = writeln!(text, "{number:<6}{clients:<18}{process:<9}{log}");
    }
    let survives = survives(plan.forms_with(), plan.copies);
    let seconds = took.as_secs_f64();
    let _ = writeln!(text, "\na ring after {seconds:.1} s: {survives}. Ctrl-C ends it.");
    if let Some(first) = plan.cells.get(plan.forms_with()) {
        let _ = writeln!(
            text,
            "From cell {} on they are spares: `volvox ctl move RANGE CELL` gives one a range.",
            first.number
        );
    }
    say(&text)
}

/// What a ring of `cells` has that keeps `copies`, and what it survives.
fn survives(cells: usize, copies: u8) -> String {
    let copies = usize::from(copies).min(cells);
    if copies < 2 {
        return "one copy of everything, which ends with its process".to_owned();
    }
    let what = match cells {
        2 => "cell 2, and that of cell 1 after `volvox ctl recover`,",
        _ => "a process",
    };
    format!(
        "{copies} copies of everything, all on this machine, so it survives the end of\n{what} and \
         not that of the machine"
    )
}

/// Prints `text`; nobody may be reading any more.
fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_fails_again_and_again_rests_longer_and_is_given_up() {
        let mut failures = Failures::default();
        let soon = Duration::from_millis(20);
        let mut rests: Vec<_> = (0..FAILURES_MAX).map(|_| failures.add(soon, None)).collect();
        assert_eq!(rests.pop(), Some(None));
        assert!(rests.is_sorted() && rests.first() < rests.last(), "{rests:?}");
        assert_eq!(rests.last(), Some(&Some(REST_MAX)));
        assert_eq!(failures.add(RUNS, None), Some(Duration::ZERO), "it had started");
        assert!(failures.add(soon, None) > Some(Duration::ZERO));
        for _ in 0..2 * FAILURES_MAX {
            assert_eq!(failures.add(soon, Some(SIGKILL)), Some(Duration::ZERO));
        }
    }

    #[test]
    fn a_ring_promises_what_its_copies_survive() {
        for (cells, copies, wanted) in [
            (1, 2, "one copy of everything, which ends with its process"),
            (3, 1, "one copy of everything, which ends with its process"),
            (2, 3, "2 copies of everything"),
            (3, 2, "2 copies of everything"),
            (5, 3, "3 copies of everything"),
        ] {
            let text = survives(cells, copies);
            assert!(text.starts_with(wanted), "{cells} cells, {copies} copies: {text}");
        }
    }
}
