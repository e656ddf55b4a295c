//! Samples of a running server: what the kernel counts of its threads, and what it says itself.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use measure::Target;

use crate::findings::{Counters, Sample, add_machine, add_schedstat, add_stats, add_status};

/// The names and values of a reply of `stats`; none is no error where the command is unknown.
pub(crate) fn ask(address: SocketAddr, command: &str) -> io::Result<Vec<(String, String)>> {
    load::ask(&Target::Tcp(address), command)
}

/// A server that is sampled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
}

impl Probe {
    /// The accounts now.
    fn sample(&self, began: Instant) -> io::Result<Sample> {
        let mut sample = Sample::default();
        for thread in fs::read_dir(format!("/proc/{}/task", self.pid))? {
            let path = thread?.path();
            // A thread may end between the listing and the reading.
            add_status(&mut sample, &fs::read_to_string(path.join("status")).unwrap_or_default());
            let schedstat = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
            add_schedstat(&mut sample, &schedstat);
        }
        let machine = fs::read_to_string("/proc/stat").unwrap_or_default();
        add_machine(&mut sample, &machine, rustix::param::clock_ticks_per_second());
        sample.at_ns = began.elapsed().as_nanos() as u64;
        let mut stats = ask(self.address, "stats")?;
        stats.extend(ask(self.address, "stats volvox")?);
        add_stats(&mut sample, &stats);
        Ok(sample)
    }

    /// Samples the middle eight tenths of a measurement of `measured` that begins after `before`;
    /// none when it is `over` sooner.
    pub fn watch(
        &self,
        before: Duration,
        measured: Duration,
        over: &Receiver<()>,
    ) -> Option<Counters> {
        let began = Instant::now();
        let goes_on = |until: Duration| {
            let wait = until.saturating_sub(began.elapsed());
            matches!(over.recv_timeout(wait), Err(RecvTimeoutError::Timeout))
        };
        let first = goes_on(before + measured / 10).then(|| self.sample(began))?.ok()?;
        let last = goes_on(before + measured * 9 / 10).then(|| self.sample(began))?.ok()?;
        Counters::between(&first, &last)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_measurement_that_ends_early_is_not_counted() {
        let (sender, over) = mpsc::channel::<()>();
        drop(sender);
        let probe = Probe { address: "127.0.0.1:1".parse().unwrap(), pid: std::process::id() };
        assert!(probe.watch(Duration::from_secs(60), Duration::from_secs(60), &over).is_none());
    }
}
