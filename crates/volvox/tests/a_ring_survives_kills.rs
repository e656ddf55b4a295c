//! Real processes, real sockets, a real SIGKILL: what was acknowledged is read through another
//! cell.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const CELLS: usize = 3;
const KILLS: usize = 5;
const WRITERS: usize = 4;
/// Acknowledged writes before each kill, and after it.
const WRITES: usize = 400;
/// How long anything here may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// A ring of processes, ended when dropped.
struct Ring {
    child: Child,
    lines: BufReader<ChildStdout>,
    clients: Vec<SocketAddr>,
    processes: Vec<i32>,
    directory: PathBuf,
}

impl Ring {
    fn start() -> Self {
        let directory = std::env::temp_dir().join(format!("volvox-kills-{}", std::process::id()));
        let port = free_ports();
        let mut child = Command::new(env!("CARGO_BIN_EXE_volvox"))
            .args(["up", "--json", "--port", &port.to_string(), "--directory"])
            .arg(&directory)
            .args(["--", "--workers", "1"])
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

    fn kill(&self, cell: usize) {
        kill(Pid::from_raw(self.processes[cell]), Signal::SIGKILL).expect("it runs");
    }

    /// Waits until a killed cell is started again, and every range has its copies.
    fn heal(&mut self, cell: usize) {
        let again = next_line(&mut self.lines);
        assert_eq!(again["cell"], cell + 1);
        self.processes[cell] = again["process"].as_i64().expect("a number") as i32;
        let start = Instant::now();
        loop {
            let report = Client::connect(self.clients[(cell + 1) % CELLS]).list("stats ring");
            let is_whole = report.iter().any(|line| line == "STAT ranges_short_of_copies 0");
            let is_back = Client::try_connect(self.clients[cell]).is_some();
            if is_whole && is_back {
                return;
            }
            assert!(start.elapsed() < DEADLINE, "not whole again: {report:#?}");
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

fn next_line(lines: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    lines.read_line(&mut line).expect("it prints");
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

/// The first of three ports that are free, one after the other.
fn free_ports() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let start = 20_000 + (std::process::id() % 20_000) as u16;
    let found = (start..60_000).step_by(CELLS).find(|port| (0..3).all(|at| is_free(port + at)));
    found.expect("three free ports")
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn try_connect(at: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect_timeout(&at, DEADLINE).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).expect("a time-out");
        stream.set_nodelay(true).expect("an option");
        Some(Self(BufReader::new(stream)))
    }

    fn connect(at: SocketAddr) -> Self {
        Self::try_connect(at).expect("the cell runs")
    }

    fn ask(&mut self, request: &str) -> String {
        self.0.get_mut().write_all(request.as_bytes()).expect("it is sent");
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("it is answered");
        line.trim_end().to_owned()
    }

    fn list(&mut self, command: &str) -> Vec<String> {
        let mut lines = vec![self.ask(&format!("{command}\r\n"))];
        while lines.last().is_some_and(|line| line != "END" && line.starts_with("STAT")) {
            lines.push(self.line());
        }
        lines
    }

    fn get(&mut self, key: &str) -> Option<String> {
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

/// Writes through one cell until it is stopped. Each key has a value of its own.
fn write(
    at: SocketAddr,
    name: &str,
    (count, stops): (&AtomicUsize, &AtomicBool),
    acknowledged: &Mutex<HashMap<String, String>>,
) {
    let mut client = Client::connect(at);
    for number in 0.. {
        if stops.load(Ordering::Relaxed) {
            return;
        }
        let (key, value) = (format!("{name}-{number}"), format!("{number}@{name}"));
        let reply = client.ask(&format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()));
        if reply == "STORED" {
            acknowledged.lock().expect("nobody panics").insert(key, value);
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            assert!(reply.starts_with("SERVER_ERROR in doubt"), "{reply}");
        }
    }
}

fn wait_for(count: &AtomicUsize, writes: usize) {
    let start = Instant::now();
    while count.load(Ordering::Relaxed) < writes {
        assert!(start.elapsed() < DEADLINE, "nothing is acknowledged any more");
        thread::yield_now();
    }
}

#[test]
fn what_was_acknowledged_is_read_after_each_of_five_kills() {
    let mut ring = Ring::start();
    let acknowledged = Arc::new(Mutex::new(HashMap::new()));
    for round in 0..KILLS {
        let (victim, writer, reader) = (round % CELLS, (round + 1) % CELLS, (round + 2) % CELLS);
        let (count, stops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (count, stops) = (count.clone(), stops.clone());
                let (at, acknowledged) = (ring.clients[writer], acknowledged.clone());
                let name = format!("{round}-{number}");
                thread::spawn(move || write(at, &name, (&count, &stops), &acknowledged))
            })
            .collect();
        wait_for(&count, WRITES);
        ring.kill(victim);
        wait_for(&count, count.load(Ordering::Relaxed) + WRITES);
        stops.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().expect("it has not panicked"));
        let mut client = Client::connect(ring.clients[reader]);
        for (key, value) in acknowledged.lock().expect("nobody panics").iter() {
            let read = client.get(key);
            assert_eq!(read.as_ref(), Some(value), "round {round}, {key}");
        }
        ring.heal(victim);
    }
}
