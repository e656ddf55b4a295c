//! A launched cell, as init systems and shells see it: files appear when it listens, signals do
//! what they say, and in the background the parent answers for the child.
//!
//! Each test starts the real binary under memcached's command line. Waits are for a line of the
//! log or for the end of a connection, and have a limit.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User, getsid};

/// How long the test waits for any one line.
const PATIENCE: Duration = Duration::from_secs(60);

/// The folder of one cell: its users, and the files that it writes.
struct Run {
    folder: PathBuf,
}

impl Run {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Left over from an earlier run, if any.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the temporary folder is writable");
        fs::write(folder.join("users"), "a:1\n").expect("writable");
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).expect(name)
    }

    /// The binary under memcached's command line, on a port that the system chooses.
    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_volvox"));
        let me = User::from_uid(Uid::effective()).ok().flatten().map(|user| user.name);
        command
            .args(["memcached", "-p", "-1", "-l", "127.0.0.1"])
            .args(["-u", me.as_deref().unwrap_or("root"), "-P", &self.path("pid")])
            .args(["-Y", &self.path("users")])
            .args(flags)
            .env_clear()
            .env("MEMCACHED_PORT_FILENAME", self.path("ports"))
            .env("VOLVOX_LOG_FILE", self.path("log"));
        command
    }

    fn connect(&self) -> TcpStream {
        let ports = self.read("ports");
        let port = ports.strip_prefix("TCP INET: ").and_then(|port| port.trim().parse().ok());
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port.expect("one port")));
        let stream = stream.expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out above zero");
        stream
    }

    /// The reply to a client that authenticates as user `b` with password `2`.
    fn authenticate(&self) -> String {
        let mut client = BufReader::new(self.connect());
        client.get_mut().write_all(b"set auth 0 0 3\r\nb 2\r\n").expect("it listens");
        let mut reply = String::new();
        client.read_line(&mut reply).expect("it answers in time");
        reply
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.read("pid").trim().parse().expect("a pid file holds a number"))
    }

    fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("our own process");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // A cell in the background does not end with a test that fails.
        let pid = fs::read_to_string(self.folder.join("pid")).ok();
        if let (true, Some(Ok(pid))) = (thread::panicking(), pid.map(|text| text.trim().parse())) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// The lines that `child` logs from now on, as they come.
fn lines_of(child: &mut Child) -> Receiver<String> {
    let log = BufReader::new(child.stderr.take().expect("it is piped"));
    let (sender, lines) = channel();
    thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|it| sender.send(it)));
    lines
}

/// Waits for a line that contains `part`.
fn wait_for(lines: &Receiver<String>, part: &str) {
    while !lines.recv_timeout(PATIENCE).expect(part).contains(part) {}
}

#[test]
fn in_the_foreground() {
    for (signal, request) in
        [(Signal::SIGTERM, "stopping"), (Signal::SIGINT, "stopping"), (Signal::SIGUSR1, "draining")]
    {
        let run = Run::new("foreground");
        let mut child = run
            .command(&["-v", "-n", "48"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let lines = lines_of(&mut child);
        wait_for(&lines, "listening on 127.");
        let ports = run.read("ports");
        assert!(ports.starts_with("TCP INET: ") && !ports.ends_with(": 0\n"), "{ports}");
        fs::write(run.folder.join("users"), "b:2\n").expect("writable");
        run.signal(Signal::SIGHUP);
        wait_for(&lines, "users read again");
        assert_eq!(run.authenticate(), "STORED\r\n");
        run.signal(signal);
        wait_for(&lines, request);
        assert!(child.wait().expect("our own child").success());
        assert!(!run.folder.join("pid").exists());
        let log = run.read("log");
        assert!(log.contains("-n changes nothing: ") && log.contains("listening on 127."), "{log}");
    }
}

#[test]
fn in_the_background() {
    let run = Run::new("background");
    let parent = run.command(&["-d", "-v"]).output().expect("the binary runs");
    assert!(parent.status.success(), "{parent:?}");
    assert_eq!(parent.stdout, b"");
    let mut client = run.connect();
    assert_eq!(getsid(Some(run.pid())), Ok(run.pid()));
    assert!(run.authenticate().starts_with("CLIENT_ERROR"));
    run.signal(Signal::SIGTERM);
    assert_eq!(client.read(&mut [0]).expect("the cell ends in time"), 0);
    assert!(run.read("log").contains("stopping"));
}

#[test]
fn without_v_nothing_is_logged_at_start() {
    let run = Run::new("quiet");
    // The parent ends when the cell listens, and the cell has left the terminal by then.
    let parent = run.command(&["-d"]).output().expect("the binary runs");
    let mut client = run.connect();
    assert_eq!((parent.stdout.as_slice(), parent.stderr.as_slice()), (&b""[..], &b""[..]));
    assert_eq!(run.read("log"), "");
    run.signal(Signal::SIGTERM);
    assert_eq!(client.read(&mut [0]).expect("the cell ends in time"), 0);
}

#[test]
fn a_failure_in_the_background_reaches_the_shell() {
    let run = Run::new("failure");
    fs::write(run.folder.join("users"), "nonsense").expect("writable");
    let parent = run.command(&["-d"]).output().expect("the binary runs");
    assert_eq!(parent.status.code(), Some(1));
    let log = String::from_utf8_lossy(&parent.stderr);
    assert!(log.contains("line 1: not user:password"), "{log}");
}
