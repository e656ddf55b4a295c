//! Servers under test: real processes on a free loopback port.
//!
//! A server is started with a known budget and number of workers, pinned to a core if asked, alone
//! or under an instrument that counts its instructions or system calls. It is ready when it accepts
//! a connection and gone when its value is dropped: stopped politely by `stop`, killed otherwise,
//! always by its own id.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use measure::exec::{Exec, tail};
use wait_timeout::ChildExt;

/// Longest a server may take to accept its first connection, instruments included.
const READY_MAX: Duration = Duration::from_secs(60);
/// Longest a server may take to end after it was asked to.
const STOP_MAX: Duration = Duration::from_secs(60);
/// How often a starting server is tried.
const POLL: Duration = Duration::from_millis(10);
/// Descriptors a server under an instrument may hold: instruments keep some for themselves, and
/// memcached gives up when it cannot raise its limit to what `-c` asks for.
const INSTRUMENTED_FILES: &str = "1036";

/// Which server.
#[derive(Clone, Debug)]
pub enum Program {
    /// Ours, by memcached's own flags.
    Volvox(PathBuf),
    /// The original.
    Memcached(PathBuf),
    /// Ours doing nothing but answering bytes with bytes: the floor that the kernel sets.
    Null {
        /// Our binary.
        binary: PathBuf,
        /// Bytes of one request.
        request_bytes: usize,
        /// Bytes of one reply.
        reply_bytes: usize,
    },
    /// The same with a real reply: every request is answered by the bytes of a file.
    Canned {
        /// Our binary.
        binary: PathBuf,
        /// Bytes of one request.
        request_bytes: usize,
        /// The file.
        reply: PathBuf,
    },
    /// Redis, without persistence.
    Redis(PathBuf),
}

/// What watches the server while it runs.
#[derive(Clone, Debug)]
pub enum Instrument {
    /// Nothing.
    None,
    /// Callgrind, writing to this file at the end.
    Callgrind(PathBuf),
    /// strace, writing its table to this file at the end.
    Strace(PathBuf),
}

/// How to start a server.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Which one.
    pub program: Program,
    /// `-m`, in MiB.
    pub memory_mib: u64,
    /// Worker threads.
    pub workers: usize,
    /// Connections it must take.
    pub connections_max: usize,
    /// The core it is pinned to.
    pub core: Option<usize>,
    /// Descriptors it may hold, where the shell's limit may be too low.
    pub files_max: Option<usize>,
    /// Words at the end of its command.
    pub more: Vec<&'static str>,
    /// What watches it.
    pub instrument: Instrument,
    /// Variables of its environment.
    pub env: Vec<(&'static str, String)>,
}

impl Launch {
    /// One worker, 64 MiB, not pinned, not watched.
    pub fn new(program: Program) -> Self {
        let instrument = Instrument::None;
        let env = Vec::new();
        Self {
            program,
            memory_mib: 64,
            workers: 1,
            connections_max: 1024,
            core: None,
            files_max: None,
            more: Vec::new(),
            instrument,
            env,
        }
    }

    /// With another budget.
    pub fn memory_mib(self, memory_mib: u64) -> Self {
        Self { memory_mib, ..self }
    }

    /// Pinned to a core.
    pub fn core(self, core: usize) -> Self {
        Self { core: Some(core), ..self }
    }

    /// Starts it and waits until it accepts; what it says goes to a file in `logs`.
    pub fn start(&self, logs: &Path) -> Result<Server> {
        fs::create_dir_all(logs).with_context(|| format!("make {}", logs.display()))?;
        let port = free_port()?;
        let log = logs.join(format!("{}-{port}.log", self.program.name()));
        let output = File::create(&log).with_context(|| format!("make {}", log.display()))?;
        let words = self.words(port);
        let exec = Exec::new(&words[0]).args(&words[1..]);
        let mut command = exec.command();
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdout(output.try_clone()?).stderr(output).stdin(Stdio::null());
        let child = command.spawn().with_context(|| format!("start `{exec}`"))?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut server = Server { child, address, log };
        server.ready().with_context(|| format!("`{exec}` did not come up"))?;
        Ok(server)
    }

    fn words(&self, port: u16) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut put = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        if let Some(core) = self.core {
            put(&["taskset", "-c", &core.to_string()]);
        }
        if let Some(files_max) = self.files_max {
            put(&["prlimit", &format!("--nofile={files_max}:{files_max}")]);
        }
        let limit = format!("--nofile={INSTRUMENTED_FILES}:{INSTRUMENTED_FILES}");
        match &self.instrument {
            Instrument::None => {}
            Instrument::Callgrind(file) => {
                let file = format!("--callgrind-out-file={}", file.display());
                put(&["prlimit", &limit, "valgrind", "--vgdb=no", "--tool=callgrind", &file]);
            }
            Instrument::Strace(file) => {
                let file = file.display().to_string();
                put(&["prlimit", &limit, "strace", "-D", "-f", "-c", "-o", &file]);
            }
        }
        words.extend(self.program_words(port));
        words.extend(self.more.iter().map(|word| (*word).to_owned()));
        words
    }

    fn program_words(&self, port: u16) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        let port = port.to_string();
        let memory = self.memory_mib.to_string();
        let workers = self.workers.to_string();
        let connections = self.connections_max.to_string();
        let flags = ["-l", "127.0.0.1", "-p", &port, "-U", "0", "-m", &memory, "-t", &workers];
        // As the administrator, memcached asks to be told whom to run as.
        let rest = ["-c", &connections, "-u", "root"];
        let flags = flags.iter().copied().chain(rest).map(str::to_owned);
        match &self.program {
            Program::Volvox(binary) => {
                [text(binary), "memcached".to_owned()].into_iter().chain(flags).collect()
            }
            Program::Memcached(binary) => [text(binary)].into_iter().chain(flags).collect(),
            Program::Null { binary, request_bytes, reply_bytes } => null_words(
                binary,
                &port,
                *request_bytes,
                ["--reply-bytes", &reply_bytes.to_string()],
            ),
            Program::Canned { binary, request_bytes, reply } => {
                null_words(binary, &port, *request_bytes, ["--reply", &text(reply)])
            }
            Program::Redis(binary) => {
                let memory = format!("{memory}mb");
                let words = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--maxmemory"];
                let words = words.into_iter().chain([memory.as_str()]).map(str::to_owned);
                [text(binary)].into_iter().chain(words).collect()
            }
        }
    }
}

impl Program {
    /// A short name for reports and files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Volvox(_) => "volvox",
            Self::Memcached(_) => "memcached",
            Self::Null { .. } | Self::Canned { .. } => "null",
            Self::Redis(_) => "redis",
        }
    }
}

/// A running server.
pub struct Server {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id; instruments replace themselves by the server or run beside it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end and waits until it has.
    pub fn stop(mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        match self.child.wait_timeout(STOP_MAX)? {
            // What a server said matters only when it does not do as it is told.
            Some(_) => fs::remove_file(&self.log).context("remove the server's log"),
            None => bail!("the server did not end within {} s of SIGTERM", STOP_MAX.as_secs()),
        }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let raw = i32::try_from(self.child.id()).context("a process id beyond 31 bits")?;
        let pid = Pid::from_raw(raw).context("a process id of zero")?;
        kill_process(pid, signal).context("signal the server")
    }

    fn ready(&mut self) -> Result<()> {
        let until = Instant::now() + READY_MAX;
        loop {
            if TcpStream::connect_timeout(&self.address, POLL).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended with {status}:\n{}", self.said());
            }
            if Instant::now() >= until {
                bail!("no connection within {} s:\n{}", READY_MAX.as_secs(), self.said());
            }
            thread::sleep(POLL);
        }
    }

    fn said(&self) -> String {
        tail(&fs::read_to_string(&self.log).unwrap_or_default())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is left to report to; a server that has ended already is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How to start the server that answers every request alike.
fn null_words(binary: &Path, port: &str, request_bytes: usize, reply: [&str; 2]) -> Vec<String> {
    let (listen, request) = (format!("127.0.0.1:{port}"), request_bytes.to_string());
    let words = ["load", "null-server", "--listen", &listen, "--request-bytes", &request];
    let words = words.into_iter().chain(reply).map(str::to_owned);
    [binary.display().to_string()].into_iter().chain(words).collect()
}

/// A loopback port that was free a moment ago.
fn free_port() -> Result<u16> {
    let probe = TcpListener::bind(("127.0.0.1", 0)).context("bind a loopback port")?;
    Ok(probe.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/prove/test-logs")
    }

    #[test]
    fn the_command_pins_watches_and_bounds() {
        let mut launch = Launch::new(Program::Memcached("/m".into())).memory_mib(32).core(0);
        launch.instrument = Instrument::Callgrind("/out".into());
        let expected = "\
            taskset -c 0 prlimit --nofile=1036:1036 valgrind --vgdb=no --tool=callgrind \
            --callgrind-out-file=/out /m -l 127.0.0.1 -p 9 -U 0 -m 32 -t 1 -c 1024 -u root";
        assert_eq!(launch.words(9).join(" "), expected);
    }

    #[test]
    fn the_command_ends_with_what_is_asked_for_besides() {
        let mut launch = Launch::new(Program::Memcached("/m".into()));
        (launch.files_max, launch.more) = (Some(9000), vec!["-o", "no_lru_maintainer"]);
        let said = launch.words(9).join(" ");
        assert!(said.starts_with("prlimit --nofile=9000:9000 /m -l"), "{said}");
        assert!(said.ends_with("-u root -o no_lru_maintainer"), "{said}");
        let (binary, reply) = ("/v".into(), "/r".into());
        let canned = Launch::new(Program::Canned { binary, request_bytes: 26, reply }).words(9);
        let expected = "/v load null-server --listen 127.0.0.1:9 --request-bytes 26 --reply /r";
        assert_eq!(canned.join(" "), expected);
    }

    #[test]
    fn a_server_that_cannot_start_says_why() {
        let launch = Launch::new(Program::Redis("/bin/false".into()));
        let error = launch.start(&logs()).err().unwrap();
        assert!(format!("{error:#}").contains("it ended with exit status: 1"), "{error:#}");
    }
}
