//! The process begins again, with the program that stands now where its own one stood: so a cell
//! is upgraded by itself, and keeps its number of a process: what has started it need not know.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use super::daemon::AGAIN;
use crate::config::environment::DAEMON_STAGE;

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

    /// Begins again, with the same words. Files and sockets are closed. Returns only why that is
    /// not possible.
    #[must_use]
    pub fn begin_again(&self) -> io::Error {
        let mut words = env::args_os();
        let mut command = Command::new(&self.0);
        command.arg0(words.next().unwrap_or_default()).args(words);
        if env::var_os(DAEMON_STAGE).is_some() {
            command.env(DAEMON_STAGE, AGAIN);
        }
        let error = command.exec();
        io::Error::new(error.kind(), format!("{}: {error}", self.0.display()))
    }
}
