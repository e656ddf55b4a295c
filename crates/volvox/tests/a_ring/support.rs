//! A ring of real processes, and a client of it.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;

/// Cells of the ring.
pub const CELLS: usize = 3;
/// How long anything here may take.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A ring of processes, ended when dropped.
pub struct Ring {
    child: Child,
    lines: BufReader<ChildStdout>,
    /// Where each cell takes clients.
    pub clients: Vec<SocketAddr>,
    processes: Vec<i32>,
    directory: PathBuf,
}

impl Ring {
    /// Three cells, which serve. `name` is that of the test.
    pub fn start(name: &str) -> Self {
        Self::start_with(name, CELLS, &[], &[])
    }

    /// This number of cells, with more flags of `volvox up` and of the cells.
    pub fn start_with(name: &str, cells: usize, flags: &[&str], of_cells: &[&str]) -> Self {
        let process = std::process::id();
        let directory = std::env::temp_dir().join(format!("volvox-{name}-{process}"));
        let spares = flags.iter().position(|flag| *flag == "--spares");
        let spares = spares.map_or(0, |at| flags[at + 1].parse().expect("a number"));
        let (port, count) = (free_ports(cells as u16 + spares).to_string(), cells.to_string());
        let mut child = Command::new(env!("CARGO_BIN_EXE_volvox"))
            .args(["up", "--json", "--port", &port, "--cells", &count, "--directory"])
            .arg(&directory)
            .args(flags)
            .arg("--")
            .args(if of_cells.contains(&"--workers") { &[][..] } else { &["--workers", "1"] })
            .args(of_cells)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let up = next_line(&mut lines);
        let cells = up["cells"].as_array().expect("a list of cells");
        let clients = cells.iter().map(|cell| {
            cell["clients"].as_str().and_then(|at| at.parse().ok()).expect("an address")
        });
        let processes = cells.iter().map(|cell| cell["process"].as_i64().expect("a number") as i32);
        let (clients, processes) = (clients.collect(), processes.collect());
        Self { child, lines, clients, processes, directory }
    }

    /// The most memory that a cell has held, its program excluded.
    pub fn peak_bytes(&self, cell: usize) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.processes[cell]));
        let status = status.expect("it runs");
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            let kibibytes = line.trim().trim_end_matches(" kB").parse::<u64>();
            kibibytes.expect("a number") << 10
        };
        bytes("VmHWM:") - bytes("RssFile:")
    }

    pub fn kill(&self, cell: usize) {
        self.signal(cell, Signal::SIGKILL);
    }

    pub fn signal(&self, cell: usize, signal: Signal) {
        kill(Pid::from_raw(self.processes[cell]), signal).expect("it runs");
    }

    /// From now on a cell that writes this file of its directory waits until it ends.
    pub fn hold_up(&self, cell: usize, file: &str) {
        let path = self.directory.join((cell + 1).to_string()).join(file);
        let start = Instant::now();
        while mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).is_err() {
            assert!(start.elapsed() < DEADLINE, "{}: it is there already", path.display());
            thread::yield_now();
        }
    }

    /// Kills all cells, and removes this folder of the directory of each before they start again.
    pub fn kill_all_without(&self, folder: &str) {
        let up = self.child.id() as i32;
        let send = |pid: i32, signal| kill(Pid::from_raw(pid), signal).expect("it runs");
        send(up, Signal::SIGSTOP);
        await_halt(up);
        for (number, pid) in (1..).zip(&self.processes) {
            send(*pid, Signal::SIGKILL);
            await_halt(*pid);
            let folder = self.directory.join(format!("{number}/{folder}"));
            std::fs::remove_dir_all(folder).expect("it is there");
        }
        send(up, Signal::SIGCONT);
    }

    /// Stops all cells, and removes what one has in its directory under this name; "": all of it.
    pub fn lose(&self, cell: usize, name: &str) {
        (0..self.processes.len()).for_each(|cell| self.signal(cell, Signal::SIGSTOP));
        self.processes.iter().for_each(|pid| await_halt(*pid));
        let path = self.directory.join((cell + 1).to_string()).join(name);
        std::fs::remove_dir_all(path).expect("it is there");
    }

    /// Waits until this number of killed cells are started again, and take clients.
    pub fn await_starts(&mut self, count: usize) {
        for _ in 0..count {
            let again = next_line(&mut self.lines);
            let cell = again["cell"].as_u64().expect("a number") as usize - 1;
            self.processes[cell] = again["process"].as_i64().expect("a number") as i32;
            let start = Instant::now();
            while Client::try_connect(self.clients[cell]).is_none() {
                assert!(start.elapsed() < DEADLINE, "cell {cell} does not start");
                thread::yield_now();
            }
        }
    }

    /// Waits until a killed cell is started again, and every range has its copies.
    pub fn heal(&mut self, cell: usize) {
        let again = next_line(&mut self.lines);
        assert_eq!(again["cell"], cell + 1);
        self.processes[cell] = again["process"].as_i64().expect("a number") as i32;
        let (start, mut is_back) = (Instant::now(), false);
        // One connection for all looks: each that is closed takes a port for a minute.
        let mut other = Client::connect(self.clients[(cell + 1) % CELLS]);
        loop {
            let report = other.list("stats ring");
            let is_whole = report.iter().any(|line| line == "STAT ranges_short_of_copies 0");
            is_back = is_back || Client::try_connect(self.clients[cell]).is_some();
            if is_whole && is_back {
                return;
            }
            assert!(start.elapsed() < DEADLINE, "not whole again: {report:#?}");
            thread::yield_now();
        }
    }
}

impl Ring {
    /// Waits until every range has its copies, and is served.
    pub fn await_copies(&self) {
        let start = Instant::now();
        let mut client = Client::connect(self.clients[0]);
        while !client.list("stats ring").iter().any(|it| it == "STAT ranges_short_of_copies 0") {
            assert!(start.elapsed() < DEADLINE, "not whole again");
            thread::yield_now();
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Waits until a process is stopped, or has ended and is not waited for.
fn await_halt(pid: i32) {
    let start = Instant::now();
    let is_halted = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 'Z']))
    };
    while !is_halted() {
        assert!(start.elapsed() < DEADLINE, "process {pid} goes on");
        thread::yield_now();
    }
}

fn next_line(lines: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    lines.read_line(&mut line).expect("it prints");
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

/// Ports among which one ring looks, or one cell.
const PORTS: u16 = 120;

/// The first of `count` ports that are free, one after the other. Each ring of this process looks
/// among other ports, below those that the system gives to connections.
pub fn free_ports(count: u16) -> u16 {
    static RINGS: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let offset = (std::process::id() % 3_000) as u16;
    let start = 12_000 + offset + RINGS.fetch_add(1, Ordering::Relaxed) * PORTS;
    let mut starts = (start..start + PORTS).step_by(usize::from(count));
    let found = starts.find(|port| (0..count).all(|at| is_free(port + at)));
    found.expect("free ports")
}

pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn try_connect(at: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect_timeout(&at, DEADLINE).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).expect("a time-out");
        stream.set_nodelay(true).expect("an option");
        Some(Self(BufReader::new(stream)))
    }

    pub fn connect(at: SocketAddr) -> Self {
        Self::try_connect(at).expect("the cell runs")
    }

    /// One that sends on the same connection.
    pub fn writer(&self) -> Self {
        Self(BufReader::new(self.0.get_ref().try_clone().expect("a descriptor")))
    }

    pub fn send(&mut self, requests: &str) {
        self.0.get_mut().write_all(requests.as_bytes()).expect("it is sent");
    }

    pub fn ask(&mut self, request: &str) -> String {
        self.send(request);
        self.line()
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("it is answered");
        line.trim_end().to_owned()
    }

    /// The line that answers `request`; `None` where the connection has ended.
    pub fn try_ask(&mut self, request: &str) -> Option<String> {
        self.0.get_mut().write_all(request.as_bytes()).ok()?;
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        line.ends_with("\r\n").then(|| line.trim_end().to_owned())
    }

    pub fn list(&mut self, command: &str) -> Vec<String> {
        let mut lines = vec![self.ask(&format!("{command}\r\n"))];
        while lines.last().is_some_and(|line| line != "END" && line.starts_with("STAT")) {
            lines.push(self.line());
        }
        lines
    }

    pub fn get(&mut self, key: &str) -> Option<String> {
        let line = self.ask(&format!("get {key}\r\n"));
        if line == "END" {
            return None;
        }
        assert!(line.starts_with("VALUE "), "{key}: {line}");
        let value = self.line();
        assert_eq!(self.line(), "END");
        Some(value)
    }
}
