//! System calls by name, counted by strace: how many a request costs.
//!
//! The server runs twice under strace with the same start and different numbers of requests; what
//! the longer run has more, divided by the requests it has more, is free of starting and filling.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;

/// Longest strace may take to write its table after the server has ended.
const WRITTEN_MAX: Duration = Duration::from_secs(10);
/// How often the table is looked for.
const POLL: Duration = Duration::from_millis(10);
/// What the last line of the table ends with.
const LAST_WORD: &str = "total";

/// Where strace is, if it is installed.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("strace")).find(|file| file.is_file())
}

/// The words before a server's own that count its calls into `file`.
pub(crate) fn words(strace: &Path, file: &Path) -> Vec<String> {
    let (strace, file) = (strace.display().to_string(), file.display().to_string());
    [&strace, "-D", "-f", "-c", "-o", &file].map(str::to_string).to_vec()
}

/// The table in `file`, once strace has written all of it.
pub(crate) fn read(file: &Path) -> Result<BTreeMap<String, u64>, Error> {
    let until = Instant::now() + WRITTEN_MAX;
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if text.trim_end().ends_with(LAST_WORD) {
            return Ok(parse(&text));
        }
        if Instant::now() >= until {
            return Err(Error::Server(format!("strace wrote no table in {WRITTEN_MAX:?}")));
        }
        thread::sleep(POLL);
    }
}

/// Share, seconds, microseconds a call, calls, perhaps errors, name.
fn parse(text: &str) -> BTreeMap<String, u64> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let calls = cells.get(3)?.parse().ok()?;
        let name = cells.last().filter(|name| cells.len() >= 5 && **name != LAST_WORD)?;
        Some(((*name).to_string(), calls))
    };
    text.lines().filter_map(row).collect()
}

/// Calls per request: the difference of two tables by that of their requests.
pub(crate) fn per_request(
    few: &BTreeMap<String, u64>,
    many: &BTreeMap<String, u64>,
    requests: (u64, u64),
) -> BTreeMap<String, f64> {
    /// What is rarer than one call in a thousand requests belongs to no request.
    const RARE: f64 = 0.001;
    let more = requests.1.saturating_sub(requests.0).max(1) as f64;
    let slope = |(name, calls): (&String, &u64)| {
        let before = few.get(name).copied().unwrap_or(0) as f64;
        (name.clone(), (*calls as f64 - before) / more)
    };
    many.iter().map(slope).filter(|(_, calls)| *calls >= RARE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.000600           6       100           sendto
 40.00    0.000400           2       200       100 recvfrom
------ ----------- ----------- --------- --------- ----------------
100.00    0.001000           3       300       100 total
";

    #[test]
    fn the_table_is_read_with_and_without_errors() {
        let expected = [("recvfrom".to_string(), 200), ("sendto".to_string(), 100)];
        assert_eq!(parse(TABLE), BTreeMap::from(expected));
    }

    #[test]
    fn starting_costs_cancel() {
        let few = BTreeMap::from([("mmap".to_string(), 50), ("sendto".to_string(), 100)]);
        let many = BTreeMap::from([("mmap".to_string(), 50), ("sendto".to_string(), 600)]);
        let each = per_request(&few, &many, (200, 1_200));
        assert_eq!(each, BTreeMap::from([("sendto".to_string(), 0.5)]));
    }
}
