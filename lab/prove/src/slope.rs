//! Counts per request, free of the cost of starting and ending.
//!
//! The server runs twice under an instrument, doing the same work but for the number of requests;
//! the difference of the counts over the difference of the requests is what one request costs.
//! Instructions come from callgrind, system calls from strace.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    fleet::{Fleet, Shape},
    server::{Instrument, Launch, Program},
};
use measure::tools;

/// Longest an instrument may take to write its result after the server has ended.
const WRITTEN_MAX: Duration = Duration::from_secs(30);
/// Connections ours is told to take: instruments leave it few descriptors. The original is told
/// as many as it may have, since it gives up when it cannot set the limit it computes.
const CONNECTIONS_MAX: usize = 256;
/// How often the result is looked for.
const POLL: Duration = Duration::from_millis(10);

/// How much work the two runs do.
#[derive(Clone, Copy)]
pub struct Work {
    /// What is asked.
    pub shape: Shape,
    /// Connections it is asked on.
    pub connections: usize,
    /// Rounds of the shorter and of the longer run.
    pub rounds: (u64, u64),
}

/// User instructions one request costs.
pub fn instructions(launch: &Launch, work: Work, folder: &Path) -> Result<f64> {
    tools::VALGRIND.need()?;
    let total = |rounds: u64| -> Result<(u64, f64)> {
        let file = folder.join(format!("callgrind-{rounds}.out"));
        let instrument = Instrument::Callgrind(file.clone());
        let requests = run(launch, instrument, work, rounds, folder)?;
        let text = written(&file, "\nsummary:")?;
        Ok((requests, parse_callgrind(&text).context("callgrind wrote no summary")? as f64))
    };
    let (few, many) = (total(work.rounds.0)?, total(work.rounds.1)?);
    Ok((many.1 - few.1) / (many.0 - few.0) as f64)
}

/// System calls of one batch, by name. A batch on one connection is one readable event.
pub fn system_calls(launch: &Launch, work: Work, folder: &Path) -> Result<BTreeMap<String, f64>> {
    tools::STRACE.need()?;
    let total = |rounds: u64| -> Result<BTreeMap<String, u64>> {
        let file = folder.join(format!("strace-{rounds}.out"));
        run(launch, Instrument::Strace(file.clone()), work, rounds, folder)?;
        Ok(parse_strace(&written(&file, "total")?))
    };
    let (few, many) = (total(work.rounds.0)?, total(work.rounds.1)?);
    let batches = ((work.rounds.1 - work.rounds.0) * work.connections as u64) as f64;
    let slope = |name: &String, calls: &u64| {
        (*calls as f64 - few.get(name).copied().unwrap_or(0) as f64) / batches
    };
    Ok(many.iter().map(|(name, calls)| (name.clone(), slope(name, calls))).collect())
}

fn run(
    launch: &Launch,
    instrument: Instrument,
    work: Work,
    rounds: u64,
    folder: &Path,
) -> Result<u64> {
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    if let Instrument::Callgrind(file) | Instrument::Strace(file) = &instrument {
        // A result left by an earlier run must not be taken for this one's.
        let _ = fs::remove_file(file);
    }
    let mut launch = Launch { instrument, ..launch.clone() };
    if !matches!(launch.program, Program::Memcached(_)) {
        launch.connections_max = CONNECTIONS_MAX;
    }
    let speaks = !matches!(launch.program, Program::Null { .. });
    let server = launch.start(folder)?;
    let mut fleet = Fleet::connect(server.address(), work.connections)?;
    if speaks {
        fleet.fill()?;
    }
    let requests = fleet.run(work.shape, rounds, speaks)?;
    server.stop()?;
    Ok(requests)
}

/// The text of a file once the mark that ends it is there.
fn written(file: &Path, mark: &str) -> Result<String> {
    let until = Instant::now() + WRITTEN_MAX;
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if text.contains(mark) {
            return Ok(text);
        }
        if Instant::now() >= until {
            bail!("{} was not written within {} s", file.display(), WRITTEN_MAX.as_secs());
        }
        thread::sleep(POLL);
    }
}

fn parse_callgrind(text: &str) -> Option<u64> {
    let total = text.lines().rev().find_map(|line| line.strip_prefix("summary:"))?;
    total.trim().parse().ok()
}

/// The table of `strace -c`: share, seconds, microseconds a call, calls, perhaps errors, name.
fn parse_strace(text: &str) -> BTreeMap<String, u64> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let calls = cells.get(3)?.parse().ok()?;
        let name = cells.last().filter(|name| cells.len() >= 5 && **name != "total")?;
        Some(((*name).to_owned(), calls))
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_callgrind_is_read() {
        let text = "events: Ir\n\nfn=(0)\n0 17\n\nsummary: 123456\ntotals: 123456\n";
        assert_eq!(parse_callgrind(text), Some(123_456));
        assert_eq!(parse_callgrind("events: Ir\n"), None);
    }

    #[test]
    fn the_table_of_strace_is_read_with_and_without_errors() {
        let text = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.000600           6       100           sendto
 40.00    0.000400           2       200       100 recvfrom
------ ----------- ----------- --------- --------- ----------------
100.00    0.001000           3       300       100 total
";
        let expected = [("recvfrom".to_owned(), 200), ("sendto".to_owned(), 100)];
        assert_eq!(parse_strace(text), expected.into());
    }
}
