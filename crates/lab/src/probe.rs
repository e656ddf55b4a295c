//! Samples of a running server: what the kernel counts of its threads, and what it says itself.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::counters::{Counters, Sample, add_schedstat, add_stats, add_status};

/// Longest a server may take to answer a question.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The most lines of an answer.
const LINES_MAX: usize = 1_000;

/// The names and values of a reply of `stats`; none is no error where the command is unknown.
pub(crate) fn ask(address: SocketAddr, command: &str) -> io::Result<Vec<(String, String)>> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut stats = Vec::new();
    for line in BufReader::new(stream).lines().take(LINES_MAX) {
        let line = line?;
        let Some((name, value)) = line.strip_prefix("STAT ").and_then(|line| line.split_once(' '))
        else {
            break;
        };
        stats.push((name.to_string(), value.trim_end().to_string()));
    }
    Ok(stats)
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
    use std::net::TcpListener;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn stats_are_read_to_their_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            (&stream).write_all(b"STAT pid 5\r\nSTAT version 1.6 x\r\nEND\r\n").unwrap();
            line
        });
        let stats = ask(address, "stats").unwrap();
        assert_eq!(server.join().unwrap(), "stats\r\n");
        assert_eq!(stats[1], ("version".to_string(), "1.6 x".to_string()));
    }

    #[test]
    fn a_measurement_that_ends_early_is_not_counted() {
        let (sender, over) = mpsc::channel::<()>();
        drop(sender);
        let probe = Probe { address: "127.0.0.1:1".parse().unwrap(), pid: std::process::id() };
        assert!(probe.watch(Duration::from_secs(60), Duration::from_secs(60), &over).is_none());
    }
}
