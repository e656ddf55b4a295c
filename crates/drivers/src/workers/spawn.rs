//! Starting the workers: handles first, so that every worker can post to every other; then handlers
//! and threads. Each worker makes its source in its own thread, and none serves before all have.
//!
//! When one fails, the others are stopped and joined: either all run or none does.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use rustix::io::Errno;
use session::{Serve, WorkerId};

use super::source::Source;
use super::worker::Worker;
use crate::error::StartError;
use crate::shared::{Phase, Shared, Slot, WorkerHandle};
use crate::sockets::Listener;

/// Starts the workers of `shared`; the first one accepts from `listeners`.
pub(crate) fn start<S, H, F>(
    shared: &Arc<Shared>,
    listeners: Vec<Listener>,
    factory: &mut F,
) -> Result<Vec<JoinHandle<()>>, StartError>
where
    S: Source,
    H: Serve + Send + 'static,
    F: FnMut(Slot<H::Mail>) -> H,
{
    let workers = shared.config().pool();
    for index in 0..workers {
        let waker = S::waker()
            .map_err(|cause| StartError::System { what: "a waker", cause: cause.into() })?;
        shared.add_worker(WorkerId(index), WorkerHandle::new(waker));
    }
    let slot = |index| Slot::new(WorkerId(index), shared);
    let handlers: Vec<H> = (0..workers).map(|index| factory(slot(index))).collect();
    let (ready, results) = channel();
    let mut listeners = Some(listeners);
    let mut threads = Vec::new();
    let mut spawned = Ok(());
    for (index, handler) in (0..workers).zip(handlers) {
        let (shared, ready, listeners) = (shared.clone(), ready.clone(), listeners.take());
        let serve = move || {
            let made = Worker::<H, S>::new(&shared, WorkerId(index), handler, listeners);
            // It fails only if the starting thread has ended, which then needs no answer.
            let _ = ready.send(made.as_ref().map(drop).map_err(|error| *error));
            drop(ready);
            if let Ok(worker) = made {
                worker.run();
            }
        };
        match std::thread::Builder::new().name(format!("worker-{index}")).spawn(serve) {
            Ok(thread) => threads.push(thread),
            Err(cause) => {
                spawned = Err(StartError::System { what: "a thread", cause });
                break;
            }
        }
    }
    drop(ready);
    // The iteration ends when every worker has said whether it can serve.
    let ready = |result: Result<(), Errno>| {
        result.map_err(|cause| StartError::System { what: S::WHAT, cause: cause.into() })
    };
    let result = spawned.and_then(|()| results.iter().try_for_each(ready));
    all_or_none(shared, threads, result.map(|()| Vec::new()))
}

/// The threads that were started first, and those that were `started` after them. If that has
/// failed, the first ones are ended.
pub(crate) fn all_or_none(
    shared: &Shared,
    mut first: Vec<JoinHandle<()>>,
    started: Result<Vec<JoinHandle<()>>, StartError>,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    match started {
        Ok(started) => {
            first.extend(started);
            Ok(first)
        }
        Err(error) => {
            shared.advance(Phase::Stopping);
            for thread in first {
                thread.join().expect("a worker that has served nobody does not panic");
            }
            Err(error)
        }
    }
}
