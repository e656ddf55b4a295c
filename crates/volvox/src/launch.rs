//! From checked settings to a process ready to serve: what must happen once, in this order.
//!
//! ```text
//! background -> core files -> open files -> user -> log -> lock memory -> users -> signals
//! ... the caller opens its sockets ...
//! listening: pid file -> port file -> parent told
//! ```
//!
//! The user is changed before anything is opened, so files belong to it; as with memcached, a
//! socket below port 1024 needs a capability of the binary rather than root.

use std::fmt::{Display, Formatter};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::{io, thread};

use crate::auth::{AuthError, AuthFile};
use crate::config::{Loaded, Settings};
use crate::daemon::{self, Announcement, Stage};
use crate::logging::{self, Logging};
use crate::process::{self, ProcessError};
use crate::run_files::{self, PidFile};
use crate::signals::Signals;

/// What a command line says beside settings.
#[derive(Debug, Default)]
pub struct Manner {
    /// Do as memcached does where it is laxer or stricter: root must name a user, and memory that
    /// cannot be locked is a warning.
    pub as_memcached: bool,
    /// Lines to log at start.
    pub notes: Vec<String>,
    /// Values that `stats settings` repeats; see [`crate::memcached::stats_settings`].
    pub reported: Vec<(&'static str, String)>,
    /// File that receives the ports listened on.
    pub port_file: Option<PathBuf>,
}

/// A process ready to serve.
pub struct Launch {
    /// The settings in force, and where each came from.
    pub loaded: Loaded,
    /// What `stats settings` repeats of flags that were only noted.
    pub reported: Vec<(&'static str, String)>,
    /// Who may connect, when clients must authenticate.
    pub users: Option<Arc<AuthFile>>,
    /// The running log.
    pub logging: Logging,
    /// What the process is asked to do.
    pub signals: Signals,
    port_file: Option<PathBuf>,
    pid_file: Option<PidFile>,
    announcement: Option<Announcement>,
}

/// What came of preparing.
pub enum Prepared {
    /// Ready to serve.
    Ready(Box<Launch>),
    /// The work is done by another process; end with this code.
    Elsewhere(u8),
}

/// Why a process cannot serve.
#[derive(Debug)]
pub enum LaunchError {
    /// It cannot run in the background.
    Daemon(io::Error),
    /// The system refused a limit, a user or a lock.
    Process(ProcessError),
    /// A file, or the handling of signals.
    Io(io::Error),
    /// The authentication file.
    Auth(PathBuf, AuthError),
}

impl Display for LaunchError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Daemon(error) => write!(f, "cannot run in the background: {error}"),
            Self::Process(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::Auth(path, error) => write!(f, "server.auth_file {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for LaunchError {}

impl From<ProcessError> for LaunchError {
    fn from(error: ProcessError) -> Self {
        Self::Process(error)
    }
}

/// Prepares the process for `loaded` in the given manner.
///
/// # Errors
/// The first thing that the system, or a file, refuses.
pub fn prepare(loaded: Loaded, manner: Manner) -> Result<Prepared, LaunchError> {
    let settings = &loaded.settings;
    let announcement = if settings.process.daemon {
        match daemon::split().map_err(LaunchError::Daemon)? {
            Stage::Parent(code) => return Ok(Prepared::Elsewhere(code)),
            Stage::Child(announcement) => Some(announcement),
        }
    } else {
        None
    };
    if settings.process.core_dumps {
        process::allow_core_dumps()?;
    }
    process::allow_connections(settings.server.connections_max, workers_of(settings))?;
    let user = settings.process.user.as_deref();
    let became = process::become_user(user, manner.as_memcached)?;
    let logging = logging::start(&settings.log).map_err(LaunchError::Io)?;
    if let (Some(name), false) = (user, became) {
        tracing::info!("user {name} not assumed: only root can");
    }
    for note in &manner.notes {
        tracing::warn!("{note}");
    }
    lock_memory(settings, manner.as_memcached)?;
    Ok(Prepared::Ready(Box::new(Launch {
        users: users(settings)?,
        signals: Signals::new().map_err(LaunchError::Io)?,
        loaded,
        reported: manner.reported,
        logging,
        port_file: manner.port_file,
        pid_file: None,
        announcement,
    })))
}

fn lock_memory(settings: &Settings, only_warn: bool) -> Result<(), LaunchError> {
    if !settings.memory.lock {
        return Ok(());
    }
    match process::lock_memory() {
        Err(error) if only_warn => tracing::warn!("{error}"),
        done => done?,
    }
    Ok(())
}

fn users(settings: &Settings) -> Result<Option<Arc<AuthFile>>, LaunchError> {
    let Some(path) = &settings.server.auth_file else { return Ok(None) };
    let file = AuthFile::load(path).map_err(|error| LaunchError::Auth(path.clone(), error))?;
    Ok(Some(Arc::new(file)))
}

fn workers_of(settings: &Settings) -> usize {
    match settings.server.workers {
        0 => thread::available_parallelism().map_or(1, usize::from),
        workers => workers,
    }
}

impl Launch {
    /// Threads to serve with: the setting, or one per core.
    #[must_use]
    pub fn workers(&self) -> usize {
        workers_of(&self.loaded.settings)
    }

    /// Makes known that the cell listens at `addresses`: pid file, port file, the `lines` for the
    /// log, then the parent.
    ///
    /// # Errors
    /// That a file cannot be written, or the terminal not be left.
    pub fn listening(&mut self, addresses: &[SocketAddr], lines: &[String]) -> io::Result<()> {
        if let Some(path) = &self.loaded.settings.process.pid_file {
            let (pid_file, other) = PidFile::write(path)?;
            if let Some(pid) = other {
                tracing::warn!("pid file {} named the running process {pid}", path.display());
            }
            self.pid_file = Some(pid_file);
        }
        if let (Some(path), false) = (&self.port_file, addresses.is_empty()) {
            run_files::write_ports(path, addresses)?;
        }
        for line in lines {
            tracing::info!("{line}");
        }
        self.announcement.take().map_or(Ok(()), Announcement::announce)
    }

    /// Reads again what may change under a running cell: the users, and the log file. What fails
    /// is logged, and stays as it was.
    pub fn reload(&self) {
        if let Some(users) = &self.users {
            match users.reload() {
                Ok(()) => tracing::info!("users read again"),
                Err(error) => tracing::error!("users stay as they were: {error}"),
            }
        }
        if let Err(error) = self.logging.reopen() {
            tracing::error!("{error}");
        }
    }
}
