//! The two threads of the control plane.

use crate::config::ControlError;
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The two threads of the control plane.
pub(crate) struct Threads {
    /// For heartbeats and the member.
    pub(crate) ring: Thread,
    /// For the coordinator.
    pub(crate) quorum: Thread,
}

impl Threads {
    /// Starts both.
    ///
    /// # Errors
    /// If the system has no place for one.
    pub(crate) fn start() -> Result<Self, ControlError> {
        Ok(Self { ring: Thread::start("ring")?, quorum: Thread::start("quorum")? })
    }

    /// Their runtimes, in this order.
    pub(crate) fn runtimes(&self) -> [Handle; 2] {
        [&self.ring, &self.quorum].map(|thread| thread.handle.clone())
    }
}

/// A thread with a runtime of its own, which ends when this is dropped.
pub(crate) struct Thread {
    pub(crate) handle: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    fn start(name: &str) -> Result<Self, ControlError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ControlError::System)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let run = move || {
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = Some(thread.map_err(ControlError::System)?);
        Ok(Self { handle, end: Some(end), thread })
    }

    /// Runs `future` there, and waits for it.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ControlError> {
        let (done, result) = std::sync::mpsc::sync_channel(1);
        self.handle.spawn(async move {
            let _ = done.send(future.await);
        });
        let ended = |_| ControlError::System(std::io::Error::other("a task of the ring has ended"));
        result.recv().map_err(ended)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed already.
            let _ = thread.join();
        }
    }
}
