//! Running other programs to their end, each with a deadline.
//!
//! A program past its deadline is killed, by its own id, and reported as an error that names
//! the command and the limit. Standard input is always closed: no program waits for a person.
//! `status` lets the output through, `capture` returns it, `run` returns it however the program
//! ended. A program that serves is not run to its end: see `launch`.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use wait_timeout::ChildExt;

use super::cores::CoreSet;

/// Longest that most programs may take that only set something up.
pub const WAIT_MAX: Duration = Duration::from_secs(120);
/// How much of the end of a failing program's output an error message repeats.
const TAIL_LINES: usize = 12;

/// What a program printed, and how it ended.
pub struct Said {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub output: String,
    /// Its standard error.
    pub complaints: String,
}

/// A command being put together.
#[derive(Clone)]
pub struct Exec {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: Option<PathBuf>,
    cores: Option<CoreSet>,
}

impl Exec {
    /// A command without arguments.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let program = program.as_ref().to_owned();
        Self { program, args: Vec::new(), env: Vec::new(), cwd: None, cores: None }
    }

    /// Adds one argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds several arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Sets the working folder.
    pub fn cwd(mut self, folder: &Path) -> Self {
        self.cwd = Some(folder.to_owned());
        self
    }

    /// Runs it on these cores instead of those of this thread.
    pub fn cores(self, cores: CoreSet) -> Self {
        Self { cores: Some(cores), ..self }
    }

    /// The command for the standard library, standard input closed.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).envs(self.env.iter().map(|(k, v)| (k, v)));
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs it with its output let through to ours; true when it ended well.
    pub fn status(&self, deadline: Duration) -> Result<bool> {
        let mut child = self.spawn(&mut self.command())?;
        Ok(self.wait(&mut child, Instant::now(), deadline)?.success())
    }

    /// Runs it and returns its standard output; an error shows the end of what it printed.
    ///
    /// ```
    /// use std::time::Duration;
    /// let text = measure::exec::Exec::new("echo").arg("hello").capture(Duration::from_secs(20));
    /// assert_eq!(text.unwrap(), "hello\n");
    /// ```
    pub fn capture(&self, deadline: Duration) -> Result<String> {
        let Said { status, output, complaints } = self.said(deadline)?;
        if !status.success() {
            bail!("`{self}` ended with {status}:\n{}", tail(&format!("{output}\n{complaints}")));
        }
        Ok(output)
    }

    /// Runs it and reads the JSON that it prints, however it ended.
    pub fn json<T: DeserializeOwned>(&self, deadline: Duration) -> Result<T> {
        self.start(deadline)?.json()
    }

    /// Runs it and returns what it said, however it ended.
    pub fn said(&self, deadline: Duration) -> Result<Said> {
        self.start(deadline)?.said()
    }

    /// Starts it; what it says is read while it runs.
    pub fn start(&self, deadline: Duration) -> Result<Running> {
        let mut command = self.command();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.spawn(&mut command)?;
        let pipes = Some([drain(child.stdout.take()), drain(child.stderr.take())]);
        let (exec, began) = (self.clone(), Instant::now());
        Ok(Running { exec, child, pipes, began, deadline })
    }

    fn spawn(&self, command: &mut Command) -> Result<Child> {
        let child = match self.cores {
            Some(cores) => cores.spawn(command),
            None => command.spawn(),
        };
        child.with_context(|| format!("start `{self}`"))
    }

    fn wait(&self, child: &mut Child, began: Instant, deadline: Duration) -> Result<ExitStatus> {
        let left = deadline.saturating_sub(began.elapsed());
        match child.wait_timeout(left).with_context(|| format!("wait for `{self}`"))? {
            Some(status) => Ok(status),
            None => {
                child.kill().with_context(|| format!("kill `{self}`"))?;
                child.wait().with_context(|| format!("reap `{self}`"))?;
                bail!("`{self}` was killed: it ran past its {} seconds", deadline.as_secs())
            }
        }
    }
}

/// A program that runs while something else is done. It is killed if it is dropped before its end.
pub struct Running {
    exec: Exec,
    child: Child,
    /// Of its standard output and its standard error, until they are joined.
    pipes: Option<[thread::JoinHandle<io::Result<String>>; 2]>,
    began: Instant,
    deadline: Duration,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end, and returns what it said.
    pub fn said(mut self) -> Result<Said> {
        let status = self.exec.wait(&mut self.child, self.began, self.deadline)?;
        let pipes = self.pipes.take().expect("invariant: what it says is read once");
        let [output, complaints] = pipes.map(|pipe| {
            let said = pipe.join().expect("invariant: the reader of a pipe does not panic");
            said.context("read what a program says")
        });
        Ok(Said { status, output: output?, complaints: complaints? })
    }

    /// Waits for its end, and reads the JSON that it printed, however it ended.
    pub fn json<T: DeserializeOwned>(self) -> Result<T> {
        let exec = self.exec.clone();
        let Said { output, complaints, .. } = self.said()?;
        serde_json::from_str(&output)
            .with_context(|| format!("`{exec}` printed no report:\n{output}{}", tail(&complaints)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A program that has ended already is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl fmt::Display for Exec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program.to_string_lossy())?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", arg.to_string_lossy()))
    }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<io::Result<String>> {
    let mut pipe = pipe.expect("invariant: the pipe was requested");
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    })
}

/// The last lines of a text.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn captures_what_a_program_prints() {
        assert_eq!(Exec::new("echo").arg("hello").capture(SOON).unwrap(), "hello\n");
    }

    #[test]
    fn a_failure_repeats_what_was_said() {
        let error = Exec::new("sh").args(["-c", "echo why >&2; exit 3"]).capture(SOON).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("exit status: 3") && text.contains("why"), "{text}");
    }

    #[test]
    fn a_program_past_its_deadline_is_killed_and_named() {
        let error = Exec::new("sleep").arg("600").capture(Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("`sleep 600` was killed"), "{error}");
    }

    #[test]
    fn a_report_is_read_whatever_the_status_and_its_absence_shows_the_complaints() {
        let run = |script: &str| Exec::new("sh").args(["-c", script]).json::<Vec<u8>>(SOON);
        assert_eq!(run("echo '[1, 2]'; exit 1").unwrap(), [1, 2]);
        assert!(run("echo why >&2").unwrap_err().to_string().contains("why"));
    }

    #[test]
    fn a_program_runs_while_something_else_is_done_and_ends_when_it_is_dropped() {
        let mut running = Exec::new("sleep").arg("600").start(SOON).unwrap();
        let pid = running.pid();
        assert!(running.is_alive());
        drop(running);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        let said = Exec::new("sh").args(["-c", "echo 5; exit 1"]).start(SOON).unwrap();
        assert_eq!(said.json::<u32>().unwrap(), 5);
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Exec::new("no-such-program").status(SOON).unwrap_err();
        assert!(format!("{error:#}").contains("no-such-program"));
    }

    #[test]
    fn the_tail_keeps_the_last_lines_and_drops_empty_ones() {
        let text = (0..30).map(|n| format!("line {n}\n\n")).collect::<String>();
        assert_eq!(tail(&text).lines().count(), TAIL_LINES);
        assert!(tail(&text).ends_with("line 29"));
    }
}
