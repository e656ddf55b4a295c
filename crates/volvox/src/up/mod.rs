//! `volvox up`: a ring on one machine. It starts a process for each cell, starts one again that
//! ends, and ends all of them when it ends.
//!
//! ```text
//! plan (directory, ports, secret) --> children --> wait until the ring serves --> table
//!                                        ^  |
//!                                        +--+ a cell has ended: start it again
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

use children::Children;
use plan::Plan;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

pub use wanted::Wanted;

/// How long the cells may take to form a ring.
const FORMING: Duration = Duration::from_secs(30);
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
    let mut children = Children::start(plan, &wanted.flags)?;
    while !ready::serves(plan) {
        if ends.load(Ordering::Relaxed) {
            return Ok(0);
        }
        if let Some(ended) = children.take_ended()? {
            return Err(ended.describe(plan).into());
        }
        if start.elapsed() > FORMING {
            let seconds = FORMING.as_secs();
            let logs = plan.directory.display();
            return Err(format!("no ring in {seconds} s; the logs are in {logs}/*.log").into());
        }
        std::thread::sleep(LOOK);
    }
    show(plan, &children, start.elapsed(), wanted.json)?;
    while !ends.load(Ordering::Relaxed) {
        if let Some(ended) = children.take_ended()? {
            let line = ended.describe(plan);
            let process = match wanted.stays_ended {
                true => None,
                false => Some(children.start_again(plan, &wanted.flags, ended.cell)?),
            };
            let cell = plan.cells[ended.cell].number;
            say(&match process {
                _ if wanted.json => {
                    format!("{}\n", json!({ "cell": cell, "ended": line, "process": process }))
                }
                Some(process) => format!("{line}; started again as process {process}\n"),
                None => format!("{line}\n"),
            })?;
        }
        std::thread::sleep(LOOK);
    }
    drop(children);
    Ok(0)
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
    let (copies, seconds) = (plan.copies, took.as_secs_f64());
    let _ = writeln!(
        text,
        "\na ring after {seconds:.1} s: {copies} copies of everything, all on this machine, so it \
         survives the end of\na process and not that of the machine. Ctrl-C ends it."
    );
    say(&text)
}

/// Prints `text`; nobody may be reading any more.
fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
