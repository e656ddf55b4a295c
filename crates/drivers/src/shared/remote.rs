//! What any thread, a handler included, may do with a server.
//!
//! Nothing here waits for a worker: a call posts a message or reads a count. A message for a
//! connection that is gone has no effect.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use base::Now;
use session::{ConnId, LogId, Ticket, WorkerId};

use super::mailbox::Message;
use super::post::Post;
use super::state::{Phase, Shared};
use crate::clock::seconds;
use crate::counters::Snapshot;
use crate::sockets::Report;

/// Reaches a server from any thread.
#[derive(Clone)]
pub struct Remote(Arc<Shared>);

impl Remote {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Delivers a part of a reply, the last one or not. Parts leave in the order in which they are
    /// delivered. `false` when its worker is gone or its mailbox is full; then its connection is
    /// closed. A connection that is gone drops the bytes, and this returns `true`.
    pub fn complete(&self, ticket: Ticket, bytes: Vec<u8>, last: bool) -> bool {
        self.post(ticket.conn.worker, Message::Complete { ticket, bytes, last })
    }

    /// A mark of `log` has passed: replies that wait for it may leave. It wakes the workers that
    /// sleep and have connections that wait for the log; every other worker asks its gates before
    /// it sleeps. So a handler need not call it for a mark that it raises itself.
    pub fn release(&self, log: LogId) {
        // Before it stands the mark, after it what a worker has announced; see `announce`.
        fence(Ordering::SeqCst);
        for worker in self.0.workers().iter().flatten().filter(|it| it.waits_for(log)) {
            worker.mailbox().release();
        }
    }

    /// Closes a connection without waiting for its replies. `false` when its worker is gone or its
    /// mailbox is full.
    pub fn close(&self, conn: ConnId) -> bool {
        self.0.worker(conn.worker).is_some_and(|worker| worker.close(conn))
    }

    /// Stops or resumes reading from a client. A read that is under way is not interrupted, which
    /// concerns [`Driver::Threads`](crate::Driver::Threads) and
    /// [`Driver::Uring`](crate::Driver::Uring). `false` as for [`Remote::close`].
    pub fn pause_read(&self, conn: ConnId, on: bool) -> bool {
        self.post(conn.worker, Message::PauseRead { conn, on })
    }

    /// The counters of all workers together.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    /// Clients that are connected now.
    #[must_use]
    pub fn open(&self) -> u32 {
        self.0.open()
    }

    /// Whether the server accepts clients. It does not while it drains, while descriptors have run
    /// out, and, where clients are to wait at the limit of connections, while that is reached.
    /// Where they are rejected at the limit, it accepts them to say so.
    #[must_use]
    pub fn is_accepting(&self) -> bool {
        self.0.phase() == Phase::Running && !self.0.has_stopped_accepting()
    }

    /// Every listener and every open connection, by descriptor.
    #[must_use]
    pub fn connections(&self) -> Vec<Report> {
        let now_s = seconds(self.now());
        let mut reports = self.0.listeners();
        for worker in self.0.workers().iter().flatten() {
            reports.extend(worker.reports(now_s));
        }
        reports.sort_by_key(|report| report.fd);
        reports
    }

    /// The sockets of TCP that clients connect to, once more: as long as these are open, a client
    /// that connects waits to be accepted, also after the server has ended.
    ///
    /// # Errors
    /// That the system refuses more descriptors.
    pub fn listening(&self) -> io::Result<Vec<OwnedFd>> {
        self.0.of_clients().iter().map(|socket| socket.try_clone()).collect()
    }

    /// The present moment on the clock of the server.
    #[must_use]
    pub fn now(&self) -> Now {
        self.0.clock().now()
    }

    /// Stops accepting, and closes each client as soon as it is between two requests, and then the
    /// links; or everything after `limit`. Returns at once.
    pub fn drain(&self, limit: Duration) {
        self.0.drain(limit);
    }

    /// Closes everything after the present batch. Returns at once.
    pub fn stop(&self) {
        self.0.advance(Phase::Stopping);
    }

    fn post(&self, id: WorkerId, message: Message) -> bool {
        self.0.worker(id).is_some_and(|worker| worker.mailbox().post(message))
    }
}

/// What a handler is made for: one worker, or under [`Driver::Threads`](crate::Driver::Threads) one
/// client.
pub struct Slot<M> {
    /// The worker it will serve. Under [`Driver::Threads`](crate::Driver::Threads), worker 0 serves
    /// no client. With a listener for links it serves those, and worker 1, which accepts clients,
    /// has no handler. Without one, the handler of worker 0 gets mail,
    /// and [`Handler::end_batch`](session::Handler::end_batch) is called after that and when
    /// [`Handler::wake_at_ns`](session::Handler::wake_at_ns) says.
    pub worker: WorkerId,
    /// Reaches the server from the handler and from what the handler starts.
    pub remote: Remote,
    /// Posts mail to the handlers of all workers.
    pub post: Post<M>,
}

impl<M: Send + 'static> Slot<M> {
    pub(crate) fn new(worker: WorkerId, shared: &Arc<Shared>) -> Self {
        Self { worker, remote: Remote::new(shared.clone()), post: Post::new(shared.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use base::MemoryBudget;
    use session::{Bounds, Resources};

    use super::*;
    use crate::config::Config;
    use crate::shared::{Waker, WorkerHandle, bit_of};

    #[test]
    fn a_mark_wakes_the_workers_that_have_announced_its_log() {
        let budget = MemoryBudget::new(1 << 20);
        let shared = Shared::new(Config::new(Resources { bounds: Bounds::default(), budget }));
        let handles = [0, 1].map(|id| {
            let handle = WorkerHandle::new(Waker::descriptor().expect("descriptors are left"));
            shared.add_worker(WorkerId(id), handle.clone());
            handle
        });
        let remote = Remote::new(shared);
        let released = || handles.each_ref().map(|handle| handle.mailbox().take().release);
        handles[0].announce(bit_of(LogId(1)) | bit_of(LogId(2)));
        handles[1].announce(bit_of(LogId(2)));
        for (log, expected) in [(1, [true, false]), (2, [true, true]), (3, [false, false])] {
            remote.release(LogId(log));
            assert_eq!(released(), expected, "log {log}");
        }
        handles[0].withdraw();
        remote.release(LogId(1));
        assert_eq!(released(), [false, false], "it is awake, and asks before it sleeps");
    }
}
