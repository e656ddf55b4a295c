//! A running server under test: a child of ours, ended by its own id.
//!
//! ```text
//! start -> ready -> stop: SIGTERM -> ended            the log is removed
//!   |        |        +-> past the deadline           error, with the end of the log
//!   |        +-> ended of itself                      error at stop, with the end of the log
//!   +-> ended, or past the deadline                   error, with the end of the log
//! ```
//!
//! A server that is dropped without `stop` is killed: none outlives the measurement.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};
use std::{fs, io, os::unix::process::ExitStatusExt, path::PathBuf, thread};

use anyhow::{Context, Error, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use wait_timeout::ChildExt;

use super::exec::tail;

/// Longest a server may take until it is ready, instruments included.
const READY_MAX: Duration = Duration::from_secs(60);
/// Longest a server may take to end after SIGTERM, instruments included.
const STOP_MAX: Duration = Duration::from_secs(60);
/// How often a starting server is tried, and an ending one under an instrument is woken.
const POLL: Duration = Duration::from_millis(10);

/// A running server.
pub struct Server {
    name: String,
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    is_watched: bool,
}

/// Ready when it accepts a connection.
pub fn accepts(address: SocketAddr) -> io::Result<()> {
    TcpStream::connect_timeout(&address, POLL).map(drop)
}

impl Server {
    /// A child that listens at `address` and writes to `log`; watched when under an instrument.
    pub(super) fn new(
        name: &str,
        child: Child,
        address: SocketAddr,
        log: PathBuf,
        is_watched: bool,
    ) -> Self {
        Self { name: name.to_owned(), child, address, log, is_watched }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id; an instrument replaces itself by the server or runs beside it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends SIGTERM and waits until it has ended.
    pub fn stop(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait().context("wait for the server")? {
            return Err(self.failed(&format!("ended of itself with {status}")));
        }
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let pid = pid.expect("invariant: a child has a positive id of 31 bits");
        kill_process(pid, Signal::TERM).with_context(|| format!("{}: send SIGTERM", self.name))?;
        match self.ended().with_context(|| format!("wait for {}", self.name))? {
            // The log matters only when the server fails.
            Some(status) if is_expected(status) => {
                fs::remove_file(&self.log).with_context(|| format!("remove {}", self.log.display()))
            }
            Some(status) => Err(self.failed(&format!("after SIGTERM it ended with {status}"))),
            None => {
                Err(self.failed(&format!("runs {} s after SIGTERM: killed", STOP_MAX.as_secs())))
            }
        }
    }

    /// Calls `probe` until it returns no error.
    pub(super) fn ready(
        &mut self,
        mut probe: impl FnMut(SocketAddr) -> io::Result<()>,
    ) -> Result<()> {
        let until = Instant::now() + READY_MAX;
        while let Err(error) = probe(self.address) {
            if let Some(status) = self.child.try_wait()? {
                return Err(self.failed(&format!("ended with {status}")));
            }
            if Instant::now() >= until {
                let limit_s = READY_MAX.as_secs();
                return Err(self.failed(&format!("not ready after {limit_s} s: {error}")));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// What it has written so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// An error about this server, with the end of its log.
    pub fn failed(&self, what: &str) -> Error {
        anyhow!("{}: {what}; the end of its log:\n{}", self.name, tail(&self.said()))
    }

    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        if !self.is_watched {
            return self.child.wait_timeout(STOP_MAX);
        }
        let until = Instant::now() + STOP_MAX;
        loop {
            let status = self.child.wait_timeout(POLL)?;
            if status.is_some() || Instant::now() >= until {
                return Ok(status);
            }
            // Under valgrind one thread runs at a time. A thread that waits for completions keeps
            // its turn until one arrives, so no other thread handles the signal: a connection is
            // one.
            let _ = accepts(self.address);
        }
    }
}

/// Ended well, or by the signal itself where the program has no handler.
fn is_expected(status: ExitStatus) -> bool {
    status.success() || status.signal() == Some(Signal::TERM.as_raw())
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is left to report to; a server that has ended already is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn server(name: &str, program: &mut Command) -> Server {
        let log = std::env::temp_dir().join(format!("server-{name}-{}", std::process::id()));
        fs::write(&log, "out of memory\n").unwrap();
        Server::new(name, program.spawn().unwrap(), ([127, 0, 0, 1], 1).into(), log, false)
    }

    #[test]
    fn a_server_that_ended_of_itself_leaves_its_log() {
        let mut server = server("gone", &mut Command::new("/bin/false"));
        server.child.wait().unwrap();
        assert!(!server.is_alive());
        let log = server.log.clone();
        let error = server.stop().unwrap_err().to_string();
        let expected =
            "gone: ended of itself with exit status: 1; the end of its log:\nout of memory";
        assert_eq!(error, expected);
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_server_ends_by_the_signal_and_its_log_is_removed() {
        let server = server("sleep", Command::new("sleep").arg("600"));
        let log = server.log.clone();
        server.stop().unwrap();
        assert!(!log.exists());
    }
}
