//! A launched cell, as init systems and shells see it: files appear when it listens, signals do
//! what they say, and in the background the parent answers for the child.
//!
//! The test is its own server: started again with [`SERVE`] in the environment, it runs the real
//! command line with a server that listens and obeys signals, and nothing else. That server holds
//! a connection to the test, which ends with it.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use std::{env, fs};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User, getsid};
use volvox::auth::Claim;
use volvox::cli;
use volvox::launch::Launch;
use volvox::signals::Request;

/// Makes this program the server; holds the address that it reports to.
const SERVE: &str = "LAUNCH_TEST_REPORT_TO";
/// How long the test waits for any one line.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if env::var_os(SERVE).is_some() {
        return cli::run(env::args_os(), serve);
    }
    in_the_foreground();
    in_the_background();
    a_failure_in_the_background_reaches_the_shell();
    ExitCode::SUCCESS
}

/// Listens, reports each request as a line, and stops when told.
fn serve(mut launch: Launch) -> Result<(), Box<dyn Error>> {
    let address = launch.settings.server.listen[0].resolve()?[0];
    let listener = TcpListener::bind(address)?;
    launch.listening(&[listener.local_addr()?])?;
    let mut report = TcpStream::connect(env::var(SERVE)?)?;
    writeln!(report, "listening")?;
    loop {
        let request = launch.signals.wait();
        if request == Request::Reload {
            launch.reload();
        }
        let users = launch.users.as_ref();
        let known = users.is_some_and(|users| users.check(b"b 2") == Claim::Accepted);
        writeln!(report, "{request:?} {known}")?;
        if request != Request::Reload {
            return Ok(());
        }
    }
}

/// The files of one run, and the line to its server.
struct Run {
    folder: PathBuf,
    reports: TcpListener,
}

impl Run {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Left over from an earlier run, if any.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the temporary folder is writable");
        fs::write(folder.join("users"), "a:1\n").expect("writable");
        Self { folder, reports: TcpListener::bind("127.0.0.1:0").expect("a free port") }
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).expect(name)
    }

    /// This program as a server under memcached's command line.
    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env::current_exe().expect("a running program has a file"));
        let me = User::from_uid(Uid::effective()).ok().flatten().map(|user| user.name);
        command
            .args(["memcached", "-p", "-1", "-l", "127.0.0.1", "-v"])
            .args(["-u", me.as_deref().unwrap_or("root"), "-P", &self.path("pid")])
            .args(["-Y", &self.path("users"), "-n", "48"])
            .args(flags)
            .env(SERVE, self.reports.local_addr().expect("bound").to_string())
            .env("MEMCACHED_PORT_FILENAME", self.path("ports"))
            .env("VOLVOX_LOG_FILE", self.path("log"));
        command
    }

    /// The line to the server, from its first word on.
    fn server(&self) -> BufReader<TcpStream> {
        let mut waiting = [PollFd::new(self.reports.as_fd(), PollFlags::POLLIN)];
        let patience = PollTimeout::try_from(PATIENCE).expect("a time-out of a minute");
        assert_eq!(poll(&mut waiting, patience), Ok(1), "the server reports in time");
        let (stream, _) = self.reports.accept().expect("the server reports");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out above zero");
        let mut server = BufReader::new(stream);
        assert_eq!(line(&mut server), "listening");
        server
    }

    fn signal(&self, signal: Signal) {
        let pid = self.read("pid").trim().parse().expect("a pid file holds a number");
        kill(Pid::from_raw(pid), signal).expect("our own process");
    }
}

fn line(server: &mut impl BufRead) -> String {
    let mut line = String::new();
    server.read_line(&mut line).expect("the server answers in time");
    line.trim_end().to_owned()
}

fn ends(mut server: impl Read) {
    assert_eq!(server.read(&mut [0]).expect("the server ends in time"), 0);
}

fn in_the_foreground() {
    for (signal, request) in
        [(Signal::SIGTERM, "Stop"), (Signal::SIGINT, "Stop"), (Signal::SIGUSR1, "Drain")]
    {
        let run = Run::new("foreground");
        let mut child = run.command(&[]).stderr(Stdio::null()).spawn().expect("this program runs");
        let mut server = run.server();
        let ports = run.read("ports");
        assert!(ports.starts_with("TCP INET: ") && !ports.ends_with(": 0\n"), "{ports}");
        fs::write(run.folder.join("users"), "b:2\n").expect("writable");
        run.signal(Signal::SIGHUP);
        assert_eq!(line(&mut server), "Reload true");
        run.signal(signal);
        assert_eq!(line(&mut server), format!("{request} true"));
        ends(server);
        assert!(child.wait().expect("our own child").success());
        assert!(!run.folder.join("pid").exists());
        let log = run.read("log");
        assert!(log.contains("-n changes nothing: ") && log.contains("listening on 127."), "{log}");
    }
}

fn in_the_background() {
    let run = Run::new("background");
    let parent = run.command(&["-d"]).output().expect("this program runs");
    assert!(parent.status.success(), "{parent:?}");
    assert_eq!(parent.stdout, b"");
    let mut server = run.server();
    let pid = run.read("pid").trim().parse().expect("a pid file holds a number");
    assert_eq!(getsid(Some(Pid::from_raw(pid))), Ok(Pid::from_raw(pid)));
    run.signal(Signal::SIGTERM);
    assert_eq!(line(&mut server), "Stop false");
    ends(server);
}

fn a_failure_in_the_background_reaches_the_shell() {
    let run = Run::new("failure");
    fs::write(run.folder.join("users"), "nonsense").expect("writable");
    let parent = run.command(&["-d"]).output().expect("this program runs");
    assert_eq!(parent.status.code(), Some(1));
    let said = String::from_utf8_lossy(&parent.stderr);
    assert!(said.contains("line 1: not user:password"), "{said}");
}
