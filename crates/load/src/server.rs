//! What the server's CPU costs: asked of the server, or read from the kernel.
//!
//! `stats` of memcached and of this cell report the CPU time of the process to the microsecond.
//! For a server that has no such command, or as a second opinion, `--server-pid` names a process
//! on this machine whose threads' run times are summed (nanoseconds, from `schedstat`; hundredths
//! of a second from `stat` where the kernel keeps no better).

use std::io::{self, BufRead, BufReader};
use std::time::{Duration, Instant};

use crate::Target;

/// How long a server may take to answer `stats`.
const STATS_TIMEOUT: Duration = Duration::from_secs(2);

/// The most lines a `stats` reply may have.
const STATS_LINES_MAX: usize = 10_000;

/// Clock ticks per second in `/proc/PID/stat`; fixed by the kernel's interface.
const TICKS_PER_S: f64 = 100.0;

/// The server's CPU time at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub at: Instant,
    pub cpu_s: f64,
    /// User and system part where they are told apart.
    pub parts_s: Option<(f64, f64)>,
    pub version: Option<String>,
}

/// Where samples come from.
#[derive(Clone, Debug)]
pub(crate) enum Probe {
    Stats(Target),
    Process(u32),
}

impl Probe {
    /// As reports name it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stats(_) => "stats",
            Self::Process(_) => "process",
        }
    }

    /// The CPU time now; `None` when the server does not say.
    pub fn sample(&self) -> Option<Sample> {
        match self {
            Self::Stats(target) => {
                let lines = stats(target).ok()?;
                read_stats(lines.iter().map(String::as_str))
            }
            Self::Process(pid) => {
                let cpu_s = process_cpu_s(*pid)?;
                Some(Sample { at: Instant::now(), cpu_s, parts_s: None, version: None })
            }
        }
    }
}

/// The lines of a `stats` reply.
fn stats(target: &Target) -> io::Result<Vec<String>> {
    let mut talk = target.talk(STATS_TIMEOUT)?;
    talk.write_all(b"stats\r\n")?;
    let mut lines = Vec::new();
    for line in BufReader::new(talk).lines().take(STATS_LINES_MAX) {
        let line = line?;
        if !line.starts_with("STAT ") {
            break;
        }
        lines.push(line);
    }
    Ok(lines)
}

/// Finds CPU time and version among lines of `STAT name value`.
fn read_stats<'a>(lines: impl Iterator<Item = &'a str>) -> Option<Sample> {
    let (mut user_s, mut system_s, mut version) = (None, None, None);
    for line in lines {
        let mut words = line.splitn(3, ' ').skip(1);
        match (words.next()?, words.next().unwrap_or("").trim_end()) {
            ("rusage_user", value) => user_s = value.parse::<f64>().ok(),
            ("rusage_system", value) => system_s = value.parse::<f64>().ok(),
            ("version", value) => version = Some(value.to_string()),
            _ => {}
        }
    }
    let parts_s = (user_s?, system_s?);
    Some(Sample {
        at: Instant::now(),
        cpu_s: parts_s.0 + parts_s.1,
        parts_s: Some(parts_s),
        version,
    })
}

/// Bytes and number of the items that a server says it holds.
pub(crate) fn held(target: &Target) -> Option<(u64, u64)> {
    let lines = stats(target).ok()?;
    let number = |name: &str| {
        let value = |line: &String| line.strip_prefix("STAT ")?.strip_prefix(name)?.parse().ok();
        lines.iter().find_map(value)
    };
    Some((number("bytes ")?, number("curr_items ")?))
}

/// The most memory of a process that was ever resident.
pub(crate) fn rss_bytes_max(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// CPU time of all threads of a process that are alive.
fn process_cpu_s(pid: u32) -> Option<f64> {
    let mut total_ns = 0u64;
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // A thread may end between listing and reading; its time is then in nobody's sum.
        let Ok(text) = std::fs::read_to_string(task.path().join("schedstat")) else { continue };
        total_ns += text.split(' ').next()?.parse::<u64>().ok()?;
    }
    if total_ns > 0 {
        return Some(total_ns as f64 / 1e9);
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_lines_are_read() {
        let lines = [
            "STAT pid 5",
            "STAT version 1.6.45",
            "STAT rusage_user 1.250000",
            "STAT rusage_system 2.5",
        ];
        let sample = read_stats(lines.into_iter()).unwrap();
        assert_eq!((sample.cpu_s, sample.parts_s), (3.75, Some((1.25, 2.5))));
        assert_eq!(sample.version.as_deref(), Some("1.6.45"));
        assert!(read_stats(lines[..3].iter().copied()).is_none());
        assert!(read_stats(["STAT"].into_iter()).is_none());
    }

    #[test]
    fn a_process_has_a_cpu_time() {
        assert!(process_cpu_s(std::process::id()).is_some());
        assert!(process_cpu_s(u32::MAX).is_none());
        assert!(rss_bytes_max(std::process::id()).is_some_and(|bytes| bytes > 1 << 16));
        assert!(rss_bytes_max(u32::MAX).is_none());
    }
}
