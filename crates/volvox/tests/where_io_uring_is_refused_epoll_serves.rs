//! The binary under a system that refuses io_uring, or a part of it, as many containers do: it logs
//! a warning and serves by epoll. And every driver ends after a signal, also without a client.
//!
//! A filter of system calls applies to the thread that installs it and to the processes that this
//! thread starts. So each server is started by a thread of its own. No privilege is needed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::iter;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// How long any one answer may take; shorter than a drain and than the longest wait of a worker.
const PATIENCE: Duration = Duration::from_secs(20);

/// The operation of `io_uring_register` that gives a ring its pool of buffers.
const REGISTER_PBUF_RING: u64 = 22;

/// A system call that is refused, whatever its arguments or where the second one has this value.
type Refused = (libc::c_long, Option<u64>);

/// A filter that answers EPERM to one call and allows all others.
fn filter((call, second): Refused) -> Result<BpfProgram, BackendError> {
    let rules = match second {
        None => Vec::new(),
        Some(value) => {
            let (len, equal) = (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq);
            vec![SeccompRule::new(vec![SeccompCondition::new(1, len, equal, value)?])?]
        }
    };
    let rules = BTreeMap::from([(call, rules)]);
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let processor = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, processor)?.try_into()
}

/// A server, and the lines that it logs.
struct Server {
    child: Child,
    lines: Receiver<String>,
}

impl Server {
    fn start(driver: &str, refused: Option<Refused>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_volvox"));
        command.env_clear().args(["serve", "--listen", "127.0.0.1:0", "--driver", driver]);
        command.stderr(Stdio::piped());
        let spawn = move || {
            if let Some(refused) = refused {
                let filter = filter(refused).expect("one rule is a valid filter");
                seccompiler::apply_filter(&filter).expect("a filter needs no privilege");
            }
            command.spawn().expect("the binary runs")
        };
        let mut child = thread::spawn(spawn).join().expect("no panic above");
        let log = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, lines) = channel();
        thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|it| sender.send(it)));
        Self { child, lines }
    }

    /// The lines before it listens, and its address.
    fn listening(&self) -> (Vec<String>, String) {
        let mut lines = Vec::new();
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("it listens in time");
            if let Some((_, address)) = line.split_once("listening on ") {
                return (lines, address.to_owned());
            }
            lines.push(line);
        }
    }

    /// It ends well, soon after the signal.
    fn ends(mut self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("our own process");
        let next = || self.lines.recv_timeout(PATIENCE);
        let silence = iter::repeat_with(next).find_map(Result::err);
        assert_eq!(silence, Some(RecvTimeoutError::Disconnected), "it ends in time");
        assert!(self.child.wait().expect("our own child").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended, unless the test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of the answer, up to `END`.
fn request(address: &str, command: &str) -> Vec<String> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out above zero");
    write!(stream, "{command}\r\n").expect("the server reads");
    let lines = BufReader::new(stream).lines();
    lines.map(|line| line.expect("it answers in time")).take_while(|line| line != "END").collect()
}

#[test]
fn a_refusal_is_logged_and_epoll_serves() {
    let cases = [
        ((libc::SYS_io_uring_setup, None), "a ring with its buffers"),
        ((libc::SYS_io_uring_register, Some(REGISTER_PBUF_RING)), "a ring with its buffers"),
        ((libc::SYS_io_uring_enter, None), "accepting"),
    ];
    for (refused, step) in cases {
        let server = Server::start("uring", Some(refused));
        let (lines, address) = server.listening();
        let [warning] = &lines[..] else { panic!("{refused:?}: {lines:?}") };
        let parts = [
            "WARN",
            "server.driver uring: ",
            &format!("({step}: Operation not permitted (os error 1))"),
            "epoll serves instead",
            "kernel.io_uring_disabled = 0",
            "io_uring_setup, io_uring_enter and io_uring_register",
        ];
        for part in parts {
            assert!(warning.contains(part), "{refused:?}: {warning} lacks {part}");
        }
        assert_eq!(request(&address, "set a 0 0 1\r\nx\r\nget a"), ["STORED", "VALUE a 0 1", "x"]);
        let settings = request(&address, "stats settings");
        assert!(settings.contains(&"STAT driver epoll".to_owned()), "{refused:?}: {settings:?}");
        server.ends(Signal::SIGTERM);
    }
}

#[test]
fn another_refusal_logs_no_warning() {
    let elsewhere = (libc::SYS_io_uring_register, Some(u64::from(u32::MAX)));
    let allowed = drivers::probe_uring().is_ok();
    let server = Server::start("uring", Some(elsewhere));
    let (lines, address) = server.listening();
    let expected = if allowed { "STAT driver uring" } else { "STAT driver epoll" };
    assert_eq!(lines.is_empty(), allowed, "{lines:?}");
    let settings = request(&address, "stats settings");
    assert!(settings.contains(&expected.to_owned()), "{settings:?}");
    server.ends(Signal::SIGTERM);
}

#[test]
fn a_server_without_clients_ends_after_a_signal() {
    for driver in ["epoll", "signal", "uring", "threads"] {
        for signal in [Signal::SIGTERM, Signal::SIGUSR1] {
            let server = Server::start(driver, None);
            server.listening();
            server.ends(signal);
        }
    }
}
