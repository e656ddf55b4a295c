//! What a cell keeps in its directory besides the log of the agreement: the newest map, and the
//! second of the ring.
//!
//! ```text
//! member --newest value--> task of the coordinator's runtime --> a thread that waits for the disk
//! ```
//!
//! A disk may take seconds. Maps come through the thread of the coordinator, so that one must not
//! wait for it: a cell would go by an old map meanwhile. Of each file one write is under way, and
//! of the values that come meanwhile only the newest is written.

use crate::config::Plane;
use crate::known::Known;
use crate::time::KeptTime;
use ring::Map;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// The files of a cell's directory that hold the newest value. Dropping it ends their tasks.
pub(crate) struct Keeps {
    map: watch::Sender<Option<Arc<Map>>>,
    second: watch::Sender<Option<u32>>,
}

impl Keeps {
    /// Those of `directory`, written by tasks of `runtime`. `plane` notes what cannot be written.
    pub(crate) fn start(directory: &Path, runtime: &Handle, plane: &Arc<dyn Plane>) -> Self {
        let (known, kept) = (Known::of(directory), KeptTime::of(directory));
        let notes = |what: &'static str| {
            let plane = plane.clone();
            move |error: io::Error| {
                plane.note(format!(
                    "the {what} cannot be kept in the directory of the cell: {error}"
                ));
            }
        };
        let map = newest(runtime, move |map: &Arc<Map>| known.write(map), notes("map"));
        let second = newest(runtime, move |second| kept.write(*second), notes("time"));
        Self { map, second }
    }

    /// Keeps `map`.
    pub(crate) fn map(&self, map: Arc<Map>) {
        self.map.send_replace(Some(map));
    }

    /// Keeps the second of the ring.
    pub(crate) fn second(&self, second: u32) {
        self.second.send_replace(Some(second));
    }
}

/// Writes the newest value, as long as its sender lives.
fn newest<T: Clone + Send + Sync + 'static>(
    runtime: &Handle,
    write: impl Fn(&T) -> io::Result<()> + Send + Sync + 'static,
    fails: impl Fn(io::Error) + Send + 'static,
) -> watch::Sender<Option<T>> {
    let (sender, mut values) = watch::channel(None);
    let write = Arc::new(write);
    runtime.spawn(async move {
        while values.changed().await.is_ok() {
            let Some(value) = values.borrow_and_update().clone() else { continue };
            let write = write.clone();
            let written = tokio::task::spawn_blocking(move || write(&value)).await;
            if let Err(error) = written.unwrap_or_else(|ended| Err(io::Error::other(ended))) {
                fails(error);
            }
        }
    });
    sender
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::time::Duration;
    use tokio::sync::mpsc;

    #[test]
    fn the_thread_goes_on_while_the_disk_does_not_and_the_newest_value_is_written_last() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (begins, mut begun) = mpsc::unbounded_channel();
        let (goes_on, waits) = std::sync::mpsc::channel();
        let waits = Mutex::new(waits);
        let write = move |value: &u32| {
            begins.send(*value).expect("it is awaited");
            let is_let_on = waits.lock().expect("one at a time");
            is_let_on.recv_timeout(Duration::from_secs(10)).map_err(io::Error::other)
        };
        let (fails, mut failed) = mpsc::unbounded_channel();
        let fails = move |error: io::Error| fails.send(error.to_string()).expect("it is awaited");
        let values = newest(runtime.handle(), write, fails);
        runtime.block_on(async {
            values.send_replace(Some(1));
            assert_eq!(begun.recv().await, Some(1));
            values.send_replace(Some(2));
            values.send_replace(Some(3));
            goes_on.send(()).expect("it waits");
            assert_eq!(begun.recv().await, Some(3));
            goes_on.send(()).expect("it waits");
            drop(values);
            assert_eq!((begun.recv().await, failed.recv().await), (None, None));
        });
    }
}
