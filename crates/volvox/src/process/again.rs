//! The process begins again, with the program that stands now where its own one stood: so a cell
//! is upgraded by itself, and keeps its number of a process: what has started it need not know.

use std::env;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use command_fds::{CommandFdExt, FdMapping};

use super::daemon::AGAIN;
use crate::config::environment::DAEMON_STAGE;

/// How a service manager says how many sockets it passes, and to which process. The first of them
/// has this number.
const LISTEN_FDS: &str = "LISTEN_FDS";
const LISTEN_PID: &str = "LISTEN_PID";
const FIRST_KEPT: RawFd = 3;

/// The program of the process.
pub struct Program(PathBuf);

impl Program {
    /// Where it stands now. Another one may stand there later.
    ///
    /// # Errors
    /// The system's, where it does not know.
    pub fn of_process() -> io::Result<Self> {
        env::current_exe().map(Self)
    }

    /// Begins again, with the same words. Files and sockets are closed, except those of `kept`,
    /// which the program gets as a service manager would pass them (`sd_listen_fds(3)`). Returns
    /// only why that is not possible.
    #[must_use]
    pub fn begin_again(&self, kept: Vec<OwnedFd>) -> io::Error {
        let mut words = env::args_os();
        let mut command = Command::new(&self.0);
        command.arg0(words.next().unwrap_or_default()).args(words);
        if env::var_os(DAEMON_STAGE).is_some() {
            command.env(DAEMON_STAGE, AGAIN);
        }
        command.env_remove(LISTEN_FDS).env_remove(LISTEN_PID);
        if !kept.is_empty() {
            command.env(LISTEN_FDS, kept.len().to_string());
            command.env(LISTEN_PID, std::process::id().to_string());
        }
        let mappings = kept.into_iter().zip(FIRST_KEPT..);
        let mappings = mappings.map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd });
        let error = match command.fd_mappings(mappings.collect()) {
            Ok(command) => command.exec(),
            Err(collision) => io::Error::other(collision),
        };
        io::Error::new(error.kind(), format!("{}: {error}", self.0.display()))
    }
}
