//! Leaving the terminal without `fork`: the process starts itself again in a session of its own.
//!
//! ```text
//! parent: spawn, wait ------------------------- ready | end --> exits with 0 | the child's code
//! child:          setsid, open, listen, ... --> announce: standard streams to /dev/null
//! ```
//!
//! Forking a process is not safe in Rust, and starting again costs a millisecond, once. Unlike
//! memcached, the parent returns when the child listens, so a script may connect at once and a
//! failure reaches the shell. The child stays in its folder: relative paths keep their meaning.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, setsid};

use crate::config::environment::DAEMON_STAGE;

/// What the child says once it listens.
const READY: &[u8] = b"ready\n";
/// How long the parent waits for it: faulting in a large memory takes its time.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// Which of the two processes this is.
#[derive(Debug)]
pub enum Stage {
    /// The one that was started: it is done and ends with this code.
    Parent(u8),
    /// The one that serves.
    Child(Announcement),
}

/// The child's duty to say that it listens.
#[derive(Debug)]
#[must_use = "the parent waits for the announcement"]
pub struct Announcement(());

impl Announcement {
    /// Tells the parent, and lets go of the terminal.
    ///
    /// # Errors
    /// The system's, when the standard streams cannot be replaced.
    pub fn announce(self) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(READY)?;
        stdout.flush()?;
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
        Ok(())
    }
}

/// Splits into parent and child; the parent returns when the child listens or has ended.
///
/// # Errors
/// That the child cannot be started, or does not listen in time; it is then ended.
pub fn split() -> io::Result<Stage> {
    if env::var_os(DAEMON_STAGE).is_some() {
        setsid()?;
        return Ok(Stage::Child(Announcement(())));
    }
    let mut words = env::args_os();
    let name = words.next().unwrap_or_default();
    let mut child = Command::new(env::current_exe()?)
        .arg0(name)
        .args(words)
        .env(DAEMON_STAGE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().expect("invariant: standard output was piped");
    match listen_for_ready(stdout, READY_WITHIN)? {
        Heard::Ready => Ok(Stage::Parent(0)),
        Heard::Late => give_up(&mut child),
        // Its end of the pipe closes with the process, so this wait is short.
        Heard::End => {
            let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
            Ok(Stage::Parent(code.unwrap_or(1)))
        }
    }
}

/// What came through the pipe.
#[derive(Debug, PartialEq)]
enum Heard {
    Ready,
    End,
    Late,
}

fn give_up(child: &mut Child) -> io::Result<Stage> {
    child.kill()?;
    child.wait()?;
    let seconds = READY_WITHIN.as_secs();
    let message = format!("not listening after {seconds} s; start it in the foreground to see why");
    Err(io::Error::new(io::ErrorKind::TimedOut, message))
}

/// Waits for `READY`, the end of the pipe, or the end of the time.
fn listen_for_ready(mut pipe: impl Read + AsFd, within: Duration) -> io::Result<Heard> {
    let deadline = Instant::now() + within;
    let mut heard = [0; READY.len()];
    let mut length = 0;
    while length < READY.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut pipe_ready = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        if poll(&mut pipe_ready, timeout)? == 0 {
            return Ok(Heard::Late);
        }
        match pipe.read(&mut heard[length..])? {
            0 => return Ok(Heard::End),
            bytes => length += bytes,
        }
    }
    Ok(if heard == READY { Heard::Ready } else { Heard::End })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pipe_tells_ready_from_end_and_late() {
        let cases = [(READY, Heard::Ready), (b"rea", Heard::End), (b"", Heard::End)];
        for (said, heard) in cases {
            let (reader, mut writer) = io::pipe().expect("a pipe");
            writer.write_all(said).expect("fits the pipe");
            drop(writer);
            assert_eq!(listen_for_ready(reader, READY_WITHIN).expect("readable"), heard);
        }
        let (reader, _writer) = io::pipe().expect("a pipe");
        assert_eq!(listen_for_ready(reader, Duration::ZERO).expect("readable"), Heard::Late);
    }
}
