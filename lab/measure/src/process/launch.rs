//! How a server is started: a process on a free port of the loopback.
//!
//! The caller says which words start the server on a port and how to see that it is ready. The
//! launcher adds what is the same for all: cores, limit of descriptors, instrument, a clean
//! environment, a log file. Which programs and flags there are is not known here.
//!
//! A child never sees a variable of ours whose name begins with `VOLVOX_`, unless the caller sets
//! it: such a variable would change the settings of the server under test.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{env, io};

use anyhow::{Context, Result};

use super::cores::CoreSet;
use super::exec::Exec;
use super::instrument::Instrument;
use super::server::Server;

/// What the names of the variables begin with that change our server's settings.
const OWN_VARIABLES: &str = "VOLVOX_";

/// Where ports are looked for that follow one another.
const SEVERAL_PORTS: Range<u16> = 30_000..31_000;

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    cores: Option<CoreSet>,
    files_max: Option<usize>,
    instrument: Option<(Instrument, PathBuf)>,
    env: Vec<(String, String)>,
    more_ports: u16,
}

impl Launch {
    /// A server on the cores of this thread, without an instrument.
    pub fn new() -> Self {
        Self::default()
    }

    /// On these cores.
    pub fn cores(self, cores: CoreSet) -> Self {
        Self { cores: Some(cores), ..self }
    }

    /// With this limit of descriptors, where the shell's may be too low.
    pub fn files_max(self, files_max: usize) -> Self {
        Self { files_max: Some(files_max), ..self }
    }

    /// Under an instrument that writes its counts to `file` when the server has ended.
    pub fn under(self, instrument: Instrument, file: &Path) -> Self {
        Self { instrument: Some((instrument, file.to_owned())), ..self }
    }

    /// With a variable of the environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// On a port that this number of free ones follow.
    pub fn more_ports(self, more_ports: u16) -> Self {
        Self { more_ports, ..self }
    }

    /// Starts the server that `words` make of a port, with a log in the folder `logs`, and waits
    /// until `ready` returns no error.
    pub fn start(
        &self,
        name: &str,
        logs: &Path,
        words: impl FnOnce(u16) -> Vec<String>,
        ready: impl FnMut(SocketAddr) -> io::Result<()>,
    ) -> Result<Server> {
        fs::create_dir_all(logs).with_context(|| format!("make {}", logs.display()))?;
        let port = free_ports(self.more_ports).context("find a free port of the loopback")?;
        let log = logs.join(format!("{name}-{port}.log"));
        let output = File::create(&log).with_context(|| format!("make {}", log.display()))?;
        if let Some((_, file)) = &self.instrument {
            // The counts of an earlier run must not be taken for those of this one.
            let _ = fs::remove_file(file);
        }
        let words = [self.words(), words(port)].concat();
        let exec = Exec::new(&words[0]).args(&words[1..]);
        let exec = self.env.iter().fold(exec, |exec, (name, value)| exec.env(name, value));
        let mut command = exec.command();
        for (variable, _) in env::vars_os() {
            let name = variable.to_string_lossy();
            if name.starts_with(OWN_VARIABLES) && !self.env.iter().any(|(own, _)| *own == name) {
                command.env_remove(variable);
            }
        }
        command.stdout(output.try_clone()?).stderr(output);
        let child = match self.cores {
            Some(cores) => cores.spawn(&mut command),
            None => command.spawn(),
        };
        let child = child.with_context(|| format!("{name}: start `{exec}`"))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut server = Server::new(name, child, address, log, self.instrument.is_some());
        server.ready(ready)?;
        Ok(server)
    }

    /// The words before the server's own.
    fn words(&self) -> Vec<String> {
        let limit = self.files_max.map(|most| format!("--nofile={most}:{most}"));
        let limit = limit.map(|limit| ["prlimit".to_owned(), limit]);
        let instrument = self.instrument.as_ref().map(|(which, file)| which.words(file));
        limit.into_iter().flatten().chain(instrument.into_iter().flatten()).collect()
    }
}

/// A port that was free a moment ago, as were `more` that follow it.
pub fn free_ports(more: u16) -> io::Result<u16> {
    let bind = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    if more == 0 {
        return Ok(bind(0)?.local_addr()?.port());
    }
    // Not among those that the kernel gives to connections.
    let mut firsts = SEVERAL_PORTS.step_by(usize::from(more) + 1);
    let first = firsts.find(|first| (*first..=first + more).all(|port| bind(port).is_ok()));
    first.ok_or_else(|| io::Error::other(format!("no {} ports in {SEVERAL_PORTS:?}", more + 1)))
}

#[cfg(test)]
mod tests {
    use super::super::server::accepts;
    use super::*;

    fn start(program: &str) -> Result<Server> {
        let folder = env::temp_dir().join(format!("launch-{}", std::process::id()));
        Launch::new().start("it", &folder, |_| vec![program.to_owned()], accepts)
    }

    #[test]
    fn the_limit_and_the_instrument_stand_before_the_words_of_the_server() {
        let launch = Launch::new().files_max(9000).under(Instrument::Callgrind, Path::new("/out"));
        let expected = "\
            prlimit --nofile=9000:9000 prlimit --nofile=1036:1036 valgrind --vgdb=no \
            --tool=callgrind --callgrind-out-file=/out";
        assert_eq!(launch.words().join(" "), expected);
        assert!(Launch::new().words().is_empty());
    }

    #[test]
    fn ports_that_follow_are_free() {
        let first = free_ports(2).unwrap();
        assert!((first..=first + 2).all(|port| SEVERAL_PORTS.contains(&port)));
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first + 1));
        assert!(taken.is_err() || free_ports(2).unwrap() != first);
    }

    #[test]
    fn a_program_that_is_no_server_is_named_with_how_it_ended() {
        let error = start("/bin/false").err().unwrap();
        assert!(format!("{error:#}").contains("it: ended with exit status: 1"), "{error:#}");
        let error = start("/no/such/program").err().unwrap();
        assert!(format!("{error:#}").contains("/no/such/program"), "{error:#}");
    }

    #[test]
    fn a_server_sees_no_variable_of_ours_but_those_that_it_is_given() {
        let folder = env::temp_dir().join(format!("launch-env-{}", std::process::id()));
        let words = |_| ["sh", "-c", "env | grep ^VOLVOX_; exit 1"].map(str::to_owned).into();
        let launch = Launch::new().env("VOLVOX_SERVER_DRIVER", "uring");
        let error = launch.start("it", &folder, words, accepts).err().unwrap().to_string();
        let own: Vec<&str> = error.lines().filter(|line| line.starts_with(OWN_VARIABLES)).collect();
        assert_eq!(own, ["VOLVOX_SERVER_DRIVER=uring"], "{error}");
    }
}
