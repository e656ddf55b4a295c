//! What the kernel knows of a process: processor time, resident memory, descriptors.
//!
//! The same ruler for every server, with nothing asked of the server itself. Processor time is
//! that of the threads alive now, in nanoseconds; servers measured here do not end threads while
//! they are measured.

use std::fs;

use anyhow::{Context, Result};

/// Bytes in a KiB, the unit of the status file.
const KIB: u64 = 1024;

/// Processor time of all threads of a process, user and kernel.
pub fn cpu_ns(pid: u32) -> Result<u64> {
    Ok(scheduled(pid)?.0)
}

/// Processor time of all threads of a process, and the time they were ready and had no core.
pub fn scheduled(pid: u32) -> Result<(u64, u64)> {
    let folder = format!("/proc/{pid}/task");
    let mut total_ns = (0, 0);
    for thread in fs::read_dir(&folder).with_context(|| format!("read {folder}"))? {
        let path = thread?.path().join("schedstat");
        // A thread that ends between the listing and the reading has no file any more.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let mut words = text.split_whitespace().map(str::parse::<u64>);
        let mut next = || words.next().context("schedstat is too short");
        total_ns.0 += next()?.with_context(|| format!("schedstat says {text}"))?;
        total_ns.1 += next()?.with_context(|| format!("schedstat says {text}"))?;
    }
    Ok(total_ns)
}

/// Memory of a process that is resident now.
pub fn rss_bytes(pid: u32) -> Result<u64> {
    status(pid, "VmRSS:")
}

/// The most memory that was ever resident.
pub fn rss_peak_bytes(pid: u32) -> Result<u64> {
    status(pid, "VmHWM:")
}

/// How many descriptors a process holds.
pub fn descriptors(pid: u32) -> Result<usize> {
    let folder = format!("/proc/{pid}/fd");
    Ok(fs::read_dir(&folder).with_context(|| format!("read {folder}"))?.count())
}

fn status(pid: u32, field: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    parse_status(&text, field).with_context(|| format!("{path} has no {field}"))
}

fn parse_status(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_file_is_read_by_field() {
        let text = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(parse_status(text, "VmRSS:"), Some(1 << 20));
        assert_eq!(parse_status(text, "VmHWM:"), Some(2 << 20));
        assert_eq!(parse_status(text, "VmSwap:"), None);
    }

    #[test]
    fn this_process_has_time_memory_and_descriptors() {
        let pid = std::process::id();
        assert!(cpu_ns(pid).unwrap() > 0);
        // Other tests take memory meanwhile: the peak is read last.
        let rss_bytes = rss_bytes(pid).unwrap();
        assert!(rss_peak_bytes(pid).unwrap() >= rss_bytes);
        assert!(descriptors(pid).unwrap() >= 3);
    }
}
