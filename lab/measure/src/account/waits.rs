//! How long one thread ran, and how long it was ready and had no core: read often and cheaply.
//!
//! A thread that serves can be slow because it works, or because another program has its core. The
//! kernel counts the second: `/proc/PID/task/TID/schedstat`. It adds a wait when the thread gets
//! its core, so a wait is in the first reading after it. The file stays open: a reading is one
//! system call. Times are nanoseconds since the thread began.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};

/// The most bytes that the file has: three numbers.
const LINE_BYTES_MAX: usize = 128;

/// A thread whose waits are read.
#[derive(Debug)]
pub struct Waits {
    file: File,
}

impl Waits {
    /// The thread of a process that has used the most processor time: of a server with one
    /// worker, its worker.
    pub fn of_busiest(pid: u32) -> Result<Self> {
        let mut busiest: Option<(u64, Self)> = None;
        let tasks = format!("/proc/{pid}/task");
        for task in std::fs::read_dir(&tasks).with_context(|| format!("read {tasks}"))?.flatten() {
            // A thread that ends between the listing and the reading has no file any more.
            let Ok(file) = File::open(task.path().join("schedstat")) else { continue };
            let waits = Self { file };
            let Ok([ran_ns, _]) = waits.ran_and_waited_ns() else { continue };
            if busiest.as_ref().is_none_or(|(most_ns, _)| ran_ns > *most_ns) {
                busiest = Some((ran_ns, waits));
            }
        }
        Ok(busiest.with_context(|| format!("{tasks} has no thread that states its waits"))?.1)
    }

    /// How long the thread has been on a core until now, and how long it was ready without one; 0
    /// where the kernel does not count it.
    pub fn ran_and_waited_ns(&self) -> Result<[u64; 2]> {
        let mut line = [0; LINE_BYTES_MAX];
        let bytes = self.file.read_at(&mut line, 0).context("read the waits of a thread")?;
        let text = String::from_utf8_lossy(&line[..bytes]);
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next().and_then(Result::ok);
        next().zip(next()).map(|(ran, waited)| [ran, waited]).context("a thread states no times")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_busiest_thread() {
        let waits = Waits::of_busiest(std::process::id()).unwrap();
        let [ran_ns, waited_ns] = waits.ran_and_waited_ns().unwrap();
        let later = waits.ran_and_waited_ns().unwrap();
        assert!(ran_ns > 0 && later[0] >= ran_ns && later[1] >= waited_ns);
    }

    #[test]
    fn a_process_that_is_not_there_has_none() {
        assert!(Waits::of_busiest(u32::MAX).is_err());
    }
}
