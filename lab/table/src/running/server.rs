//! Servers under test: processes of ours, on free ports of the loopback, ended by their id.
//!
//! A server is ready when it answers `stats`, and it is the one that was asked for: a driver that
//! the system refuses is replaced by another inside the server, and a table of that would lie.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use measure::Error;

use super::pin::Cores;
use super::probe::{self, Probe};
use crate::plan::{Contestant, MEMORY_MIB, ServerSettings};

/// Connections our servers are told to take: those of the sweeps with room, and few enough for
/// the descriptors that an instrument leaves.
const CONNECTIONS_MAX: &str = "256";
/// Longest a server may take to answer for the first time, a tracer included.
const READY_MAX: Duration = Duration::from_secs(30);
/// Longest a server may take to end when it is asked to.
const STOP_MAX: Duration = Duration::from_secs(20);
/// How often a starting or ending server is looked at.
const POLL: Duration = Duration::from_millis(10);
/// What the name of every variable begins with that would change our server's settings.
const OWN_VARIABLES: &str = "VOLVOX_";
/// Lines of a server's log that an error repeats.
const SAID_LINES_MAX: usize = 6;

/// Where the programs are.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// Our binary.
    pub volvox: PathBuf,
    /// The original.
    pub memcached: Option<PathBuf>,
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    /// Whether it runs behind an instrument.
    is_traced: bool,
}

impl Programs {
    /// The command that starts the server of `settings` on `port`.
    fn command(&self, settings: &ServerSettings, port: u16) -> Vec<String> {
        let (workers, port_text) = (settings.workers.to_string(), port.to_string());
        let memory = MEMORY_MIB.to_string();
        let words: Vec<String> = match (settings.contestant, &self.memcached) {
            (Contestant::Memcached, Some(binary)) => {
                let flags = ["-l", "127.0.0.1", "-p", &port_text, "-U", "0", "-m", &memory];
                let mut words = vec![binary.display().to_string()];
                words.extend(flags.map(str::to_string));
                words.extend(["-t".to_string(), workers]);
                if geteuid().is_root() {
                    // The administrator is asked whom to run as.
                    words.extend(["-u", "root"].map(str::to_string));
                }
                words
            }
            (contestant, _) => {
                let listen = format!("127.0.0.1:{port}");
                let memory = format!("{memory}M");
                let flags = ["serve", "--driver", contestant.name(), "--workers", &workers];
                let rest = ["--listen", &listen, "--memory-limit", &memory];
                let rest = rest.into_iter().chain(["--connections-max", CONNECTIONS_MAX]);
                let mut words = vec![self.volvox.display().to_string()];
                words.extend(flags.into_iter().chain(rest).map(str::to_string));
                words
            }
        };
        words
    }

    /// Starts the server of `settings` behind the words of a `tracer`, and waits until it answers.
    pub fn start(
        &self,
        settings: &ServerSettings,
        cores: &Cores,
        logs: &Path,
        tracer: &[String],
    ) -> Result<Server, Error> {
        let name = settings.contestant.name();
        let port = free_port().map_err(|error| Error::Setting(format!("no free port: {error}")))?;
        let log = logs.join(format!("{name}-{port}.log"));
        let output =
            File::create(&log).map_err(|error| Error::io(log.display().to_string(), error))?;
        let errors =
            output.try_clone().map_err(|error| Error::io(log.display().to_string(), error))?;
        let words = [tracer, &self.command(settings, port)].concat();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(output).stderr(errors);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with(OWN_VARIABLES) {
                command.env_remove(variable);
            }
        }
        let child = cores.spawn(&mut command, settings.pinned).map_err(|error| {
            Error::Setting(format!("{name}: cannot start {}: {error}", words[0]))
        })?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let is_traced = !tracer.is_empty();
        let mut server = Server { child, address, log, is_traced };
        server.ready(settings.contestant)?;
        Ok(server)
    }
}

impl Server {
    /// Where it listens, and its process.
    pub fn probe(&self) -> Probe {
        Probe { address: self.address, pid: self.child.id() }
    }

    /// Whether it has not ended.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end and waits until it has.
    pub fn stop(mut self) -> Result<(), Error> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(self.failed("server", &format!("ended of itself with {status}")));
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.expect("invariant: a child has a positive id of 31 bits");
        let asked = kill_process(pid, Signal::TERM);
        let ended = asked.map_err(io::Error::from).and_then(|()| self.ended(STOP_MAX));
        match ended {
            // What a server said matters only when it does not do as it is told.
            Ok(Some(status)) if status.success() => fs::remove_file(&self.log)
                .map_err(|error| Error::io(self.log.display().to_string(), error)),
            Ok(Some(status)) => {
                Err(self.failed("server", &format!("asked to end, it ended with {status}")))
            }
            Ok(None) => Err(Error::Setting(format!("{}: not gone in {STOP_MAX:?}", self.address))),
            Err(error) => {
                Err(Error::Setting(format!("{}: cannot be ended: {error}", self.address)))
            }
        }
    }

    fn ended(&mut self, within: Duration) -> io::Result<Option<ExitStatus>> {
        let until = Instant::now() + within;
        loop {
            let status = self.child.try_wait()?;
            if status.is_some() || Instant::now() >= until {
                return Ok(status);
            }
            if self.is_traced {
                // A thread that waits for completions keeps valgrind's only turn until one comes,
                // and nobody else sees the signal: a connection is one.
                let _ = TcpStream::connect_timeout(&self.address, POLL);
            }
            thread::sleep(POLL);
        }
    }

    fn ready(&mut self, contestant: Contestant) -> Result<(), Error> {
        let name = contestant.name();
        let until = Instant::now() + READY_MAX;
        let stats = loop {
            match probe::ask(self.address, "stats settings") {
                Ok(stats) => break stats,
                Err(error) if Instant::now() >= until => {
                    return Err(self.failed(name, &format!("no answer in {READY_MAX:?}: {error}")));
                }
                Err(_) => {}
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.failed(name, &format!("ended with {status}")));
            }
            thread::sleep(POLL);
        };
        let driver = stats.iter().find(|stat| stat.0 == "driver");
        match driver {
            Some((_, driver)) if driver != name => {
                Err(self.failed(name, &format!("the system does not allow it, {driver} serves")))
            }
            None if contestant != Contestant::Memcached => {
                Err(self.failed(name, "it does not say which driver serves"))
            }
            _ => Ok(()),
        }
    }

    fn failed(&self, name: &str, what: &str) -> Error {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(SAID_LINES_MAX)..].join(" | ");
        Error::Setting(format!("{name}: {what}; it said: {last}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already is no error, and nothing is left to report to.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stand(contestant: Contestant) -> ServerSettings {
        ServerSettings { contestant, workers: 2, pinned: false, keys: 1, value_bytes: 1 }
    }

    #[test]
    fn every_contestant_is_started_with_its_own_words() {
        let programs = Programs { volvox: "/v".into(), memcached: Some("/m".into()) };
        for (contestant, expected) in [
            (Contestant::Uring, "/v serve --driver uring --workers 2 --listen 127.0.0.1:9"),
            (Contestant::Memcached, "/m -l 127.0.0.1 -p 9 -U 0 -m 768 -t 2"),
        ] {
            let words = programs.command(&stand(contestant), 9).join(" ");
            assert!(words.starts_with(expected), "{words}");
        }
    }

    #[test]
    fn a_server_that_ended_badly_leaves_its_log() {
        let log = std::env::temp_dir().join(format!("lab-log-{}", std::process::id()));
        fs::write(&log, "out of memory\n").unwrap();
        let mut child = Command::new("/bin/false").spawn().unwrap();
        child.wait().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let mut server = Server { child, address, log: log.clone(), is_traced: false };
        assert!(!server.is_alive());
        let error = server.stop().unwrap_err().to_string();
        assert!(error.contains("exit status: 1; it said: out of memory"), "{error}");
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_program_that_is_no_server_is_named_with_what_it_said() {
        let folder = std::env::temp_dir();
        let cores = Cores::find().unwrap();
        let programs = Programs { volvox: "/bin/false".into(), memcached: None };
        let started = programs.start(&stand(Contestant::Epoll), &cores, &folder, &[]);
        let error = started.err().unwrap().to_string();
        assert!(error.contains("epoll: ended with exit status: 1"), "{error}");
        let programs = Programs { volvox: "/no/such/program".into(), memcached: None };
        let started = programs.start(&stand(Contestant::Epoll), &cores, &folder, &[]);
        assert!(started.err().unwrap().to_string().contains("/no/such/program"));
    }
}
