//! The log of the cell: to standard error, to a file, or to both.
//!
//! There is one log for the process, started once. Of requests only one that changes the limit on
//! memory is logged, and no crate below this one logs. While the cell runs, the level can change,
//! and the file can be opened again after it was renamed. A line that cannot be written is lost,
//! because a full disk must not stop a cache. Nor must a slow one stop a ring: there the threads
//! that hear other cells log, too, so a thread of its own writes their lines, and [`finish`] waits
//! for it.

mod queue;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Dispatch;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{DefaultFields, Format};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Registry, fmt, reload};

use crate::config::{Level, LogSettings};
use queue::Queue;

/// A handle on the running log; clones are handles on the same one.
#[derive(Clone)]
pub struct Logging {
    level: reload::Handle<LevelFilter, Registry>,
    file: Option<LogFile>,
}

/// Who writes a line to an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// The thread that logs it.
    Itself,
    /// A thread of the output.
    Another,
}

/// The outputs that threads of their own write to.
static QUEUES: Mutex<Vec<Queue>> = Mutex::new(Vec::new());

/// Writes what was logged, before the process ends. It waits a second at most for each output.
pub fn finish() {
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(Queue::finish);
}

/// Starts the log for the whole process.
///
/// # Errors
/// That the file cannot be opened, that the log was started before, or that there is no thread.
pub fn start(settings: &LogSettings, writes: Writes) -> io::Result<Logging> {
    let (dispatch, logging, queues) = build(settings, writes)?;
    tracing::dispatcher::set_global_default(dispatch).map_err(io::Error::other)?;
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner).extend(queues);
    Ok(logging)
}

fn build(settings: &LogSettings, writes: Writes) -> io::Result<(Dispatch, Logging, Vec<Queue>)> {
    let file = settings.file.as_deref().map(LogFile::open).transpose()?;
    let (filter, level) = reload::Layer::new(filter_of(settings.level));
    let mut queues = Vec::new();
    let stderr = || writer(io::stderr, io::stderr(), writes, &mut queues);
    let to_stderr = settings.stderr.then(stderr).transpose()?.map(layer);
    let to_file = file.clone().map(|it| writer(it.clone(), it, writes, &mut queues));
    let to_file = to_file.transpose()?.map(layer);
    let ours = Targets::new().with_default(LevelFilter::TRACE).with_target(NOISY, LevelFilter::OFF);
    let subscriber = Registry::default().with(filter).with(ours).with(to_stderr).with(to_file);
    Ok((Dispatch::new(subscriber), Logging { level, file }, queues))
}

/// Lines as text, to `writer`.
fn layer<S>(writer: BoxMakeWriter) -> fmt::Layer<S, DefaultFields, Format, BoxMakeWriter> {
    let layer = fmt::layer().with_ansi(false).with_target(false);
    layer.with_writer(writer)
}

/// What writes to an output: the thread that logs by `itself`, or another to `output`.
fn writer(
    itself: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
    output: impl Write + Send + 'static,
    writes: Writes,
    queues: &mut Vec<Queue>,
) -> io::Result<BoxMakeWriter> {
    Ok(match writes {
        Writes::Itself => BoxMakeWriter::new(itself),
        Writes::Another => {
            let queue = Queue::start(output)?;
            queues.push(queue.clone());
            BoxMakeWriter::new(queue)
        }
    })
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

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.make_writer().write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
        for writes in [Writes::Itself, Writes::Another] {
            let scratch = Scratch::new("logging");
            let (path, rotated) = (scratch.path("log"), scratch.path("log.1"));
            let settings =
                LogSettings { level: Level::Warn, file: Some(path.clone()), stderr: false };
            let (dispatch, logging, queues) = build(&settings, writes).expect("writable");
            tracing::dispatcher::with_default(&dispatch, || {
                tracing::info!("quiet");
                logging.set_level(Level::Info);
                if writes == Writes::Itself {
                    tracing::info!("first");
                }
                fs::rename(&path, &rotated).expect("renamable");
                logging.reopen().expect("writable");
                tracing::info!("second");
            });
            queues.iter().for_each(Queue::finish);
            let old = fs::read_to_string(rotated).expect("written");
            let new = fs::read_to_string(path).expect("written");
            assert_eq!(old.contains("first"), writes == Writes::Itself, "{old}");
            assert!(!old.contains("quiet") && !old.contains("second"), "{old}");
            assert!(new.contains("second") && !new.contains("first"), "{new}");
        }
    }

    #[test]
    fn an_unwritable_file_is_named() {
        let settings = LogSettings { file: Some("no/such/log".into()), ..LogSettings::default() };
        let error = build(&settings, Writes::Itself).err().expect("no such folder").to_string();
        assert!(error.starts_with("log.file no/such/log: "), "{error}");
    }
}
