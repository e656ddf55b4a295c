//! Servers under test: which program, with which flags, on which core.
//!
//! All have one budget and one number of workers, by their own flags: what is compared is the
//! program. A server is ready when it accepts a connection. See `measure::process` for how it is
//! started and stopped.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::lab::Lab;
use measure::process::{Instrument, Launch, Server, accepts};
use measure::tools;

/// Budget of a server that all keys of the generator fit in with room, in MiB.
pub const ROOMY_MIB: u64 = 256;
/// The variable that chooses our driver.
const DRIVER: &str = "VOLVOX_SERVER_DRIVER";

/// Which server.
#[derive(Clone, Debug)]
pub enum Program {
    /// Ours, by memcached's own flags.
    Volvox,
    /// The original.
    Memcached,
    /// Redis, without persistence.
    Redis,
    /// A server of ours that only moves bytes, requests and replies of these lengths: the floor
    /// that the kernel sets.
    Null(usize, usize),
}

/// A server under test, before it is started.
#[derive(Clone, Debug)]
pub struct Contestant {
    program: Program,
    binary: PathBuf,
    memory_mib: u64,
    workers: usize,
    connections_max: usize,
    more: Vec<String>,
    launch: Launch,
}

impl Contestant {
    /// One worker, 64 MiB, on any core.
    fn new(program: Program, binary: &Path) -> Self {
        Self {
            program,
            binary: binary.to_owned(),
            memory_mib: 64,
            workers: 1,
            connections_max: 1024,
            more: Vec::new(),
            launch: Launch::new(),
        }
    }

    /// Our server.
    pub fn volvox(lab: &Lab) -> Result<Self> {
        Ok(Self::new(Program::Volvox, &lab.volvox()?))
    }

    /// The original.
    pub fn memcached(lab: &Lab) -> Result<Self> {
        Ok(Self::new(Program::Memcached, lab.memcached()?.0))
    }

    /// Redis.
    pub fn redis() -> Result<Self> {
        Ok(Self::new(Program::Redis, &tools::REDIS.need()?))
    }

    /// The server that only moves bytes.
    pub fn null(lab: &Lab, request_bytes: usize, reply_bytes: usize) -> Result<Self> {
        Ok(Self::new(Program::Null(request_bytes, reply_bytes), &lab.volvox()?))
    }

    /// With another budget.
    pub fn memory_mib(self, memory_mib: u64) -> Self {
        Self { memory_mib, ..self }
    }

    /// With more workers.
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// For another number of connections.
    pub fn connections_max(self, connections_max: usize) -> Self {
        Self { connections_max, ..self }
    }

    /// With more words at the end of its command.
    pub fn more(self, more: &[impl AsRef<str>]) -> Self {
        Self { more: more.iter().map(|word| word.as_ref().to_owned()).collect(), ..self }
    }

    /// On the servers' core.
    pub fn pinned(self, lab: &Lab) -> Self {
        Self { launch: self.launch.cores(lab.cores().server()), ..self }
    }

    /// With a limit of descriptors, where the shell's may be too low.
    pub fn files_max(self, files_max: usize) -> Self {
        Self { launch: self.launch.files_max(files_max), ..self }
    }

    /// By a driver of ours.
    pub fn driver(self, name: &str) -> Self {
        self.env(DRIVER, name)
    }

    /// With a variable of the environment, by which every setting of ours can be given.
    pub fn env(self, name: &str, value: &str) -> Self {
        Self { launch: self.launch.env(name, value), ..self }
    }

    /// Under an instrument that writes its counts to `file`.
    pub fn under(self, instrument: Instrument, file: &Path) -> Self {
        Self { launch: self.launch.under(instrument, file), ..self }
    }

    /// Which server it is.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Its budget.
    pub fn budget_bytes(&self) -> u64 {
        self.memory_mib << 20
    }

    /// Starts it and waits until it accepts connections.
    pub fn start(&self, lab: &Lab) -> Result<Server> {
        self.start_when(lab, accepts)
    }

    /// Starts it and waits until `ready` returns no error.
    pub fn start_when(
        &self,
        lab: &Lab,
        ready: impl FnMut(SocketAddr) -> io::Result<()>,
    ) -> Result<Server> {
        let name = self.program.name();
        self.launch.start(name, &lab.folder(), |port| self.words(port), ready)
    }

    fn words(&self, port: u16) -> Vec<String> {
        let (port, memory) = (port.to_string(), self.memory_mib.to_string());
        let (workers, most) = (self.workers.to_string(), self.connections_max.to_string());
        let listen = format!("127.0.0.1:{port}");
        let flags = ["-l", "127.0.0.1", "-p", &port, "-U", "0", "-m", &memory, "-t", &workers];
        // memcached refuses to run as the administrator unless it is named.
        let flags = [&flags[..], &["-c", &most, "-u", "root"]].concat();
        let redis_memory = format!("{memory}mb");
        let words: Vec<String> = match &self.program {
            Program::Memcached => owned(&flags),
            Program::Volvox => owned(&[&["memcached"], &flags[..]].concat()),
            Program::Redis => {
                let words = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--maxmemory"];
                owned(&[&words[..], &[&redis_memory]].concat())
            }
            Program::Null(request_bytes, reply_bytes) => {
                let (bytes, reply) = (request_bytes.to_string(), reply_bytes.to_string());
                let words = ["load", "null-server", "--listen", &listen, "--request-bytes", &bytes];
                owned(&[&words[..], &["--reply-bytes", &reply]].concat())
            }
        };
        [vec![self.binary.display().to_string()], words, self.more.clone()].concat()
    }
}

impl Program {
    /// A short name for reports and files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Volvox => "volvox",
            Self::Memcached => "memcached",
            Self::Redis => "redis",
            Self::Null(..) => "null",
        }
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_started_by_its_own_flags() {
        let words = |program, more| {
            let contestant = Contestant::new(program, Path::new("/b")).memory_mib(32).more(more);
            contestant.words(9).join(" ")
        };
        let flags = "-l 127.0.0.1 -p 9 -U 0 -m 32 -t 1 -c 1024 -u root";
        let more = &["-o", "no_lru_maintainer"][..];
        let expected = format!("/b {flags} -o no_lru_maintainer");
        assert_eq!(words(Program::Memcached, more), expected);
        assert_eq!(words(Program::Volvox, &[][..]), format!("/b memcached {flags}"));
        let redis = "/b --port 9 --bind 127.0.0.1 --save  --maxmemory 32mb";
        assert_eq!(words(Program::Redis, &[]), redis);
        let null = "/b load null-server --listen 127.0.0.1:9 --request-bytes 26";
        let ready = Program::Null(26, 341);
        assert_eq!(words(ready, &[]), format!("{null} --reply-bytes 341"));
    }
}
