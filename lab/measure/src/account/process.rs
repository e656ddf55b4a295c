//! The kernel's account of a process: processor time, context switches, memory, descriptors.
//!
//! Every server is measured alike, and nothing is requested of the server itself. Times are in
//! nanoseconds and are those of the threads that are alive. The kernel keeps the time of threads
//! that have ended only in hundredths of a second; where that total is larger, it is the processor
//! time.
//!
//! Accounts only grow while no thread ends; what happened between two of them is their difference.

use std::{fs, io, ops::Sub};

use anyhow::{Context, Result};
use procfs::FromRead;
use procfs::process::{Process, Schedstat};

const NS_PER_S: u64 = 1_000_000_000;
const KIB: u64 = 1024;

/// Times and switches of all threads of a process since they began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// On a core, user and kernel.
    pub cpu_ns: u64,
    /// Ready to run, with no core free; 0 where the kernel does not count it.
    pub waited_ns: u64,
    /// Times that a thread went to sleep.
    pub slept: u64,
    /// Times that a thread lost its core to another.
    pub preempted: u64,
}

impl Account {
    /// Of a process until now.
    pub fn of(pid: u32) -> Result<Self> {
        let process = process(pid)?;
        let stat = process.stat().with_context(|| format!("read /proc/{pid}/stat"))?;
        let tick_ns = NS_PER_S / procfs::ticks_per_second().max(1);
        let mut account = Self::default();
        for task in process.tasks().with_context(|| format!("read /proc/{pid}/task"))?.flatten() {
            // A thread that ends between the listing and the reading has no files any more.
            let (Ok(times), Ok(status)) = (task.schedstat(), task.status()) else { continue };
            account.cpu_ns += times.sum_exec_runtime;
            account.waited_ns += times.run_delay;
            account.slept += status.voluntary_ctxt_switches.unwrap_or(0);
            account.preempted += status.nonvoluntary_ctxt_switches.unwrap_or(0);
        }
        account.cpu_ns = account.cpu_ns.max((stat.utime + stat.stime) * tick_ns);
        Ok(account)
    }

    /// Of the calling thread alone, without its switches.
    pub fn of_this_thread() -> Self {
        let times = Schedstat::from_file("/proc/thread-self/schedstat").ok();
        times.map_or_else(Self::default, |times| Self {
            cpu_ns: times.sum_exec_runtime,
            waited_ns: times.run_delay,
            ..Self::default()
        })
    }
}

impl Sub for Account {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            waited_ns: self.waited_ns.saturating_sub(earlier.waited_ns),
            slept: self.slept.saturating_sub(earlier.slept),
            preempted: self.preempted.saturating_sub(earlier.preempted),
        }
    }
}

/// Memory of a process that is resident now.
pub fn rss_bytes(pid: u32) -> Result<u64> {
    let rss_kib = process(pid)?.status()?.vmrss;
    Ok(rss_kib.with_context(|| format!("/proc/{pid}/status has no VmRSS"))? * KIB)
}

/// The most memory of a process that was ever resident.
pub fn rss_peak_bytes(pid: u32) -> Result<u64> {
    let peak_kib = process(pid)?.status()?.vmhwm;
    Ok(peak_kib.with_context(|| format!("/proc/{pid}/status has no VmHWM"))? * KIB)
}

/// Bytes that a process has written to files, by the calls that it made: what it sent by sockets
/// with `send` does not count.
pub fn written_bytes(pid: u32) -> Result<u64> {
    Ok(process(pid)?.io().with_context(|| format!("read /proc/{pid}/io"))?.wchar)
}

/// How many descriptors a process holds.
pub fn descriptors(pid: u32) -> io::Result<usize> {
    // `Process::fd_count` counts the folder's own two entries too on kernels before 6.2.
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

fn process(pid: u32) -> Result<Process> {
    let raw = i32::try_from(pid).with_context(|| format!("{pid} is no process id"))?;
    Process::new(raw).with_context(|| format!("read /proc/{pid}"))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn this_process_has_time_memory_and_descriptors() {
        let pid = std::process::id();
        assert!(Account::of(pid).unwrap().cpu_ns > 0);
        // Other tests take memory meanwhile: the peak is read last.
        let rss_bytes = rss_bytes(pid).unwrap();
        assert!(rss_peak_bytes(pid).unwrap() >= rss_bytes);
        assert!(descriptors(pid).unwrap() >= 3);
    }

    #[test]
    fn a_process_that_is_not_there_has_no_account() {
        assert!(Account::of(u32::MAX).is_err() && rss_bytes(u32::MAX).is_err());
    }

    #[test]
    fn threads_that_have_ended_still_count() {
        let spent = std::thread::spawn(|| {
            let (began, before) = (Instant::now(), Account::of_this_thread());
            let used_ns = || (Account::of_this_thread() - before).cpu_ns;
            while used_ns() < NS_PER_S / 10 && began.elapsed() < Duration::from_secs(10) {}
        });
        spent.join().unwrap();
        assert!(Account::of(std::process::id()).unwrap().cpu_ns >= NS_PER_S * 8 / 100);
    }

    #[test]
    fn a_difference_is_never_negative() {
        let first = Account { cpu_ns: 1, ..Account::default() };
        let last = Account { cpu_ns: 5, waited_ns: 2, ..Account::default() };
        assert_eq!((last - first).cpu_ns, 4);
        assert_eq!(first - last, Account::default());
    }
}
