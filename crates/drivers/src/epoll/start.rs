//! Starting the workers: desks first, so that every worker can post to every other; then
//! handlers, listeners and threads.

use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::io::Errno;
use session::{Handler, WorkerId};

use super::accept::Acceptor;
use super::worker::Worker;
use crate::StartError;
use crate::listen::Listener;
use crate::mail::Bell;
use crate::server::Seat;
use crate::shared::{Desk, Phase, Remote, Shared};

/// Starts the workers of `shared`; the first one accepts from `listeners`.
pub(crate) fn start<H, F>(
    shared: &Arc<Shared>,
    listeners: Vec<Listener>,
    factory: &mut F,
) -> Result<Vec<JoinHandle<()>>, StartError>
where
    H: Handler + Send + 'static,
    F: FnMut(Seat) -> H,
{
    let failed = |what| move |cause: Errno| StartError::System { what, cause: cause.into() };
    for index in 0..shared.config.workers {
        let bell = Bell::descriptor().map_err(failed("an event descriptor"))?;
        shared.seat(WorkerId(index), Desk::new(bell));
    }
    let mut workers = Vec::new();
    for index in 0..shared.config.workers {
        let worker = WorkerId(index);
        let handler = factory(Seat { worker, remote: Remote(shared.clone()) });
        workers.push(Worker::new(shared, worker, handler).map_err(failed("an epoll descriptor"))?);
    }
    let acceptor = Acceptor::new(listeners, &workers[0].epoll, shared)
        .map_err(failed("events of a listener"))?;
    workers[0].acceptor = Some(acceptor);
    let mut threads = Vec::new();
    for worker in workers {
        let name = format!("worker-{}", worker.id.0);
        match std::thread::Builder::new().name(name).spawn(move || worker.run()) {
            Ok(thread) => threads.push(thread),
            Err(cause) => {
                shared.advance(Phase::Stopping);
                for thread in threads {
                    thread.join().expect("a worker that has served nobody does not panic");
                }
                return Err(StartError::System { what: "a thread", cause });
            }
        }
    }
    Ok(threads)
}
