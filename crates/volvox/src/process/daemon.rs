//! Running in the background without `fork`: the process starts itself again in its own session.
//!
//! ```text
//! parent: spawn, wait ------------------------- ready | end --> exits with 0 | the child's code
//! child:          setsid, open, listen, ... --> announce: standard streams to /dev/null
//! ```
//!
//! A fork is not safe in Rust, and a second start costs a millisecond, once. Unlike memcached's,
//! the parent returns when the child listens: a script can connect at once, and a failure reaches
//! the shell. The child keeps its working folder, so relative paths keep their meaning.

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

/// The stage of a child that has begun again: it has a session of its own already.
pub(super) const AGAIN: &str = "again";
/// What the child writes to the pipe once it listens.
const READY: &[u8] = b"ready\n";
/// How long the parent waits for it. To touch a large memory takes long.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// Which of the two processes this is.
#[derive(Debug)]
pub enum Stage {
    /// The one that the user started; its work is done and it ends with this code.
    Parent(u8),
    /// The one that serves.
    Child(Announcement),
}

/// The child's duty to notify the parent.
#[derive(Debug)]
#[must_use = "the parent waits for the announcement"]
pub struct Announcement(());

impl Announcement {
    /// Notifies the parent that the child listens, and leaves the terminal.
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
/// That the child cannot be started, or does not listen in time; then it is killed.
pub fn split() -> io::Result<Stage> {
    if let Some(stage) = env::var_os(DAEMON_STAGE) {
        if stage != AGAIN {
            setsid()?;
        }
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
    match wait_for_child(stdout, READY_WITHIN)? {
        Waited::Ready => Ok(Stage::Parent(0)),
        Waited::Late => give_up(&mut child),
        // Its end of the pipe closes with the process, so this wait is short.
        Waited::Ended => {
            let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
            Ok(Stage::Parent(code.unwrap_or(1)))
        }
    }
}

/// How the wait for the child ended.
#[derive(Debug, PartialEq)]
enum Waited {
    Ready,
    Ended,
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
fn wait_for_child(mut pipe: impl Read + AsFd, within: Duration) -> io::Result<Waited> {
    let deadline = Instant::now() + within;
    let mut received = [0; READY.len()];
    let mut length = 0;
    while length < READY.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut pipe_ready = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        if poll(&mut pipe_ready, timeout)? == 0 {
            return Ok(Waited::Late);
        }
        match pipe.read(&mut received[length..])? {
            0 => return Ok(Waited::Ended),
            bytes => length += bytes,
        }
    }
    Ok(if received == READY { Waited::Ready } else { Waited::Ended })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_ended_and_late_are_distinct() {
        let cases = [(READY, Waited::Ready), (b"rea", Waited::Ended), (b"", Waited::Ended)];
        for (written, waited) in cases {
            let (reader, mut writer) = io::pipe().expect("a pipe");
            writer.write_all(written).expect("fits the pipe");
            drop(writer);
            assert_eq!(wait_for_child(reader, READY_WITHIN).expect("readable"), waited);
        }
        let (reader, _writer) = io::pipe().expect("a pipe");
        assert_eq!(wait_for_child(reader, Duration::ZERO).expect("readable"), Waited::Late);
    }
}
