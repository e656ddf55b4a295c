//! A cell above a tier, in a process of its own, and a client of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// How long any one answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// An empty directory for one test. `cargo xtask check` removes the folder of all of them once the
/// tests have passed: together they are several GiB.
pub fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tiers").join(test);
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// A command that starts a cell above the tier in `directory`.
pub fn command(directory: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_volvox"));
    command
        .env_clear()
        .args(["serve", "--listen", "127.0.0.1:0", "--workers", "2", "--tier-dir"])
        .arg(directory)
        .args(flags);
    for (flag, value) in [("--memory-limit", "16MiB"), ("--tier-journal", "256MiB")] {
        if !flags.contains(&flag) {
            command.args([flag, value]);
        }
    }
    command
}

/// What the binary says to `words`, and its exit code.
pub fn volvox(words: &[&str]) -> (String, Option<i32>) {
    let command = &mut Command::new(env!("CARGO_BIN_EXE_volvox"));
    let Output { stdout, stderr, status } =
        command.env_clear().args(words).output().expect("it runs");
    let said = [stdout, stderr].concat();
    (String::from_utf8(said).expect("it is text"), status.code())
}

/// What a cell says that does not start.
pub fn refused(directory: &Path, flags: &[&str]) -> String {
    refused_by(&mut command(directory, flags))
}

/// The same of a cell that this command would start.
pub fn refused_by(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().expect("it runs");
    assert!(!status.success(), "it is refused");
    String::from_utf8(stderr).expect("it is text")
}

/// What a `get` is answered: flags and value, nothing, or the line of an error.
pub type Found = Result<Option<(u32, Vec<u8>)>, String>;

/// A cell, which is killed at the end.
pub struct Cell {
    process: Child,
    port: u16,
}

impl Cell {
    pub fn start(directory: &Path, flags: &[&str]) -> Self {
        Self::run(&mut command(directory, flags))
    }

    /// One that has no tier.
    pub fn start_plain() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_volvox"));
        Self::run(command.env_clear().args(["serve", "--listen", "127.0.0.1:0"]))
    }

    /// The one that this command starts.
    pub fn run(command: &mut Command) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut log = BufReader::new(process.stderr.take().expect("it is piped"));
        let mut line = String::new();
        let mut said = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(log.read_line(&mut line).expect("it logs") > 0, "it listens: {said}");
            said.push_str(&line);
        }
        let port = line.trim_end().rsplit(':').next().and_then(|port| port.parse().ok());
        // The log is read to its end, so that the cell can go on writing.
        thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { process, port: port.expect("a port") }
    }

    /// What `volvox ctl tier` says to `words` about it, and its exit code.
    pub fn ctl(&self, words: &[&str]) -> (String, Option<i32>) {
        volvox(&[&["ctl", "--server", &self.address(), "tier"], words].concat())
    }

    /// What `ctl tier status` says in `state`.
    pub fn state(&self) -> String {
        let (said, _) = self.ctl(&["status", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
        report["state"].as_str().expect("a text").to_owned()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn client(&self) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("it can be set");
        stream.set_nodelay(true).expect("it can be set");
        Client { reader: BufReader::new(stream.try_clone().expect("a copy")), stream }
    }

    /// What a `get` of each key is answered, on a connection of its own: none waits for another.
    pub fn get_each(&self, keys: &[String]) -> Vec<Found> {
        let ask = |key: &String| {
            let mut client = self.client();
            client.send(format!("get {key}\r\n").as_bytes()).expect("it takes the request");
            client
        };
        let mut clients: Vec<_> = keys.iter().map(ask).collect();
        clients.iter_mut().zip(keys).map(|(client, key)| client.found(key)).collect()
    }

    /// Ends it as a crash does.
    pub fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// Ends it as an operator does.
    pub fn stop(mut self) {
        let id = nix::unistd::Pid::from_raw(self.process.id() as i32);
        nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM).expect("it runs");
        assert!(self.process.wait().expect("it ends").success());
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection.
pub struct Client {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next line, without its end; an error when the connection has ended.
    pub fn line(&mut self) -> std::io::Result<String> {
        let mut line = Vec::new();
        if self.reader.read_until(b'\n', &mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.strip_suffix(b"\r\n").unwrap_or(&line);
        Ok(String::from_utf8_lossy(line).into_owned())
    }

    /// The line that answers `request`.
    pub fn ask(&mut self, request: &str) -> String {
        self.send(format!("{request}\r\n").as_bytes()).expect("it takes the request");
        self.line().expect("it answers")
    }

    /// Sends `get`s of `keys` at once. The values, each with its flags.
    pub fn get_all(&mut self, keys: &[String]) -> Vec<Option<(u32, Vec<u8>)>> {
        let requests: String = keys.iter().map(|key| format!("get {key}\r\n")).collect();
        self.send(requests.as_bytes()).expect("it takes the requests");
        keys.iter().map(|key| self.value(key)).collect()
    }

    /// The reply to a `get` of `key`, which is no error.
    fn value(&mut self, key: &str) -> Option<(u32, Vec<u8>)> {
        self.found(key).unwrap_or_else(|line| panic!("get {key}: {line}"))
    }

    /// The reply to a `get` of `key`.
    pub fn found(&mut self, key: &str) -> Found {
        let line = self.line().expect("it answers");
        if line == "END" {
            return Ok(None);
        }
        let words: Vec<_> = line.split(' ').collect();
        let ["VALUE", of, flags, bytes] = words[..] else { return Err(line) };
        assert_eq!(of, key);
        let mut value = vec![0; bytes.parse::<usize>().expect("a length") + 2];
        self.reader.read_exact(&mut value).expect("it sends the value");
        value.truncate(value.len() - 2);
        assert_eq!(self.line().expect("it answers"), "END");
        Ok(Some((flags.parse().expect("a number"), value)))
    }

    /// Stores a value.
    pub fn set(&mut self, key: &str, flags: u32, exptime: i64, value: &str) -> String {
        self.ask(&format!("set {key} {flags} {exptime} {}\r\n{value}", value.len()))
    }

    /// The value of one key.
    pub fn get(&mut self, key: &str) -> Option<String> {
        let value = self.get_all(&[key.to_owned()]).pop().flatten();
        value.map(|(_, value)| String::from_utf8(value).expect("it is text"))
    }

    /// The token of a key.
    pub fn token(&mut self, key: &str) -> u64 {
        let line = self.ask(&format!("mg {key} c"));
        let token = line.rsplit_once('c').and_then(|(_, token)| token.parse().ok());
        token.unwrap_or_else(|| panic!("mg {key}: {line}"))
    }
}

/// A number of `stats tier`.
pub fn statistic(client: &mut Client, name: &str) -> u64 {
    number_of(client, "stats tier", name)
}

/// A number of a report.
pub fn number_of(client: &mut Client, report: &str, name: &str) -> u64 {
    client.send(format!("{report}\r\n").as_bytes()).expect("it takes the request");
    let mut found = None;
    loop {
        let line = client.line().expect("it answers");
        if line == "END" {
            return found.unwrap_or_else(|| panic!("{report} has no {name}"));
        }
        if let Some(value) = line.strip_prefix(&format!("STAT {name} ")) {
            found = value.parse().ok();
        }
    }
}
