//! From checked settings to a process ready to serve: what must happen once, in this order.
//!
//! ```text
//! background -> core files -> open files -> user -> log -> lock memory -> users -> signals
//! ... the caller opens its sockets ...
//! listening: pid file -> port file -> log -> the parent may return
//! ```
//!
//! The user is changed before anything is opened, so that files belong to it. As with memcached, a
//! socket below port 1024 needs a capability of the binary rather than root.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::{env, io, thread};

use crate::auth::AuthFile;
use crate::config::{Loaded, Settings};
use crate::logging::{self, Logging, Writes};
use crate::process::{self, Announcement, PORT_FILE_VARIABLE, PidFile, Signals};

/// What a command line says beside settings.
#[derive(Debug, Default)]
pub struct LaunchOptions {
    /// Do as memcached does where it is laxer or stricter: root must name a user, and memory that
    /// cannot be locked is a warning.
    pub as_memcached: bool,
    /// Lines to log at start, as warnings.
    pub notes: Vec<String>,
    /// Values that `stats settings` repeats; see [`crate::memcached::stats_settings`].
    pub reported: Vec<(&'static str, String)>,
}

/// A process ready to serve.
pub struct Launch {
    /// The settings in force, and where each came from.
    pub(super) loaded: Loaded,
    /// What `stats settings` repeats of flags that have no effect.
    pub(super) reported: Vec<(&'static str, String)>,
    /// Who may connect, when clients must authenticate.
    pub(super) users: Option<Arc<AuthFile>>,
    /// The running log.
    pub(super) logging: Logging,
    /// What the process is requested to do.
    pub(super) signals: Signals,
    /// Removed from the disk when dropped.
    pid_file: Option<PidFile>,
    announcement: Option<Announcement>,
}

impl Launch {
    /// Prepares the process for `loaded`.
    ///
    /// # Errors
    /// The first thing that the system, or a file, refuses.
    pub(super) fn prepare(
        loaded: Loaded,
        options: LaunchOptions,
        announcement: Option<Announcement>,
    ) -> Result<Self, Box<dyn Error>> {
        let Settings { server, process: wanted, log, .. } = &loaded.settings;
        if wanted.core_dumps {
            process::allow_core_dumps()?;
        }
        process::allow_connections(server.connections_max, workers(&loaded.settings))?;
        let became = process::become_user(wanted.user.as_deref(), options.as_memcached)?;
        let in_ring = loaded.settings.ring.directory.is_some();
        let logging = logging::start(log, if in_ring { Writes::Another } else { Writes::Itself })?;
        if let (Some(name), false) = (&wanted.user, became) {
            tracing::info!("process.user {name}: not root, so the user stays the same");
        }
        for note in &options.notes {
            tracing::warn!("{note}");
        }
        if loaded.settings.memory.lock {
            match process::lock_memory() {
                Err(error) if options.as_memcached => tracing::warn!("{error}"),
                done => done?,
            }
        }
        let users = server.auth_file.as_deref().map(AuthFile::load).transpose()?;
        Ok(Self {
            users: users.map(Arc::new),
            signals: Signals::new()?,
            loaded,
            reported: options.reported,
            logging,
            pid_file: None,
            announcement,
        })
    }

    /// Threads to serve with: the setting, or one per core.
    pub(super) fn workers(&self) -> usize {
        workers(&self.loaded.settings)
    }

    /// Makes known that the cell listens at `addresses`: pid file, port file, the `lines` for the
    /// log, then the parent.
    ///
    /// # Errors
    /// That a file cannot be written, or the terminal not be left.
    pub(super) fn listening(
        &mut self,
        addresses: &[SocketAddr],
        lines: &[String],
    ) -> io::Result<()> {
        if let Some(path) = &self.loaded.settings.process.pid_file {
            let (pid_file, other) = PidFile::write(path)?;
            if let Some(pid) = other {
                tracing::warn!("pid file {} named the running process {pid}", path.display());
            }
            self.pid_file = Some(pid_file);
        }
        if let (Some(path), false) = (env::var_os(PORT_FILE_VARIABLE), addresses.is_empty()) {
            process::write_ports(path.as_ref(), addresses)?;
        }
        for line in lines {
            tracing::info!("{line}");
        }
        self.announcement.take().map_or(Ok(()), Announcement::announce)
    }

    /// Reads again what may change while the cell runs: the users, and the log file. What fails is
    /// logged, and stays as it was.
    pub(super) fn reload(&self) {
        match self.users.as_ref().map(|users| users.reload()) {
            Some(Ok(())) => tracing::info!("users read again"),
            Some(Err(error)) => tracing::error!("{error}; until then the users stay the same"),
            None => {}
        }
        if let Err(error) = self.logging.reopen() {
            tracing::error!("{error}; until then the old file stays in use");
        }
    }
}

fn workers(settings: &Settings) -> usize {
    match settings.server.workers {
        0 => thread::available_parallelism().map_or(1, usize::from),
        workers => workers,
    }
}
