//! The log of the cell: to standard error, to a file, or to both.
//!
//! There is one log for the process, started once. Of requests only one that changes the limit on
//! memory is logged, and no crate below this one logs. While the cell runs, the level can change,
//! and the file can be opened again after it was renamed. A line that cannot be written is lost,
//! because a full disk must not stop a cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Dispatch;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Registry, fmt, reload};

use crate::config::{Level, LogSettings};

/// A handle on the running log; clones are handles on the same one.
#[derive(Clone)]
pub struct Logging {
    level: reload::Handle<LevelFilter, Registry>,
    file: Option<LogFile>,
}

/// Starts the log for the whole process.
///
/// # Errors
/// That the file cannot be opened, or that the log was started before.
pub fn start(settings: &LogSettings) -> io::Result<Logging> {
    let (dispatch, logging) = build(settings)?;
    tracing::dispatcher::set_global_default(dispatch).map_err(io::Error::other)?;
    Ok(logging)
}

fn build(settings: &LogSettings) -> io::Result<(Dispatch, Logging)> {
    let file = settings.file.as_deref().map(LogFile::open).transpose()?;
    let (filter, level) = reload::Layer::new(filter_of(settings.level));
    let to_stderr = settings
        .stderr
        .then(|| fmt::layer().with_ansi(false).with_target(false).with_writer(io::stderr));
    let to_file =
        file.clone().map(|it| fmt::layer().with_ansi(false).with_target(false).with_writer(it));
    let ours = Targets::new().with_default(LevelFilter::TRACE).with_target(NOISY, LevelFilter::OFF);
    let subscriber = Registry::default().with(filter).with(ours).with(to_stderr).with(to_file);
    Ok((Dispatch::new(subscriber), Logging { level, file }))
}

/// A library that logs every message that another cell does not answer. What an operator should
/// know of it, the cell says itself.
const NOISY: &str = "openraft";

fn filter_of(level: Level) -> LevelFilter {
    match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    }
}

impl Logging {
    /// Logs at `level` from now on.
    pub fn set_level(&self, level: Level) {
        self.level
            .modify(|filter| *filter = filter_of(level))
            .expect("invariant: the global subscriber is never dropped");
    }

    /// Opens the file again, so that one that was renamed is no longer written to.
    ///
    /// # Errors
    /// That it cannot be opened; the old one stays in use.
    pub fn reopen(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), LogFile::reopen)
    }
}

#[derive(Clone)]
struct LogFile {
    path: Arc<Path>,
    file: Arc<Mutex<Arc<File>>>,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = append(path)?;
        Ok(Self { path: path.into(), file: Arc::new(Mutex::new(Arc::new(file))) })
    }

    fn reopen(&self) -> io::Result<()> {
        let file = append(&self.path)?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(file);
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = Arc<File>;

    fn make_writer(&'a self) -> Self::Writer {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn append(path: &Path) -> io::Result<File> {
    let named = |error: io::Error| {
        let path = PathBuf::from(path);
        let message = format!("log.file {}: {error}; name a writable file", path.display());
        io::Error::new(error.kind(), message)
    };
    OpenOptions::new().create(true).append(true).open(path).map_err(named)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn levels_change_and_files_rotate() {
        let scratch = Scratch::new("logging");
        let (path, rotated) = (scratch.path("log"), scratch.path("log.1"));
        let settings = LogSettings { level: Level::Warn, file: Some(path.clone()), stderr: false };
        let (dispatch, logging) = build(&settings).expect("writable");
        tracing::dispatcher::with_default(&dispatch, || {
            tracing::info!("quiet");
            logging.set_level(Level::Info);
            tracing::info!("first");
            fs::rename(&path, &rotated).expect("renamable");
            logging.reopen().expect("writable");
            tracing::info!("second");
        });
        let old = fs::read_to_string(rotated).expect("written");
        let new = fs::read_to_string(path).expect("written");
        assert!(
            old.contains("first") && !old.contains("quiet") && !old.contains("second"),
            "{old}"
        );
        assert!(new.contains("second") && !new.contains("first"), "{new}");
    }

    #[test]
    fn an_unwritable_file_is_named() {
        let settings = LogSettings { file: Some("no/such/log".into()), ..LogSettings::default() };
        let error = build(&settings).err().expect("no such folder").to_string();
        assert!(error.starts_with("log.file no/such/log: "), "{error}");
    }
}
