//! Starting the workers: handles first, so that every worker can post to every other; then handlers
//! and threads. Each worker makes its source in its own thread, and nobody serves before all have.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use rustix::io::Errno;
use session::{Handler, WorkerId};

use super::accept::Acceptor;
use super::source::Source;
use super::worker::Worker;
use crate::StartError;
use crate::listen::Listener;
use crate::server::Slot;
use crate::shared::{Phase, Remote, Shared, WorkerHandle};

/// Starts the workers of `shared`; the first one accepts from `listeners`.
pub(crate) fn start<S, H, F>(
    shared: &Arc<Shared>,
    listeners: Vec<Listener>,
    factory: &mut F,
) -> Result<Vec<JoinHandle<()>>, StartError>
where
    S: Source,
    H: Handler + Send + 'static,
    F: FnMut(Slot) -> H,
{
    let workers = shared.config.workers;
    for index in 0..workers {
        let waker = S::waker()
            .map_err(|cause| StartError::System { what: "a waker", cause: cause.into() })?;
        shared.slot(WorkerId(index), WorkerHandle::new(waker));
    }
    let slot = |index| Slot { worker: WorkerId(index), remote: Remote(shared.clone()) };
    let handlers: Vec<H> = (0..workers).map(|index| factory(slot(index))).collect();
    let (ready, verdicts) = channel();
    let mut listeners = Some(listeners);
    let mut threads = Vec::new();
    let mut begun = Ok(());
    for (index, handler) in (0..workers).zip(handlers) {
        let (shared, ready, listeners) = (shared.clone(), ready.clone(), listeners.take());
        let serve = move || {
            let made = prepare::<S, H>(&shared, WorkerId(index), handler, listeners);
            // Whoever starts the server waits for all verdicts.
            let _ = ready.send(made.as_ref().map(drop).map_err(|error| *error));
            drop(ready);
            if let Ok(worker) = made {
                worker.run();
            }
        };
        match std::thread::Builder::new().name(format!("worker-{index}")).spawn(serve) {
            Ok(thread) => threads.push(thread),
            Err(cause) => {
                begun = Err(StartError::System { what: "a thread", cause });
                break;
            }
        }
    }
    drop(ready);
    match begun.and_then(|()| all_ready(&verdicts, S::WHAT)) {
        Ok(()) => Ok(threads),
        Err(error) => {
            shared.advance(Phase::Stopping);
            for thread in threads {
                thread.join().expect("a worker that has served nobody does not panic");
            }
            Err(error)
        }
    }
}

fn prepare<S: Source, H: Handler>(
    shared: &Arc<Shared>,
    id: WorkerId,
    handler: H,
    listeners: Option<Vec<Listener>>,
) -> Result<Worker<H, S>, Errno> {
    let mut worker = Worker::new(shared, id, handler)?;
    if let Some(listeners) = listeners {
        worker.acceptor = Some(Acceptor::new(listeners, &mut worker.source, shared)?);
    }
    Ok(worker)
}

/// Waits until every worker has said whether it can serve.
fn all_ready(verdicts: &Receiver<Result<(), Errno>>, what: &'static str) -> Result<(), StartError> {
    verdicts.iter().try_for_each(|verdict| {
        verdict.map_err(|cause| StartError::System { what, cause: cause.into() })
    })
}
